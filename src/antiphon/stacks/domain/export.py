"""Domains linked into a communication domain: counters, import, export and the global order (transis-1992, section 4).

Each broadcast domain is a group. A message for several domains (a *global* message) is exported by the domain in which
it was sent, and imported by each of the others. This file is the state of one domain about that: a machine without
input or output of its own. All members of a domain have the same one, since they feed it the same records in the same
agreed order; so any of them may act as a relay, and one that crashes loses nothing.

Promise. Global messages are delivered in causal order, in every domain that they are for. Agreed and safe ones are
delivered in one order in all domains, and a safe one when all members of all its domains have it.

Rule.
1. There is one counter for each ordered pair of domains, and one logical link, whatever way its frames go. To send a
   frame to some domains, a domain counts up the pairs from itself to each of them, all at once, and stamps the frame
   with all counters that it knows. Only what a domain itself initiated is sent on its links.
2. Import: a frame from domain o with counters m is taken in by domain d if m[o, d] is one more than d's, and no m[x, d]
   is above d's for any other x. Then d raises its counters to the maximum of both.
3. Every global message takes its place among the exports of its own domain by the agreed order there. A causal one is
   delivered there at that place, and in the other domains when it is imported, behind the ordered ones that have places
   by then.
4. An agreed or safe message is exported to its domains, its own among them, and to the domain that decides the order:
   the first by name. That one gives it the next place, in the order in which the records of the messages come in its
   own agreed order, and sends the place to all domains of the message.
5. A domain delivers agreed and safe messages in the order of places. A safe one also waits until each of its domains
   has told that all its members have it: a domain tells when the record that imports it has been delivered as safe.
6. A local or causal message that follows a global ordered one of the same sender waits until that is delivered in its
   own domain (`delivered_of`), and only then is delivered or exported.
7. What leads to exports, global messages and imported frames, is multicast as safe in its domain, whatever its level.
   So its place, and all places before it, are the same at all members, and no frame is numbered by an order that a
   relay had alone: agreed order is not uniform, and a relay that exported by it and then failed might have given the
   number of a frame to another one than its successor does.

Causal, because: let m -> m', and both be for d. If both come from one domain, their frames to d are counted in the
order of their places, and import goes by that count. If they come from o and o', the chain from m to m' goes through
o'; everything that brings it there came through records of domains, each stamped with counters at least m[o, d], as
the pair [o, d] was counted when m was sent, to all its domains at once. So m' is stamped with at least that, and rule 2
makes d wait for m. With a counter per link and forwarding from domain to domain it would not hold: m by A-B-C and
then m' by A-D-C share no link to C. So frames are tunnelled: a domain on the way passes them on and looks into nothing.
In one order, because places are given by one machine, come on one link in order, and a place follows its message (it
is stamped with the counter that the message has), so that the message is there. The order extends the causal one: m
reaches the deciding domain before m', by rule 2 there.
Rule 6 is what footnote 5 must mean: a local message that overtook a global one that its sender sent before would break
causal order within the domain. Messages that follow by way of others need no care: nobody delivers the pending one. A
causal message that follows a delivered ordered one finds its place imported in every domain, as places are counted to
all domains at once; there it stands behind it in line, also if a safe one that is not for its own domain holds the line
up (rule 3).

Live. Frames stay in the outbox until the domain they are for has acknowledged them, and every relay of a domain has
that outbox. A domain that is cut off from the deciding one gets no places: its global agreed messages wait, causal and
local ones do not.

After partitions. A domain changes its counters by agreed records alone, and under the policy `primary` only one
component of a domain has those. Links that were cut are put right by the counters: whoever connects tells how much it
has of each pair, and is sent what comes behind. A frame that comes twice, by two relays or again, fails rule 2.

Limits: OUTBOX_MAX frames for a domain that does not acknowledge; beyond it, `is_full`, and senders wait.

Deviations. One deciding domain in place of an agreement of xport nodes: section 4 leaves the algorithm open. Replicas
of a relay are all members of the domain, not a group of their own. Export needs no multicast beside the message's own,
which is safe in its domain whatever its level; import needs one, as in the paper. So a causal global message has the
latency of a safe one in its own domain.
"""

from typing import Final, final

MESSAGE: Final = 0
PLACE: Final = 1
HELD: Final = 2
OUTBOX_MAX: Final = 10_000

