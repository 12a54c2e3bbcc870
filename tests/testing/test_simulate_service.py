"""The sequencing service in virtual time, by the public API: what is refused holds nothing up."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

import antiphon
from antiphon.testing import Host, simulate


def peers_of(host: Host) -> list[str]:
    return [address for name, address in host.members().items() if name.startswith("p")]


def peer(of_stacks: Mapping[str, int] | None = None) -> Callable[[Host], Awaitable[None]]:
    """A peer of the service, with all hosts whose names begin like its own."""

    async def serve(host: Host) -> None:
        options = antiphon.Options(of_stacks=dict(of_stacks or {}))
        async with antiphon.Node(host.name, address=host.at(), options=options) as node:
            node.serve("sequencer", peers=[address for address in peers_of(host) if address != host.at()])
            await host.ending.wait()

    return serve


@pytest.mark.parametrize("subscribes", [False, True])
@pytest.mark.parametrize(("peers", "replicas"), [(2, 0), (3, 1)])
def test_a_refused_message_holds_up_nothing_that_was_published_after_it(
    peers: int, replicas: int, subscribes: bool
) -> None:
    """The group that refused may even be created meanwhile, by the same client."""

    async def read(host: Host) -> list[bytes]:
        heard: list[bytes] = []
        async with await antiphon.connect(peers_of(host), name=host.name) as client:
            await client.subscribe("quotes")
            async for event in client:
                if isinstance(event, antiphon.Message):
                    heard.append(event.payload)
                    if len(heard) == 3:
                        break
        return heard

    async def write(host: Host) -> list[str]:
        told: list[str] = []
        async with await antiphon.connect(peers_of(host)[::-1], name=host.name) as client:
            await asyncio.sleep(0.5)
            await client.publish("nowhere", b"?")
            await client.publish("quotes", b"1")
            if subscribes:
                await client.subscribe("nowhere")
            for payload in (b"2", b"3"):
                await client.publish("quotes", payload)
                try:
                    await client.flush(timeout_s=3)
                    told.append("ok")
                except antiphon.PublishError:
                    told.append("refused")
            await host.ending.wait()
        return told

    programs = {f"p{number}": peer({"sequencer.replicas": replicas}) for number in range(peers)}
    result = simulate({**programs, "r": read, "w": write}, seed=1, faults="none", active_s=15)
    assert result.kept, result.report("")
    assert result.returned["r"] == [b"1", b"2", b"3"]
    assert result.returned["w"] == ["refused", "ok"]
