"""What all imports share: the options, the result, and what an imported history promises.

An import writes one log per process of the foreign log, closes it with a manifest, and tells in remarks what its reader
should know. The level that messages get is the one that the logged system claims; the promises follow from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from antiphon.history.log import Log
from antiphon.kernel.errors import UsageError

PROMISES: Final = {
    "reliable": ("creation", "duplication"),
    "fifo": ("creation", "duplication", "fifo"),
    "causal": ("creation", "duplication", "fifo", "causal"),
    "safe": ("creation", "duplication", "fifo", "total"),
}
"""By level. `agreed` is not among them: agreed order binds only who completes a view, and foreign logs have none."""

ENDED: Final = "the log ends here"
"""Why an imported log stops: it is whole as far as it goes, but says nothing of whether the run had gone quiet."""

POLICY: Final = "static"


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What a foreign log does not tell."""

    run: str
    level: str | None = None
    """None: what the format suggests."""
    parser: str | None = None
    """ShiViz alone: the parser expression of a bare log."""
    delimiter: str | None = None
    """ShiViz alone: the expression between the executions of a bare log."""
    complete: bool = False
    """cs451 alone: every log holds all that its process did; the format has no mark for that."""

    def __post_init__(self) -> None:
        if self.level is not None and self.level not in PROMISES:
            raise UsageError(f"level {self.level!r} is none that a log can be imported at: {', '.join(PROMISES)}")


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What became of a foreign log."""

    runs: int
    logs: int
    events: int
    """Lines, events or operations of the foreign log that became rows."""
    remarks: tuple[str, ...] = ()


def begin(log: Log, group: str, stack: str, level: str, members: Sequence[str]) -> None:
    """The first rows of a log: what was promised, and who is in the group. Foreign groups have one view for ever."""
    log.start(0, group, stack, POLICY, [level], PROMISES[level], claimed=True)
    log.view(0, group, 1, members)