CAUSAL_EXPORT: Final = 0
AGREED_EXPORT: Final = 1
SAFE_EXPORT: Final = 2

Pair = tuple[str, str]
GlobalId = tuple[str, int]
"""The domain that initiated a message, and its number there."""


@final
class GlobalMessage:
    """A message for several domains."""

    __slots__ = ("domains", "id", "level", "number", "payload", "sender")

    def __init__(
        self, id: GlobalId, sender: str, number: int, level: int, domains: tuple[str, ...], payload: bytes
    ) -> None:
        self.id = id
        self.sender = sender
        """ "name/incarnation"."""
        self.number = number
        """Among what the sender has sent to these domains."""
        self.level = level
        self.domains = domains
        self.payload = payload


@final
class ExportFrame:
    """What goes over a logical link: a message, a place of one, or word that a domain has one."""

    __slots__ = ("counters", "destination", "id", "kind", "message", "origin")

    def __init__(
        self,
        origin: str,
        destination: str,
        counters: dict[Pair, int],
        kind: int,
        id: GlobalId,
        message: GlobalMessage | None,
    ) -> None:
        self.origin = origin
        self.destination = destination
        self.counters = counters
        self.kind = kind
        self.id = id
        self.message = message

    def number(self) -> int:
        """Its number on its logical link."""
        return self.counters.get((self.origin, self.destination), 0)


