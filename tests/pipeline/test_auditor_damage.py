"""Partial and damaged histories: what is gone makes the verdict unknown, never kept or broken, and the reason says
what is gone, of which process, and how much."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.reader import HistoryFiles
from antiphon.history.recorder import Recorder
from antiphon.pipeline import reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN, Audit
from tests.pipeline.histories import PROMISES
from tests.pipeline.test_auditor import without_examples
from tests.sampling import is_hunt, seeds

ROUNDS: Final = 30
SEGMENT_ROWS: Final = 40
MEMBERS: Final = ("a", "b", "c")

Harm = Callable[[Path], object]


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three processes and a round at a time: each sends, then all deliver what all have sent. Four segments per log."""
    directory = tmp_path_factory.mktemp("sound")
    for name in MEMBERS:
        with Recorder(directory, run="r", process=name, segment_rows=SEGMENT_ROWS, merge=False) as log:
            log.start(0, "g", "toy", "static", ("agreed",), PROMISES)
            log.view(0, "g", 1, [f"{member}/1" for member in MEMBERS])
            for number in range(1, ROUNDS + 1):
                log.send(number, "g", 1, number, 1, "agreed", 8)
                for sender in MEMBERS:
                    log.deliver(number, "g", 1, sender, 1, number, 1, "agreed", 8)
            log.stop(ROUNDS + 1)
    return directory


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "copy"))


def segment(directory: Path, number: int, process: str = "b") -> Path:
    return directory / f"{process}-1-{number:05}.parquet"


def flip_in_page(file: Path) -> None:
    """One bit, at the end of the last page of the column that numbers the messages."""
    chunk = next(
        column
        for place in range(len(pq.read_schema(file)))
        if (column := pq.read_metadata(file).row_group(0).column(place)).path_in_schema == "number"
    )
    first = chunk.dictionary_page_offset or chunk.data_page_offset
    flip(file, first + chunk.total_compressed_size - 1)


def flip(file: Path, place: int, bit: int = 0) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1 << bit
    file.write_bytes(data)


def cut(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])


def without_log(directory: Path) -> None:
    for file in directory.glob("b-1-*"):
        file.unlink()


HARMS: Final[dict[str, tuple[Harm, str]]] = {
    "a segment in the middle is gone": (
        lambda directory: segment(directory, 1).unlink(),
        "the log of b/1 is cut short after 40 rows (43 more lie behind a gap)",
    ),
    "the last segment is gone": (
        lambda directory: segment(directory, 3).unlink(),
        "the log of b/1 is cut short after 120 rows",
    ),
    "the first segment is gone": (
        lambda directory: segment(directory, 0).unlink(),
        "the log of b/1 is missing (83 more lie behind a gap)",
    ),
    "the whole log is gone": (without_log, "the log of b/1 is missing"),
    "a segment is cut off": (
        lambda directory: cut(segment(directory, 1), 2000),
        "the log of b/1 is cut short after 40 rows (43 more lie behind a gap; b-1-00001.parquet has no readable end)",
    ),
    "a segment is empty": (
        lambda directory: cut(segment(directory, 3), 0),
        "the log of b/1 is cut short after 120 rows (b-1-00003.parquet is empty)",
    ),
    "a page is damaged": (
        lambda directory: flip_in_page(segment(directory, 1)),
        "the log of b/1 is cut short after 40 rows (43 more lie behind a gap; rows 40 to 79 of the log are damaged: "
        "b-1-00001.parquet",
    ),
    "a page of the last segment is damaged": (
        lambda directory: flip_in_page(segment(directory, 3)),
        "the log of b/1 is cut short after 120 rows (rows 120 to 122 of the log are damaged: b-1-00003.parquet",
    ),
}

REFUSED: Final[dict[str, tuple[Harm, str]]] = {
    "a segment is there twice": (
        lambda directory: shutil.copy(segment(directory, 1), directory / "copy of b.parquet"),
        "the log of b/1 holds two rows with the same index",
    ),
    "a foreign table lies among them": (
        lambda directory: pq.write_table(pa.table({"price": [1.5]}), directory / "sales.parquet"),
        "sales.parquet: it is no history of Antiphon",
    ),
    "every row group is damaged": (
        lambda directory: list(map(flip_in_page, directory.iterdir())),
        "no row group in it can be read",
    ),
}


def reasons(result: Audit) -> list[str]:
    return [finding.reason or "" for finding in result.findings]


