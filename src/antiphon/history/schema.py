"""The history: one row per event per process, in the process's own order.

A *log* is all rows of one (run, process, incarnation); `index` counts its rows 0, 1, 2… without gaps. A log lies in one
or more Parquet segments named `<process>-<incarnation>-<segment>.parquet` (segment 00000, 00001…), written as
`….parquet.partial` and renamed when complete. A log whose last row is neither `stop` nor `crash`, that has a gap in
`index`, or beside which a `.partial` file is left, was cut short: what it leaves open is unknown.

kind      columns that are set beside run, process, incarnation, index, time_ns, kind
start     group, label: once per group joined, before its first view. The label is a JSON object:
          {"schema": 2, "stack": …, "policy": …, "levels": [names offered], "promises": [guarantee ids],
          "scope": among which messages causal order holds, "domain": the causality domain where that is the scope};
          "claimed": true if the log is another system's, and the promises are what somebody says of that;
          without a scope, causal order holds among all groups. The scope is that of the group, the same for all its
          members: a process that notes READS_APART is promised the order within each group only, from there on
view      group, view, members ("name/incarnation", ranked by age)
transitional  group, view, members: the view ends, where views part and merge; what follows up to the next view row is
          delivered in the transitional configuration of these members, who come along
send      group, number, count, level, size; sender and sender_incarnation are the process itself: the application
          called. View, if they left at once: in this view, with nothing in between
depart    group, view, sender, sender_incarnation, number, count: messages of earlier send rows left in this view
receive   group, view, sender, sender_incarnation, number, count, level, size (kept at recording level `receive` only)
deliver   group, view, sender, sender_incarnation, number, count, level, size: the application is handed them
suspect   group, view, label ("name/incarnation" that is suspected)
note      label: free text; "leaves" where the process begins to leave its groups, or the one that `group` names;
          "left" with group: the process is out of this group and lives on in others; STALLED with group: the group
          stands still until its next view row, and calls below causal to other groups do not wait for it; RECOVERS with
          group: an operator has the process go on without a majority; READS_APART: from here on the application reads
          each group by itself; UNTOLD with group: the process was in further views of it, of which the application was
          not told, because it had not read what came before, or because its life there was over and it was leaving
crash     label: the process dies here (written by whoever killed it, in simulation)
stop      label: "quiet" if the run had healed and was given the time to go quiet, "left" if the process left its
          groups in good order, else why it stopped

A message is named by (run, group, sender, sender_incarnation, number). A sender numbers its messages to one group
1, 2, 3… in the order of the calls. A message without a view in its send row, and without a depart row, never left as
far as is known: it is owed to nobody. A send, depart, receive or deliver row stands for `count` >= 1 consecutive
messages number, number + 1, … of one sender at one level, in this order, with nothing in between; `size` is their
payload bytes together.

A send or deliver row with the label "barrier" is a barrier: one safe message that stands at the same place among all
deliveries of its group, everywhere, right before the next view.

`destinations` is null, or the members a message was sent to where they are fewer than the view; on deliver rows too, so
that a delivery can be judged when its sender's log is lost. There an empty list means that nothing is known of them:
version 1 did not record it.
`digest` is null, or eight hexadecimal digits per message of a send or deliver row: the CRC-32 of its payload.
`label` of a send or deliver row that is no barrier is a short text that the application gave the message. Messages of
level abcast are in one order with those of the same label; messages of level reliable whose label is `comparison=value`
are ordered by that comparison.
Level is one of reliable, abcast, fifo, causal, agreed, safe, causal-total. Kinds, levels and names are low in variety:
dictionary-encoded.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

SCHEMA_VERSION: Final = 2
KINDS: Final = (
    *("start", "send", "depart", "receive", "deliver", "view", "transitional"),
    *("suspect", "crash", "stop", "note"),
)
QUIET: Final = "quiet"
LEFT: Final = "left"
LEAVES: Final = "leaves"
STALLED: Final = "has no majority and stands still"
RECOVERS: Final = "goes on without a majority"
READS_APART: Final = "reads each group apart"
UNTOLD: Final = "was not told of its last views"
BARRIER: Final = "barrier"
PARTITIONABLE: Final = "partitionable"
"""The policy under which views part and merge."""
GROUP_SCOPE: Final = "group"
DOMAIN_SCOPE: Final = "causality domain"
ALL_GROUPS: Final = "all groups"
SCOPES: Final = (GROUP_SCOPE, DOMAIN_SCOPE, ALL_GROUPS)
"""Of causal order."""
DIGEST_DIGITS: Final = 8
"""Per message."""
LEVELS: Final = ("reliable", "abcast", "fifo", "causal", "agreed", "safe", "causal-total")
"""Weakest first."""

SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("process", pa.string(), nullable=False),
        pa.field("incarnation", pa.int64(), nullable=False),
        pa.field("index", pa.int64(), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("view", pa.int64()),
        pa.field("members", pa.list_(pa.string())),
        pa.field("sender", pa.string()),
        pa.field("sender_incarnation", pa.int64()),
        pa.field("number", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("level", pa.string()),
        pa.field("label", pa.string()),
        pa.field("destinations", pa.list_(pa.string())),
        pa.field("size", pa.int64()),
        pa.field("digest", pa.string()),
    ],
    metadata={b"antiphon.schema": str(SCHEMA_VERSION).encode()},
)


@dataclass(slots=True)
class Row:
    """One row as a plain value; the fields are the columns of SCHEMA, in their order."""

    run: str
    process: str
    incarnation: int
    index: int
    time_ns: int
    kind: str
    group: str | None = None
    view: int | None = None
    members: tuple[str, ...] | None = None
    sender: str | None = None
    sender_incarnation: int | None = None
    number: int | None = None
    count: int | None = None
    level: str | None = None
    label: str | None = None
    destinations: tuple[str, ...] | None = None
    size: int | None = None
    digest: str | None = None