@final
class DomainExports:
    """What one domain has exported, imported and put in order. The same at all its members."""

    __slots__ = (
        "_bodies",
        "_held_by",
        "_order",
        "counters",
        "decider",
        "delivered",
        "delivered_of",
        "domain",
        "domains",
        "initiated",
        "outbox",
    )

    def __init__(self, domain: str, domains: tuple[str, ...]) -> None:
        assert domain in domains
        self.domain = domain
        self.domains = domains
        self.decider = min(domains)
        """The domain that gives places."""
        self.counters: dict[Pair, int] = {}
        self.initiated = 0
        """Global messages that began here."""
        self.outbox: dict[str, list[ExportFrame]] = {other: [] for other in domains if other != domain}
        """By domain, what it has not acknowledged, in order."""
        self.delivered: list[GlobalMessage] = []
        """What the application is to be handed next; the caller takes it."""
        self.delivered_of: dict[str, int] = {}
        """By sender of this domain, how many of its agreed and safe global messages have been delivered."""
        self._bodies: dict[GlobalId, GlobalMessage] = {}
        """Agreed and safe messages that wait."""
        self._order: list[GlobalId] = []
        """The line: places of messages for this domain that wait, and causal ones behind them."""
        self._held_by: dict[GlobalId, set[str]] = {}
        """Of safe ones, which domains are known to have them."""

    def is_full(self) -> bool:
        """Whether some domain has not acknowledged for long: send no more until it has."""
        return any(len(frames) >= OUTBOX_MAX for frames in self.outbox.values())

    # ---- records of this domain, in agreed order -------------------------------------------------------------------

    def submit(self, sender: str, number: int, level: int, domains: tuple[str, ...], payload: bytes) -> GlobalMessage:
        """A message of a member of this domain takes its place among the exports."""
        self.initiated += 1
        message = GlobalMessage((self.domain, self.initiated), sender, number, level, domains, payload)
        targets = set(domains)
        if level == CAUSAL_EXPORT:
            self._send(targets, MESSAGE, message.id, message)
            self.delivered.append(message)  # here it need not stand in line: what it follows is delivered (rule 6)
            return message
        targets.add(self.decider)
        self._bodies[message.id] = message
        self._hold(message.id, self.domain)
        self._send(targets, MESSAGE, message.id, message)
        if self.decider == self.domain:
            self._place(message)
        return message

    def _line_up(self, message: GlobalMessage) -> None:
        """Deliver a causal message behind the ordered ones that have a place."""
        self._bodies[message.id] = message
        self._order.append(message.id)
        self._deliver()

    def is_sound(self, frame: ExportFrame) -> bool:
        """Whether a frame can have been sent by a domain that goes by the rules; what else comes is dropped."""
        known = set(self.domains)
        if frame.origin not in known or frame.origin == self.domain or frame.destination != self.domain:
            return False
        for pair, count in frame.counters.items():
            if pair[0] not in known or pair[1] not in known or count < 0:
                return False
        message = frame.message
        if frame.kind != MESSAGE:
            return message is None and (frame.kind == HELD or (frame.kind == PLACE and frame.origin == self.decider))
        if message is None or message.id != frame.id or message.id[0] != frame.origin:
            return False
        return CAUSAL_EXPORT <= message.level <= SAFE_EXPORT and set(message.domains) <= known

    def may_import(self, frame: ExportFrame) -> bool:
        """Whether rule 2 lets a frame in now."""
        me = self.domain
        if frame.destination != me or frame.origin not in self.outbox:
            return False
        for pair, count in frame.counters.items():
            if pair[1] == me and pair[0] != frame.origin and count > self.counters.get(pair, 0):
                return False
        return frame.number() == self.counters.get((frame.origin, me), 0) + 1

    def import_frame(self, frame: ExportFrame) -> bool:
        """A record that imports a frame; false if it was imported before, or its time has not come."""
        if not self.may_import(frame):
            return False
        for pair, count in frame.counters.items():
            if count > self.counters.get(pair, 0):
                self.counters[pair] = count
        if frame.kind == PLACE:
            self._order.append(frame.id)
        elif frame.kind == HELD:
            self._hold(frame.id, frame.origin)
        elif frame.message is not None:
            self._import_message(frame.message)
        self._deliver()
        return True

    def _import_message(self, message: GlobalMessage) -> None:
        if message.level == CAUSAL_EXPORT:
            self._line_up(message)
            return
        if self.domain in message.domains:
            self._bodies[message.id] = message
            self._hold(message.id, message.id[0])
            if message.level == SAFE_EXPORT:
                self._hold(message.id, self.domain)
                self._send(set(message.domains), HELD, message.id, None)
        if self.decider == self.domain:
            self._place(message)

    def acknowledge(self, destination: str, count: int) -> None:
        """A domain has imported so many frames of this one."""
        frames = self.outbox.get(destination)
        if frames is not None:
            self.outbox[destination] = [frame for frame in frames if frame.number() > count]

    # ---- order -----------------------------------------------------------------------------------------------------

    def _place(self, message: GlobalMessage) -> None:
        """Give the next place, as the domain that decides."""
        self._send(set(message.domains), PLACE, message.id, None)
        if self.domain in message.domains:
            self._order.append(message.id)
        else:
            self._bodies.pop(message.id, None)
            self._held_by.pop(message.id, None)
        self._deliver()

    def _hold(self, id: GlobalId, domain: str) -> None:
        self._held_by.setdefault(id, set()).add(domain)

    def _deliver(self) -> None:
        while self._order:
            id = self._order[0]
            message = self._bodies.get(id)
            if message is None:
                return
            if message.level == SAFE_EXPORT and not set(message.domains) <= self._held_by.get(id, set()):
                return
            self._order.pop(0)
            del self._bodies[id]
            self._held_by.pop(id, None)
            if id[0] == self.domain and message.level != CAUSAL_EXPORT:
                self.delivered_of[message.sender] = self.delivered_of.get(message.sender, 0) + 1
            self.delivered.append(message)

    def _send(self, targets: set[str], kind: int, id: GlobalId, message: GlobalMessage | None) -> None:
        """Count up all pairs at once, then stamp."""
        others = sorted([target for target in targets if target in self.outbox])
        for target in others:
            pair = (self.domain, target)
            self.counters[pair] = self.counters.get(pair, 0) + 1
        for target in others:
            self.outbox[target].append(ExportFrame(self.domain, target, dict(self.counters), kind, id, message))

    # ---- snapshots -------------------------------------------------------------------------------------------------

    def waiting(self) -> tuple[list[GlobalMessage], list[GlobalId], list[tuple[GlobalId, list[str]]]]:
        """Messages without a place or not safe yet, places, and who has which: with the public fields, all there is."""
        held = [(id, sorted(domains)) for id, domains in self._held_by.items()]
        return list(self._bodies.values()), list(self._order), held

    def restore_waiting(
        self, bodies: list[GlobalMessage], order: list[GlobalId], held: list[tuple[GlobalId, list[str]]]
    ) -> None:
        self._bodies = {message.id: message for message in bodies}
        self._order = list(order)
        self._held_by = {id: set(domains) for id, domains in held}
