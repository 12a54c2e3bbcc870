"""The table of a lineage, without Spark."""

import io

from rich.console import Console

from antiphon.history.schema import Row
from antiphon.pipeline.explain import MessageName
from antiphon.pipeline.graph.lineage import Lineage
from antiphon.report.lineage_table import lineage_table


def printed(label: str | None) -> str:
    """The table of a message that nobody else has anything to do with."""
    send = Row("run", "a", 1, 2, 5, "send", "g", 1, None, "a", 1, 1, 1, "causal", label)
    lineage = Lineage(
        run="run",
        message=MessageName("g", "a/1", 1),
        send=send,
        wave=1,
        past=0,
        future=0,
        certain=True,
        causes=(),
        effects=(),
        relatives=(),
        links=(),
        deliveries=(),
        lacking=("b/1",),
    )
    console = Console(width=200, file=io.StringIO(), color_system=None)
    console.print(lineage_table(lineage, []))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_label_of_the_message_stands_in_its_first_line() -> None:
    assert "g:a#1, causal, labelled “payment 17”, sent in view 1" in printed("payment 17").splitlines()[0]
    assert "g:a#1, causal, sent in view 1" in printed(None).splitlines()[0]
