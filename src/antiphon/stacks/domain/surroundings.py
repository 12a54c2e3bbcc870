"""What a process knows of the processes around it: their addresses, the configurations they say they are in, and how
often each was dropped of late.

Flapping. A process that was dropped three times, each within 20 s of the last, waits 250 ms before it is taken in
again, and twice as long each further time, up to 8 s (`readmission_ns`); so a bad link makes fewer and fewer
configurations. 20 s without a drop, and all is forgotten.

Gaps. How long a member has been silent, and was not given up, is remembered for the configurations that follow; else
suspicion would not adapt to a slow machine or network where configurations change.

Cut links. Each process says of its own links alone which are cut: its row, numbered by itself, so that of two rows the
later one is known. Rows go with every ATTEMPT and every suggestion, and each process keeps the last one of each other.
So a cut is gone everywhere as soon as the process that named it takes it back, by whatever way its new row comes. A
cut that others could repeat in their own name would go round for good, long after the link works.

Limits: KNOWN_MAX processes and FOREIGN_MAX configurations; of more, the earliest are forgotten, and will be heard of
again.
"""

from typing import Final, final

from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.domain.component_messages import NO_CUTS, CutRow, CutRows

KNOWN_MAX: Final = 256
FOREIGN_MAX: Final = 64
_MEMORY_NS: Final = 20_000 * MILLISECOND_NS


def readmission_ns(times: int) -> int:
    """How long a process that was dropped so many times of late has to wait before it is taken in again."""
    return 0 if times < 3 else min(8_000, 250 << min(times - 3, 10)) * MILLISECOND_NS


@final
class Surroundings:
    """What one process knows of others."""

    __slots__ = (
        "_dropped",
        "_foreign",
        "_gaps_ns",
        "_heard_ns",
        "_known",
        "_options",
        "_process",
        "_stated",
        "contacts",
        "rows",
    )

    def __init__(self, process: ProcessId, options: Options) -> None:
        self._process = process
        self._options = options
        self.contacts: tuple[str, ...] = ()
        self._known: dict[str, tuple[int, str]] = {}
        """Processes that were ever heard of, by name: incarnation and address."""
        self._foreign: dict[int, tuple[View, int]] = {}
        """Other configurations that were heard of lately, by id, and when."""
        self._stated: dict[ProcessId, int] = {}
        """The configuration that each process last said it is in."""
        self._heard_ns: dict[ProcessId, int] = {}
        """When each process was last heard, by a packet of its own."""
        self.rows: CutRows = {}
        """The last row of cut links that is known of each other process."""
        self._gaps_ns: dict[ProcessId, int] = {}
        self._dropped: dict[str, tuple[int, int]] = {}
        """By name, how often a process was dropped of late, and when last."""

    def remember_gap(self, process: ProcessId, longest_ns: int) -> None:
        """A process was silent for so long at most, of late, and was not given up."""
        self._gaps_ns.pop(process, None)
        self._gaps_ns[process] = longest_ns
        if len(self._gaps_ns) > KNOWN_MAX:
            self._gaps_ns.pop(next(iter(self._gaps_ns)))

    def longest_gap_ns(self, process: ProcessId) -> int:
        """What was last remembered of a process."""
        return self._gaps_ns.get(process, 0)

    def know(self, process: ProcessId, address: str) -> None:
        """There is such a process."""
        if process == self._process or self._known.get(process.name, (0, ""))[0] > process.incarnation:
            return
        self._known.pop(process.name, None)
        self._known[process.name] = (process.incarnation, address)
        if len(self._known) > KNOWN_MAX:
            self._known.pop(next(iter(self._known)))

    def hear(self, process: ProcessId, now_ns: int) -> bool:
        """A packet has come from a process itself; whether it was not heard for long before that."""
        before_ns = self._heard_ns.pop(process, -self._options.silence_ns_min)
        self._heard_ns[process] = now_ns
        if len(self._heard_ns) > KNOWN_MAX:
            self._heard_ns.pop(next(iter(self._heard_ns)))
        return now_ns >= before_ns + self._options.silence_ns_min

    def hears(self, process: ProcessId, now_ns: int) -> bool:
        """Whether a process was heard lately."""
        return 2 * (now_ns - self._heard_ns.get(process, -self._options.silence_ns_min)) < self._options.silence_ns_min

    def learn_row(self, process: ProcessId, row: CutRow) -> None:
        """A process says, or is said to have said, which of its links are cut."""
        before = self.rows.get(process)
        if process == self._process or (before is not None and before.number >= row.number):
            return
        self.rows.pop(process, None)
        self.rows[process] = row
        if len(self.rows) > KNOWN_MAX:
            self.rows.pop(next(iter(self.rows)))

    def row(self, process: ProcessId) -> CutRow:
        """The last row that is known of a process."""
        return self.rows.get(process, NO_CUTS)

    def forget(self, process: ProcessId) -> None:
        """A process has left."""
        self._known.pop(process.name, None)

    def addresses(self) -> list[str]:
        """Where processes may be, whether or not they are in the configuration."""
        return [*self.contacts, *[address for _, address in self._known.values()]]

    def state(self, process: ProcessId, view_id: int) -> None:
        """A process says what it is in; ids rise, so of two such words the higher is the later."""
        before = self._stated.pop(process, 0)
        self._stated[process] = max(before, view_id)
        if len(self._stated) > KNOWN_MAX:
            self._stated.pop(next(iter(self._stated)))

    def stated(self, process: ProcessId) -> int:
        """The id of the configuration that a process says it is in; 0 if it has said nothing."""
        return self._stated.get(process, 0)

    def hear_of(self, view: View, now_ns: int) -> None:
        """There is another configuration."""
        self._foreign.pop(view.id, None)
        self._foreign[view.id] = (view, now_ns)
        if len(self._foreign) > FOREIGN_MAX:
            self._foreign.pop(next(iter(self._foreign)))

    def joined(self, view_id: int) -> None:
        """A configuration is merged with this one."""
        self._foreign.pop(view_id, None)

    def fresh(self, now_ns: int) -> list[View]:
        """The other configurations that may be merged with: heard of lately, from somebody who is in it still, and
        without a process that has to wait."""
        since_ns = now_ns - self._options.silence_ns_min
        self._foreign = {id: (view, at_ns) for id, (view, at_ns) in self._foreign.items() if at_ns > since_ns}
        return [view for view, _ in self._foreign.values() if self._is_ready(view, now_ns)]

    def _is_ready(self, view: View, now_ns: int) -> bool:
        if any(self._must_wait(process, now_ns) for process in view.members):
            return False
        return any(self.stated(process) == view.id for process in view.members)

    def dropped(self, process: ProcessId, now_ns: int) -> None:
        """A process was dropped from the configuration."""
        times, last_ns = self._dropped.get(process.name, (0, 0))
        self._dropped[process.name] = (times + 1 if now_ns < last_ns + _MEMORY_NS else 1, now_ns)

    def forget_drops(self, now_ns: int) -> None:
        """Forget drops of long ago."""
        since_ns = now_ns - _MEMORY_NS
        self._dropped = {name: (times, at_ns) for name, (times, at_ns) in self._dropped.items() if at_ns > since_ns}

    def _must_wait(self, process: ProcessId, now_ns: int) -> bool:
        times, last_ns = self._dropped.get(process.name, (0, 0))
        return now_ns < last_ns + readmission_ns(times)
