"""The file of an object: what was synced is there again, what was torn is cut off."""

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import antiphon
from antiphon.toolkit import object_log
from antiphon.toolkit.object_log import BaseRecord, ObjectLog, ObjectSnapshot, PackRecord, PromiseRecord, ViewRecord

SNAPSHOT = ObjectSnapshot(1, 4, 1, 3, [["a", "b"]], b"state")


def pack(index: int) -> PackRecord:
    return PackRecord(index, [("write", msgspec.Raw(msgspec.msgpack.encode([index])))])


def written(path: Path, *records: object) -> None:
    async def main() -> None:
        log = ObjectLog(path)
        assert log.load() == []
        log.replace(SNAPSHOT)
        await log.sync()
        for record in records:
            log.append(record)  # type: ignore[arg-type]
        await log.sync()
        log.close()

    asyncio.run(main())


def read(path: Path) -> list[object]:
    log = ObjectLog(path)
    try:
        return list(log.load())
    finally:
        log.close()


def test_what_was_synced_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "object"
    written(path, pack(5), ViewRecord(6, ["a"]), BaseRecord(), PromiseRecord(2))
    records = read(path)
    assert records[0] == SNAPSHOT
    assert [type(record) for record in records[1:]] == [PackRecord, ViewRecord, BaseRecord, PromiseRecord]
    assert isinstance(records[1], PackRecord)
    assert (records[1].calls[0][0], bytes(records[1].calls[0][1])) == ("write", msgspec.msgpack.encode([5]))


def test_a_torn_end_is_cut_off_wherever_it_was_torn(tmp_path: Path) -> None:
    path = tmp_path / "object"
    written(path, pack(5), pack(6))
    whole = path.read_bytes()
    for size in range(len(whole) - 30, len(whole)):
        path.write_bytes(whole[:size])
        records = read(path)
        assert [each.index for each in records[1:] if isinstance(each, PackRecord)] in ([5], [])
        assert len(path.read_bytes()) < len(whole)
    path.write_bytes(whole[:-3] + b"xyz")  # written, but not what was meant
    assert len(read(path)) == 2


def test_a_new_snapshot_replaces_the_file(tmp_path: Path) -> None:
    async def main() -> None:
        log = ObjectLog(tmp_path / "object")
        log.load()
        log.replace(SNAPSHOT)
        for index in range(5, 20_000):
            log.append(pack(index))
        await log.sync()
        assert log.is_long is (log.bytes > object_log.COMPACT_BYTES_MIN)
        log.replace(ObjectSnapshot(1, 20_000, 1, 0, [["a"]], b""))
        log.append(pack(20_001))
        await log.sync()
        log.close()

    asyncio.run(main())
    assert [each.index for each in read(tmp_path / "object")] == [20_000, 20_001]  # type: ignore[attr-defined]
    assert not (tmp_path / "object.new").exists()


def test_what_is_written_at_the_limit_keeps_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_log, "WAITING_BYTES_MAX", 100)

    async def main() -> None:
        log = ObjectLog(tmp_path / "object")
        log.load()
        log.replace(SNAPSHOT)
        syncing = asyncio.create_task(log.sync())
        await asyncio.sleep(0)  # a batch is handed over to the thread
        for index in range(5, 100):
            log.append(pack(index))
        await syncing
        await log.sync()
        log.close()

    asyncio.run(main())
    assert [each.index for each in read(tmp_path / "object")] == [4, *range(5, 100)]  # type: ignore[attr-defined]


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear Sir or Madam, this is no file of an object")
    with pytest.raises(antiphon.UsageError, match="no file of a replicated object"):
        read(tmp_path / "letter")
    with pytest.raises(antiphon.UsageError, match="directory"):
        ObjectLog(tmp_path)
    with pytest.raises(antiphon.UsageError, match="cannot be used"):
        read(tmp_path / "nowhere" / "object")


@pytest.mark.processes
def test_a_file_that_another_process_uses_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "object"
    text = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX);"
        "print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text, f"{path}.lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(antiphon.UsageError, match="another process"):
            read(path)
        assert other.stdin is not None
        other.stdin.close()
    assert read(path) == []
