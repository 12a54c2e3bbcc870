"""Messages that processes of one group lack, and the root causes of that."""

from collections import defaultdict
from dataclasses import dataclass, field

from antiphon.pipeline.intervals import Spans, union


@dataclass
class MissedMessages:
    """Violations that are each a message and a process that lacks it, all of one group."""

    _processes: set[str] = field(default_factory=set)
    _messages: dict[str, list[Spans]] = field(default_factory=lambda: defaultdict(list))
    """By sender."""
    lacks: list[tuple[str, str, Spans]] = field(default_factory=list)
    """Process, sender, and which of its messages the process lacks."""

    def add(self, process: str, sender: str, numbers: Spans) -> None:
        """The process lacks these messages of a sender, if any."""
        if numbers.size():
            self._processes.add(process)
            self._messages[sender].append(numbers)
            self.lacks.append((process, sender, numbers))

    def size(self) -> int:
        """The number of violations."""
        return sum(numbers.size() for _, _, numbers in self.lacks)

    def roots(self) -> int:
        """The distinct messages or the distinct processes, whichever are fewer (`antiphon.pipeline.roots`)."""
        return min(len(self._processes), sum(union(*spans).size() for spans in self._messages.values()))
