"""The two data paths of the sequencing service: bodies through the sequencer, and from member to member.

    python -m bench.direct [--json]

One group of 2 to 16 members, each of which sends bodies of 4 KiB to 256 KiB, one at a time; engines in one process,
with the processor time of each step, and what a TCP link costs for each write, each read and each byte, charged to the
process that has it (service_scaling.py). Per body: the bytes that the sequencer and a member send, and the processor
time of the sequencer and of the busiest member.
"""

import argparse
import json
from typing import Any, Final

from antiphon.kernel.inputs import Send
from antiphon.kernel.levels import AGREED
from antiphon.kernel.options import Options
from bench.service_scaling import STACK, EngineTable, link_cost_ns

ROUNDS: Final = 6
MEMBERS: Final = (2, 4, 8, 16)
SIZES: Final = (4, 64, 256)
"""KiB."""
LONG_BYTES: Final = 200_000


def spent(members: int, size: int, is_direct: bool, link_ns: int, byte_ns: float) -> dict[str, float]:
    """Bytes and microseconds per body."""
    settings = {"sequencer.direct": int(is_direct), "sequencer.direct_kib": 1}
    table = EngineTable(1, link_ns, byte_ns, Options(of_stacks=settings))
    names = [f"p{number}" for number in range(members)]
    for name in names:
        table.add(name)
        table.join(name, "g", 0)
        table.run(2)
    payload = bytes(size)
    for round in range(ROUNDS + 1):
        if round == 1:  # links are open by now
            busy_ns, sent_bytes = dict(table.busy_ns), dict(table.sent_bytes)
        for name in names:
            table.step(name, Send(group="g", stack=STACK, payloads=[payload], level=AGREED))
            table.run(4)
    bodies = ROUNDS * members
    busy = {name: (table.busy_ns[name] - busy_ns[name]) / bodies / 1e3 for name in table.busy_ns}
    sent = {name: (table.sent_bytes[name] - sent_bytes[name]) / bodies for name in table.sent_bytes}
    return {
        "sequencer sends, bytes": sent["s00"],
        "a member sends, bytes": max(sent[name] for name in names),
        "sequencer, µs": busy["s00"],
        "a member, µs": max(busy[name] for name in names),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    link_ns = min(link_cost_ns() for _ in range(3))
    byte_ns = (min(link_cost_ns(400, LONG_BYTES) for _ in range(3)) - link_ns) / LONG_BYTES
    results: list[dict[str, Any]] = [{"link µs": link_ns / 1e3, "byte ns": round(byte_ns, 3)}]
    for size in SIZES:
        for members in MEMBERS:
            for is_direct in (False, True):
                found = spent(members, size * 1024, is_direct, link_ns, byte_ns)
                path = "by members" if is_direct else "by the sequencer"
                results.append({"path": path, "KiB": size, "members": members,
                                **{name: round(value, 1) for name, value in found.items()}})  # fmt: skip
    if arguments.json:
        print(json.dumps({"results": results}))
        return
    for one in results:
        print(", ".join(f"{name} {value}" for name, value in one.items()))


if __name__ == "__main__":
    main()
