"""`antiphon listen` and `antiphon feed` as processes: stopped by SIGTERM they leave in good order and exit with 0."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon import Message
from antiphon.history.journal import JournalReader
from antiphon.history.spool import Position, Spool
from tests.history.test_spool import staged
from tests.runtime.cluster import run
from tests.runtime.places import founded

pytestmark = pytest.mark.processes

RUN = "from antiphon.cli.main import main; main()"


async def start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_both_at_work_and_stopped(tmp_path: Path) -> None:
    async def test() -> None:
        async with founded(options=None) as (first, *_):  # all members run on the same options
            common = ("--group", "g", "--contacts", first.node.address)
            spool = Spool(tmp_path / "spool")
            spool.publish(0, [staged(spool, b"row")], "q")
            listener = await start("listen", *common, "--log", str(tmp_path / "journal"))
            try:
                while "listener/1" not in map(repr, first.group.view.members):
                    await asyncio.sleep(0.01)
                feeder = await start("feed", *common, "--spool", str(spool.directory))
                try:
                    assert isinstance(await first.until(Message), Message)
                    while spool.position() != Position(0, 2):
                        await asyncio.sleep(0.01)
                    for process in (listener, feeder):
                        process.send_signal(signal.SIGTERM)
                        _, said = await process.communicate()
                        assert process.returncode == 0, said
                    assert b"1 rows are at all members" in said
                finally:
                    feeder.terminate() if feeder.returncode is None else None
            finally:
                listener.terminate() if listener.returncode is None else None

    run(test)
    reader = JournalReader(tmp_path / "journal")
    rows = [row for batch in reader.read(0, reader.end()) for row in batch.to_pylist()]
    assert [row["payload"] for row in rows if row["kind"] == "message"] == [b"row"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("listen", "--group", "g", "--contacts", ",", "--log", "j"), "name at least one member"),
        (("listen", "--group", "g", "--contacts", "x", "--log", "j"), 'write it as "host:port"'),
        (("feed", "--group", "g", "--contacts", "127.0.0.1:9", "--spool", "s", "--join-s", "0.2"), "'g'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_2(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    done = subprocess.run([sys.executable, "-c", RUN, *arguments], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert why in done.stderr.decode()
    assert b"Traceback" not in done.stderr
