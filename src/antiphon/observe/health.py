"""Liveness and readiness of a node, with reasons.

Live: the event loop answers (else nobody would read this), the node has not failed or been closed, and its timer is
not overdue: a timer that is overdue while the loop runs means that the node is stuck for good.

Ready: live, and each group that the node is in, and each that it is expected to be in, has a view in which messages
can go on. Not so:

  absent     the group is expected, and was not joined, or was left
  joining    this process asks to be let in, for the first time or again after an exclusion
  stalled    no majority can be reached (policies `primary` and `sites`)
  minority   the view has at most half of the members that were named at `join` (policy `partitionable`)
  excluded   the others went on without this process, which does not come back by itself
  refused    this process has declared the group differently from the others
  closing    nothing more can be sent there

So readiness turns false on the smaller side of a split, once the silence of the others has been noticed, and true
again with the view that heals it; on the larger side it stays true. A change of view in progress does not count: it
ends by itself, or by a stall.
"""

from dataclasses import dataclass
from typing import Final

from antiphon.kernel.policies import PARTITIONABLE
from antiphon.observe.meter import Meter
from antiphon.runtime.group import Group
from antiphon.runtime.group_events import NO_VIEW
from antiphon.runtime.inspection import NodeInspection

OVERDUE_S: Final = 10.0

JOINING: Final = "joining"
STALLED: Final = "stalled"
MINORITY: Final = "minority"
CLOSING: Final = "closing"
ABSENT: Final = "absent"
READY: Final = "ready"

TEXTS: Final = {
    ABSENT: "was not joined",
    JOINING: "asks to be let in",
    STALLED: "stands still: no majority can be reached",
    MINORITY: "is in a view without a majority of its named members",
    "excluded": "went on without this process",
    "refused": "was declared differently by this process",
    CLOSING: "is being closed",
}


@dataclass(frozen=True, slots=True)
class NotReady:
    """One reason why a node is not ready; `group` is empty where it concerns the whole node."""

    group: str
    reason: str
    text: str

    def as_json(self) -> dict[str, str]:
        return {"group": self.group, "reason": self.reason, "text": self.text}


def group_state(group: Group) -> str:
    """How a group stands: one of the words above, or `ready`."""
    if group.view is NO_VIEW:
        return JOINING
    if group.is_closed:
        return CLOSING
    if group.is_stalled:
        return STALLED
    if group.policy == PARTITIONABLE and NodeInspection.named(group) and not group.is_primary:
        return MINORITY
    return READY


def dead_because(node: NodeInspection) -> str:
    """Why this node is not alive; "" if it is."""
    overdue_s = node.overdue_ns() / 1e9
    stuck = f"the node's timer is {overdue_s:.0f} s overdue" if overdue_s > OVERDUE_S else ""
    return node.dead_because() or stuck


def not_ready_because(node: NodeInspection, meter: Meter, expected: tuple[str, ...]) -> list[NotReady]:
    """All reasons why this node is not ready; none if it is."""
    dead = dead_because(node)
    if dead:
        return [NotReady("", "dead", dead)]
    states = {name: group_state(group) for name, group in node.groups.items()}
    for name, counts in meter.groups.items():
        if counts.ended and name not in states:
            states[name] = counts.ended
    for name in expected:
        states.setdefault(name, ABSENT)
    return [NotReady(name, state, f"group {name!r} {TEXTS[state]}") for name, state in states.items() if state != READY]
