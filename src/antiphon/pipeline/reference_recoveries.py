"""Groups that an operator had go on without a majority, for the reference auditor: what nobody can promise there.

A process notes RECOVERS for a group in a view v of it, and its next view is v'. If v' does not hold more than half of
the members of v, or half with the first ranked, the step from v to v' is *forced*, and v is *torn*: the members of v
that did not come along may have gone on as well, by right, and what they delivered in v those who were forced on may
never get, and the other way round. No protocol can mend that. What it leaves open is unknown, not kept:

* As in groups whose views part (`antiphon.pipeline.reference_components`), those whose row of v is followed by one with
  the same id are *companions*, and so are survivors whose last view is v. What was sent in v is *left open* to a
  process from its next view on, or at the end, but for what a companion delivered in v, and what a companion sent.
  Where fifo, causal, label_order and settled would be violated by nothing else, they are unknown.
* safe: what a process delivered as safe in v is demanded of its companions; and of all members of v, if the process
  notes RECOVERS itself and had delivered it before. Of the others it is unknown.
* total: what is delivered in v below safe, by those who were forced on, need not be in the order of the others, as if
  they had not completed v; among companions it must be. Sets that are in no order for that alone are unknown.

What a process lacks within the view, before its next row, what companions lack of each other, and everything in other
views is judged as ever. primary and the guarantees about views take no notice.
"""

from antiphon.history.schema import RECOVERS, Row
from antiphon.pipeline.reference_components import GroupSteps, Step
from antiphon.pipeline.reference_views import is_majority
from antiphon.pipeline.reference_world import ReferenceWorld

Place = tuple[str, int]
"""A group, and the id of a view."""


class Recoveries:
    """The forced steps of a run, and what they leave open."""

    def __init__(self, world: ReferenceWorld, *, heeded: bool = True) -> None:
        self._world = world
        self.forced: dict[Step, dict[str, int]] = {}
        """Each forced step, with who was told, and the row of the first note of each in the view."""
        for log in world.logs.values() if heeded else ():
            last: dict[str, Row] = {}
            noted: dict[str, int] = {}
            for row in log.rows:
                group = row.group or ""
                if row.kind == "note" and row.label == RECOVERS and group not in world.parted:
                    noted.setdefault(group, row.index)
                elif row.kind == "view":
                    if group in noted and group in last:
                        self._note(group, log.process, noted[group], last[group], row)
                    noted.pop(group, None)
                    last[group] = row
        self.torn: set[Place] = {(group, view) for group, view, _ in self.forced}
        self.groups = {group for group, _ in self.torn}
        self._steps = GroupSteps(world, self.groups)
        world.left_open = self._steps.write_offs(self.torn)
        self._to: dict[tuple[str, int, str], object] = {}
        """Whom a process went on with from a view: equal for companions."""
        for group, by_process in self._steps.stays.items():
            for process, own in by_process.items():
                for stay in own:
                    ended = "survivors" if world.logs[process].is_survivor(group) else process
                    to = ended if stay.following is None else stay.following.view
                    self._to[group, stay.view.view or 0, process] = to

    def _note(self, group: str, process: str, index: int, before: Row, after: Row) -> None:
        electors = before.members or ()
        if not is_majority(set(after.members or ()).intersection(electors), electors):
            self.forced.setdefault((group, before.view or 0, after.view or 0), {})[process] = index

    def is_demanded(self, group: str, view: int, row: Row, member: str) -> bool:
        """Whether a member of a view must have what was delivered there as safe by a row."""
        process = f"{row.process}/{row.incarnation}"
        if (group, view) not in self.torn or self._to.get((group, view, member), member) == self._to.get(
            (group, view, process)
        ):
            return True
        told = [index for (*place, _), who in self.forced.items() if tuple(place) == (group, view)
                for name, index in who.items() if name == process]  # fmt: skip
        return any(row.index < index for index in told)

    def forced_step(self, group: str, view: int, process: str) -> Step | None:
        """The forced step that a process made from a view, if it did."""
        to = self._to.get((group, view, process))
        step = (group, view, to) if isinstance(to, int) else None
        return step if step in self.forced else None
