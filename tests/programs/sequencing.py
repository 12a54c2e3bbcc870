"""Two or three sequencers, and clients in groups that overlap: one stream over all groups, in one order everywhere.

Two sequencers have no replicas, so neither is killed: its groups would be lost with it, as docs/sequencing.md says. Of
three, what each has told its clients is held by another one, and one of them may be killed.
"""

import antiphon
from antiphon.testing import FaultPlan, Host, Result
from antiphon.testing.fault_plan import SECOND_NS, KillProgram, draw_plan
from antiphon.testing.simulate import ACTIVE_S
from tests.programs.common import PATIENCE_S, Play, check_event, names, node_at, talk, until_ending

SEQUENCERS = ("x", "y", "z")
LEVELS: tuple[antiphon.Order, ...] = ("fifo", "causal", "causal-total", "agreed")


def sequencers_of(host: Host) -> list[str]:
    return [address for name, address in host.members().items() if name in SEQUENCERS]


async def serve(host: Host) -> int:
    others = [address for address in sequencers_of(host) if address != host.at()]
    options = antiphon.Options(of_stacks={"sequencer.replicas": len(others) // 2})
    async with node_at(host, options=options) as node:
        node.serve("sequencer", peers=others)
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


def spared(plan: FaultPlan, kills_max: int) -> FaultPlan:
    """The plan with so many kills of sequencers at most."""
    kills = [fault for fault in plan.faults if isinstance(fault, KillProgram) and fault.program in SEQUENCERS]
    return FaultPlan(plan.delay, [fault for fault in plan.faults if fault not in kills[kills_max:]], plan.heal_ns)


def play(seed: int) -> Play:
    count = 2 + seed % 2
    mains = dict.fromkeys(names(seed // 2, 3, 5), main) | dict.fromkeys(SEQUENCERS[:count], serve)
    plan = draw_plan("all", list(mains), int(ACTIVE_S * SECOND_NS), seed)
    return Play(mains, check, spared(plan, count - 2))
