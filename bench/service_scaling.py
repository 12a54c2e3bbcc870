"""How the sequencing service grows with its sequencers, in simulation with measured costs.

    python -m bench.service_scaling [--json] [--out bench/results]      also writes service_scaling.json and a plot

All processes are engines in one process, joined by links that lie in memory. The processor time of each step is
measured and charged to the process that made it, and so is what a real link costs for each write and each read, which
is measured first, with TCP on loopback. If every process had a processor of its own, the busiest sequencer would limit
how many messages the service can place: messages placed, divided by the processor time of that sequencer.

Disjoint: 48 groups of three members, all of which send, spread over 1 to 16 sequencers. Overlapping: the same groups at
one sequencer, and at eight, where none to all of the processes are in a second group as well, at another sequencer.
Messages are agreed ones of 64 bytes, one at a time (`--burst` sends more at once), so that contexts, probes and reports
are not spread over long batches. Of each setting the best of `--repeats` runs counts, since the machine does other
things as well.
"""

import argparse
import asyncio
import json
from collections import deque
from pathlib import Path
from random import Random
from time import process_time_ns, thread_time_ns
from typing import Any, Final

from antiphon.engine import Engine
from antiphon.kernel.calls import Dial, Frames, Hang, Listen, accepted_link
from antiphon.kernel.effects import NEVER, Installed
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Input, Join, Open, Send, Tick
from antiphon.kernel.levels import AGREED
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.outcomes import CallOutcome, LinkDown, LinkFrames, LinkUp
from antiphon.runtime.links import Links
from bench.plots import Panel, Series, draw

STACK: Final = "sequencer"
GROUPS: Final = 48
MEMBERS: Final = 3
ROUNDS: Final = 20
PAYLOAD: Final = bytes(64)
SEQUENCERS: Final = (1, 2, 4, 8, 16)
OVERLAPPED: Final = 8
SHARES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)


class EngineTable:
    """Engines, what is under way between them, and the processor time that each has taken."""

    def __init__(self, sequencers: int, link_ns: int, byte_ns: float = 0.0, options: Options | None = None) -> None:
        self.link_ns = link_ns
        """What a write or a read of a link costs…"""
        self.byte_ns = byte_ns
        """…and each byte of it."""
        self.options = options or Options()
        self.now_ns = 0
        self.engines: dict[str, Engine] = {}
        self.busy_ns: dict[str, int] = {}
        self.deadlines_ns: dict[str, int] = {}
        self.sent_bytes: dict[str, int] = {}
        self.joined: dict[str, int] = {}
        """Groups that each process has entered."""
        self._listens: dict[str, int] = {}
        self._ends: dict[tuple[str, int], tuple[str, int]] = {}
        """From one end of each link to the other: process and id."""
        self._under_way: deque[tuple[str, CallOutcome]] = deque()
        self._accepted = 0
        self.sequencers = [f"s{number:02}" for number in range(sequencers)]
        for name in self.sequencers:
            self.add(name)
            others = tuple(other for other in self.sequencers if other != name)
            self.step(name, Open(stack=STACK, role="peer", address=name, contacts=others))
        self.run(20)

    def add(self, name: str) -> None:
        self.engines[name] = Engine(ProcessId(name), Random(0), self.options)
        self.busy_ns[name] = self.joined[name] = self.sent_bytes[name] = 0
        self.deadlines_ns[name] = NEVER

    def step(self, name: str, input: Input | CallOutcome) -> None:
        started_ns = thread_time_ns()
        effects = self.engines[name].step(input, self.now_ns)
        self.busy_ns[name] += thread_time_ns() - started_ns
        self.deadlines_ns[name] = effects.deadline_ns
        for event in effects.events:
            if isinstance(event, Installed) and any(member.name == name for member in event.joined):
                self.joined[name] += 1
        for call in effects.calls or ():
            if isinstance(call, Frames):
                other = self._ends.get((name, call.link))
                if other is not None:
                    self._charge(name, call.frames)
                    self.sent_bytes[name] += sum([len(data) for data in call.frames])
                    self._under_way.append((other[0], LinkFrames(other[1], call.frames)))
            elif isinstance(call, Listen):
                self._listens[name] = call.token
            elif isinstance(call, Dial):
                self._dial(name, call)
            elif isinstance(call, Hang):
                other = self._ends.pop((name, call.link), None)
                if other is not None:
                    self._ends.pop(other, None)
                    self._under_way.append((other[0], LinkDown(other[1], "hung up")))

    def _charge(self, name: str, frames: list[bytes]) -> None:
        self.busy_ns[name] += self.link_ns + int(self.byte_ns * sum([len(data) for data in frames]))

    def _dial(self, name: str, call: Dial) -> None:
        listen = self._listens.get(call.address, 0)
        if not listen:
            self._under_way.append((name, LinkDown(call.link, "nobody listens there")))
            return
        self._accepted += 1
        accepted = accepted_link(listen, self._accepted)
        self._ends[name, call.link] = (call.address, accepted)
        self._ends[call.address, accepted] = (name, call.link)
        self._under_way.append((call.address, LinkUp(accepted, ProcessId(name), listen)))
        self._under_way.append((name, LinkUp(call.link, ProcessId(call.address))))

    def run(self, milliseconds: int) -> None:
        """All that is under way arrives; then a millisecond passes, and so on."""
        for _ in range(milliseconds):
            while self._under_way:
                name, outcome = self._under_way.popleft()
                if isinstance(outcome, LinkFrames):
                    self._charge(name, outcome.frames)
                self.step(name, outcome)
            self.now_ns += MILLISECOND_NS
            for name, deadline_ns in self.deadlines_ns.items():
                if deadline_ns <= self.now_ns:
                    self.step(name, Tick())

    def join(self, name: str, group: str, sequencer: int) -> None:
        contact = self.sequencers[sequencer % len(self.sequencers)]
        self.step(name, Join(group=group, stack=STACK, policy="primary", contacts=(contact,), address=name))


