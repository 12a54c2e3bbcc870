"""When a sequencer accepts a request whose context names messages that have no number yet: kindberg-1995, section 5,
"Increasing concurrency".

A process that does not wait for its messages to be accepted puts their identifiers into its context where numbers
are not known yet: for each group, a number, an identifier, or both. Whoever learns the number of an identifier
replaces it, and keeps the larger.

Promise. Every accept carries numbers only, so that a receiver can hold it against its delivery context at once; and
no two accepts wait for each other.

Rule. A sequencer accepts the requests of one client in the order of their ordinals (which count what the client
sent to this sequencer, whatever the group), and a request only when each identifier in its context has a number.
Who hears of a number tells the queue. The identifiers of a client that has failed, as far as they have no number,
are buried: they will never have one, nobody will deliver them, and contexts go on without them.

Safe. An identifier stands for a message that the client sent before the request, or that somebody sent before
something that the client delivered; the latter was accepted, so its own context had numbers only, and its number
came with it. So identifiers without a number are the client's own earlier messages. Their numbers are known before
the request is accepted, and accepts that carry the sequencer's own context therefore never name a message that the
sequencer accepts later. The literal rule accepts m2, which names m1, first, and m1 with the number of m2 in its
context: each waits for the other at every receiver (tests/stacks/sequencer/test_acceptance.py).

Live. Of the requests that wait, take one that was sent first. The messages it names were sent earlier, so they are
accepted, or their sender has failed and they are buried; so are the earlier requests of the same client.

Limits. A client has at most REQUESTS_MAX requests here; the next one is refused.
"""

from typing import Final, final

from antiphon.stacks.sequencer.context import BOTTOM, Context

REQUESTS_MAX: Final = 1024
MessageName = tuple[str, int]
"""A client, and the number of a message among all that it has sent."""


@final
class NamedRequest:
    """A request to multicast to a group, with the context of its sender."""

    __slots__ = ("context", "group", "name", "named", "ordinal")

    def __init__(
        self, name: MessageName, ordinal: int, group: int, context: Context, named: dict[MessageName, int]
    ) -> None:
        self.name = name
        self.ordinal = ordinal
        """Counts what the client has sent to this sequencer, from 1 on."""
        self.group = group
        self.context = context
        """Numbers by group; those of messages that are named are added when they are known."""
        self.named = named
        """The groups of the messages that stand in the context by name."""


@final
class AcceptanceQueue:
    """The requests that a sequencer has received and not accepted, and the numbers that it has heard of."""

    __slots__ = ("_dead", "_next", "_numbers", "_waiting")

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        """The ordinal that is accepted next, by client."""
        self._waiting: dict[str, dict[int, NamedRequest]] = {}
        self._numbers: dict[MessageName, int] = {}
        self._dead: set[str] = set()

    def offer(self, request: NamedRequest) -> bool:
        """Take a request; False, and it is not taken, if its client has too many here. Repeats are ignored."""
        client = request.name[0]
        waiting = self._waiting.setdefault(client, {})
        if len(waiting) >= REQUESTS_MAX:
            return False
        if request.ordinal >= self._next.get(client, 1):
            waiting.setdefault(request.ordinal, request)
        return True

    def hear(self, name: MessageName, number: int) -> None:
        """A message has this sequence number in its group."""
        self._numbers[name] = number

    def bury(self, client: str) -> None:
        """A client has failed: those of its messages that have no number never get one."""
        self._dead.add(client)
        self._waiting.pop(client, None)

    def forget(self, client: str, number: int) -> None:
        """Nobody names messages of a client up to this one any more: all who may have are past them."""
        for name in [name for name in self._numbers if name[0] == client and name[1] <= number]:
            del self._numbers[name]

    def next_ready(self) -> NamedRequest | None:
        """A request that may be accepted now, with numbers alone in its context. The caller gives it a number, and says
        so by `hear`."""
        for client, waiting in self._waiting.items():
            ordinal = self._next.get(client, 1)
            request = waiting.get(ordinal)
            if request is not None and self._resolve(request):
                del waiting[ordinal]
                self._next[client] = ordinal + 1
                return request
        return None

    def _resolve(self, request: NamedRequest) -> bool:
        """Replace names by numbers as far as they are known; whether none is left."""
        for name, group in list(request.named.items()):
            number = self._numbers.get(name)
            if number is not None:
                request.context[group] = max(number, request.context.get(group, BOTTOM))
            if number is not None or name[0] in self._dead:
                del request.named[name]
        return not request.named
