"""Bodies that senders multicast themselves, while the sequencer sends the order alone: the second way of
kindberg-1995, section 4 (after Kaashoek and Tanenbaum).

Promise. Whatever way a message takes, it is delivered as if the sequencer had sent it whole: same place, same content,
to the same processes.

Rule. (option `direct`; for batches of at least `direct_kib`)
  Member list. A client that takes bodies says at which address (ADDRESS). The sequencer tells each member of a group
  that does so the addresses of the others (MEMBERS), and of those that come later; who has gone, views tell. That is
  the list of a sender. It dials those that it knows; what it sends before a link is open takes the other way.
  Body. The sender gives the batch to the sequencer as always (MULTICAST), and names in it the members to which it sends
  the body by itself (BODY), by the links that are open.
  Order. The sequencer places the batch, body included, as always: it is in the history, in the log of a seat and in a
  transfer. To members that are named it sends the place without the body (ORDER), to all others, those that have joined
  since the sender knew of them included, the whole (ACCEPT). So a wrong list costs bytes, and nothing else.
  Receipt. A place without a body is held back until the body has come from its sender. If that takes longer than
  `resend_interval_ns`, the place is fetched from the sequencer, like any that is missing: it comes whole.

Safe. What is delivered is decided by the sequencer alone: a body without a place is never delivered. If the sender is
lost in the middle, either the sequencer has the batch, and with it can supply the body to everybody, or it has not, and
then nobody delivers it: the batch is buried for all alike. Bodies are known by sender, incarnation, group and number,
which are never used twice; one of another length or level than the place says is not taken. With replicas an ORDER, as
an ACCEPT, leaves only when k others hold the place with its body (seat_log.py); so whoever leads next can supply it.

Live. A place that is held back for its body is fetched, again and again if need be (client.py), and the sequencer keeps
it until this process has reported it.

What it is good for. Links are point to point, so somebody has to send each copy. Through the sequencer, of a group with
n members, the sender sends a body once and the sequencer n times; by this way the sender sends it n times, and the
sequencer n times some tens of bytes. The sum is the same, less one; the load moves from the one process that all
groups share to the senders. It does not pay for small messages, whose cost is not that of their bytes, and not where
clients cannot reach each other; so it is off by default.

Limits. Bodies without a place are kept up to BODIES_BYTES_MAX, the oldest go first: their places are fetched.
What a link has to carry is bounded by what the history of a group may hold (sequenced_group.py): whoever does not take
bodies does not report either, and then senders wait."""

from typing import Final, final

from antiphon.kernel.calls import Dial, Frames, Hang
from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.offers import direct_bytes
from antiphon.stacks.sequencer.place import Place
from antiphon.stacks.sequencer.wire import BODIES, BODY, FrameAssembler, FrameReader, carried, u64

BODIES_BYTES_MAX: Final = 32 * 1024 * 1024
_OVERHEAD_BYTES: Final = 1024 * 1024
_LINKS_MAX: Final = 1000
"""Links of either kind: what would need more goes through the sequencer."""
BodyKey = tuple[int, ProcessId, int]
"""Group, sender, and the number of the first message."""


@final
class Body:
    """Consecutive messages of one sender, without a place."""

    __slots__ = ("level", "payloads", "size")

    def __init__(self, level: int, payloads: list[bytes], size: int) -> None:
        self.level = level
        self.payloads = payloads
        self.size = size


@final
class BodyLink:
    """A link to another member, by which bodies go."""

    __slots__ = ("address", "dial_at_ns", "id", "is_open", "out", "process")

    def __init__(self, process: ProcessId, address: str, now_ns: int) -> None:
        self.process = process
        self.address = address
        self.dial_at_ns = now_ns
        self.id = 0
        self.is_open = False
        self.out: list[bytes] = []