def link_cost_ns(frames: int = 4_000, size: int = 200) -> int:
    """Processor time of a write, or of a read, of a TCP link that carries one frame of this size."""

    async def measure() -> int:
        reported: list[CallOutcome] = []
        ends = [Links(ProcessId(name), "127.0.0.1:0", reported.append) for name in ("a", "b")]
        ends[0].carry_out(Listen(1 << 32))
        await ends[0].listening()
        ends[1].carry_out(Dial((1 << 32) + 1, ends[0].address))
        while len(reported) < 2:
            await asyncio.sleep(0.001)
        started_ns = process_time_ns()
        for _ in range(frames):
            ends[1].carry_out(Frames((1 << 32) + 1, [bytes(size)]))
            await asyncio.sleep(0)
        while sum(len(one.frames) for one in reported if isinstance(one, LinkFrames)) < frames:
            await asyncio.sleep(0)
        spent_ns = process_time_ns() - started_ns
        for end in ends:
            await end.close()
        return spent_ns // (2 * frames)

    return asyncio.run(measure())


def capacity(sequencers: int, share: float, burst: int, link_ns: int) -> dict[str, float]:
    """Messages a second at which the busiest sequencer, and the busiest client, would have no time left."""
    table = EngineTable(sequencers, link_ns)
    members: list[tuple[str, str]] = []
    for number in range(GROUPS):
        for place in range(MEMBERS):
            name = f"p{number:02}{place}"
            table.add(name)
            table.join(name, f"g{number}", number)
            members.append((name, f"g{number}"))
            table.run(2)
    second = Random(1).sample([name for name, _ in members], int(share * len(members)))
    for number, name in enumerate(second):  # the next group is at the next sequencer
        table.join(name, f"g{(int(name[1:3]) + 1) % GROUPS}", int(name[1:3]) + 1)
        if number % 8 == 0:
            table.run(2)
    table.run(40)
    wanted = len(members) + len(second)
    entered = sum(table.joined.values())
    assert entered == wanted, f"{entered} of {wanted} joins"
    before = dict(table.busy_ns)
    for _ in range(ROUNDS):
        for name, group in members:
            table.step(name, Send(group=group, stack=STACK, payloads=[PAYLOAD] * burst, level=AGREED))
        table.run(3)
    table.run(20)
    spent_ns = {name: busy_ns - before[name] for name, busy_ns in table.busy_ns.items()}
    sent = ROUNDS * len(members) * burst
    busiest_ns = max(spent_ns[name] for name in table.sequencers)
    client_ns = max(spent_ns[name] for name, _ in members)
    return {"sequencers": sent / busiest_ns * 1e9, "clients": sent / client_ns * 1e9}


def measure(burst: int, repeats: int) -> list[dict[str, Any]]:
    link_ns = min(link_cost_ns() for _ in range(3))
    results: list[dict[str, Any]] = [
        {"workload": "a write or a read of a link", "sequencers": 0, "value": link_ns / 1e3, "unit": "µs"}
    ]
    settings = [("disjoint", count, 0.0) for count in SEQUENCERS]
    settings += [("overlapping", count, share) for count in (1, OVERLAPPED) for share in SHARES]
    for workload, count, share in settings:
        best = max(capacity(count, share, burst, link_ns)["sequencers"] for _ in range(repeats))
        results.append(
            {
                "workload": workload,
                "sequencers": count,
                "share": share,
                "value": round(best),
                "unit": "messages a second",
            }
        )
    return results


def plot(results: list[dict[str, Any]]) -> str:
    def series(name: str, chosen: list[dict[str, Any]], x: str, scale: float) -> Series:
        return Series(name, [max(1, round(one[x] * scale)) for one in chosen], [one["value"] for one in chosen])

    disjoint = [one for one in results if one["workload"] == "disjoint"]
    lines = []
    for count in (1, OVERLAPPED):
        chosen = [one for one in results if one["workload"] == "overlapping" and one["sequencers"] == count]
        lines.append(series(f"{count} sequencer{'s' if count > 1 else ''}", chosen, "share", 100))
    return draw(
        "Messages a second that the busiest sequencer can place",
        [
            Panel("disjoint groups", "sequencers", [series("disjoint", disjoint, "sequencers", 1)]),
            Panel("overlapping groups", "% of processes in a second group", lines),
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--burst", type=int, default=1, help="messages that each member sends at once")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="directory for service_scaling.json and service-scaling.svg")
    arguments = parser.parse_args()
    results = measure(arguments.burst, arguments.repeats)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "service_scaling.json").write_text(json.dumps({"results": results}, indent=2) + "\n")
        (arguments.out / "service-scaling.svg").write_text(plot(results))
    if arguments.json:
        print(json.dumps({"results": results}))
        return
    for one in results:
        share = f", {one['share']:.0%} in a second group" if one["workload"] == "overlapping" else ""
        print(f"{one['workload']}, {one['sequencers']} sequencers{share}: {one['value']:,} {one['unit']}")


if __name__ == "__main__":
    main()
