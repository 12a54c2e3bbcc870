"""Groups whose views part and merge, before both auditors: by eye, and on random histories, right and spoiled."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.history.schema import Row
from antiphon.pipeline import reference
from antiphon.pipeline.result import BROKEN, UNKNOWN
from tests.pipeline import corruption
from tests.pipeline.corruption import CORRUPTIONS, OF_PARTING, Corrupt
from tests.pipeline.histories import rows_of
from tests.pipeline.inprocess import BY_FRAMES, Counts, count, counts_of
from tests.pipeline.parted_histories import PARTED_PROMISES, make_parted_history
from tests.pipeline.script import make_rows
from tests.pipeline.test_reference_equality import result_of

LEVELS = (
    ("fifo", "causal", "agreed", "safe"),
    ("reliable", "causal", "safe"),
    ("agreed", "safe"),
)


def broken(**lines: str) -> set[str]:
    """What is broken in a history by hand, by both auditors."""
    rows = make_rows(promises=" ".join(PARTED_PROMISES), policy="partitionable", **lines)
    found = reference.audit(rows)
    assert counts_of(found) == count(rows, piece_rows=2)
    assert not [finding for finding in found.findings if finding.verdict == UNKNOWN]
    assert all(finding.example is not None for finding in found.findings if finding.violations)
    return {finding.guarantee for finding in found.findings if finding.verdict == BROKEN}


def test_what_nobody_took_along_is_owed_to_nobody() -> None:
    assert not broken(
        p="t:pq v2:pq t:pq v4:pqr d:r2 quiet",
        q="t:pq v2:pq t:pq v4:pqr d:r2 quiet",
        r="s1 d:r1 t:r v3:r t:r v4:pqr s2 d:r2 quiet",
    )


def test_what_one_took_along_is_owed_to_all_that_came_with_it() -> None:
    found = broken(
        p="t:pq v2:pq t:pq v4:pqr d:r2 quiet",
        q="d:r1 t:pq v2:pq t:pq v4:pqr d:r2 quiet",
        r="s1 d:r1 t:r v3:r t:r v4:pqr s2 d:r2 quiet",
    )
    assert found == {"fifo", "causal", "settled", "view_synchrony", "transitional"}


@pytest.mark.parametrize(
    ("lines", "unknown"),
    [
        ({"p": "t:p v2:p quiet", "q": "t:q s1-3%5 crash"}, 0),  # p's log has all its views, and 5 is none of them
        ({"p": "t:p v2:p untold@g quiet", "q": "t:q s1-3%5 crash"}, 3),  # p says that its log has not
        ({"p": "t:p v2:p quiet", "q": "t:q s1-3%5 crash", "r": "t:r v3:r"}, 1 + 3),  # r's log is cut short
    ],
)
@pytest.mark.parametrize("piece_rows", [1, 3, 100])
def test_a_view_that_no_row_describes_leaves_open_only_logs_that_lack_rows(
    lines: dict[str, str], unknown: int, piece_rows: int
) -> None:
    rows = make_rows(promises=" ".join(PARTED_PROMISES), policy="partitionable", **lines)
    found = reference.audit(rows)
    assert count(rows, piece_rows=piece_rows) == counts_of(found)
    assert [each.unknown for each in found.findings if each.guarantee == "settled"] == [unknown]


def test_within_a_view_its_past_is_owed_also_if_it_is_lost_later() -> None:
    found = broken(
        p="d:q1 t:pq v2:pq t:pq v4:pqr quiet",
        q="s1 d:q1 t:pq v2:pq t:pq v4:pqr quiet",
        r="s1 d:r1 t:r v3:r t:r v4:pqr quiet",
    )
    assert not found
    found = broken(
        p="d:q1 t:pq v2:pq t:pq v4:pqr quiet",
        q="d:r1 s1 d:q1 t:pq v2:pq t:pq v4:pqr quiet",
        r="s1 d:r1 t:r v3:r t:r v4:pqr quiet",
    )
    assert "causal" in found


def test_behind_the_transitional_row_components_may_have_orders_of_their_own() -> None:
    assert not broken(
        p="s1~agreed t:p d:p1~agreed d:q1~agreed v2:p t:p v4:pq quiet",
        q="s1~agreed t:q d:q1~agreed d:p1~agreed v3:q t:q v4:pq quiet",
    )


def test_before_it_there_is_one_order() -> None:
    found = broken(
        p="s1~agreed d:p1~agreed d:q1~agreed t:p v2:p t:p v4:pq quiet",
        q="s1~agreed d:q1~agreed d:p1~agreed t:q v3:q t:q v4:pq quiet",
    )
    assert found == {"total"}


def test_those_that_come_along_have_one_order_behind_it() -> None:
    found = broken(
        p="s1~agreed t:pq d:p1~agreed d:q1~agreed v2:pq quiet",
        q="s1~agreed t:pq d:q1~agreed d:p1~agreed v2:pq quiet",
    )
    assert found == {"total"}


def test_what_is_safe_before_it_has_its_place_behind_it_too() -> None:
    found = broken(
        p="s1~safe d:p1~safe d:q1~safe t:p v2:p t:p v4:pq quiet",
        q="s1~safe t:q d:q1~safe d:p1~safe v3:q t:q v4:pq quiet",
    )
    assert found == {"total"}


def test_safe_before_it_holds_all_members_and_behind_it_those_that_come_along() -> None:
    assert broken(
        p="s1~safe d:p1~safe t:p v2:p t:p v4:pq quiet",
        q="t:q v3:q t:q v4:pq quiet",
    ) == {"safe"}
    assert not broken(
        p="s1~safe t:p d:p1~safe v2:p t:p v4:pq quiet",
        q="t:q v3:q t:q v4:pq quiet",
    )
    found = broken(
        p="s1~safe t:pq d:p1~safe v2:pq quiet",
        q="t:pq v2:pq quiet",
    )
    assert found == {"safe", "view_synchrony", "transitional", "settled"}


def test_those_that_come_along_deliver_the_same_on_either_side_of_it() -> None:
    found = broken(
        p="s1 d:p1 t:pq v2:pq quiet",
        q="t:pq d:p1 v2:pq quiet",
    )
    assert found == {"transitional"}


def test_companions_are_told_of_each_other() -> None:
    assert broken(p="t:pq v2:pq quiet", q="t:q v2:pq quiet") == {"transitional"}
    assert broken(p="t:p v2:pq quiet", q="t:p v2:pq quiet") == {"transitional"}
    assert broken(p="t:pq v2:pq quiet", q="v2:pq quiet") == {"transitional"}


def test_a_message_of_one_that_is_out_is_silenced_until_it_is_in_again() -> None:
    assert not broken(
        p="t:p v2:p t:p v4:pq d:q1 quiet",
        q="t:q v3:q t:q v4:pq s1 d:q1 quiet",
    )
    found = broken(
        p="t:p v2:p d:q1 t:p v4:pq quiet",
        q="s1 d:q1 t:q v3:q t:q v4:pq quiet",
    )
    assert "silence" in found


def test_in_the_end_there_is_one_view_of_just_those_that_run() -> None:
    assert broken(p="t:p v2:p quiet", q="t:q v3:q quiet") == {"merged"}
    assert broken(p="quiet", q="quiet", r="crash") == {"merged"}
    assert not broken(p="t:pq v2:pq quiet", q="t:pq v2:pq quiet", r="crash")


def make_parted_rows(random: Random, corruptions: int, ways: tuple[Corrupt, ...] = OF_PARTING) -> list[Row]:
    rows = rows_of(
        make_parted_history(
            random,
            processes=random.randint(1, 5),
            steps=random.randint(5, 50),
            levels=random.choice(LEVELS),
            changes=random.randint(0, 4),
            crashes=random.randint(0, 1),
            merge=random.random() < 0.6,
        )
    )
    for _ in range(random.randint(0, corruptions)):
        rows = random.choice(ways)(random, rows)
    return rows


def by_reference(rows: list[Row]) -> Counts:
    return counts_of(reference.audit(rows, PARTED_PROMISES))


@given(st.integers(0, 10**9))
def test_right_histories_are_kept(seed: int) -> None:
    found = reference.audit(make_parted_rows(Random(seed), corruptions=0)).findings
    assert [finding for finding in found if finding.verdict in (BROKEN, UNKNOWN)] == []


@given(st.integers(0, 10**9), st.sampled_from([2, 5, 1000]), st.sampled_from([OF_PARTING, CORRUPTIONS]))
def test_both_count_the_same(seed: int, piece_rows: int, ways: tuple[Corrupt, ...]) -> None:
    rows = make_parted_rows(Random(seed), 4, ways)
    expected = result_of(lambda: by_reference(rows))
    assert result_of(lambda: count(rows, piece_rows=piece_rows, promise=PARTED_PROMISES)) == expected


def test_the_spoiled_histories_show_every_verdict() -> None:
    """Else the test above would compare nothing with nothing."""
    seen = set()
    for seed in range(80):
        result = result_of(lambda seed=seed: by_reference(make_parted_rows(Random(seed), 4)))  # type: ignore[misc]
        if not isinstance(result, str):
            seen |= {(guarantee, counts[0] > 0, counts[1] > 0) for guarantee, counts in result.items()}
    told = {promise for promise in PARTED_PROMISES if promise not in BY_FRAMES} - RARE
    assert {guarantee for guarantee, violated, _ in seen if violated} >= told


RARE = {"creation", "content", "duplication", "silence"}
PLANTED: dict[str, tuple[Corrupt, ...]] = {
    "fifo": (corruption.swap_deliveries,),
    "causal": (corruption.swap_deliveries, corruption.drop_delivery),
    "total": (corruption.swap_neighbours,),
    "safe": (corruption.drop_safe,),
    "settled": (corruption.drop_delivery,),
    "silence": (corruption.move_delivery,),
    "transitional": (corruption.move_transitional, corruption.change_companions, corruption.drop_behind),
    "merged": (corruption.stay_apart,),
}


@pytest.mark.parametrize(
    ("guarantee", "way"), [(guarantee, way) for guarantee, ways in PLANTED.items() for way in ways]
)
def test_a_planted_violation_is_found(guarantee: str, way: Corrupt) -> None:
    """In histories of which nothing else is broken, one corruption breaks the guarantee, somewhere among a few."""
    found = 0
    for seed in range(40):
        random = Random(seed)
        rows = rows_of(make_parted_history(random, changes=4))
        spoiled = way(random, rows)
        if spoiled != rows:
            found += by_reference(spoiled)[guarantee][0] > 0
    assert found
