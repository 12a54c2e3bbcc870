"""Runs of a group in the simulator, written down so that one can read what its members said and when.

One line per event of a process's history, and one per message about membership, with those that it was sent to. What a
process says again before anything else has happened is counted, and told with the next event.
"""

from collections import Counter

from antiphon.faults import Delay, Fault, Flight, Observation
from antiphon.history.log import MemoryLog
from antiphon.history.schema import Row
from antiphon.kernel.codec import unseal
from antiphon.kernel.inputs import MAIN
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.packet_kinds import MEMBERSHIP
from antiphon.kernel.policies import PARTITIONABLE, PRIMARY
from antiphon.parts.membership.messages import MESSAGE_NAMES
from antiphon.parts.membership.policies import height_of
from antiphon.simulator.actions import Action
from antiphon.simulator.churn_draw import FAST
from antiphon.simulator.network import PacketNetwork
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.script_run import LogMaker
from antiphon.simulator.world import World
from antiphon.stacks.domain.component_messages import ATTEMPT, COMMIT
from antiphon.stacks.registry import DEFAULT

GROUP = "g"
EVENT, PACKET = 0, 1
ORIGIN_MAX = (1 << 40) - 1
CONFIGURATION_MESSAGES = {ATTEMPT: "attempt", COMMIT: "commit"}


class Witness:
    """Notes every message about membership as it leaves."""

    def __init__(self, names: dict[int, str]) -> None:
        self._names = names
        self.sent: dict[tuple[int, str, str], list[str]] = {}

    def see(self, now_ns: int, source: str, destination: str, flights: list[Flight]) -> None:
        kind, _, _, _, flags, _ = unseal(flights[0][1])
        if kind == MEMBERSHIP:
            self.sent.setdefault((now_ns, source, self._names.get(flags, f"message {flags}")), []).append(destination)


def transcript(
    names: list[str],
    founders: list[str],
    actions: list[Action],
    bad: list[Fault],
    end_ns: int,
    stack: str = DEFAULT,
    policy: str = PRIMARY,
) -> str:
    """What happened in a group of these, which all begin at time 0 if they are founders."""
    script = Script(
        run="transcript",
        seed=1,
        policy=policy,
        stack=stack,
        processes=names,
        groups=[ScriptedGroup(GROUP, names, founders)],
        layers=[Delay(MILLISECOND_NS, 0), *bad],
        options=FAST,
        domain=MAIN,
    )
    for action in actions:
        script.add(action)
    logs = LogMaker("transcript")
    world = World(script, logs.make)
    witness = Witness(CONFIGURATION_MESSAGES if policy == PARTITIONABLE else MESSAGE_NAMES)
    world.network = PacketNetwork([Observation(witness.see), *script.faults()], script.seed)
    world.begin()
    world.run_through(end_ns)
    return _render(logs.logs, witness)


def _render(logs: list[MemoryLog], witness: Witness) -> str:
    lines: list[tuple[int, str, int, str]] = []
    for log in logs:
        lines.extend((row.time_ns, row.process, EVENT, _event(row)) for row in log.rows() if _event(row))
    for (now_ns, source, said), destinations in witness.sent.items():
        lines.append((now_ns, source, PACKET, f"{said} → {' '.join(dict.fromkeys(destinations))}"))
    lines.sort(key=_place)
    return "\n".join(_fold(lines)) + "\n"


def _place(line: tuple[int, str, int, str]) -> tuple[int, str, int]:
    return line[:3]


def _fold(lines: list[tuple[int, str, int, str]]) -> list[str]:
    """The lines as they are read; what is said again is counted until the next event."""
    result: list[str] = []
    said: Counter[str] = Counter()
    for now_ns, process, kind, text in lines:
        if kind == EVENT:
            again = [f"{text} ({count} times more)" for text, count in said.items() if count > 0]
            result.extend(f"{'':12}  {text}" for text in again)
            said.clear()
        elif f"{process}  {text}" in said:
            said[f"{process}  {text}"] += 1
            continue
        else:
            said[f"{process}  {text}"] = 0
        result.append(f"{now_ns / MILLISECOND_NS:9.1f} ms  {process}  {'* ' if kind == EVENT else ''}{text}")
    return result


def _view_name(view_id: int) -> str:
    """The id of a view. Where views part, its height and the digest below that."""
    if view_id <= ORIGIN_MAX:
        return str(view_id)
    return f"{height_of(view_id)}-{view_id & ORIGIN_MAX:010x}"


def _event(row: Row) -> str:
    """What a row of the history tells; nothing for what is no news."""
    if row.kind == "view":
        return f"view {_view_name(row.view or 0)}: {' '.join(row.members or ())}"
    if row.kind == "transitional":
        return f"goes on with {' '.join(row.members or ())}"
    if row.kind == "suspect":
        return f"suspects {row.label or row.sender or ''}"
    if row.kind == "deliver":
        return f"delivers {row.sender}/{row.sender_incarnation}#{row.number}"
    if row.kind == "send":
        return f"sends #{row.number}"
    return f"{row.kind}: {row.label}" if row.kind in ("note", "crash", "stop") else ""
