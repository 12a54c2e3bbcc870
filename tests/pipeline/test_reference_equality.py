"""The vectorised checks against the reference auditor, on random histories, right and spoiled in random ways."""

from collections.abc import Callable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import Row
from antiphon.pipeline import reference
from antiphon.pipeline.result import KEPT
from tests.pipeline.corruption import (
    CORRUPTIONS,
    OF_DOMAINS,
    OF_LOSS,
    OF_LOST_LOGS,
    OF_ORDER,
    OF_RECOVERIES,
    OF_STALLS,
    Corrupt,
    lose_log,
)
from tests.pipeline.histories import PROMISES, make_history, rows_of
from tests.pipeline.inprocess import BY_FRAMES, Counts, count, counts_of
from tests.sampling import fewer

LEVELS = (
    ("causal",),
    ("reliable", "fifo", "causal"),
    ("agreed", "safe"),
    ("fifo", "causal", "agreed", "safe"),
)


WAYS = (CORRUPTIONS, OF_ORDER, OF_LOSS, OF_LOST_LOGS, OF_STALLS, OF_DOMAINS, OF_RECOVERIES)


def make_rows(random: Random, corruptions: int, ways: tuple[Corrupt, ...] = CORRUPTIONS) -> list[Row]:
    """One or two runs, each spoiled in so many ways at most."""
    rows: list[Row] = []
    for run in range(random.randint(1, 2)):
        own = rows_of(
            make_history(
                random,
                run=f"run {run}",
                processes=random.randint(1, 4),
                groups=random.randint(1, 3),
                steps=random.randint(3, 40),
                levels=random.choice(LEVELS),
                crashes=random.randint(0, 1),
                merge=random.random() < 0.7,
                views=random.choice((0, 2, 6)),
                barriers=random.choice((0, 0, 2)),
            )
        )
        for _ in range(random.randint(0, corruptions)):
            own = random.choice(ways)(random, own)
        rows += own
    return rows


def result_of(audit: Callable[[], Counts]) -> Counts | str:
    """The counts, or why there are none."""
    try:
        return audit()
    except UnusableHistoryError as error:
        return str(error)


def by_reference(rows: list[Row]) -> Counts:
    return counts_of(reference.audit(rows, PROMISES))


@given(st.integers(0, 10**9))
def test_right_histories_are_kept(seed: int) -> None:
    assert reference.audit(make_rows(Random(seed), corruptions=0)).verdict == KEPT


@given(st.integers(0, 10**9))
def test_a_lost_log_breaks_nothing(seed: int) -> None:
    random = Random(seed)
    rows = make_rows(random, corruptions=0)
    rows = lose_log(random, rows)
    if any(row.kind == "start" for row in rows):
        assert [found for found in reference.audit(rows).findings if found.violations] == []


@fewer(3)
@given(
    st.integers(0, 10**9),
    st.sampled_from([2, 5, 1000]),
    st.sampled_from(WAYS),
)
def test_both_count_the_same(seed: int, piece_rows: int, ways: tuple[Corrupt, ...]) -> None:
    rows = make_rows(Random(seed), 4, ways)
    expected = result_of(lambda: by_reference(rows))
    assert result_of(lambda: count(rows, piece_rows=piece_rows, promise=PROMISES)) == expected


def test_the_spoiled_histories_show_every_verdict() -> None:
    """Else the test above would compare nothing with nothing."""
    seen = set()
    for seed in range(400):
        result = result_of(lambda seed=seed: by_reference(make_rows(Random(seed), corruptions=4)))  # type: ignore[misc]
        if not isinstance(result, str):
            seen |= {(guarantee, counts[0] > 0, counts[1] > 0) for guarantee, counts in result.items()}
    assert len(seen) == 4 * len([promise for promise in PROMISES if promise not in BY_FRAMES])
