"""When a sequencer accepts a request whose context names messages that have no number yet: kindberg-1995, section 5,
"Increasing concurrency".

A process that does not wait for its messages to be accepted puts their identifiers into its context where numbers
are not known yet: for each group, a number, an identifier, or both. Whoever learns the number of an identifier
replaces it, and keeps the larger. Here numbers travel in CONTEXT frames, each entry once a link, and identifiers with
the request: for each other group, the number of the last own message to it that has no place.

Promise. Every accept carries numbers only, so that a receiver can hold it against its delivery context at once; and
no two accepts wait for each other.

Rule. A sequencer accepts the requests of one client in the order in which they came by its link, whatever the group,
and a request only when each identifier in it has a number. Identifiers of messages to groups that are at the same
sequencer have one as soon as the message is accepted. Of others the client tells (NUMBERED) when it has heard of it.
Messages that were refused never get a number; the client tells that in the same way, and nobody waits for them.
Requests of a client that is excluded are dropped, so its identifiers are buried with it: nobody else names them.

Safe. An identifier stands for a message that the client sent before the request, or that somebody sent before
something that the client delivered; the latter was accepted, so its own context had numbers only, and its number
came with it. So identifiers without a number are the client's own earlier messages. Their numbers are known before
the request is accepted, and accepts that carry the sequencer's own context therefore never name a message that the
sequencer accepts later. The literal rule accepts m2, which names m1, first, and m1 with the number of m2 in its
context: each waits for the other at every receiver (tests/stacks/sequencer/test_acceptance.py). Of several messages
to one group the last number is kept: what was sent to that group after the request names the request in turn, so it
has no number yet.

Live. Of the requests of a client that wait, take the one that was sent first. The messages it names were sent
earlier, so they are accepted; the client hears of it, or fetches it, and tells.

Limits. A client has at most REQUESTS_MAX requests here; one that sends more loses its link. Numbers are kept for
the last message of the client to each group.
"""

from collections import deque
from typing import Final, final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.stacks.sequencer.context import BOTTOM, Context, merge_into
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup

REQUESTS_MAX: Final = 1 << 18
NO_PLACE: Final = 0
"""In place of the place of messages that were refused."""


@final
class NamedRequest:
    """A multicast or a leave that waits for its turn."""

    __slots__ = (
        "body_at",
        "context",
        "count",
        "data",
        "first",
        "group",
        "is_leave",
        "level",
        "named",
        "served",
        "settled",
    )

    def __init__(self, group: SequencedGroup, named: dict[int, int], is_leave: bool) -> None:
        self.group = group
        self.first = 0
        self.count = 0
        self.settled = 0
        """The client's messages to the group up to this number had places when it sent this, or never get any."""
        self.level = 0
        self.data = b""
        """The frame that it came in…"""
        self.body_at = 0
        """…and where in it the messages stand, to its end."""
        self.served: list[ProcessId] = []
        """The members that get the messages from the client itself (bodies.py)."""
        self.is_leave = is_leave
        self.context: Context = {}
        """What the client has told of its context since the request before."""
        self.named = named
        """By group, the number of the client's own last message there that had no place when it sent this."""


@final
class AcceptanceQueue:
    """The requests of one client that a sequencer has received and not accepted, and the context of the last one that
    it has."""

    __slots__ = ("_numbers", "_requests_max", "_told", "_waiting", "context")

    def __init__(self, requests_max: int = REQUESTS_MAX) -> None:
        self._requests_max = requests_max
        self._waiting: deque[NamedRequest] = deque()
        self._told: Context = {}
        """Of the next request to come."""
        self._numbers: dict[int, tuple[int, int]] = {}
        """By group: a number of the client's messages, and the last place of those up to it."""
        self.context: Context = {}

    def clear(self) -> None:
        """The client has come by a new link, and tells everything again."""
        self._waiting.clear()
        self._told = {}
        self.context = {}

    def tell(self, entries: Context) -> None:
        """The client's context has risen."""
        merge_into(self._told, entries)

    def hear(self, group: int, number: int, place: int) -> None:
        """The client's messages to a group, up to this number, have places, up to this one, or were refused."""
        if number >= self._numbers.get(group, (0, 0))[0]:
            self._numbers[group] = (number, place)

    def offer(self, request: NamedRequest) -> None:
        """Take a request. Raises MalformedError if there are too many."""
        if len(self._waiting) >= self._requests_max:
            raise MalformedError("requests")
        request.context, self._told = self._told, {}
        self._waiting.append(request)

    def drop_group(self, id: int) -> None:
        """Drop what is for a group that has gone elsewhere: the client sends it again there."""
        for request in self._waiting:
            if request.group.id == id:
                merge_into(self.context, request.context)
        self._waiting = deque([request for request in self._waiting if request.group.id != id])

    def drop_waiting(self) -> None:
        """Drop all that waits: the client sends everything again that has no place, in its order. Else a request could
        wait for one behind it, whose group has come here in between."""
        for request in self._waiting:
            merge_into(self.context, request.context)
        self._waiting.clear()

    def head(self) -> NamedRequest | None:
        return self._waiting[0] if self._waiting else None

    def is_named(self, request: NamedRequest, groups: dict[int, SequencedGroup], client: ProcessId) -> bool:
        """Whether a request still names a message without a number. What has one becomes an entry of its context."""
        for id, number in list(request.named.items()):
            place = self._place_of(id, number, groups.get(id), client)
            if place == BOTTOM:
                return True
            if place != NO_PLACE:
                merge_into(request.context, {id: place})
            del request.named[id]
        return False

    def _place_of(self, id: int, number: int, here: SequencedGroup | None, client: ProcessId) -> int:
        if here is not None and not here.is_moving and here.last_numbers.get(client, 0) >= number:
            place = here.last_places.get(client, BOTTOM)
            if place != BOTTOM:  # it is if all were refused before the client joined
                return place
        told, place = self._numbers.get(id, (0, 0))
        return place if told >= number else BOTTOM

    def take(self) -> NamedRequest:
        """The head, which is accepted now: the context becomes that of its sender when it sent it."""
        request = self._waiting.popleft()
        merge_into(self.context, request.context)
        return request
