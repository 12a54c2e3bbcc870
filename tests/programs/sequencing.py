"""Two or three sequencers, and clients in groups that overlap: one stream over all groups, in one order everywhere."""

import antiphon
from antiphon.testing import Host, Result
from tests.programs.common import PATIENCE_S, Play, check_event, names, node_at, talk, until_ending

SEQUENCERS = ("x", "y", "z")
LEVELS: tuple[antiphon.Order, ...] = ("fifo", "causal", "causal-total", "agreed")


def sequencers_of(host: Host) -> list[str]:
    return [address for name, address in host.members().items() if name in SEQUENCERS]


async def serve(host: Host) -> int:
    async with node_at(host) as node:
        node.serve("sequencer", peers=[address for address in sequencers_of(host) if address != host.at()])
        await until_ending(host, nothing())
    return host.starts


async def nothing() -> None:
    """A sequencer has nothing to say of its own."""


async def main(host: Host) -> int:
    """Be in two of three groups, which are created at whichever sequencer is asked first; read both as one stream."""
    place = "abcdefgh".index(host.name)
    contacts = sequencers_of(host)
    contacts = contacts[place % len(contacts) :] + contacts[: place % len(contacts)]
    async with node_at(host) as node:
        groups = [
            await node.join(f"g{number % 3}", stack="sequencer", contacts=contacts, timeout_s=PATIENCE_S)
            for number in (place, place + 1)
        ]

        async def read() -> None:
            async for event in node:
                check_event(node, event)

        await until_ending(host, talk(host, groups, levels=LEVELS), read())
    return host.starts


def check(result: Result) -> None:
    assert result.judgement.delivered["agreed"] > 0


def play(seed: int) -> Play:
    mains = dict.fromkeys(names(seed, 3, 5), main)
    return Play(mains | dict.fromkeys(SEQUENCERS[: 2 + seed % 2], serve), check)
