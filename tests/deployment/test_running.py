"""A member that runs from its configuration: its service, its signals, its exit codes."""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import antiphon
from antiphon.deployment.config import load_config
from antiphon.deployment.running import EXIT_FAILED, EXIT_LEFT, RunningMember, Service, find_service
from antiphon.runtime.keyring import add_key, create_keyring
from bench.peers.driver import free_ports

Groups = dict[str, antiphon.Group]


def member(directory: Path, service: Service | None, extra: str = "") -> RunningMember:
    (port,) = free_ports(1)
    (directory / "member.toml").write_text(
        f"""[node]
name = "alice"
listen = "127.0.0.1:{port}"
{extra}
[discovery]
contacts = ["127.0.0.1:{port}"]
[[group]]
name = "quotes"
found_after_s = 0.1
"""
    )
    return RunningMember(load_config(directory / "member.toml", {}), service)


def run(directory: Path, service: Service | None, extra: str = "") -> int:
    async def whole() -> int:
        return await member(directory, service, extra).run()

    return asyncio.run(asyncio.wait_for(whole(), 20))


def test_a_service_that_returns_ends_the_node_in_good_order(tmp_path: Path) -> None:
    seen: list[str] = []

    async def service(node: antiphon.Node, groups: Groups) -> None:
        await groups["quotes"].send(b"x")
        seen.extend(member.name for member in groups["quotes"].view.members)

    assert run(tmp_path, service) == EXIT_LEFT
    assert seen == ["alice"]


def test_a_service_that_raises_is_a_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def service(node: antiphon.Node, groups: Groups) -> None:
        raise ValueError("no stock")

    assert run(tmp_path, service) == EXIT_FAILED
    assert "event=service_failed" in caplog.text
    assert "no stock" in caplog.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cancels_the_service_and_leaves(
    tmp_path: Path, number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "antiphon")
    ends: list[str] = []

    async def service(node: antiphon.Node, groups: Groups) -> None:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")

    assert run(tmp_path, service) == EXIT_LEFT
    assert ends == ["cancelled"]
    events = [record.event for record in caplog.records if hasattr(record, "event")]
    assert events[-3:] == ["node_stopping", "group_left", "node_stopped"]


def test_a_service_that_does_not_end_is_not_waited_for(tmp_path: Path) -> None:
    async def service(node: antiphon.Node, groups: Groups) -> None:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
        for _ in range(20):  # stubborn
            try:
                await asyncio.sleep(0.5)
            except asyncio.CancelledError:
                continue

    loop_s = asyncio.new_event_loop().time
    began_s = loop_s()
    assert run(tmp_path, service, "linger_s = 0.2") == EXIT_FAILED
    assert loop_s() - began_s < 15


def test_a_plain_member_reads_what_is_delivered(tmp_path: Path) -> None:
    async def whole() -> int:
        running = member(tmp_path, None)
        asyncio.get_running_loop().call_later(1.0, running.stop, "test")
        return await running.run()

    assert asyncio.run(asyncio.wait_for(whole(), 20)) == EXIT_LEFT


def test_hangup_reads_the_keyring_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon")
    create_keyring(tmp_path / "cluster.key")

    async def service(node: antiphon.Node, groups: Groups) -> None:
        add_key(tmp_path / "cluster.key")
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.05)
        assert node._keys is not None
        assert len(node._keys.keyring.keys) == 2

    assert run(tmp_path, service, '[keys]\nkeyring = "cluster.key"') == EXIT_LEFT
    assert "event=keyring_reloaded" in caplog.text


def test_services_are_found_beside_the_file_and_must_be_coroutines(tmp_path: Path) -> None:
    (tmp_path / "shop_of_the_test.py").write_text("async def main(node, groups):\n    pass\n\ndef plain():\n    pass\n")
    service: Callable[..., Awaitable[object]] = find_service("shop_of_the_test:main", tmp_path)
    assert asyncio.iscoroutinefunction(service)
    with pytest.raises(antiphon.UsageError, match="is no coroutine: write `async def plain"):
        find_service("shop_of_the_test:plain", tmp_path)
    with pytest.raises(antiphon.UsageError, match="cannot be loaded"):
        find_service("no_such_shop_of_the_test:main", tmp_path)
