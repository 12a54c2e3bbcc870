"""What a process does as a peer of the service, as its stack knows it: one sequencer, one of several, or a host of
seats."""

from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.outcomes import CallOutcome
from antiphon.stacks.sequencer.mesh_state import PeerLink
from antiphon.stacks.sequencer.plan import PlaceGroups


class ServicePeer:
    """Takes what comes by links, keeps time, and wants links to others."""

    __slots__ = ("_links", "counts")

    def __init__(self) -> None:
        self.counts = [0] * 13
        """Of the situations that offers.py names."""
        self._links: dict[str, PeerLink] = {}
        """By address, the links that this process dials to others that serve."""

    def link_up(self, link: int, process: ProcessId) -> None:
        """Somebody has dialled."""
        raise NotImplementedError

    def link_down(self, link: int, now_ns: int) -> None:
        """A link has ended, or could not be opened."""
        raise NotImplementedError

    def receive(self, link: int, received: list[bytes], effects: Effects, now_ns: int) -> None:
        """Take what came by a link."""
        raise NotImplementedError

    def to_dial(self, now_ns: int) -> list[str]:
        """The addresses to which links are wanted now."""
        return [link.address for link in self._links.values() if not link.id and link.dial_at_ns <= now_ns]

    def dialling(self, address: str, id: int) -> None:
        """A link to an address is being opened, under this id."""
        self._links[address].id = id

    def _dialled(self, id: int) -> PeerLink | None:
        """The link with this id, if it was dialled here."""
        for link in self._links.values():
            if link.id == id:
                return link
        return None

    def dialled_up(self, id: int, identity: ProcessId, now_ns: int) -> None:
        """A link that this peer wanted is open."""

    def open(self, effects: Effects) -> None:
        """Begin."""

    def done(self, outcome: CallOutcome, now_ns: int) -> None:
        """A disk has done something that this peer asked for."""

    def place_groups(self, input: PlaceGroups) -> None:
        """Begin to move groups as a plan says. Raises UsageError."""
        raise UsageError("only a peer that is one of several can be asked to place groups")

    def finish(self, effects: Effects) -> None:
        """Send what this step has for others."""
        raise NotImplementedError

    def deadline_ns(self) -> int:
        return NEVER

    def tick(self, effects: Effects, now_ns: int) -> None:
        """Do what is due."""
        raise NotImplementedError

    def close(self, effects: Effects) -> None:
        """End all links."""
        raise NotImplementedError

    def statistics(self) -> dict[str, int]:
        """What is held now."""
        raise NotImplementedError
