"""Order sections: compressed times say what full ones would, every part comes out as it went in, and bytes that make no
section raise MalformedError and nothing else."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX
from antiphon.parts.vector_clock import changes
from antiphon.stacks.vector import timestamp
from antiphon.stacks.vector.timestamp import KEEP, ForeignTime, OrderSection, Placement

MEMBERS = 5

growth = st.integers(1, 8).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1, max_size=10)
)
ranks = st.integers(0, MEMBERS - 1)
numbers = st.integers(0, NUMBER_MAX)
entries = st.lists(st.tuples(st.integers(0, 0xFFFF), numbers), max_size=4)
placements = st.builds(
    Placement,
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(ranks, st.integers(1, NUMBER_MAX), st.integers(1, 0xFFFF)), max_size=4),
    st.one_of(st.just(KEEP), ranks),
)
foreign_times = st.builds(ForeignTime, st.integers(0, 2**64 - 1), numbers, entries)


@given(growth)
def test_a_stream_of_timestamps_rebuilds_the_vectors(increments: list[list[int]]) -> None:
    members = len(increments[0])
    sent = [0] * members
    rebuilt = [0] * members
    for increment in increments:
        now = [a + b for a, b in zip(sent, increment, strict=True)]
        section = timestamp.encode(timestamp.encode_vector(changes(sent, now), now), None, [])
        assert len(section) <= timestamp.size_max(members)
        assert (section == b"") == (now == sent)
        if section:
            for rank, count in OrderSection(section, members).vector:
                rebuilt[rank] = count
        assert rebuilt == now
        sent = now


@given(
    st.lists(numbers, min_size=MEMBERS, max_size=MEMBERS),
    st.one_of(st.none(), placements),
    st.lists(foreign_times, max_size=4),
)
def test_every_part_comes_out_as_it_went_in(
    vector: list[int], token: Placement | None, foreign: list[ForeignTime]
) -> None:
    changed = changes([0] * MEMBERS, vector)
    data = timestamp.encode(timestamp.encode_vector(changed, vector), token, foreign)
    if not data:
        assert (changed, token, foreign) == ([], None, [])
        return
    section = OrderSection(data, MEMBERS)
    assert [entry for entry in section.vector if entry[1]] == changed
    assert (section.token is None) == (token is None)
    if token is not None and section.token is not None:
        assert section.token.encode() == token.encode()
        assert (section.token.term, section.token.runs) == (token.term, token.runs)
        assert section.token.next_holder == token.next_holder
    assert [(time.group, time.view_id, time.entries) for time in section.foreign] == [
        (time.group, time.view_id, time.entries) for time in foreign
    ]
    assert all(time.size() == len(time.encode()) for time in foreign)


def test_the_shorter_form_is_chosen() -> None:
    vector = [9] * 8
    assert len(timestamp.encode(timestamp.encode_vector([(3, 9)], vector), None, [])) == 1 + 2 + 10
    assert len(timestamp.encode(timestamp.encode_vector(changes([0] * 8, vector), vector), None, [])) == 1 + 8 * 8


@given(st.binary(min_size=1, max_size=120))
@example(b"\x00")
@example(b"\x0d")
@example(b"\xff" + bytes(100))
def test_any_bytes_are_a_section_or_malformed(data: bytes) -> None:
    try:
        section = OrderSection(data, MEMBERS)
    except MalformedError:
        return
    assert all(rank < MEMBERS for rank, _ in section.vector)
    if section.token is not None:
        assert all(rank < MEMBERS and first and count for rank, first, count in section.token.runs)
        assert section.token.next_holder < MEMBERS or section.token.next_holder == KEEP


def valid_sections() -> list[bytes]:
    vector = timestamp.encode_vector([(1, 7)], [0, 7, 0, 0, 0])
    token = Placement(3, [(2, 4, 2)], 1)
    return [
        timestamp.encode(vector, None, []),
        timestamp.encode((0, b""), token, []),
        timestamp.encode(vector, token, [ForeignTime(8, 1, [(0, 3)]), ForeignTime(9, 2, [])]),
        timestamp.encode(timestamp.encode_vector([(rank, 1) for rank in range(5)], [1] * 5), token, []),
    ]


@pytest.mark.parametrize("section", valid_sections())
def test_a_section_that_is_cut_short_or_too_long_is_malformed(section: bytes) -> None:
    for length in range(1, len(section)):
        with pytest.raises(MalformedError):
            OrderSection(section[:length], MEMBERS)
    with pytest.raises(MalformedError):
        OrderSection(section + b"\x00", MEMBERS)


@pytest.mark.parametrize(
    "section",
    [
        timestamp.encode(timestamp.encode_vector([(MEMBERS, 1)], [0] * 9), None, []),
        timestamp.encode((0, b""), Placement(0, [(MEMBERS, 1, 1)]), []),
        timestamp.encode((0, b""), Placement(0, [(0, 0, 1)]), []),
        timestamp.encode((0, b""), Placement(0, [(0, 1, 0)]), []),
        timestamp.encode((0, b""), Placement(0, [], MEMBERS), []),
    ],
    ids=["rank", "run rank", "run first", "run count", "next holder"],
)
def test_ranks_and_runs_that_cannot_be_are_malformed(section: bytes) -> None:
    with pytest.raises(MalformedError):
        OrderSection(section, MEMBERS)
