"""The rules for senders from outside (stacks/label/guests.py) broken on purpose, each with the scene of the paper's
claims that shows it."""

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from antiphon.kernel.effects import Effects
from antiphon.kernel.identity import ProcessId
from antiphon.stacks.label import view_end as _view_end
from antiphon.stacks.label.guests import GuestEntry, GuestTable
from antiphon.stacks.label.visitor import OutgoingMessage, Visit
from tests.mutants.mutants import Mutant
from tests.papers import test_isis_1987_addressing as claims

_hand_in = Visit._hand_in
_finish = Visit.finish
_hold = GuestTable.hold


def _forget_all(tables: list[dict[ProcessId, GuestEntry]]) -> dict[ProcessId, GuestEntry]:
    """The next view knows nothing of guests."""
    return {}


def _least(tables: list[dict[ProcessId, GuestEntry]]) -> dict[ProcessId, GuestEntry]:
    """The table has what all hold, not what any does."""
    guests = {guest for table in tables for guest in table}
    return {
        guest: GuestEntry(min(table[guest].number if guest in table else 0 for table in tables), False)
        for guest in guests
    }


def _use_any_door(self: Visit, effects: Effects, now_ns: int) -> None:
    """Another door is handed at once what the first was handed in this view."""
    for outgoing in self._queue:
        if outgoing.sent_to != self._door:
            outgoing.sent_in = 0
    _finish(self, effects, now_ns)


def _newest_first(self: Visit, effects: Effects, now_ns: int) -> None:
    """What was rejected is sent again behind what came later."""
    rejected = [outgoing for outgoing in self._queue if outgoing.sent_in]
    if rejected and self._told is not None and self._told.view.id != rejected[0].sent_in:
        self._queue.rotate(-len(rejected))
    _finish(self, effects, now_ns)


def _hold_nothing(self: GuestTable, guest: ProcessId, number: int) -> None:
    """Only the door notes what it has sent in a guest's place."""
    if guest in self._taken:
        _hold(self, guest, number)


def _hand_in_once(self: Visit, outgoing: OutgoingMessage, view_id: int, now_ns: int) -> bytes:
    """What was handed in is as good as sent."""
    outgoing.is_gone = True
    return _hand_in(self, outgoing, view_id, now_ns)


_SCENES: Final[tuple[tuple[Mutant, Callable[[], None]], ...]] = (
    (
        Mutant("the next view has no table of guests", (), ((_view_end, "merge_tables", _forget_all),)),
        claims.test_3_6_all_reject_or_none_and_the_order_holds,
    ),
    (
        Mutant("the table has what all hold", (), ((_view_end, "merge_tables", _least),)),
        claims.test_3_6_all_reject_or_none_and_the_order_holds,
    ),
    (
        Mutant("two doors in one view", (), ((Visit, "finish", _use_any_door),)),
        claims.test_3_6_a_door_that_lives_and_is_cut_off_is_left_for_another,
    ),
    (
        Mutant("the rejected come last", (), ((Visit, "finish", _newest_first),)),
        partial(claims.test_3_6_what_a_door_that_fails_has_not_sent_is_sent_by_another, "causal"),
    ),
    (
        Mutant("only the door notes what it sends", (), ((GuestTable, "hold", _hold_nothing),)),
        partial(claims.test_3_6_what_a_door_that_fails_has_not_sent_is_sent_by_another, "causal"),
    ),
    (
        Mutant("handed in is sent", (), ((Visit, "_hand_in", _hand_in_once),)),
        claims.test_3_6_all_reject_or_none_and_the_order_holds,
    ),
)  # fmt: skip


def staged_problem(scene: Callable[[], None]) -> str | None:
    """What the scene says that fails."""
    try:
        scene()
    except (AssertionError, pytest.fail.Exception) as error:
        return f"assertion: {error}"
    return None


GUEST_MUTANTS: Final = tuple(mutant for mutant, _ in _SCENES)
GUEST_STAGED: Final[dict[str, Callable[[], str | None]]] = {
    mutant.name: partial(staged_problem, scene) for mutant, scene in _SCENES
}
