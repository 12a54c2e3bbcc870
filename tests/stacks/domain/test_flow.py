"""Messages go on while processes agree on a configuration (transis-1992, 5.1: no blocking), in virtual time."""

import pytest

from antiphon.kernel.options import MILLISECOND_NS
from tests.stacks.domain.flow import Flow

SPACING_MS = 20
SCENES = ("a member crashes", "two parts merge", "a merge with a member that has just died")


@pytest.mark.parametrize("scene", SCENES)
def test_messages_flow_while_a_configuration_changes(scene: str) -> None:
    """No survivor pauses for longer than between two messages of its application, and some trips: before that, sends
    stood still for a round trip, and for a second where a suggestion came to nothing."""
    pauses = Flow(3, scene, SPACING_MS * MILLISECOND_NS).play()
    assert pauses["sends"] < SPACING_MS + 10
    assert pauses["deliveries"] < SPACING_MS + 10
    assert pauses["agreed"] < 3 * SPACING_MS
