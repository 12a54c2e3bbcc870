"""Every metric that /metrics has: its name, its kind, its labels, and what it says. docs/metrics.md has the same table.

Counters end in `_total` and only rise while the observer lasts; those of a group end when the group is left.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

Labels = tuple[tuple[str, str], ...]
"""Names and values of labels."""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric: what all its samples have in common."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    text: str


@dataclass(slots=True)
class MetricSamples:
    """The samples of one metric: suffix of the name, labels, value."""

    family: MetricFamily
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)

    def add(self, value: float, *labels: str, suffix: str = "", more: Labels = ()) -> None:
        """Add a sample; `labels` are the values of the family's labels."""
        pairs = tuple(zip(self.family.labels, labels, strict=True))
        self.samples.append((suffix, pairs + more, value))


_GROUP: Final = ("group", "stack")
_LEVEL: Final = ("group", "stack", "level")
_PEER: Final = ("group", "stack", "peer")

FAMILIES: Final = (
    MetricFamily("antiphon_node_info", "gauge", ("name", "process", "address", "version"), "1, with who the node is"),
    MetricFamily("antiphon_live", "gauge", (), "1 while the node runs"),
    MetricFamily("antiphon_ready", "gauge", (), "1 while all groups go on"),
    MetricFamily("antiphon_loop_lag_seconds", "histogram", (), "How late the event loop is, four times a second"),
    MetricFamily("antiphon_datagrams_received_total", "counter", (), "Datagrams that came in at the socket"),
    MetricFamily("antiphon_datagrams_sent_total", "counter", (), "Datagrams that left, once for each destination"),
    MetricFamily(
        "antiphon_datagrams_dropped_total", "counter", ("reason",),
        "Datagrams that the socket did not take: `full` (buffers), `oversized`, `error`",
    ),
    MetricFamily("antiphon_multicasts_sent_total", "counter", (), "Datagrams that left by IP multicast"),
    MetricFamily("antiphon_multicast_hearers", "gauge", (), "Nodes that are known to hear this one by IP multicast"),
    MetricFamily("antiphon_packets_dropped_total", "counter", ("reason",), "Packets that were no good to the engine"),
    MetricFamily("antiphon_packets_sealed_total", "counter", (), "Packets that were sealed, where the node has keys"),
    MetricFamily(
        "antiphon_seal_refused_total", "counter", ("reason",),
        "Datagrams that no seal let in: `forged`, `replayed`, `unmet` (sender unknown as yet), `unreadable`",
    ),
    MetricFamily("antiphon_key_epoch", "gauge", (), "The key that the node seals with"),
    MetricFamily("antiphon_key_epoch_newest", "gauge", (), "The newest key that the node has"),
    MetricFamily("antiphon_sends_refused_total", "counter", (), "Messages that the engine refused: a defect if not 0"),
    MetricFamily("antiphon_group_state", "gauge", (*_GROUP, "state"), "1, with how the group stands; `ready` is well"),
    MetricFamily("antiphon_view_id", "gauge", _GROUP, "The id of the view"),
    MetricFamily("antiphon_view_members", "gauge", _GROUP, "The members of the view"),
    MetricFamily("antiphon_view_changes_total", "counter", _GROUP, "Views that were installed"),
    MetricFamily("antiphon_suspicions_total", "counter", _GROUP, "Members that this one took to have failed"),
    MetricFamily("antiphon_stalls_total", "counter", _GROUP, "Times at which no majority could be reached"),
    MetricFamily("antiphon_messages_sent_total", "counter", _LEVEL, "Messages of this node that left"),
    MetricFamily("antiphon_message_bytes_sent_total", "counter", _LEVEL, "Their payload bytes"),
    MetricFamily("antiphon_messages_delivered_total", "counter", _LEVEL, "Messages delivered here, own ones too"),
    MetricFamily("antiphon_message_bytes_delivered_total", "counter", _LEVEL, "Their payload bytes"),
    MetricFamily(
        "antiphon_delivery_latency_seconds", "histogram", _LEVEL,
        "From the departure of an own message to its delivery here; one is timed at a time",
    ),
    MetricFamily(
        "antiphon_stability_latency_seconds", "histogram", _GROUP,
        "Until all members had what was sent from here; looked at once a second",
    ),
    MetricFamily("antiphon_outbox_messages", "gauge", _GROUP, "Messages that the engine has not accepted yet"),
    MetricFamily("antiphon_pending_bytes", "gauge", _GROUP, "Bytes that were accepted and have not left"),
    MetricFamily("antiphon_outstanding", "gauge", _GROUP, "Own messages and packets that some member may lack"),
    MetricFamily("antiphon_held_packets", "gauge", _GROUP, "Packets that have come and wait for their place"),
    MetricFamily("antiphon_unread_messages", "gauge", _GROUP, "Messages that the application has not read"),
    MetricFamily("antiphon_paused", "gauge", _GROUP, "1 while the application is so far behind that senders wait"),
    MetricFamily("antiphon_send_waits_total", "counter", _GROUP, "Calls of `send` that had to wait for room"),
    MetricFamily("antiphon_sends_waiting", "gauge", _GROUP, "Calls of `send` that wait for room"),
    MetricFamily("antiphon_packets_sent_total", "counter", _GROUP, "Packets with messages that left, each once"),
    MetricFamily("antiphon_retransmissions_total", "counter", _GROUP, "Packets that were sent again, for any member"),
    MetricFamily("antiphon_negative_acks_total", "counter", _GROUP, "Requests for packets that were missing here"),
    MetricFamily("antiphon_duplicates_total", "counter", _GROUP, "Packets that came once more"),
    MetricFamily("antiphon_peer_behind_packets", "gauge", _PEER, "Own packets that the member has not acknowledged"),
    MetricFamily("antiphon_peer_silence_seconds", "gauge", _PEER, "How long nothing was heard of the member"),
    MetricFamily("antiphon_peer_strain_ratio", "gauge", _PEER, "Badness of the link: doubted from 1, cut from 2"),
    MetricFamily("antiphon_peer_suspected", "gauge", _PEER, "1 while the member is taken to have failed"),
)  # fmt: skip
