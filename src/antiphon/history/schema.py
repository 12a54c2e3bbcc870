"""The history: one row per event per process, in the process's own order.

A *log* is all rows of one (run, process, incarnation); `index` counts its rows 0, 1, 2… without gaps. A log lies in one
or more Parquet segments named `<process>-<incarnation>-<segment>.parquet` (segment 00000, 00001…), written as
`….parquet.partial` and renamed when complete. A log whose last row is neither `stop` nor `crash`, that has a gap in
`index`, or beside which a `.partial` file is left, was cut short: what it leaves open is unknown.

kind      columns that are set beside run, process, incarnation, index, time_ns, kind
start     group, label: once per group joined, before its first view. The label is a JSON object:
          {"schema": 1, "stack": …, "policy": …, "levels": [names offered], "promises": [guarantee ids]}
view      group, view, members ("name/incarnation", ranked by age)
send      group, view, number, count, level, size; sender and sender_incarnation are the process itself
receive   group, view, sender, sender_incarnation, number, count, level, size (kept at recording level `receive` only)
deliver   group, view, sender, sender_incarnation, number, count, level, size
suspect   group, view, label ("name/incarnation" that is suspected)
note      label: free text; "leaves" where the process begins to leave its groups, or the one that `group` names;
          "left" with group: the process is out of this group and lives on in others
crash     label: the process dies here (written by whoever killed it, in simulation)
stop      label: "quiet" if the run had healed and was given the time to go quiet, "left" if the process left its
          groups in good order, else why it stopped

A message is named by (run, group, sender, sender_incarnation, number). A sender numbers its messages to one group
1, 2, 3… in sending order. A send, receive or deliver row stands for `count` >= 1 consecutive messages number,
number + 1, … of one sender at one level, in this order, with nothing in between; `size` is their payload bytes
together.

A send or deliver row with the label "barrier" is a barrier: one safe message that stands at the same place among all
deliveries of its group, everywhere, right before the next view.

`destinations` is null, or the members a message was sent to where they are fewer than the view.
Level is one of reliable, fifo, causal, agreed, safe. Kinds, levels and names are low in variety: dictionary-encoded.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

SCHEMA_VERSION: Final = 1
KINDS: Final = ("start", "send", "receive", "deliver", "view", "suspect", "crash", "stop", "note")
QUIET: Final = "quiet"
LEFT: Final = "left"
LEAVES: Final = "leaves"
READS_APART: Final = "reads each group apart"
BARRIER: Final = "barrier"
LEVELS: Final = ("reliable", "fifo", "causal", "agreed", "safe")
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
