"""Agreed and safe order, barriers and private messages broken on purpose; hunted in adversarial seeds."""

from collections import deque
from typing import Any
from unittest.mock import patch

from antiphon.kernel.effects import BarrierReached, Effects
from antiphon.stacks.vector.agreed import AgreedOrder, OrderPlace
from antiphon.stacks.vector.causal import CausalOrder
from antiphon.stacks.vector.delivery import DeliveryQueue
from antiphon.stacks.vector.session import ViewSession
from tests.mutants.mutants import Mutant


def _place_for_oneself(self: AgreedOrder, rank: int, number: int) -> None:
    self.used = True
    self.sequence.append(OrderPlace(rank, number, self._me, 1))


def _place_as_if_told(self: AgreedOrder, rank: int, number: int) -> None:
    _place(self, rank, number)
    self.sequence[-1].told_in = 1


_place = AgreedOrder._place


def _tell_places_if_many(self: ViewSession, now_ns: int) -> None:
    """Who uses its places at once need not hurry to tell them: it waits for some more."""
    if len(self._agreed.untold) > 3:
        _tell_places(self, now_ns)


_tell_places = ViewSession._tell_places


def _close_what_is_left(self: AgreedOrder) -> None:
    """Some of the places that were not told are used up."""
    self.sequence = deque(place for place in self.sequence if place not in self.untold)
    self.untold = []
    _close(self)


def _close_with_untold_places(self: AgreedOrder) -> None:
    for place in self.untold:
        place.told_in = 1
    self.untold = []
    _close(self)


_close = AgreedOrder.close


def _place_by_taste(self: DeliveryQueue) -> bool:
    """Every other member begins with the greatest rank."""
    if self._agreed.sequence:
        return False
    ranks = range(len(self._held))
    for rank in reversed(ranks) if self._me % 2 else ranks:
        queue = self._held[rank]
        if queue and self._causal.is_due(queue[0].level, queue[0].vector):
            self._agreed.place_at_end(rank, queue[0].number)
            return True
    return False


def _barriers_first(self: ViewSession, barriers: Any, effects: Effects, now_ns: int) -> bool:
    for rank, number, payload in barriers:
        sender = self.view.members[rank]
        effects.events.append(BarrierReached(self.group, self.view.id, sender, number, payload))
    return _finish_cut(self, [], effects, now_ns)


_finish_cut = ViewSession.finish_cut


def _drain_letters_at_once(self: DeliveryQueue, effects: Effects) -> None:
    with patch.object(CausalOrder, "is_due", lambda *_: True):
        _drain_letters(self, effects)


_drain_letters = DeliveryQueue._drain_letters


def _receive_private_again(self: ViewSession, data: bytes, sender: int, effects: Effects, now_ns: int) -> None:
    self._letters_seen.clear()
    _receive_private(self, data, sender, effects, now_ns)


_receive_private = ViewSession._receive_private

ORDER_MUTANTS = (
    Mutant(
        "everybody orders for itself",
        ("total",),
        ((AgreedOrder, "ready", _place_for_oneself), (AgreedOrder, "_apply", lambda self: False)),
    ),
    Mutant(
        "place used before it is told",
        ("total",),
        (
            (AgreedOrder, "_place", _place_as_if_told),
            (AgreedOrder, "close", _close_what_is_left),
            (ViewSession, "_tell_places", _tell_places_if_many),
        ),
    ),
    Mutant("untold places kept at the flush", ("total",), ((AgreedOrder, "close", _close_with_untold_places),)),
    Mutant("lost places filled by taste", ("total",), ((DeliveryQueue, "_place_by_rule", _place_by_taste),)),
    Mutant("safe taken for agreed", ("safe",), ((DeliveryQueue, "_is_known_to_all", lambda *_: True),)),
    Mutant(
        "barrier before the rest of the view", ("group_broadcast",), ((ViewSession, "finish_cut", _barriers_first),)
    ),
    Mutant(
        "private message ahead of its past", ("causal",), ((DeliveryQueue, "_drain_letters", _drain_letters_at_once),)
    ),
    Mutant("private message twice", ("duplication",), ((ViewSession, "_receive_private", _receive_private_again),)),
)
