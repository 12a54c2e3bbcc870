"""Configurations that part and merge: many random runs, and the pieces of the agreement by themselves."""

import pytest

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId, View
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.domain.component_messages import (
    Attempt,
    Commit,
    Suggestion,
    decode_attempt,
    decode_commit,
    encode_attempt,
    encode_commit,
)
from antiphon.stacks.domain.surroundings import readmission_ns
from tests.stacks.domain.islands import judge_seed

A, B = ProcessId("a"), ProcessId("b", 7)


@pytest.mark.parametrize("seed", range(1000, 1016))
def test_islands_part_and_merge(seed: int) -> None:
    problems, _ = judge_seed(seed)
    assert problems == []


@pytest.mark.parametrize(("times", "expected_ms"), [(0, 0), (2, 0), (3, 250), (4, 500), (8, 8_000), (50, 8_000)])
def test_whoever_is_dropped_again_and_again_waits_longer(times: int, expected_ms: int) -> None:
    assert readmission_ns(times) == expected_ms * MILLISECOND_NS


def test_messages_survive_the_wire() -> None:
    suggestion = Suggestion(5, B, [(A, "there"), (B, "here")], {A: 1, B: 9}, {(A, ProcessId("c"))})
    commit = decode_commit(encode_commit(Commit(A, "there", suggestion, {A: [1, 2], B: []}, True)))
    assert (commit.sender, commit.commits, commit.installed) == (A, {A: [1, 2], B: []}, True)
    assert (commit.suggestion.id, commit.suggestion.cuts) == (suggestion.id, suggestion.cuts)
    attempt = decode_attempt(encode_attempt(Attempt(B, "here", View(9, (A, B), ("there", "here")), True)))
    assert (attempt.sender, attempt.view.members, attempt.leaving) == (B, (A, B), True)


def test_what_makes_no_sense_is_dropped() -> None:
    no_member = Suggestion(5, B, [(A, "there")], {A: 1}, set())
    with pytest.raises(MalformedError):
        decode_commit(encode_commit(Commit(A, "there", no_member, {B: []}, False)))
    with pytest.raises(MalformedError):
        decode_attempt(encode_attempt(Attempt(B, "here", View(9, (A,), ("there",)), False)))
    late = Suggestion(5, B, [(A, "there")], {A: 1}, set())
    late.origins[A] = NUMBER_MAX
    with pytest.raises(MalformedError):
        decode_commit(encode_commit(Commit(A, "there", late, {A: []}, False)))
    for noise in (b"", b"\x93", bytes(50)):
        with pytest.raises(MalformedError):
            decode_commit(noise)
