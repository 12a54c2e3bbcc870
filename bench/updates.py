"""The figures of isis-1987, section 5.4, in shape: replicated updates on `label`, asynchronous and synchronous.

    python -m bench.updates                      1 to 6 sites on loopback, in one process
    python -m bench.updates --out DIR            also the plots
    python -m bench.updates --updates 5          a quick try

An update is one causal broadcast of 64 bytes; a broadcast may wait LAZY_US for company (3.5). *Asynchronous*: it is
done when the sender's own copy has it. *Synchronous*: when all others have confirmed it, by a message each; update and
confirmations do not wait for company. *Elapsed*: until the last copy has an asynchronous one. Sizes of groups take
turns, update by update, so that whatever else the machine does strikes all alike; figures are medians. Beside them,
from bench/stacks.py, how packets fill as load rises, in virtual time.

Checks, of which those that fail are told: the asynchronous response is flat within FLAT from 2 to 6 sites; the
synchronous one is higher and rises; elapsed grows linearly (correlation with the number of sites at least LINEAR).
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import antiphon
from bench.figures import Report, Result, median_of, parser, progress, run, table
from bench.plots import Panel, Series, draw
from bench.stacks import piggyback

SITES: Final = (1, 2, 3, 4, 5, 6)
LAZY_US: Final = 2_000
SIZE: Final = 64
REST_S: Final = 0.02
ASK: Final = b"?"
CONFIRM: Final = b"!"
PROMPT: Final = "none=now"
"""A label that orders nothing: such a broadcast leaves at once."""
FLAT: Final = 1.15
LINEAR: Final = 0.95
Times = dict[tuple[str, int], list[float]]
"""By kind and number of sites, in milliseconds."""


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("Replicated updates, asynchronous and synchronous.")
    made.add_argument("--updates", type=int, default=60, help="of each kind, for each number of sites")
    return made.parse_args(words)


class Copies:
    """One replicated item, at so many sites, all in this process."""

    def __init__(self, sites: int) -> None:
        self._sites = sites
        self._groups: list[antiphon.Group] = []
        self._heard_s: list[list[float]] = [[] for _ in range(sites)]
        self._confirmed_s: list[float] = []

    async def open(self, stack: AsyncExitStack) -> None:
        options = antiphon.Options(of_stacks={"label.lazy_us": LAZY_US})
        nodes = [
            await stack.enter_async_context(antiphon.Node(f"site{number}", address="127.0.0.1:0", options=options))
            for number in range(self._sites)
        ]
        members = {node.process.name: node.address for node in nodes}
        name = f"item{self._sites}"
        self._groups = list(
            await asyncio.gather(*[node.join(name, members=members, stack="label", policy="primary") for node in nodes])
        )
        for place, group in enumerate(self._groups):
            group.listen(Copy(group, self._heard_s[place], self._confirmed_s))

    async def update(self, is_synchronous: bool) -> tuple[float, float]:
        """Seconds until an update is done, and until all copies have it."""
        for heard in self._heard_s:
            heard.clear()
        self._confirmed_s.clear()
        started_s = time.perf_counter()
        if is_synchronous:
            await self._groups[0].send(ASK + bytes(SIZE - 1), order="reliable", label=PROMPT)
        else:
            await self._groups[0].send(bytes(SIZE), order="causal")
        awaited = self._sites - 1 if is_synchronous else 0
        while not all(self._heard_s) or len(self._confirmed_s) < awaited:
            await asyncio.sleep(0.0002)
        done_s = max([self._heard_s[0][0], *self._confirmed_s])
        return done_s - started_s, max(heard[0] for heard in self._heard_s) - started_s


class Copy:
    """One copy: notes when it is updated, and confirms it if that is asked for."""

    def __init__(self, group: antiphon.Group, heard_s: list[float], confirmed_s: list[float]) -> None:
        self._group = group
        self._heard_s = heard_s
        self._confirmed_s = confirmed_s
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, event: object) -> None:
        if not isinstance(event, antiphon.Batch):
            return
        if event.payloads[0] == CONFIRM:
            self._confirmed_s.append(time.perf_counter())
            return
        self._heard_s.append(time.perf_counter())
        if event.payloads[0][:1] == ASK and event.sender != self._group.process:
            task = asyncio.get_running_loop().create_task(self._confirm(event.sender))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _confirm(self, sender: antiphon.ProcessId) -> None:
        await self._group.send(CONFIRM, order="reliable", label=PROMPT, to=[sender])


async def take_times(updates: int) -> Times:
    times: Times = {}
    async with AsyncExitStack() as stack:
        copies = {sites: Copies(sites) for sites in SITES}
        for each in copies.values():
            await each.open(stack)
        for number in range(updates + 3):
            if number % 20 == 0:
                progress(f"update {number} of {updates}")
            for sites, each in copies.items():
                response_s, elapsed_s = await each.update(False)
                await asyncio.sleep(REST_S)
                waited_s, _ = await each.update(True)
                await asyncio.sleep(REST_S)
                if number >= 3:
                    for kind, value_s in (
                        ("asynchronous", response_s),
                        ("elapsed", elapsed_s),
                        ("synchronous", waited_s),
                    ):
                        times.setdefault((kind, sites), []).append(1000 * value_s)
    return times


def complaints(medians: dict[tuple[str, int], float]) -> list[str]:
    """What is not as in the paper."""
    found: list[str] = []
    flat = [medians["asynchronous", sites] for sites in SITES[1:]]
    waiting = [medians["synchronous", sites] for sites in SITES[1:]]
    elapsed = [medians["elapsed", sites] for sites in SITES[1:]]
    if max(flat) > FLAT * min(flat):
        found.append(f"asynchronous response is not flat: {max(flat) / min(flat):.2f} between 2 and 6 sites")
    if waiting[-1] <= waiting[0] or min(waiting) <= max(flat):
        found.append(f"synchronous response does not rise: {waiting[0]:.3f} to {waiting[-1]:.3f} ms")
    if statistics.correlation(SITES[1:], elapsed) < LINEAR:
        found.append(f"elapsed is not linear: correlation {statistics.correlation(SITES[1:], elapsed):.3f}")
    return found


async def measure(arguments: argparse.Namespace) -> Report:
    times = await take_times(arguments.updates)
    results: list[Result] = []
    medians: dict[tuple[str, int], float] = {}
    for (kind, sites), values in sorted(times.items()):
        value, spread = median_of(values)
        medians[kind, sites] = value
        results.append(
            Result(
                system="label", workload=f"update, {kind}", order="causal", size=SIZE, members=sites, value=value,
                unit="ms", spread=spread,
            )
        )  # fmt: skip
    filled = piggyback()
    rows = [(one.workload, one.members, one.value, one.unit, one.more.get("age_us", "")) for one in results + filled]
    found = complaints(medians)
    words = table(("workload", "members", "value", "unit", "age µs"), rows) + "".join([f"\nNOT {one}" for one in found])
    lines = {
        kind: Series(kind, list(SITES), [medians[kind, sites] for sites in SITES])
        for kind in ("asynchronous", "synchronous", "elapsed")
    }
    rates = [int(one.workload.split()[1]) for one in filled]
    panels = [
        Panel("response, ms", "sites", [lines["asynchronous"], lines["synchronous"]]),
        Panel("elapsed, ms", "sites", [lines["elapsed"]]),
        Panel(
            "piggybacking", "messages a second and member",
            [
                Series("messages per packet", rates, [one.value for one in filled]),
                Series("age, ms", rates, [one.more["age_us"] / 1000 for one in filled]),
            ],
        ),
    ]  # fmt: skip
    picture = draw("Replicated updates on `label` (isis-1987, 5.4)", panels)
    return Report("updates", results + filled, words, {"updates": picture})


def main(words: Sequence[str] | None = None) -> int:
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
