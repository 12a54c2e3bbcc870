"""A generator of histories of any length that keep every promise, except those that are broken on purpose.

    python -m bench.histories DIR --events 1000000
    python -m bench.histories DIR --events 100000 --plant causal=2,total=1

No protocol runs: the schedule is correct by construction. Time is divided into rounds. In a round each member sends one
burst of messages before it delivers anything of that round; every member delivers the bursts of a round after those of
all earlier rounds, with a delay of some rounds that differs by member. So bursts of one round are concurrent and each
member delivers them in its own order, a burst possibly in two parts; only agreed and safe messages have an order that
all share. What happened before a burst was sent in an earlier round and is delivered first.

Rounds make up epochs. At the end of an epoch everybody alive delivers all there is; then members are dropped, because
they crashed in the epoch (perhaps with a last burst that nobody got), or leave, or join, or there is a barrier; and the
groups concerned change their view. Groups overlap, and causal order holds across them. What is planted to break a
promise is the business of `bench.planting`, which also says what it must count.
"""

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from antiphon.history.schema import BARRIER, LEAVES, LEFT, QUIET, SCHEMA_VERSION
from bench.history_rows import (
    AT_AGREED,
    AT_CAUSAL,
    AT_RELIABLE,
    AT_SAFE,
    CRASH,
    DELIVER,
    MADE_LEVELS,
    NONE,
    NOTE,
    PRIVATE,
    SEND,
    START,
    STOP,
    VIEW,
    Ints,
    Keep,
    LogWriter,
    Rows,
    Segment,
    Words,
    join,
    make_rows,
    write_to,
)
from bench.planting import FORGOTTEN_MAX, PLANTED, Epoch, Planter, Replay

ROUND_NS: Final = 100_000
CHUNK_ROUNDS: Final = 4096
GROUP_MEMBERS_MIN: Final = 3
EPOCH_ROUNDS_MIN: Final = 4
SENDERS_MAX: Final = 100_000
ENDLESS_NS: Final = 2**62
ENDING_LEVELS: Final = (AT_CAUSAL, AT_RELIABLE)
"""Of the last round of an epoch, in turn: what has no place in a total order can be late without further harm."""
LAST_LEVELS: Final = (AT_SAFE, AT_RELIABLE)
"""The same in the last epoch, behind which nothing depends on anything."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a run looks like."""

    events: int
    """About so many single events."""
    processes: int = 8
    groups: int = 3
    views: int = 12
    """How many times the views change."""
    single: float = 0.5
    """The share of bursts that are a single message; the others have 2 to `burst_max`."""
    burst_max: int = 6
    sending: float = 0.6
    """The share of rounds in which a member sends."""
    lag_max: int = 3
    private: float = 0.03
    """The share of bursts below agreed that go to one member only."""
    levels: tuple[float, ...] = (0.1, 0.15, 0.4, 0.25, 0.1)
    """The shares of reliable, fifo, causal, agreed and safe."""


@dataclass
class Made:
    """What was written, and what the audit must count in it."""

    rows: int = 0
    events: int = 0
    planted: Counter[str] = field(default_factory=Counter)
    """Violations by guarantee."""


@dataclass(eq=False)
class Member:
    """One process incarnation that is alive."""

    name: str
    incarnation: int
    code: int
    writer: LogWriter
    groups: set[int]
    lag: int = 0
    pending: list[Rows] = field(default_factory=list)
    """Deliveries whose time has not come."""
    crash_round: int | None = None
    crashed: bool = False
    seen: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """(group, sender) → the number of a message that it delivered."""

    @property
    def process(self) -> str:
        return f"{self.name}/{self.incarnation}"