@final
class BodyExchange:
    """What one process sends to other members, and takes from them, past the sequencer."""

    __slots__ = (
        "_bodies",
        "_by_id",
        "_bytes",
        "_incoming",
        "_is_stale",
        "_links",
        "_members",
        "_options",
        "_process",
        "address",
        "counts",
        "direct_bytes",
    )

    def __init__(self, process: ProcessId, options: Options) -> None:
        self._process = process
        self._options = options
        self.direct_bytes = direct_bytes(options)
        """Batches of so many bytes go directly; 0: none do."""
        self.address = ""
        """Where this process takes bodies; "" if it does not."""
        self._members: dict[int, dict[ProcessId, str]] = {}
        """By group: the members that take bodies, and where, as the sequencer has told."""
        self._links: dict[str, BodyLink] = {}
        """By address: links that this process has dialled."""
        self._by_id: dict[int, BodyLink] = {}
        self._is_stale = False
        """Some links may not be wanted any more."""
        self._incoming: dict[int, tuple[ProcessId, FrameAssembler]] = {}
        """Links by which others send bodies."""
        self._bodies: dict[BodyKey, Body] = {}
        """The oldest first."""
        self._bytes = 0
        self.counts = [0, 0, 0]
        """Bodies sent directly, places completed by one, and bodies that were dropped for want of room."""

    def open(self, address: str) -> None:
        """Take bodies at an address, if this process is to."""
        if self.direct_bytes:
            self.address = address

    # ---- sending ---------------------------------------------------------------------------------------------------

    def told(self, group: int, members: dict[ProcessId, str]) -> None:
        """The sequencer tells where members of a group take bodies."""
        if self.address:
            self._members.setdefault(group, {}).update(members)
            self._is_stale = True

    def served(self, group: int, view: tuple[ProcessId, ...], now_ns: int) -> list[ProcessId]:
        """Those members of a view that this process can send bodies to now, itself included. Others are dialled."""
        known = self._members.get(group, {})
        found = [self._process]
        for process in view:
            address = known.get(process, "")
            if address and process != self._process:
                link = self._links.get(address)
                if link is None and len(self._links) < _LINKS_MAX:
                    self._links[address] = BodyLink(process, address, now_ns)
                elif link is not None and link.is_open:
                    found.append(process)
        return found if len(found) > 1 else []

    def send(
        self, group: int, served: list[ProcessId], first: int, level: int, payloads: list[bytes], parts: list[bytes]
    ) -> None:
        """Send a batch, of which `parts` are the bytes, to these members."""
        self.counts[0] += 1
        body = carried(BODY, u64(group), *parts)
        known = self._members[group]
        for process in served:
            if process != self._process:
                self._links[known[process]].out += body
        size = sum([len(part) for part in parts])
        self._keep((group, self._process, first), Body(level, payloads, size))

    # ---- receiving -------------------------------------------------------------------------------------------------

    def _keep(self, key: BodyKey, body: Body) -> None:
        former = self._bodies.pop(key, None)
        if former is not None:
            self._bytes -= former.size
        self._bodies[key] = body
        self._bytes += body.size
        while self._bytes > BODIES_BYTES_MAX:
            self._bytes -= self._bodies.pop(next(iter(self._bodies))).size
            self.counts[2] += 1

    def fill(self, place: Place) -> bool:
        """Complete a place that came without its body, if that is here."""
        assert place.sender is not None
        key = (place.group, place.sender, place.first)
        body = self._bodies.pop(key, None)
        if body is None:
            return False
        self._bytes -= body.size
        if body.size != place.size or body.level != place.level or len(body.payloads) != place.count:
            return False
        self.counts[1] += 1
        place.payloads = body.payloads
        place.size = sum([len(payload) for payload in body.payloads])
        place.is_bare = False
        return True

    def receive(self, id: int, received: list[bytes], effects: Effects) -> list[BodyKey]:
        """Take what another member has sent; what makes no sense ends the link."""
        process, assembler = self._incoming[id]
        found: list[BodyKey] = []
        try:
            for piece in received:
                data = assembler.take(piece)
                if data is not None:
                    found.append(self._take(process, FrameReader(data, 1)))
        except MalformedError:
            del self._incoming[id]
            effects.call(Hang(id))
        return found

    def _take(self, process: ProcessId, reader: FrameReader) -> BodyKey:
        if reader.u8() != BODY:
            raise MalformedError("kind")
        group, start = reader.group(), reader.position()
        first, level = reader.number(), reader.u8()
        key = (group, process, first)
        body = Body(level, reader.payloads(), reader.position() - start)
        if group in self._members:
            self._keep(key, body)
        return key

    # ---- links -----------------------------------------------------------------------------------------------------

    def owns(self, id: int) -> bool:
        """Whether a link is one of those for bodies."""
        return id in self._by_id or id in self._incoming

    def accept(self, id: int, identity: ProcessId, received: list[bytes]) -> bool:
        """Whether a link that somebody has dialled, and by which these are the first frames, is for bodies."""
        if not self.address or received[0][1:2] != bytes([BODIES]) or len(self._incoming) >= _LINKS_MAX:
            return False
        self._incoming[id] = (identity, FrameAssembler(self._options.message_bytes_max + _OVERHEAD_BYTES))
        return True

    def to_dial(self, now_ns: int) -> list[BodyLink]:
        return [link for link in self._links.values() if not link.id and link.dial_at_ns <= now_ns]

    def dial(self, link: BodyLink, id: int, effects: Effects) -> None:
        link.id = id
        self._by_id[id] = link
        effects.call(Dial(id, link.address))

    def link_up(self, id: int, identity: ProcessId, effects: Effects, now_ns: int) -> None:
        link = self._by_id[id]
        if identity != link.process:  # somebody else is there now
            effects.call(Hang(id))
            self.link_down(id, now_ns)
            return
        link.is_open = True
        link.out = carried(BODIES)

    def link_down(self, id: int, now_ns: int) -> None:
        """What went by it may be lost; those to whom it went fetch it. Dial again after a while."""
        self._incoming.pop(id, None)
        link = self._by_id.pop(id, None)
        if link is not None:
            link.id = 0
            link.is_open = False
            link.out = []
            link.dial_at_ns = now_ns + self._options.silence_ns_min

    def forget(self, group: int) -> None:
        """This process is in a group no more."""
        self._members.pop(group, None)
        self._is_stale = True
        for key in [key for key in self._bodies if key[0] == group]:
            self._bytes -= self._bodies.pop(key).size

    def gone(self, group: int, processes: list[ProcessId]) -> None:
        """Members have gone: what they sent and has no place yet is buried."""
        known = self._members.get(group)
        if known is not None and processes:
            self._is_stale = True
            for process in processes:
                known.pop(process, None)
            for key in [key for key in self._bodies if key[0] == group and key[1] in processes]:
                self._bytes -= self._bodies.pop(key).size

    def finish(self, effects: Effects) -> None:
        """Send what this step has for other members; hang up where nobody is that bodies could go to."""
        if self._is_stale:
            self._drop_idle_links(effects)
        for link in self._links.values():
            if link.out:
                effects.call(Frames(link.id, link.out))
                link.out = []

    def _drop_idle_links(self, effects: Effects) -> None:
        self._is_stale = False
        wanted = {address for members in self._members.values() for address in members.values()}
        for address in [address for address in self._links if address not in wanted]:
            link = self._links.pop(address)
            if link.id:
                effects.call(Hang(link.id))
                del self._by_id[link.id]

    def deadline_ns(self) -> int:
        return min([link.dial_at_ns for link in self._links.values() if not link.id], default=NEVER)

    def hang_up(self, effects: Effects) -> None:
        """End all links for good."""
        for id in (*self._by_id, *self._incoming):
            effects.call(Hang(id))
        self._by_id, self._incoming, self._links, self._members = {}, {}, {}, {}
