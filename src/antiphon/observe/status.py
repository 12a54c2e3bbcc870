"""The document of /status: one node and its groups, as `antiphon top` and the page read them.

Counts are totals since the observer began; whoever wants rates asks twice. Names of fields are stable; new ones may
come.
"""

from typing import Any, Final

from antiphon import __version__
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.observe.health import group_state
from antiphon.observe.meter import GroupMeter, LatencyHistogram, Meter
from antiphon.parts.member import PeerState
from antiphon.parts.suspicion import STRAINED
from antiphon.runtime.environment import current_environment
from antiphon.runtime.group import Group
from antiphon.runtime.inspection import NodeInspection

FORMAT: Final = 1


def describe(node: NodeInspection, meter: Meter, loop_lag_s: float) -> dict[str, Any]:
    """Everything that can be seen of a node, but for its health."""
    process = node.process
    return {
        "format": FORMAT,
        "version": __version__,
        "process": repr(process),
        "name": process.name,
        "incarnation": process.incarnation,
        "address": node.node.address,
        "time_ns": current_environment().time_ns(),
        "loop_lag_ms": round(loop_lag_s * 1e3, 3),
        "groups": [describe_group(node, group, meter.counts(name)) for name, group in sorted(node.groups.items())],
        "totals": {} if node.driver is None else node.node.statistics(),
        "events": [
            {"time_ns": event.time_ns, "group": event.group, "kind": event.kind, "text": event.text}
            for event in meter.events
        ],
    }


def describe_group(node: NodeInspection, group: Group, counts: GroupMeter) -> dict[str, Any]:
    """One group."""
    queues = node.queues(group)
    statistics = node.statistics_of(group.name)
    peers = {peer.process: peer for peer in node.peers(group.name)}
    view = group.view
    addresses = view.addresses or ("",) * len(view.members)
    return {
        "name": group.name,
        "stack": group.stack,
        "policy": group.policy,
        "causality_domain": group.domain.name,
        "state": group_state(group),
        "view": view.id,
        "members": [
            {"process": repr(member), "name": member.name, "address": address} | describe_peer(peers.get(member))
            for member, address in zip(view.members, addresses, strict=True)
        ],
        "sent": by_level(counts.sent),
        "sent_bytes": by_level(counts.sent_bytes),
        "delivered": by_level(counts.delivered),
        "delivered_bytes": by_level(counts.delivered_bytes),
        "outstanding": group.outstanding(),
        "outbox_messages": queues.outbox_messages,
        "send_waits": queues.send_waits,
        "sends_waiting": queues.sends_waiting,
        "unread_messages": queues.unread_messages,
        "is_paused": queues.is_paused,
        "views": counts.views,
        "suspicions": counts.suspicions,
        "stalls": counts.stalls,
        "held_packets": node.held(group.name),
        "retransmissions": statistics.get("resends", 0),
        "negative_acks": statistics.get("requests", 0),
        "stability": describe_latency(counts.stability),
        "latency": {LEVEL_NAMES[level]: describe_latency(times) for level, times in counts.latency.items()},
    }


def describe_peer(peer: PeerState | None) -> dict[str, Any]:
    """What is known of a member; nothing of this process itself, and where members do not know of each other."""
    if peer is None:
        return {}
    return {
        "behind": peer.behind,
        "silent_ms": round(peer.silent_ns / 1e6, 1),
        "strain": round(peer.strain / STRAINED, 2),
        "is_suspected": peer.is_suspected,
    }


def by_level(counts: dict[int, int]) -> dict[str, int]:
    return {LEVEL_NAMES[level]: count for level, count in sorted(counts.items())}


def describe_latency(times: LatencyHistogram) -> dict[str, float]:
    """A histogram in short, in milliseconds."""
    mean_ms = times.sum_s / times.count * 1e3 if times.count else 0.0
    return {
        "count": times.count,
        "mean_ms": round(mean_ms, 3),
        "p50_ms": round(times.quantile_s(0.5) * 1e3, 3),
        "p99_ms": round(times.quantile_s(0.99) * 1e3, 3),
        "max_ms": round(times.longest_s * 1e3, 3),
    }
