"""The document of /metrics: the text format of Prometheus, version 0.0.4, written here.

`prometheus_client` is not needed for this: a hundred lines that are parsed by it in the tests beside a dependency of
every node. Whoever has a registry of that library registers `ObserverCollector` (collector.py) there.

All values are read from the node when somebody asks.
"""

import math
from typing import Final

from antiphon import __version__
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.observe.families import FAMILIES, MetricSamples
from antiphon.observe.health import group_state
from antiphon.observe.meter import LATENCY_S, GroupMeter, LatencyHistogram
from antiphon.parts.suspicion import STRAINED
from antiphon.runtime.group import Group
from antiphon.runtime.inspection import NodeInspection

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SEAL_REASONS: Final = ("forged", "replayed", "unmet", "unreadable")
_SOCKET_REASONS: Final = {"full": "datagrams_dropped", "oversized": "datagrams_oversized", "error": "socket_errors"}
_BY_NAME: Final = {
    "antiphon_packets_sent_total": "packets_sent",
    "antiphon_retransmissions_total": "resends",
    "antiphon_negative_acks_total": "requests",
    "antiphon_duplicates_total": "duplicates",
    "antiphon_pending_bytes": "pending_bytes",
}
"""Metrics of groups that a stack counts, or does not, under this name."""


class MetricsTable:
    """Samples by the name of their metric."""

    def __init__(self) -> None:
        self.samples = {family.name: MetricSamples(family) for family in FAMILIES}

    def add(self, name: str, value: float, *labels: str) -> None:
        self.samples[name].add(value, *labels)

    def add_histogram(self, name: str, times: LatencyHistogram, *labels: str) -> None:
        samples = self.samples[name]
        seen = 0
        for bound, count in zip((*LATENCY_S, math.inf), times.buckets, strict=True):
            seen += count
            samples.add(seen, *labels, suffix="_bucket", more=(("le", number_text(bound)),))
        samples.add(times.sum_s, *labels, suffix="_sum")
        samples.add(times.count, *labels, suffix="_count")

    def filled(self) -> list[MetricSamples]:
        """The metrics that have samples, in the order of the table."""
        return [samples for samples in self.samples.values() if samples.samples]


def add_node(table: MetricsTable, node: NodeInspection, loop_lag: LatencyHistogram, live: bool, ready: bool) -> None:
    """What concerns the node as a whole."""
    process = node.process
    table.add("antiphon_node_info", 1, process.name, repr(process), node.node.address, __version__)
    table.add("antiphon_live", live)
    table.add("antiphon_ready", ready)
    table.add_histogram("antiphon_loop_lag_seconds", loop_lag)
    counts = node.socket_statistics()
    table.add("antiphon_datagrams_received_total", counts.get("datagrams_received", 0))
    table.add("antiphon_datagrams_sent_total", counts.get("datagrams_sent", 0))
    for reason, name in _SOCKET_REASONS.items():
        table.add("antiphon_datagrams_dropped_total", counts.get(name, 0), reason)
    if "multicasts_sent" in counts:
        table.add("antiphon_multicasts_sent_total", counts["multicasts_sent"])
        table.add("antiphon_multicast_hearers", counts["multicast_hearers"])
    for reason, count in sorted(node.dropped().items()):
        table.add("antiphon_packets_dropped_total", count, reason)
    if "packets_sealed" in counts:
        table.add("antiphon_packets_sealed_total", counts["packets_sealed"])
        for reason in _SEAL_REASONS:
            table.add("antiphon_seal_refused_total", counts[f"packets_{reason}"], reason)
        table.add("antiphon_key_epoch", counts["key_epoch"])
        table.add("antiphon_key_epoch_newest", counts["key_epoch_newest"])
    if node.driver is not None:
        table.add("antiphon_sends_refused_total", node.driver.sends_refused)


def add_group(table: MetricsTable, node: NodeInspection, group: Group, meter: GroupMeter) -> None:
    """What concerns one group."""
    where = (group.name, group.stack)
    queues = node.queues(group)
    table.add("antiphon_group_state", 1, *where, group_state(group))
    values = {
        "antiphon_view_id": group.view.id,
        "antiphon_view_members": len(group.view.members),
        "antiphon_view_changes_total": meter.views,
        "antiphon_suspicions_total": meter.suspicions,
        "antiphon_stalls_total": meter.stalls,
        "antiphon_outbox_messages": queues.outbox_messages,
        "antiphon_outstanding": group.outstanding(),
        "antiphon_held_packets": node.held(group.name),
        "antiphon_unread_messages": queues.unread_messages,
        "antiphon_paused": queues.is_paused,
        "antiphon_send_waits_total": queues.send_waits,
        "antiphon_sends_waiting": queues.sends_waiting,
    }
    for name, value in values.items():
        table.add(name, value, *where)
    counts = node.statistics_of(group.name)
    for name, counted in _BY_NAME.items():
        if counted in counts:
            table.add(name, counts[counted], *where)
    by_level = {
        "antiphon_messages_sent_total": meter.sent,
        "antiphon_message_bytes_sent_total": meter.sent_bytes,
        "antiphon_messages_delivered_total": meter.delivered,
        "antiphon_message_bytes_delivered_total": meter.delivered_bytes,
    }
    for name, levels in by_level.items():
        for level, count in sorted(levels.items()):
            table.add(name, count, *where, LEVEL_NAMES[level])
    for level, times in sorted(meter.latency.items()):
        table.add_histogram("antiphon_delivery_latency_seconds", times, *where, LEVEL_NAMES[level])
    table.add_histogram("antiphon_stability_latency_seconds", meter.stability, *where)
    for peer in node.peers(group.name):
        whom = (*where, peer.process.name)
        table.add("antiphon_peer_behind_packets", peer.behind, *whom)
        table.add("antiphon_peer_silence_seconds", peer.silent_ns / 1e9, *whom)
        table.add("antiphon_peer_strain_ratio", peer.strain / STRAINED, *whom)
        table.add("antiphon_peer_suspected", peer.is_suspected, *whom)


def number_text(value: float) -> str:
    """A number as the format has it."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))


def escape(text: str) -> str:
    """The value of a label, between its quotation marks."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def exposition(metrics: list[MetricSamples]) -> str:
    """These samples in the text format."""
    lines: list[str] = []
    for metric in metrics:
        family = metric.family
        lines.append(f"# HELP {family.name} {family.text}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for suffix, labels, value in metric.samples:
            pairs = ",".join(f'{name}="{escape(text)}"' for name, text in labels)
            lines.append(f"{family.name}{suffix}{{{pairs}}} {number_text(value)}" if pairs else
                         f"{family.name}{suffix} {number_text(value)}")  # fmt: skip
    return "\n".join(lines) + "\n"
