"""A sample of conversations with all faults, and seeds that once failed."""

import pytest

from tests.simulation.free_conversations import run_seed

ONCE_FAILED = {
    1: "a first message brought back the whole graph, once for each path",
    6: "two who came back waited for each other to vouch for what each had said before",
    9: "who was asked to agree on a removal did not say again, when it was back, what it had said",
    10: "an answer was used up by what the asker had already, as its leaves did not tell",
    54: "who was back waited for a message of one that was being removed, and was needed to agree on that",
    77: "who had come back could not acknowledge, since it had nothing more to say again",
    94: "who was back left out what one that was being removed had said, and so what it had said itself",
    313: "a checkpoint named a message that nobody else had",
    378: "a program had acted on a message of its own that was lost with it",
    2584: "who took in a whole removal at once, and the return that followed, saw no votes any more",
    8299: "who was back before it knew that it had been removed sent what nobody took, and was let in with that",
    9439: "who took in a removal together with the wish to let that one in again never joined in the wish",
    5789: "who was let in in two lives at the same time was held to the one by which others had not masked it in",
    2969: "as 2584, and it is not to be taken for diverged, for what the one that is in again has said",
}


@pytest.mark.parametrize("seed", range(40))
def test_a_conversation_keeps_what_it_promises(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.problems == ()
    assert outcome.committed > 0


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_what_once_failed(seed: int) -> None:
    assert run_seed(seed).problems == ()


def test_a_seed_decides_everything() -> None:
    assert run_seed(9) == run_seed(9)
