"""Several sequencers broken on purpose: the rules of stamps, contexts, acceptance and transfers. Hunted in the seeds of
tests/simulation/sequencers.py."""

from typing import Any

from antiphon.pipeline.campaign.judge import REST
from antiphon.stacks.sequencer import mesh
from antiphon.stacks.sequencer.acceptance import AcceptanceQueue
from antiphon.stacks.sequencer.client import ServiceClient
from antiphon.stacks.sequencer.client_links import ClientLinks
from antiphon.stacks.sequencer.context import BOTTOM, Context
from antiphon.stacks.sequencer.directory import DirectoryPeer
from antiphon.stacks.sequencer.offers import OFFERS as SEQUENCER
from antiphon.stacks.sequencer.peer import SequencerPeer
from antiphon.stacks.sequencer.place import Place
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.stamps import comes_before
from antiphon.stacks.sequencer.transfer import write_group
from tests.mutants.mutants import Mutant


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


def _here_though_moving(self: DirectoryPeer, id: int) -> bool:
    return id in self._groups


def _end_without_telling(self: mesh.MeshPeer, client: Any, id: int, address: str) -> None:
    """Tells nobody where a group has gone."""


def _mutant(name: str, breaks: tuple[str, ...], place: Any, attribute: str, replacement: Any) -> Mutant:
    return Mutant(f"sequencers: {name}", breaks, ((place, attribute, replacement),), SEQUENCER.name)


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
    _mutant("nobody is told where a group is", (REST,), mesh.MeshPeer, "_tell_moved", _end_without_telling),
)
