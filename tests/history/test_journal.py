"""The journal: rows at offsets without gaps, through kills in the middle of a write, damage, and letting go."""

import os
from pathlib import Path

import pytest

from antiphon.history.durable import StorageError
from antiphon.history.journal import HEADER, SCHEMA, JournalReader, JournalRow, segment_path, segments, whole_frames
from antiphon.history.journal_writer import JournalWriter, trim


def rows(first: int, count: int) -> list[JournalRow]:
    return [
        JournalRow(1000 + number, "message", "g", "l/1", 1, None, "a", 1, number, "causal", False, b"%d" % number)
        for number in range(first, first + count)
    ]


def writer(directory: Path, **settings: int) -> JournalWriter:
    return JournalWriter(directory, group="g", listener="l", **settings)


def numbers(directory: Path, start: int, end: int) -> list[int]:
    return [number for batch in JournalReader(directory).read(start, end) for number in batch["number"].to_pylist()]


def filled(directory: Path, frames: int = 10, segment_bytes: int = 1 << 26) -> None:
    with writer(directory, segment_bytes=segment_bytes) as journal:
        for frame in range(frames):
            journal.append(rows(10 * frame, 10))


def test_any_range_reads_the_same_rows_whatever_frames_and_segments_they_lie_in(tmp_path: Path) -> None:
    filled(tmp_path, segment_bytes=4000)
    assert len(segments(tmp_path)) > 2
    reader = JournalReader(tmp_path)
    assert (reader.start(), reader.end()) == (0, 100)
    for start, end in [(0, 100), (0, 1), (9, 11), (35, 36), (42, 99), (50, 50)]:
        assert numbers(tmp_path, start, end) == list(range(start, end))
    batch = next(reader.read(3, 5))
    assert batch.schema == SCHEMA
    assert batch["offset"].to_pylist() == [3, 4]
    assert batch["payload"].to_pylist() == [b"3", b"4"]


def test_a_reader_sees_what_is_appended_later_by_another_writer(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    reader = JournalReader(tmp_path)
    assert reader.end() == 10
    with writer(tmp_path, segment_bytes=1) as journal:  # every frame begins a segment
        journal.append(rows(10, 5))
        assert reader.end() == 15
        journal.append(rows(15, 5))
        assert reader.end() == 20
    assert numbers(tmp_path, 0, 20) == list(range(20))


@pytest.mark.parametrize("cut", [1, 5, HEADER.size, HEADER.size + 1, 200])
def test_what_a_killed_writer_left_unfinished_is_not_told_of_and_cut_off(tmp_path: Path, cut: int) -> None:
    filled(tmp_path, 3)
    path = segment_path(tmp_path, 0)
    os.truncate(path, path.stat().st_size - cut)
    assert JournalReader(tmp_path).end() == 20
    with writer(tmp_path) as journal:
        assert journal.end == 20
        journal.append(rows(20, 1))
    assert numbers(tmp_path, 0, 21) == list(range(21))
    with path.open("rb") as stream:
        frames = list(whole_frames(stream.fileno(), 0, 0))
    assert frames[-1].end_position == path.stat().st_size


def test_zeros_behind_the_end_as_a_power_loss_leaves_them_are_cut_off(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    with segment_path(tmp_path, 0).open("ab") as stream:
        stream.write(bytes(500))
    assert JournalReader(tmp_path).end() == 20
    with writer(tmp_path) as journal:
        journal.append(rows(20, 1))
    assert numbers(tmp_path, 0, 21) == list(range(21))


def test_damage_before_the_end_is_refused_and_never_cut_off(tmp_path: Path) -> None:
    filled(tmp_path, 5)
    path = segment_path(tmp_path, 0)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(StorageError, match="damaged at byte"):
        numbers(tmp_path, 0, 50)
    with pytest.raises(StorageError, match="begin anew in another directory"):
        writer(tmp_path)
    assert path.read_bytes() == content


def test_segments_that_are_done_with_are_let_go_and_what_is_gone_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, segment_bytes=4000)
    firsts = segments(tmp_path)
    assert trim(tmp_path, firsts[2]) == 2
    assert JournalReader(tmp_path).start() == firsts[2]
    assert JournalReader(tmp_path).end() == 100
    assert numbers(tmp_path, firsts[2], 100) == list(range(firsts[2], 100))
    with pytest.raises(StorageError, match="have been let go"):
        numbers(tmp_path, 0, 100)
    assert trim(tmp_path, 1000) == len(firsts) - 3
    with writer(tmp_path) as journal:
        assert journal.end == 100


def test_one_writer_one_group_one_listener(tmp_path: Path) -> None:
    with writer(tmp_path / "j") as journal:
        assert [journal.next_incarnation(), journal.next_incarnation()] == [1, 2]
        with pytest.raises(StorageError, match="another process works here"):
            writer(tmp_path / "j")
    with writer(tmp_path / "j") as journal:
        assert journal.next_incarnation() == 3
    with pytest.raises(StorageError, match="belongs to listener 'l' of group 'g'"):
        JournalWriter(tmp_path / "j", group="h", listener="l")
    with pytest.raises(StorageError, match="there is no journal here"):
        JournalReader(tmp_path)