def test_the_sound_history_is_kept(sound: Path) -> None:
    """Else the tests below would show nothing."""
    assert reference.audit(sound).verdict == KEPT


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_gone_makes_the_verdict_unknown(copy: Path, harm: str) -> None:
    do, reason = HARMS[harm]
    do(copy)
    result = quick_audit(copy)
    assert {finding.verdict for finding in result.findings} == {UNKNOWN}
    assert all(reason in text for text in reasons(result))
    assert without_examples(result) == without_examples(reference.audit(copy))


@pytest.mark.spark
@pytest.mark.parametrize(
    "harm", ["a segment in the middle is gone", "the whole log is gone", "a segment is empty", "a page is damaged"]
)
def test_what_is_gone_is_found_by_spark(spark: SparkSession, copy: Path, harm: str) -> None:
    do, reason = HARMS[harm]
    do(copy)
    result = audit(copy, spark)
    assert {finding.verdict for finding in result.findings} == {UNKNOWN}
    assert all(reason in text for text in reasons(result))
    assert without_examples(result) == without_examples(reference.audit(copy))


@pytest.mark.parametrize("harm", REFUSED)
def test_what_cannot_be_meant_is_refused(copy: Path, harm: str) -> None:
    do, words = REFUSED[harm]
    do(copy)
    for auditor in (quick_audit, reference.audit):
        with pytest.raises(UnusableHistoryError, match=words):
            auditor(copy)


@pytest.mark.spark
def test_a_foreign_table_among_the_files_is_refused_by_spark(spark: SparkSession, copy: Path) -> None:
    do, words = REFUSED["a foreign table lies among them"]
    do(copy)
    with pytest.raises(UnusableHistoryError, match=words):
        audit(copy, spark)


@pytest.mark.spark
def test_a_segment_that_is_there_twice_is_named(spark: SparkSession, copy: Path) -> None:
    shutil.copy(segment(copy, 1), copy / "copy of b.parquet")
    with pytest.raises(UnusableHistoryError, match=r"\(in b-1-00001\.parquet, copy of b\.parquet\)"):
        audit(copy, spark)


@pytest.mark.spark
def test_a_violation_is_found_and_explained_beside_damage(spark: SparkSession, copy: Path) -> None:
    """What is broken in the part that can be read stays broken, though a neighbour is damaged."""
    file = segment(copy, 0, "a")
    table = pq.read_table(file)
    number = table["number"].to_pylist()
    number[3] = 2  # a delivers its own second message first
    place = table.schema.get_field_index("number")
    table = table.set_column(place, table.schema.field(place), pa.array(number, pa.int64()))
    pq.write_table(table, file, write_page_checksum=True)
    flip_in_page(segment(copy, 2))
    result = audit(copy, spark)
    fifo = next(finding for finding in result.findings if finding.guarantee == "fifo")
    assert fifo.verdict == BROKEN
    assert fifo.example is not None
    assert "b-1-00002.parquet" in (fifo.reason or "")
    assert without_examples(result) == without_examples(reference.audit(copy))


def judged(directory: Path) -> str:
    """The verdict, or that the history is refused; in any case it is said whose log is at fault."""
    refused = ""
    try:
        result = reference.audit(directory)
    except UnusableHistoryError as error:
        refused = str(error)
    if refused:
        assert "b-1-0000" in refused or "b/1" in refused
        return "refused"
    assert result.verdict == KEPT or all("b/1" in text or "b-1-0000" in text for text in reasons(result))
    return result.verdict


@pytest.mark.random
def test_cut_off_anywhere(sound: Path, tmp_path: Path) -> None:
    random = Random(1)
    for number in seeds(6, 60):
        copy = Path(shutil.copytree(sound, tmp_path / str(number)))
        file = segment(copy, random.randrange(4))
        cut(file, random.randrange(file.stat().st_size))
        assert judged(copy) == UNKNOWN


@pytest.mark.random
def test_a_bit_flipped_anywhere(sound: Path, tmp_path: Path) -> None:
    """One that tells nothing may leave all as it was; but nothing is broken by it, or kept although rows are gone."""
    random = Random(2)
    seen = set()
    rows = HistoryFiles.open(sound).read_rows()
    for number in seeds(60, 600):
        copy = Path(shutil.copytree(sound, tmp_path / str(number)))
        file = segment(copy, random.randrange(4))
        flip(file, random.randrange(file.stat().st_size), random.randrange(8))
        verdict = judged(copy)
        if verdict == KEPT:
            assert HistoryFiles.open(copy).read_rows() == rows
        seen.add(verdict)
        shutil.rmtree(copy)
        if number >= 20 and len(seen) == 3 and not is_hunt():
            break
    assert seen == {KEPT, UNKNOWN, "refused"}
