"""The stack `sequencer` broken on purpose; hunted in adversarial seeds on that stack."""

from typing import Any

from antiphon.kernel.effects import Effects
from antiphon.kernel.identity import ProcessId
from antiphon.pipeline.campaign.judge import REST
from antiphon.stacks.sequencer import client, client_links
from antiphon.stacks.sequencer.client import ServiceClient
from antiphon.stacks.sequencer.context import Context
from antiphon.stacks.sequencer.member import OwnBatch, OwnMessages
from antiphon.stacks.sequencer.offers import OFFERS as SEQUENCER
from antiphon.stacks.sequencer.peer import SequencerPeer
from antiphon.stacks.sequencer.place import Place
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.served_client import ServedClient
from antiphon.stacks.sequencer.service_link import ServiceLink
from tests.mutants.mutants import Mutant


def _deliverable_by_t1_alone(context: Context, group: int, delivered: Context) -> bool:
    return context[group] == delivered[group] + 1


def _again_group_by_group(batch: OwnBatch) -> int:
    """Sends again what has no place, the longest batches first."""
    return -batch.size


def _context_of_one_group(self: SequencerPeer, group: SequencedGroup, level: int, cause: Context) -> Context:
    self._context[group.id] = group.number + 1
    return {group.id: group.number + 1}


def _accept_without_noting_the_number(
    self: SequencedGroup, sender: ProcessId, last: int, data: bytes, body_at: int, context: Context, stamp: int
) -> list[bytes]:
    before = self.last_numbers.get(sender, 0)
    placed = _accept(self, sender, last, data, body_at, context, stamp)
    if last % 3 == 0:  # else what follows would be dropped as a gap
        self.last_numbers[sender] = before
    return placed


_accept = SequencedGroup.accept


def _prune_what_anybody_has(self: SequencedGroup) -> None:
    stable = max(self.reported.values(), default=self.number)
    while self.stable < stable:
        self.stable += 1
        for piece in self.history.pop(self.stable, []):
            self.history_bytes -= len(piece) - 1


def _place_what_finds_room(self: SequencerPeer, session: ServedClient) -> None:
    """Lets what a client sent later overtake what waits for room in another group."""
    waiting = session.requests._waiting
    blocked = [request for request in waiting if request.group.is_full() and not request.is_leave]
    for request in blocked:
        waiting.remove(request)
    _place_requests(self, session)
    for request in blocked:
        request.group.blocked[session.process] = None
    waiting.extend(blocked)


_place_requests = SequencerPeer._place_requests


def _send_to_all_but_the_last(self: SequencerPeer, group: SequencedGroup, placed: list[bytes]) -> None:
    for member in group.members[: max(1, len(group.members) - 1)]:
        self._tell(self._clients[member], placed)


def _drop_what_is_ahead(self: ServiceClient, link: ServiceLink, place: Place, effects: Effects, now_ns: int) -> None:
    """Has no hold-back queue: what comes ahead of its turn is delivered at once."""
    member = self._members.get(place.group)
    if member is not None and self.delivered[place.group] < place.number - 1 and self.delivered[place.group] > 0:
        self.delivered[place.group] = place.number - 1
    _arrive(self, link, place, effects, now_ns)


_arrive = ServiceClient._arrive


def _forget_at_once(self: SequencerPeer, link: int, now_ns: int) -> None:
    """Takes a link that broke for a client that has gone, and knows nothing of it when it comes back."""
    session = self._by_link.get(link)
    _link_down(self, link, now_ns)
    if session is not None:
        session.heard_ns = now_ns - self._options.silence_ns_max - 1


_link_down = SequencerPeer.link_down


def _number_twice(
    self: OwnMessages, payloads: list[bytes], sizes: list[int], level: int, tickets: Any, names: dict[int, int]
) -> tuple[int, list[bytes]]:
    """Begins a batch with the number of the message before it."""
    if self.last_number % 5 == 4:
        self.last_number -= 1
    return _take(self, payloads, sizes, level, tickets, names)


_take = OwnMessages.take


def _nothing(self: Any, *arguments: Any) -> None:
    return None


def _mutant(name: str, breaks: tuple[str, ...], place: Any, attribute: str, replacement: Any) -> Mutant:
    return Mutant(f"sequencer: {name}", breaks, ((place, attribute, replacement),), SEQUENCER.name)


SEQUENCER_MUTANTS = (
    _mutant("T2 is not looked at", ("causal",), client, "is_deliverable", _deliverable_by_t1_alone),
    _mutant("sent again group by group", ("causal",), client_links, "_ticket_of", _again_group_by_group),
    _mutant("contexts of one group", ("causal",), SequencerPeer, "_context_of_messages", _context_of_one_group),
    _mutant("no last numbers", ("duplication", REST), SequencedGroup, "accept", _accept_without_noting_the_number),
    _mutant("pruned too early", (REST, "settled", "fifo"), SequencedGroup, "prune", _prune_what_anybody_has),
    _mutant("requests overtake others", ("causal", "fifo"), SequencerPeer, "_place_requests", _place_what_finds_room),
    _mutant("one member is left out", (REST, "settled"), SequencerPeer, "_send_all", _send_to_all_but_the_last),
    _mutant("no hold-back queue", ("fifo", "view_synchrony", "total"), ServiceClient, "_arrive", _drop_what_is_ahead),
    _mutant("fetches not answered", (REST, "settled"), SequencerPeer, "_fetch", _nothing),
    _mutant("nobody reports", (REST,), ServiceClient, "_report", _nothing),
    _mutant("a number used twice", ("duplication", "content", "fifo", REST), OwnMessages, "take", _number_twice),
    _mutant("stability told nobody", (REST,), SequencerPeer, "_tell_stable", _nothing),
)
