"""Several sequencers broken on purpose: the rules of stamps, contexts, acceptance and transfers. Hunted in the seeds of
tests/simulation/sequencers.py."""

from typing import Any

from antiphon.pipeline.campaign.judge import REST
from antiphon.stacks.sequencer import mesh
from antiphon.stacks.sequencer.acceptance import AcceptanceQueue
from antiphon.stacks.sequencer.bodies import BodyExchange
from antiphon.stacks.sequencer.client import ServiceClient
from antiphon.stacks.sequencer.client_links import ClientLinks
from antiphon.stacks.sequencer.client_sessions import ClientSessions
from antiphon.stacks.sequencer.context import BOTTOM, Context
from antiphon.stacks.sequencer.directory import DirectoryPeer
from antiphon.stacks.sequencer.location_table import LocationTable
from antiphon.stacks.sequencer.offers import OFFERS as SEQUENCER
from antiphon.stacks.sequencer.peer import SequencerPeer
from antiphon.stacks.sequencer.place import Place
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.stamps import comes_before
from antiphon.stacks.sequencer.transfer import write_group
from tests.mutants.mutants import Mutant
from tests.stacks.sequencer.test_bodies import lost_bodies_problem


def _always(self: Any, *arguments: Any) -> bool:
    return True


def _never(self: Any, *arguments: Any) -> bool:
    return False


def _nothing(self: Any, *arguments: Any) -> None:
    return None


def _lowest_among_what_has_arrived(self: ServiceClient, place: Place) -> bool:
    """Asks no clocks."""
    return not self._asked and _heads_come_later(self, place)


def _heads_come_later(self: ServiceClient, place: Place) -> bool:
    for group, places in self._held.items():
        if group != place.group:
            head = places.get(self.delivered.get(group, BOTTOM) + 1)
            if head is None or comes_before(head.stamp, group, place.stamp, place.group):
                return False
    return True


def _same_stamp(self: SequencerPeer) -> int:
    return self._clock


def _context_without_the_sender(self: SequencerPeer, group: SequencedGroup, level: int, cause: Context) -> Context:
    return _context_of_messages(self, group, level, {})


_context_of_messages = SequencerPeer._context_of_messages


def _without_last_numbers(group: SequencedGroup) -> bytes:
    numbers, group.last_numbers = group.last_numbers, {}
    written = _write_group(group)
    group.last_numbers = numbers
    return written


def _without_history(group: SequencedGroup) -> bytes:
    history, group.history = group.history, {}
    written = _write_group(group)
    group.history = history
    return written


_write_group = write_group


def _without_the_excluded(group: SequencedGroup) -> bytes:
    excluded, group.excluded = group.excluded, {}
    written = _write_group(group)
    group.excluded = excluded
    return written


def _here_though_moving(self: DirectoryPeer, id: int) -> bool:
    return id in self._groups


def _no_frames(self: mesh.MeshPeer, address: str) -> list[bytes]:
    return []


def _end_without_telling(self: mesh.MeshPeer, client: Any, id: int, address: str) -> None:
    """Tells nobody where a group has gone."""


def _ready_without_its_body(self: ServiceClient, place: Place) -> bool:
    place.is_bare = False
    return _has_turn(self, place)


_has_turn = ServiceClient._has_turn


def _any_body_of_the_sender(self: BodyExchange, place: Place) -> bool:
    """Takes the oldest body of the sender for that of a place."""
    for group, sender, first in self._bodies:
        if group == place.group and sender == place.sender:
            own, place.first = place.first, first
            is_filled = _fill(self, place)
            place.first = own
            return is_filled
    return False


_fill = BodyExchange.fill


def _bodies_are_not_fetched(self: ServiceClient) -> None:
    for places in self._held.values():
        if any(place.is_bare for place in places.values()):
            return
    _fetch_missing(self)


_fetch_missing = ServiceClient._fetch_missing


def _mutant(name: str, breaks: tuple[str, ...], place: Any, attribute: str, replacement: Any) -> Mutant:
    return Mutant(f"sequencers: {name}", breaks, ((place, attribute, replacement),), SEQUENCER.name)


NO_FETCH = "sequencers: bodies are not fetched"
STAGED_SERVICES = {NO_FETCH: lost_bodies_problem}
"""What random runs do not come to: links between members break together with those to sequencers."""
_ORDER = ("total_global", "total_pairwise")
SERVICE_MUTANTS = (
    _mutant("stamps are not looked at", _ORDER, ServiceClient, "_is_lowest", _always),
    _mutant("clocks are not asked for", _ORDER, ServiceClient, "_is_lowest", _lowest_among_what_has_arrived),
    _mutant("clocks stand still", (*_ORDER, "causal", REST), SequencerPeer, "_next_stamp", _same_stamp),
    _mutant("nobody probes", (REST, "settled"), ServiceClient, "_probe", _nothing),
    _mutant("no sender's context", ("causal",), SequencerPeer, "_context_of_messages", _context_without_the_sender),
    _mutant("everything is stable", ("causal", "total"), DirectoryPeer, "_is_stable", _always),
    _mutant("names are not waited for", ("causal",), AcceptanceQueue, "is_named", _never),
    _mutant("numbers are not told", (REST, "settled"), ClientLinks, "_tell_numbered", _nothing),
    _mutant("requests wait for those behind", (REST, "settled"), AcceptanceQueue, "drop_waiting", _nothing),
    _mutant("last numbers stay behind", ("duplication", "fifo", REST), mesh, "write_group", _without_last_numbers),
    _mutant("the history stays behind", (REST, "settled", "fifo"), mesh, "write_group", _without_history),
    _mutant("accepts while a group moves", ("fifo", "settled", REST), DirectoryPeer, "_is_here", _here_though_moving),
    _mutant(
        "a place without its body",
        ("content", "fifo", "settled", REST),
        ServiceClient,
        "_has_turn",
        _ready_without_its_body,
    ),
    _mutant("the body of another message", ("content",), BodyExchange, "fill", _any_body_of_the_sender),
    _mutant("bodies are not fetched", (REST, "settled"), ServiceClient, "_fetch_missing", _bodies_are_not_fetched),
    _mutant("the excluded stay behind", ("causal", "settled", REST), mesh, "write_group", _without_the_excluded),
    _mutant("what is in doubt is made again", (REST, "settled"), LocationTable, "is_doubted", _never),
    _mutant("leaves are not told again", (REST,), ClientSessions, "_tell_leaves", _nothing),
    _mutant("groups given away are not told", (REST,), mesh.MeshPeer, "_given_frames", _no_frames),
    _mutant("nobody is told where a group is", (REST,), mesh.MeshPeer, "_tell_moved", _end_without_telling),
)
