"""Where the passes of an audit run: on Spark, or in this process.

An audit is two passes of one function over numbered tasks, with knowledge that all of them share, and a comparison of
view rows over all logs. A workplace does these three things; what is computed is the same wherever it is. That on Spark
is `antiphon.pipeline.on_spark`; the one here needs no Java and starts at once, for histories that one process can read
in the time that Spark takes to start.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa

from antiphon.pipeline import view_counts
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.view_rows import GroupCounts, Logs

Work = Callable[[int], Iterator[pa.RecordBatch]]
"""What is done for one task, by its place."""


class Workplace(ABC):
    """Runs the passes of an audit."""

    @abstractmethod
    def over_tasks(self, chosen: Sequence[int], work: Work, schema: pa.Schema) -> pa.Table:
        """Run `work` over some tasks, by their places; all that it yields, in no particular order."""

    @abstractmethod
    def sharing(self, content: Any) -> AbstractContextManager[Callable[[], Any]]:
        """A function that gives `content` where `work` calls it, as long as the context lasts."""

    @abstractmethod
    def count_views(self, logs: Logs, promises: Promises) -> list[GroupCounts]:
        """view_agreement and primary in all groups that are held to them; groups by name."""


class InProcess(Workplace):
    """One task after the other, here."""

    def over_tasks(self, chosen: Sequence[int], work: Work, schema: pa.Schema) -> pa.Table:
        return pa.Table.from_batches([batch for place in chosen for batch in work(place)], schema)

    def sharing(self, content: Any) -> AbstractContextManager[Callable[[], Any]]:
        return nullcontext(lambda: content)

    def count_views(self, logs: Logs, promises: Promises) -> list[GroupCounts]:
        return view_counts.count_views(logs, promises)
