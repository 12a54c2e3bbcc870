"""`antiphon sequencer` as a process: members join by its address; stopped by SIGTERM it exits with 0."""

import asyncio
import logging
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from antiphon import Node
from antiphon.cli.sequencer import LogLines
from antiphon.stacks.sequencer.stack import SequencerStack
from tests.cli.conftest import Run
from tests.runtime.cluster import read
from tests.runtime.cluster import run as run_bounded
from tests.runtime.places import LOOPBACK, free_address

RUN = "from antiphon.cli.main import main; main()"


async def start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, "sequencer", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.processes
def test_two_processes_serve_and_are_stopped() -> None:
    async def test() -> None:
        one, other = free_address(), free_address()
        peers = [await start("--address", one, "--peers", other), await start("--address", other, "--peers", one)]
        try:
            async with Node("a", address=LOOPBACK) as a, Node("b", address=LOOPBACK) as b:
                first = await a.join("g", stack="sequencer", contacts=[one], timeout_s=20)
                second = await b.join("g", stack="sequencer", contacts=[other], timeout_s=20)
                await first.send(b"hello", order="agreed")
                assert [message.payload for message in await read(second, 1)] == [b"hello"]
                assert await second.leave()
                assert await first.leave()
            for peer in peers:
                peer.send_signal(signal.SIGTERM)
                _, said = await peer.communicate()
                assert peer.returncode == 0, said
        finally:
            for peer in peers:
                if peer.returncode is None:
                    peer.kill()

    run_bounded(test)


@pytest.mark.processes
def test_groups_move_to_where_a_plan_has_them(tmp_path: Path) -> None:
    async def test() -> None:
        one, other = sorted([free_address(), free_address()])
        plan = tmp_path / "plan.toml"
        groups = "".join(f'[[group]]\nname = "{name}"\nmembers = ["a"]\n' for name in ("g", "h"))
        places = "".join(f'[[sequencer]]\nprocess = "a"\ngroups = ["{name}"]\n' for name in ("h", "g"))
        plan.write_text(f"version = 1\n{groups}{places}")
        peers = [
            await start("--address", one, "--peers", other, "--plan", str(plan)),
            await start("--address", other, "--peers", one, "--plan", str(plan)),
        ]
        try:
            async with Node("a", address=LOOPBACK) as a:
                for name in ("g", "h"):
                    await a.join(name, stack="sequencer", contacts=[one], timeout_s=20)
                until_s = time.monotonic() + 15
                while addresses_of(a) != {"g": other, "h": one} and time.monotonic() < until_s:
                    await asyncio.sleep(0.05)
                assert addresses_of(a) == {"g": other, "h": one}
        finally:
            for peer in peers:
                if peer.returncode is None:
                    peer.kill()
                await peer.communicate()

    run_bounded(test)


def addresses_of(node: Node) -> dict[str, str]:
    """At which peer each group of a node is."""
    driver = node._driver
    assert driver is not None
    stack = driver.engine._stacks_by_name["sequencer"]
    assert isinstance(stack, SequencerStack)
    return {member.group: stack._client._where[id] for id, member in stack._client._members.items()}


def test_what_the_node_logs_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    LogLines().emit(logging.makeLogRecord({"msg": "%s: peer-caught-up", "args": ("s",)}))
    assert "s: peer-caught-up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--address", "127.0.0.1:0"), "give it a port"),
        (("--address", "nowhere"), "address"),
        (("--address", "127.0.0.1:7400", "--name", ""), "name"),
        (("--address", "127.0.0.1:7400", "--peers", "127.0.0.1:7400"), "which is the address of this one"),
        (("--address", "127.0.0.1:7400", "--peers", "127.0.0.1:1,127.0.0.1:1"), "twice"),
        (("--address", "127.0.0.1:7400", "--peers", "127.0.0.1:1,"), "an empty address"),
        (("--address", "127.0.0.1:7400", "--plan", "nowhere.toml"), "cannot be read"),
        (("--address", "127.0.0.1:7400", "--plan", "nowhere.toml", "--balance", "1000"), "one of the two"),
    ],
)
def test_what_cannot_be_served_is_refused_in_words(run: Run, arguments: tuple[str, ...], words: str) -> None:
    done = run("sequencer", *arguments)
    assert done.code == 2
    assert words in done.err
