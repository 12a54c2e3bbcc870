"""What a message costs in the context graph as the graph grows, and as participants are added (psync-1989, 6.2).

    python -m bench.graph_growth                              from the project's root
    python -m bench.graph_growth --out bench/results          also writes graph_growth.json and two plots

One host of a conversation: each message is attached to the graph and received into its participant's view; that is
what is timed. Each case runs in a process of its own, up to a million messages of 64 bytes:

    freed        bodies are dropped when stable, nodes beyond a threshold of THRESHOLD a participant are freed
    kept         no node is freed; bodies are dropped when stable; Python's garbage collector is off
    collected    the same with the collector on, which periodically traverses all that is kept

Patterns of sending, which determine how many immediate predecessors a message has:

    token      one after the other, each in the context of all before: one predecessor
    random     each receives what it has not seen at random times: some predecessors
    together   all send, all receive, all send: as many predecessors as participants

The cost at a size is that of the messages between the next smaller size and this one, in processor time: the median of
pieces of a thousand, or, with the collector, their mean. Memory is what the process has grown by, per node held.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from antiphon.parts.message_graph import GraphView, MessageGraph, Mid
from bench.figures import IncompleteError, Report, Result, median_of, parser, progress, run, table
from bench.plots import Panel, Series, draw

SIZES: Final = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
PARTICIPANTS: Final = 8
CROWDS: Final = (2, 4, 8, 16, 32, 64)
CROWD_MESSAGES: Final = 20_000
THRESHOLD: Final = 64
BODY: Final = b"x" * 64
BLOCK: Final = 1_000
TALKS: Final = ("token", "random", "together")
KINDS: Final = ("freed", "kept", "collected")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")

Message = tuple[int, int, list[Mid]]
"""Sender, number, immediate predecessors."""


def token(participants: int, count: int) -> list[Message]:
    return [(place % participants, place // participants + 1, previous(place, participants)) for place in range(count)]


def previous(place: int, participants: int) -> list[Mid]:
    return [((place - 1) % participants, (place - 1) // participants + 1)] if place else []


def together(participants: int, count: int) -> list[Message]:
    made: list[Message] = []
    for number in range(1, count // participants + 2):
        before = [(rank, number - 1) for rank in range(participants)] if number > 1 else []
        made += [(rank, number, before) for rank in range(participants)]
    return made[:count]


def random_talk(participants: int, count: int) -> list[Message]:
    """A talk at random, over one graph and a view of it for each participant; then all hear all and send in turn.

    So whatever comes next can follow the last message alone, and the same talk can go on from there.
    """
    random = Random(participants)
    graph = MessageGraph(participants)
    views = [GraphView(graph) for _ in range(participants)]
    unseen: list[list[Mid]] = [[] for _ in views]
    made: list[Message] = []

    def send(rank: int) -> None:
        message = (rank, graph.last[rank] + 1, [leaf.mid() for leaf in views[rank].leaves()])
        made.append(message)
        views[rank].add(graph.attach(*message, b""))
        for other, queue in enumerate(unseen):
            if other != rank:
                queue.append((rank, message[1]))

    def receive(rank: int, most: int) -> None:
        for mid in unseen[rank][:most]:
            node = graph.node(mid)
            assert node is not None
            views[rank].add(node)
        del unseen[rank][:most]

    while len(made) < count - participants:
        rank = random.randrange(participants)
        receive(rank, random.randrange(participants))
        send(rank)
    for rank in range(participants):
        receive(rank, len(made))
        send(rank)
    return made


def talk(name: str, participants: int) -> list[Message]:
    """A piece of a talk that can be said again and again, its numbers raised each time."""
    rounds = BLOCK // participants * participants
    if name == "token":
        return token(participants, rounds)
    return together(participants, rounds) if name == "together" else random_talk(participants, BLOCK)


def later(messages: list[Message], said: list[int], last: Mid, name: str) -> list[Message]:
    """The same piece once more: what followed nothing follows the last message, or the last of each."""
    roots = [(rank, number) for rank, number in enumerate(said)] if name == "together" else [last]
    return [
        (sender, number + said[sender], [(rank, own + said[rank]) for rank, own in before] or roots)
        for sender, number, before in messages
    ]


def take(graph: MessageGraph, view: GraphView, messages: list[Message], keep: int) -> int:
    """Attach and receive them; in how many nanoseconds of processor time."""
    begin_ns = time.process_time_ns()
    for sender, number, before in messages:
        view.add(graph.attach(sender, number, before, BODY))
        if keep:
            graph.trim(keep)
    return time.process_time_ns() - begin_ns


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def measure_case(name: str, kind: str, participants: int, count: int) -> dict[str, Any]:
    """Nanoseconds of each piece, and where each ends."""
    keep = THRESHOLD * participants if kind == "freed" else 0
    first = talk(name, participants)
    piece = first
    graph = MessageGraph(participants)
    view = GraphView(graph)
    gc.collect()
    if kind == "kept":
        gc.disable()
    before_bytes = resident_bytes()
    ends: list[int] = []
    taken_ns: list[int] = []
    ready = 0
    while not ends or ends[-1] < count:
        took_ns = take(graph, view, piece, keep)
        if view.count <= keep:  # nodes are not freed yet, and what comes now is not measured
            ready = view.count
        else:
            taken_ns.append(took_ns)
            ends.append(view.count - ready)
        piece = later(first, graph.last, view.leaves()[0].mid(), name)
    gc.enable()
    return {
        "ends": ends,
        "taken_ns": taken_ns,
        "nodes": graph.nodes,
        "bodies": graph.bodies,
        "bytes_per_node": (resident_bytes() - before_bytes) / graph.nodes,
        "predecessors": statistics.mean(len(before) for _, _, before in piece),
    }


def cost_ns(ends: list[int], taken_ns: list[int], size: int, kind: str) -> float:
    """Per message, of those after the next smaller size and up to this one."""
    after = max((other for other in SIZES if other < size), default=0)
    chosen = [
        taken / (end - begin)
        for begin, end, taken in zip([0, *ends], ends, taken_ns, strict=False)
        if after <= begin < size
    ]
    return statistics.mean(chosen) if kind == "collected" else statistics.median(chosen)


async def in_a_process(*words: object) -> dict[str, Any]:
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.graph_growth", "--case", *map(str, words)), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await worker.communicate()
    if worker.returncode:
        raise IncompleteError(f"the case {words} ended with {worker.returncode}; see its words above")
    found: dict[str, Any] = json.loads(out)
    return found


Costs = dict[tuple[str, str, int, int], list[float]]
"""By talk, kind, participants and messages: nanoseconds a message, one value per repeat."""


async def measure(arguments: argparse.Namespace) -> Report:
    costs: Costs = {}
    more: dict[tuple[str, str, int, int], dict[str, Any]] = {}
    sizes = [size for size in SIZES if size <= arguments.messages]
    for repeat in range(1, arguments.repeats + 1):
        for name in TALKS:
            for kind in KINDS:
                progress(f"repeat {repeat} of {arguments.repeats}: {name}, {kind}")
                found = await in_a_process(name, kind, PARTICIPANTS, sizes[-1])
                for size in sizes:
                    _note(costs, more, (name, kind, PARTICIPANTS, size), found)
            for crowd in CROWDS:
                found = await in_a_process(name, "freed", crowd, CROWD_MESSAGES)
                if (name, "freed", crowd, CROWD_MESSAGES) not in costs or crowd != PARTICIPANTS:
                    _note(costs, more, (name, "freed", crowd, CROWD_MESSAGES), found)
    results = [
        Result(
            workload=f"context graph, {name}, nodes {kind}",
            order="causal",
            size=len(BODY),
            members=crowd,
            value=median_of(values, 1)[0],
            unit="nanoseconds/message",
            spread=median_of(values, 1)[1],
            more={"messages": size} | more[name, kind, crowd, size],
        )
        for (name, kind, crowd, size), values in costs.items()
    ]
    return Report("graph_growth", results, words_of(costs, more, sizes), pictures(costs, sizes))


def _note(
    costs: Costs,
    more: dict[tuple[str, str, int, int], dict[str, Any]],
    key: tuple[str, str, int, int],
    found: dict[str, Any],
) -> None:
    costs.setdefault(key, []).append(cost_ns(found["ends"], found["taken_ns"], key[3], key[1]))
    if key[3] in (SIZES[-1], CROWD_MESSAGES):
        names = ("nodes", "bodies", "bytes_per_node", "predecessors")
        more[key] = {name: round(found[name], 1) for name in names}
    else:
        more[key] = {}


def words_of(costs: Costs, more: dict[tuple[str, str, int, int], dict[str, Any]], sizes: list[int]) -> str:
    rows: list[list[object]] = []
    for name in TALKS:
        for kind in KINDS:
            row = [statistics.median(costs[name, kind, PARTICIPANTS, size]) / 1e3 for size in sizes]
            memory = more[name, kind, PARTICIPANTS, sizes[-1]].get("bytes_per_node", "")
            rows.append([f"{name}, {kind}", *row, row[-1] / row[0], memory])
    head = ["µs a message, by messages", *(f"{size:,}" for size in sizes), "last/first", "bytes a node"]
    crowds: list[list[object]] = []
    for name in TALKS:
        row = [statistics.median(costs[name, "freed", crowd, CROWD_MESSAGES]) / 1e3 for crowd in CROWDS]
        crowds.append([name, *row])
    return "\n\n".join(
        [
            f"{PARTICIPANTS} participants\n{table(head, rows)}",
            f"{CROWD_MESSAGES:,} messages, nodes freed\n"
            + table(["µs a message, by participants", *map(str, CROWDS)], crowds),
        ]
    )


def pictures(costs: Costs, sizes: list[int]) -> dict[str, str]:
    by_size = [
        Panel(
            f"{name}, {PARTICIPANTS} participants: µs a message",
            "messages in the conversation",
            [
                Series(
                    f"nodes {kind}",
                    list(sizes),
                    [round(statistics.median(costs[name, kind, PARTICIPANTS, size]) / 1e3, 3) for size in sizes],
                )
                for kind in KINDS
            ],
        )
        for name in TALKS
    ]
    by_crowd = Panel(
        f"{CROWD_MESSAGES:,} messages: µs a message",
        "participants",
        [
            Series(
                name,
                list(CROWDS),
                [round(statistics.median(costs[name, "freed", crowd, CROWD_MESSAGES]) / 1e3, 3) for crowd in CROWDS],
            )
            for name in TALKS
        ],
    )
    return {
        "graph-growth": draw("What a message costs in the context graph", by_size),
        "graph-participants": draw("…and as participants are added", [by_crowd]),
    }


def main(words: Sequence[str] | None = None) -> int:
    made = parser("What a message costs in the context graph as it grows.")
    made.add_argument("--repeats", type=int, default=3)
    made.add_argument("--messages", type=int, default=SIZES[-1], help="the largest graph")
    made.add_argument("--case", nargs=4, help=argparse.SUPPRESS)
    arguments = made.parse_args(words)
    if arguments.case:
        name, kind, participants, count = arguments.case
        print(json.dumps(measure_case(name, kind, int(participants), int(count))))
        return 0
    return run(measure, arguments)


if __name__ == "__main__":
    sys.exit(main())