class Generator:
    """One run."""

    def __init__(self, keep: Keep, run: str, shape: Shape, random: np.random.Generator, planter: Planter) -> None:
        self._keep = keep
        self._run = run
        self._shape = shape
        self._random = random
        self._planter = planter
        self._words = Words.empty()
        self._groups = [self._words.groups.place(f"g{place}") for place in range(shape.groups)]
        self._label = self._words.labels.place(
            json.dumps(
                {
                    "schema": SCHEMA_VERSION,
                    "stack": "generated",
                    "policy": "primary",
                    "levels": list(MADE_LEVELS),
                    "promises": list(PLANTED),
                }
            )
        )
        self._barrier = self._words.labels.place(BARRIER)
        self._views = dict.fromkeys(self._groups, 1)
        self._members: dict[int, list[Member]] = {group: [] for group in self._groups}
        self._alive: list[Member] = []
        self._gone: list[str] = []
        self._numbers: dict[tuple[int, int], int] = defaultdict(int)
        self._dropped: dict[int, set[int]] = defaultdict(set)
        self._writers: list[LogWriter] = []
        self._round = 0

    def run(self) -> Made:
        """Make the whole run."""
        shape = self._shape
        self._begin()
        for place in range(shape.views + 1):
            left = shape.events - sum(writer.events for writer in self._writers)
            length = round(left / (shape.views + 1 - place) / self._events_per_round())
            self._run_epoch(place, max(length, EPOCH_ROUNDS_MIN))
        self._end()
        made = Made(planted=self._planter.counted())
        for writer in self._writers:
            writer.close()
        made.rows = sum(writer.rows for writer in self._writers)
        made.events = sum(writer.events for writer in self._writers)
        return made

    def _run_epoch(self, place: int, length: int) -> None:
        first, end = self._round, self._round + length
        last_change, group = self._shape.views - 1, place % len(self._groups)
        self._draw_lags()
        crashing = self._plan_crash(first, end) if place % 3 == 0 and place <= last_change else None
        barrier: Member | None = None
        if place % 3 != 1 and place < last_change:
            barrier = self._pick([member for member in self._members[group] if member is not crashing])
        self._planter.begin_epoch(
            Epoch(
                place,
                self._shape.views,
                group,
                end - 1,
                None if barrier is None else barrier.code,
                {member.code: member.lag for member in self._alive},
                {group: {member.code for member in members} for group, members in self._members.items()},
                set() if crashing is None else {crashing.code},
            )
        )
        for begin in range(first, end - 1, CHUNK_ROUNDS):
            until = min(begin + CHUNK_ROUNDS, end - 1)
            self._let_run(self._draw(np.arange(begin, until)), until)
        levels = ENDING_LEVELS if place <= last_change else LAST_LEVELS
        self._let_run(self._draw_last(group, end - 1, levels), None)
        self._round = end + self._shape.lag_max + 1
        if place <= last_change:
            self._change(place, group, crashing, barrier)

    def _events_per_round(self) -> float:
        shape = self._shape
        mean_count = shape.single + (1 - shape.single) * (2 + shape.burst_max) / 2
        bursts = shape.sending * len(self._alive)
        receivers = float(
            np.mean([np.mean([len(self._members[group]) for group in member.groups]) for member in self._alive])
        )
        return bursts * mean_count * (1 + (1 - shape.private) * receivers)

    def _begin(self) -> None:
        """Everybody is in the first group; the others have some members each."""
        for place in range(self._shape.processes):
            self._make_member(f"p{place}", 1)
        least = min(GROUP_MEMBERS_MIN + 1, len(self._alive))  # so that one can be done without
        for group in self._groups:
            size = len(self._alive) if group == 0 else int(self._random.integers(least, len(self._alive) + 1))
            chosen = sorted(self._random.choice(len(self._alive), size, replace=False).tolist())
            self._members[group] = [self._alive[place] for place in chosen]
            for member in self._members[group]:
                member.groups.add(group)
        for group in self._groups:
            self._install(group, joining=self._members[group])

    def _make_member(self, name: str, incarnation: int) -> Member:
        code = self._words.senders.place((name, incarnation))
        writer = LogWriter(self._keep, self._run, name, incarnation, self._words)
        member = Member(name, incarnation, code, writer, set())
        self._writers.append(writer)
        self._alive.append(member)
        return member

    def _install(self, group: int, joining: Sequence[Member] = ()) -> None:
        """The members of a group see its view."""
        members = self._words.lists.place(tuple(member.process for member in self._members[group]))
        now_ns = self._round * ROUND_NS
        for member in self._members[group]:
            row = make_rows(1, kind=VIEW, time_ns=now_ns, group=group, view=self._views[group], members=members)
            if member in joining:
                member.writer.add(make_rows(1, kind=START, time_ns=now_ns, group=group, label=self._label))
            member.writer.add(self._planter.view_row(member.code, row))
            late = self._planter.late(member.code, group)
            if late is not None:
                member.writer.add(late)

    def _draw_lags(self) -> None:
        """How many rounds late everybody is; somebody is not."""
        for member in self._alive:
            member.lag = int(self._random.integers(0, self._shape.lag_max + 1))
        self._pick(self._alive).lag = 0

    def _plan_crash(self, first: int, end: int) -> Member | None:
        """Somebody crashes, if its groups can go on without it."""
        fit = [
            member
            for member in self._alive
            if all(self._may_drop(group) for group in member.groups) and self._planter.may_crash(member.code)
        ]
        if not fit:
            return None
        chosen = self._pick(fit)
        chosen.crash_round = int(self._random.integers((first + end) // 2, end - 1))
        return chosen

    def _may_drop(self, group: int) -> bool:
        return len(self._members[group]) > GROUP_MEMBERS_MIN

    def _pick(self, members: Sequence[Member]) -> Member:
        return members[int(self._random.integers(len(members)))]

    def _draw(self, rounds: Ints) -> Rows:
        """The bursts of some rounds, as the rows by which they are sent, in order of round."""
        random, shape = self._random, self._shape
        sends = random.random((len(rounds), len(self._alive))) < shape.sending
        for column, member in enumerate(self._alive):
            if member.crash_round is not None:
                sends[:, column] &= rounds < member.crash_round
        line, place = np.nonzero(sends)
        sender = np.array([member.code for member in self._alive])[place]
        choices = np.array([(sorted(member.groups) * len(self._groups))[: len(self._groups)] for member in self._alive])
        widths = np.array([len(member.groups) for member in self._alive])
        group = choices[place, (random.random(len(place)) * widths[place]).astype(int)]
        long = random.random(len(place)) >= shape.single
        count = np.where(long, random.integers(2, shape.burst_max + 1, len(place)), 1)
        level = random.choice(len(MADE_LEVELS), len(place), p=shape.levels)
        return self._bursts(rounds[line], sender, group, count, level, private=shape.private)

    def _draw_last(self, group: int, last: int, levels: Sequence[int]) -> Rows:
        """The last round of an epoch: all members of one group send to it, at levels that take turns."""
        senders = [member for member in self._members[group] if member.crash_round is None]
        length = len(senders)
        level = np.array([levels[place % len(levels)] for place in range(length)])
        code = np.array([member.code for member in senders])
        count = np.full(length, max(FORGOTTEN_MAX, self._shape.burst_max) if levels is LAST_LEVELS else 2)
        return self._bursts(np.full(length, last), code, np.full(length, group), count, level, private=0)

    def _burst(self, round: int, sender: int, group: int, count: int, level: int) -> Rows:
        one = [np.array([value]) for value in (round, sender, group, count, level)]
        return self._bursts(one[0], one[1], one[2], one[3], one[4], private=0)

    def _bursts(self, rounds: Ints, sender: Ints, group: Ints, count: Ints, level: Ints, private: float) -> Rows:
        """Send rows, numbered by sender and group."""
        number = np.zeros(len(rounds), np.int64)
        for key_group in self._groups:
            for member in self._alive:
                own = np.flatnonzero((group == key_group) & (sender == member.code))
                if len(own):
                    ends = np.cumsum(count[own])
                    number[own] = self._numbers[key_group, member.code] + 1 + ends - count[own]
                    self._numbers[key_group, member.code] += int(ends[-1])
        rows = make_rows(
            len(rounds),
            kind=SEND,
            time_ns=rounds * ROUND_NS,
            group=group,
            view=np.array([self._views[group] for group in self._groups])[group],
            sender=sender,
            number=number,
            count=count,
            level=level,
            round=rounds,
            part=0,
        )
        for place in np.flatnonzero((self._random.random(len(rounds)) < private) & (level < AT_AGREED)).tolist():
            members = self._members[int(group[place])]
            chosen = members[int(self._random.integers(len(members)))]
            rows.destinations[place] = self._words.lists.place((chosen.process,))
            rows.part[place] = PRIVATE
        return rows

    def _let_run(self, bursts: Rows, until: int | None) -> None:
        """Let everybody send these bursts and deliver what comes up to a round, or, in the last round, all there is."""
        atoms = self._split(bursts) if until is not None else bursts.take(np.arange(len(bursts)))
        atoms.kind[:] = DELIVER
        shared = self._random.random(len(atoms))
        for place in self._random.permutation(len(self._alive)).tolist():
            member = self._alive[place]
            rows = join([bursts.take(bursts.sender == member.code), *member.pending, self._due(member, atoms, shared)])
            rows = rows.take(np.argsort(rows.time_ns, kind="stable"))
            if member.crash_round is not None and (until is None or until >= member.crash_round):
                self._crash(member, rows)
                continue
            now = rows.time_ns < (ENDLESS_NS if until is None else until * ROUND_NS)
            member.pending = [rows.take(~now)]
            rows = rows.take(now)
            self._note_seen(member, rows)
            member.writer.add(self._planter.spoil(member.code, rows, last=until is None))
        self._alive = [member for member in self._alive if not member.crashed]

    def _note_seen(self, member: Member, rows: Rows) -> None:
        whole = rows.take((rows.kind == DELIVER) & (rows.part != PRIVATE))
        codes, places = np.unique(whole.group * SENDERS_MAX + whole.sender, return_index=True)
        numbers, levels = whole.number[places].tolist(), whole.level[places].tolist()
        for code, number, level in zip(codes.tolist(), numbers, levels, strict=True):
            member.seen[divmod(code, SENDERS_MAX)] = (number, level)

    def _crash(self, member: Member, rows: Rows) -> None:
        """The end of a log; now and then with a burst that nobody gets."""
        assert member.crash_round is not None
        at_ns = member.crash_round * ROUND_NS
        done = [rows.take(rows.time_ns < at_ns)]
        if self._random.random() < 0.5:
            group = min(member.groups)
            done.append(self._burst(member.crash_round, member.code, group, 2, AT_CAUSAL))
        done.append(make_rows(1, kind=CRASH, time_ns=at_ns, label=self._words.labels.place("killed")))
        member.writer.add(join(done))
        member.crashed = True

    def _split(self, bursts: Rows) -> Rows:
        """What is delivered in one go: bursts, or halves of them."""
        halved = np.flatnonzero(
            (bursts.count > 1) & (bursts.part != PRIVATE) & (self._random.random(len(bursts)) < 0.4)
        )
        times = np.ones(len(bursts), np.int64)
        times[halved] = 2
        atoms = bursts.take(np.repeat(np.arange(len(bursts)), times))
        second = np.cumsum(times)[halved] - 1
        cut = 1 + (self._random.random(len(halved)) * (bursts.count[halved] - 1)).astype(int)
        atoms.count[second - 1] = cut
        atoms.count[second] -= cut
        atoms.number[second] += cut
        atoms.part[second - 1], atoms.part[second] = 1, 2
        return atoms

    def _due(self, member: Member, atoms: Rows, shared: npt.NDArray[np.float64]) -> Rows:
        """What a member delivers of the atoms, each with its time: behind its lag, in an order of its own."""
        mine = np.array([group in member.groups for group in self._groups])[atoms.group]
        to_me = self._words.lists.place((member.process,))
        mine &= (atoms.destinations == NONE) | (atoms.destinations == to_me)
        rows, order = atoms.take(mine), shared[mine]
        own = self._random.random(len(rows))
        order = np.where(rows.level >= AT_AGREED, order, own)
        second = np.flatnonzero(rows.part == 2)
        order[second] = order[second - 1] + (1 - order[second - 1]) * order[second]
        rows.time_ns = ((rows.round + member.lag + 0.1 + 0.8 * order) * ROUND_NS).astype(np.int64)
        rows.destinations[:] = NONE
        return rows

    def _change(self, place: int, group: int, crashed: Member | None, barrier: Member | None) -> None:
        """The end of an epoch: a barrier, and who comes and goes; then new views. The last time, all views change."""
        last = place == self._shape.views - 1
        changing = set(self._groups) if last else set()
        joining: dict[int, list[Member]] = defaultdict(list)
        if barrier is not None:
            self._send_barrier(group, barrier)
            changing.add(group)
        if crashed is not None:
            changing |= self._drop(crashed, crashed.groups)
            self._gone.append(crashed.name)
        if place % 3 == 1 and self._gone:
            newcomer = self._rejoin(self._gone.pop(0))
            for joined in newcomer.groups:
                joining[joined].append(newcomer)
            changing |= newcomer.groups
        if place % 3 == 2 and not last:
            changing |= self._leave()
        for changed in sorted(changing):
            self._views[changed] += self._planter.view_step()
            self._install(changed, joining[changed])

    def _rejoin(self, name: str) -> Member:
        """Who crashed comes back as a new incarnation."""
        incarnation = 1 + sum(known == name for known, _ in self._words.senders.values)
        newcomer = self._make_member(name, incarnation)
        newcomer.groups = {0, int(self._random.integers(len(self._groups)))}
        for group in sorted(newcomer.groups):
            self._members[group].append(newcomer)
        return newcomer

    def _leave(self) -> set[int]:
        """Somebody leaves one of its groups and lives on in the others."""
        able = [
            (member, group)
            for member in self._alive
            for group in sorted(member.groups)
            if len(member.groups) > 1 and self._may_drop(group)
        ]
        if not able:
            return set()
        member, group = able[int(self._random.integers(len(able)))]
        for label in (LEAVES, LEFT):
            code = self._words.labels.place(label)
            member.writer.add(make_rows(1, kind=NOTE, time_ns=self._round * ROUND_NS, group=group, label=code))
        changed = self._drop(member, {group})
        member.groups = member.groups - {group}
        return changed

    def _drop(self, member: Member, groups: set[int]) -> set[int]:
        for group in groups:
            self._members[group] = [other for other in self._members[group] if other is not member]
            self._dropped[group].add(member.code)
        return set(groups)

    def _send_barrier(self, group: int, sender: Member) -> None:
        row = self._burst(self._round, sender.code, group, 1, AT_SAFE)
        row.label[:] = self._barrier
        sender.writer.add(row)
        delivery = row.take(np.array([0]))
        delivery.kind[:] = DELIVER
        for member in self._members[group]:
            if not member.crashed:
                behind = self._planter.behind(member.code, group)
                member.writer.add(delivery if behind is None else join([delivery, behind]))

    def _end(self) -> None:
        able = [
            Replay(member.code, group, sender, number, level)
            for member in self._alive
            for (group, sender), (number, level) in member.seen.items()
            if group in member.groups and sender in self._dropped[group]
        ]
        replays = self._planter.replays(able)
        label = self._words.labels.place(QUIET)
        for member in self._alive:
            rows = [self._replay(replay) for replay in replays.get(member.code, ())]
            stop = make_rows(1, kind=STOP, time_ns=self._round * ROUND_NS, label=label)
            member.writer.add(join([*rows, stop]))

    def _replay(self, replay: Replay) -> Rows:
        return make_rows(
            1,
            kind=DELIVER,
            time_ns=self._round * ROUND_NS,
            group=replay.group,
            view=self._views[replay.group],
            sender=replay.sender,
            number=replay.number,
            count=1,
            level=AT_CAUSAL,
        )


def generate(
    directory: Path, shape: Shape, *, run: str = "r", seed: int = 0, plant: Mapping[str, int] | None = None
) -> Made:
    """Write one run into a directory; `plant`: how many violations of which guarantee."""
    return _generator(write_to(directory), shape, run, seed, plant).run()


def generate_segments(
    shape: Shape, *, run: str = "r", seed: int = 0, plant: Mapping[str, int] | None = None
) -> tuple[Made, list[Segment]]:
    """The same run, as the segments that would go into files, log by log."""
    segments: list[Segment] = []
    made = _generator(segments.append, shape, run, seed, plant).run()
    return made, sorted(segments, key=lambda segment: segment[:3])


def _generator(keep: Keep, shape: Shape, run: str, seed: int, plant: Mapping[str, int] | None) -> Generator:
    random = np.random.default_rng(seed)
    return Generator(keep, run, shape, random, Planter(plant or {}, random))


def parse_plant(text: str) -> dict[str, int]:
    """`causal=2,total=1`."""
    pairs = [part.split("=") for part in text.split(",") if part]
    return {name.strip(): int(number) for name, number in pairs}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--groups", type=int, default=3)
    parser.add_argument("--views", type=int, default=12)
    parser.add_argument("--runs", type=int, default=1, help="cut into so many runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plant", type=parse_plant, default={}, metavar="A=N,B=M")
    options = parser.parse_args(words)
    shape = Shape(
        events=options.events // options.runs,
        processes=options.processes,
        groups=options.groups,
        views=options.views,
    )
    started_s = time.perf_counter()
    rows = events = 0
    planted: Counter[str] = Counter()
    for number in range(options.runs):
        directory = options.directory / f"run-{number:05}" if options.runs > 1 else options.directory
        made = generate(directory, shape, run=f"run-{number:05}", seed=options.seed + number, plant=options.plant)
        rows, events, planted = rows + made.rows, events + made.events, planted + made.planted
    elapsed_s = round(time.perf_counter() - started_s, 1)
    print(json.dumps({"events": events, "rows": rows, "planted": dict(planted), "elapsed_s": elapsed_s}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
