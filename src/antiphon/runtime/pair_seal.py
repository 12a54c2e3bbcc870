"""Seals between processes that know each other by name (certificates.py): one key for each pair of lives and each way.

    sealed packet  version u8 | class u8 | 0 u16 | tag 4 bytes | life of the sender 16 | counter u64 | AES-256-GCM | tag
    GREETING       asks u8 | life that is spoken to 16                                         under an entry key
    HELLO          asks u8 | life that is spoken to 16 | X25519 public key 32 | version of revocations u64
                   | length u16 | certificate | signature 64                                   under an entry key
    PAIR           form u8 | …                                                                 under the key of the pair

Entry. Whoever is new has no key that others know. First come greetings, sealed by an *entry key*, which all that were
ever let into the cluster have (seal.py has the words *life* and *greeting*). A greeting that names my life was sealed
after my life began, by one that got a packet of mine: so it is the cookie, and nothing has to be kept for it. It is
answered by a HELLO: a key for this life, the certificate, and a signature over both lives and the key. Whoever gets a
HELLO that names its own life, from a name whose certificate holds, has met that life: both derive the keys of the pair,
HKDF(X25519, both lives, both names). The private halves are drawn for a life and never leave it: who steals an identity
later cannot read what was said before. No answer to somebody who has not named this life is longer than one and a half
times what came. Bounds: WORK_PER_S entry packets are opened a second, HELLO_PER_S signatures are made and checked.

Sealed for one. Each packet is sealed anew for each destination, so:

  - what is opened was sealed by the process of that name, for this life, and is taken once (a window per pair);
  - whoever is not a destination reads nothing: neither members of other groups, nor one that was excluded, from the
    moment on at which the engine no longer sends to it, nor one that is revoked;
  - nobody can move the window, or the address, of another.

That is why there is no secret of a view, no wrapping of it and no commitment to it: there is nothing that all members
must have alike, so a takeover can split nothing, and a change of views costs no cryptography. The price is to seal once
for each destination in place of once for all (1 µs for 1,400 bytes), and that IP multicast cannot be used.

Who made it. The author of a packet is whoever transmits it, unless it goes with a mark (authorship.py) of another. The
engine is given the name of the author, and refuses what speaks in another name (kernel/credentials.py).

Rights. What the author's certificate does not allow is dropped here: JOIN and all else that members say without the
right to join; FLUSH, PROPOSE and STALL without the right to coordinate. Who may not send has its messages withheld
where they would be delivered (identified_transport.py).

The end. A life of which the certificate was revoked, or has run out, is forgotten within a second. Later revocations
than the other knows are handed to whoever is met.
"""

import os
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from antiphon.kernel.codec import HEADER_SIZE, packet_flags, packet_kind
from antiphon.kernel.packet_kinds import KNOCK, MEMBERSHIP
from antiphon.parts.membership.messages import FLUSH, PROPOSE, RECOVERY, STALL, chunk_kind
from antiphon.runtime.address import SocketAddress
from antiphon.runtime.authorship import (
    CIRCLE_MAX,
    MarkedPeer,
    Marks,
    find_author,
    group_of,
    is_marked,
    mark_packet,
    sign_packet,
)
from antiphon.runtime.certificates import (
    COORDINATE_RIGHT,
    JOIN_RIGHT,
    KEY_BYTES,
    SIGNATURE_BYTES,
    Certificate,
    is_signed,
    read_certificate,
)
from antiphon.runtime.identity import IdentitySupply
from antiphon.runtime.keyring import SharedKey, expand
from antiphon.runtime.seal import (
    ASK_S,
    ASKED_MAX,
    COUNTER_MAX,
    GREETING,
    LIFE_BYTES,
    LIVES_MAX,
    OVERHEAD,
    SEAL_HEADER,
    SUBKEY_BITS,
    VERSION,
    WORK_PER_S,
    ReplayWindow,
    derive,
    in_turn,
    open_sealed,
)

HELLO: Final = 4
PAIR: Final = 5
PLAIN_FORM: Final = 0
MARKED_FORM: Final = 1
PASSED_ON_FORM: Final = 2
REVOCATIONS_FORM: Final = 3
HELLO_PER_S: Final = 200
NAMES_MAX: Final = 4096
"""Certificates that are remembered by name; beyond, the one that was met first is forgotten."""
NOBODY: Final = bytes(LIFE_BYTES)

_GREETING: Final = Struct("<B16s")
_HELLO: Final = Struct("<B16s32sQH")
_MARK: Final = Struct("<BH")
_STATEMENT: Final = b"antiphon hello 1"
_COORDINATING: Final = (FLUSH, PROPOSE, STALL, RECOVERY)


class Budget:
    """So many a second, and not more than that at once."""

    def __init__(self, per_s: int, now_s: float) -> None:
        self._per_s = per_s
        self._left = float(per_s)
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        self._left = min(self._per_s, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


@final
class PairPeer(MarkedPeer):
    """A life that has shown whose it is, with the keys of the pair."""

    __slots__ = ("_opening", "_receiver", "_sealing", "_secret", "counter", "heard_s", "source", "window")

    def __init__(
        self, own_life: bytes, life: bytes, certificate: Certificate, secret: bytes, source: SocketAddress, now_s: float
    ) -> None:
        self._secret = secret
        self._receiver = own_life
        marks_out = AESGCM(expand(secret, b"marks " + own_life + life))
        marks_in = AESGCM(expand(secret, b"marks " + life + own_life))
        super().__init__(life, certificate, marks_out, marks_in)
        self.source = source
        self.heard_s = now_s
        self.window = ReplayWindow(0)
        self.counter = 0
        self._sealing = (0, self._derive(0, own_life, life))
        self._opening = (0, self._derive(0, life, own_life), self._derive(1, life, own_life))
        """The part of the counters that was heard last, its cipher, and that of the next: so that no flood can keep a
        peer from going on to its next key."""

    def _derive(self, index: int, sender: bytes, receiver: bytes) -> AESGCM:
        return AESGCM(expand(self._secret, b"pair " + sender + receiver + index.to_bytes(8, "little")))

    def seal(self, plain: bytes) -> bytes:
        """A datagram for this peer."""
        counter = self.counter = self.counter + 1
        index = counter >> SUBKEY_BITS
        if self._sealing[0] != index:
            self._sealing = (index, self._derive(index, self._receiver, self.life))
        header = SEAL_HEADER.pack(VERSION, PAIR, 0, self.life[:4], self._receiver, counter)
        return header + self._sealing[1].encrypt(counter.to_bytes(12, "little"), plain, header)

    def has_key(self, counter: int) -> bool:
        """Whether the key for this counter is at hand."""
        return 0 <= (counter >> SUBKEY_BITS) - self._opening[0] <= 1

    def open(self, datagram: bytes, counter: int) -> bytes | None:
        """What is in a datagram of this peer, if it is sound."""
        index = counter >> SUBKEY_BITS
        last, cipher, following = self._opening
        if index != last:
            cipher = following if index == last + 1 else self._derive(index, self.life, self._receiver)
        plain = open_sealed(datagram, cipher, counter)
        if plain is not None and index > last:
            self._opening = (index, cipher, self._derive(index + 1, self.life, self._receiver))
        return plain


@final
class PairSeal:
    """Seals and opens what one socket sends and receives, by identities. `greet` sends a datagram to an address."""

    def __init__(
        self,
        supply: IdentitySupply,
        draw: Callable[[int], bytes],
        now_s: Callable[[], float],
        wall_s: Callable[[], float],
        greet: Callable[[bytes, SocketAddress], None],
    ) -> None:
        """`draw` gives bytes that nobody has drawn before; `now_s` never goes back; `wall_s`: seconds since 1970."""
        self._supply = supply
        self._draw = draw
        self._now_s = now_s
        self._wall_s = wall_s
        self._greet = greet
        self._met: dict[bytes, PairPeer] = {}
        self._by_name: dict[str, PairPeer] = {}
        """By name, the life that was heard last…"""
        self._by_source: dict[SocketAddress, PairPeer] = {}
        """…and by address."""
        self.known: dict[str, Certificate] = {}
        self._circles: dict[int, tuple[str, ...]] = {}
        """By group, the other members of its view."""
        self._asked: dict[tuple[bytes, SocketAddress], float] = {}
        self._work = Budget(WORK_PER_S, now_s())
        self._hellos = Budget(HELLO_PER_S, now_s())
        self.marks = Marks()
        self.sealed = 0
        self.forged = 0
        self.replayed = 0
        self.unmet = 0
        self.unreadable = 0
        self.deferred = 0
        self.untrusted = 0
        self.unmarked = 0
        self.forbidden = 0
        self._begin_life()

    def _begin_life(self) -> None:
        self._pid = os.getpid()
        self.life = self._draw(LIFE_BYTES)
        self._private = X25519PrivateKey.from_private_bytes(self._draw(KEY_BYTES))
        self._public = self._private.public_key().public_bytes_raw()
        self._counter = 0
        self._marked = 0
        self._met.clear()
        self._by_name.clear()
        self._by_source.clear()
        self._asked.clear()

    def _notice_fork(self) -> None:
        if self._pid != os.getpid():  # the other copy of this process has the same counters
            self._begin_life()

    # ---- out -------------------------------------------------------------------------------------------------------

    def set_circle(self, group_id: int, names: Sequence[str]) -> None:
        """The other members of a group's view; none: the group is over here."""
        if names:
            self._circles[group_id] = tuple(names)
        else:
            self._circles.pop(group_id, None)

    def seal(
        self, packets: list[bytes], destinations: Sequence[SocketAddress], names: Sequence[str]
    ) -> list[tuple[list[bytes], SocketAddress]]:
        """These packets, sealed for each destination that has been met; the others are greeted. `names`: by
        destination, who is meant; if there are none, whoever is there."""
        self._notice_fork()
        plain = [self._with_mark(packet) for packet in packets]
        result = []
        for place, destination in enumerate(destinations):
            peer = self._by_name.get(names[place]) if names else self._by_source.get(destination)
            if peer is None:
                self._ask(NOBODY, destination, in_turn(self._supply.identity.entry.keys, self._counter))
                continue
            if peer.counter + len(plain) >= COUNTER_MAX:
                self._begin_life()
                break
            self.sealed += len(plain)
            result.append(([peer.seal(one) for one in plain], destination))
        return result

    def _with_mark(self, packet: bytes) -> bytes:
        if not is_marked(packet):
            return bytes((PLAIN_FORM,)) + packet
        form = PASSED_ON_FORM
        mark = self.marks.find(packet)
        if mark is None:
            circle = self._circles.get(group_of(packet), ())
            if len(circle) < 2:
                return bytes((PLAIN_FORM,)) + packet
            form = MARKED_FORM
            mark = self._mark(packet, circle)
        return _MARK.pack(form, len(mark)) + mark + packet

    def _mark(self, packet: bytes, circle: tuple[str, ...]) -> bytes:
        peers = [self._by_name[name] for name in circle if name in self._by_name]
        if len(peers) < len(circle) or len(circle) > CIRCLE_MAX:
            identity = self._supply.identity
            return sign_packet(packet, identity.certificate, identity.key)
        self._marked += 1
        return mark_packet(packet, self.life, self._marked, peers)

    # ---- in --------------------------------------------------------------------------------------------------------

    def open(self, datagrams: list[bytes], sources: list[SocketAddress]) -> tuple[list[bytes], list[str]]:
        """What is in those of these datagrams that are sound, new, allowed, and from lives that have been met; and the
        names of their authors."""
        packets: list[bytes] = []
        authors: list[str] = []
        now_s = self._now_s()
        for at, datagram in enumerate(datagrams):
            if len(datagram) < OVERHEAD:
                self.unreadable += 1
                continue
            version, kind, _, tag, life, counter = SEAL_HEADER.unpack_from(datagram)
            if version != VERSION or counter >= COUNTER_MAX or life == self.life or kind not in (GREETING, HELLO, PAIR):
                self.unreadable += 1
            elif kind != PAIR:
                self._open_entry(datagram, kind, tag, life, counter, sources[at], now_s)
            else:
                peer = self._met.get(life)
                plain = None
                if peer is None:
                    self.unmet += 1
                    self._ask(life, sources[at], self._supply.identity.entry.newest)
                elif not peer.window.is_new(counter):
                    self.replayed += 1
                else:
                    plain = self._open_pair(peer, datagram, counter, sources[at], now_s)
                if peer is not None and plain:
                    self._take(peer, plain, packets, authors)
        return packets, authors

    def _open_pair(
        self, peer: PairPeer, datagram: bytes, counter: int, source: SocketAddress, now_s: float
    ) -> bytes | None:
        if not peer.has_key(counter) and not self._work.take(now_s):
            self.deferred += 1
            return None
        plain = peer.open(datagram, counter)
        if plain is None:
            self.forged += 1
            return None
        peer.window.take(counter)
        peer.heard_s = now_s
        if peer.source != source or self._by_source.get(source) is not peer:
            peer.source = source
            self._by_source[source] = peer
        name = peer.certificate.name
        if self._by_name.get(name) is not peer:
            self._by_name[name] = peer
        return plain

    def _take(self, peer: PairPeer, plain: bytes, packets: list[bytes], authors: list[str]) -> None:
        """A sound datagram of a peer."""
        form = plain[0]
        author = peer.certificate
        packet = plain[1:]
        if form == REVOCATIONS_FORM:
            if self._supply.take_revocations(packet):
                self.forget_untrusted()
            return
        if form in (MARKED_FORM, PASSED_ON_FORM):
            if len(plain) < _MARK.size:
                self.unreadable += 1
                return
            start = _MARK.size + _MARK.unpack_from(plain)[1]
            mark, packet = plain[_MARK.size : start], plain[start:]
            if form == PASSED_ON_FORM:
                found = find_author(packet, mark, self.life, self._met.get, self._read)
                if found is None:
                    self.unmarked += 1
                    return
                author = found
            self.marks.keep(author.name, packet, mark)
        elif form != PLAIN_FORM:
            self.unreadable += 1
            return
        if not is_allowed(packet, author):
            self.forbidden += 1
            return
        packets.append(packet)
        authors.append(author.name)

    def _read(self, encoded: bytes) -> Certificate | None:
        """A certificate on a packet that was passed on: what a process said before it was revoked counts."""
        if not self._hellos.take(self._now_s()):
            self.deferred += 1
            return None
        return read_certificate(encoded, self._supply.identity.authority)

    # ---- entry -----------------------------------------------------------------------------------------------------

    def _open_entry(
        self, datagram: bytes, kind: int, tag: bytes, life: bytes, counter: int, source: SocketAddress, now_s: float
    ) -> None:
        key = self._supply.identity.entry.by_tag.get(tag)
        if key is None:
            self.unreadable += 1
            return
        if not self._work.take(now_s):
            self.deferred += 1
            return
        plain = open_sealed(datagram, derive(key, life, counter >> SUBKEY_BITS), counter)
        if plain is None:
            self.forged += 1
        elif kind == HELLO:
            self._take_hello(life, plain, key, source, now_s)
        elif len(plain) != _GREETING.size:
            self.unreadable += 1
        elif plain[1:] == self.life:
            self._say_hello(life, source, key, life not in self._met, now_s)
        elif life not in self._met:
            self._ask(life, source, key)

    def _entry(self, plain: bytes, kind: int, key: SharedKey) -> bytes:
        self._notice_fork()
        counter = self._counter = self._counter + 1
        header = SEAL_HEADER.pack(VERSION, kind, 0, key.tag, self.life, counter)
        cipher = derive(key, self.life, counter >> SUBKEY_BITS)
        return header + cipher.encrypt(counter.to_bytes(12, "little"), plain, header)

    def _was_asked(self, what: bytes, source: SocketAddress, now_s: float) -> bool:
        """Whether the same went to this address within ASK_S; else it is noted as going now."""
        asked_s = self._asked.get((what, source))
        if asked_s is not None and now_s - asked_s < ASK_S:
            return True
        self._asked.pop((what, source), None)
        self._asked[what, source] = now_s
        if len(self._asked) > ASKED_MAX:
            del self._asked[next(iter(self._asked))]
        return False

    def _ask(self, life: bytes, source: SocketAddress, key: SharedKey) -> None:
        """Greet a life, or whoever is at an address."""
        now_s = self._now_s()
        if not self._was_asked(life, source, now_s) and self._work.take(now_s):
            self._greet(self._entry(_GREETING.pack(1, life), GREETING, key), source)

    def _say_hello(self, life: bytes, source: SocketAddress, key: SharedKey, asks: bool, now_s: float) -> None:
        if self._was_asked(b"hello" + life, source, now_s):
            return
        if not self._hellos.take(now_s):
            self.deferred += 1
            return
        identity = self._supply.identity
        encoded = identity.certificate.encoded
        said = _HELLO.pack(asks, life, self._public, self._supply.revocations.version, len(encoded)) + encoded
        signature = identity.key.sign(_STATEMENT + self.life + said)
        self._greet(self._entry(said + signature, HELLO, key), source)

    def _take_hello(self, life: bytes, plain: bytes, key: SharedKey, source: SocketAddress, now_s: float) -> None:
        if len(plain) < _HELLO.size + SIGNATURE_BYTES:
            self.unreadable += 1
            return
        asks, named, public, version, length = _HELLO.unpack_from(plain)
        if named != self.life or len(plain) != _HELLO.size + length + SIGNATURE_BYTES:
            self.unreadable += 1
            return
        peer = self._met.get(life)
        if peer is None:
            if not self._hellos.take(now_s):
                self.deferred += 1
                return
            said, signature = plain[:-SIGNATURE_BYTES], plain[-SIGNATURE_BYTES:]
            certificate = self._supply.believe(said[_HELLO.size :], self._wall_s())
            if certificate is None or not is_signed(certificate.public, signature, _STATEMENT + life + said):
                self.untrusted += 1
                return
            peer = self._meet(life, certificate, public, source, now_s)
        if peer is not None:
            if asks:
                self._say_hello(life, source, key, False, now_s)
            if version < self._supply.revocations.version:
                self._greet(peer.seal(bytes((REVOCATIONS_FORM,)) + self._supply.revocations.encoded), source)

    def _meet(
        self, life: bytes, certificate: Certificate, public: bytes, source: SocketAddress, now_s: float
    ) -> PairPeer | None:
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:  # a point of low order: no secret
            self.untrusted += 1
            return None
        if len(self._met) >= LIVES_MAX:
            self._begin_life()  # whoever forgot windows would take repetitions
            return None
        names = sorted([(self.life, self._supply.identity.name), (life, certificate.name)])
        info = b"antiphon pair 1" + b"".join(
            one + len(name).to_bytes(2, "little") + name.encode() for one, name in names
        )
        secret = HKDF(SHA256(), 32, None, info).derive(shared)
        peer = PairPeer(self.life, life, certificate, secret, source, now_s)
        self._met[life] = self._by_name[certificate.name] = self._by_source[source] = peer
        self.known.pop(certificate.name, None)
        self.known[certificate.name] = certificate
        if len(self.known) > NAMES_MAX:
            del self.known[next(iter(self.known))]
        return peer

    # ---- trust -----------------------------------------------------------------------------------------------------

    def forget_untrusted(self) -> None:
        """Forget lives whose certificate was revoked, or has run out."""
        wall_s = self._wall_s()
        gone = [peer for peer in self._met.values() if not self._supply.holds(peer.certificate, wall_s)]
        for peer in gone:
            del self._met[peer.life]
            if self._by_name.get(peer.certificate.name) is peer:
                del self._by_name[peer.certificate.name]
            for source in [source for source, other in self._by_source.items() if other is peer]:
                del self._by_source[source]

    def pass_revocations_on(self) -> None:
        """Hand the revocations to all lives that have been met."""
        plain = bytes((REVOCATIONS_FORM,)) + self._supply.revocations.encoded
        for peer in self._met.values():
            self._greet(peer.seal(plain), peer.source)

    def renew(self) -> None:
        """Begin a new life, as whoever the supply says now."""
        self._begin_life()

    def statistics(self) -> dict[str, int]:
        return {
            "packets_sealed": self.sealed,
            "packets_forged": self.forged,
            "packets_replayed": self.replayed,
            "packets_unmet": self.unmet,
            "packets_unreadable": self.unreadable,
            "packets_deferred": self.deferred,
            "packets_unmarked": self.unmarked,
            "packets_forbidden": self.forbidden,
            "hellos_refused": self.untrusted,
            "lives_met": len(self._met),
            "revocations_version": self._supply.revocations.version,
        }


def is_allowed(packet: bytes, author: Certificate) -> bool:
    """Whether the author's certificate allows what this packet does."""
    if len(packet) < HEADER_SIZE:
        return False
    kind = packet_kind(packet)
    if kind == KNOCK:
        return True
    if not author.may(JOIN_RIGHT):
        return False
    if kind == MEMBERSHIP and not author.may(COORDINATE_RIGHT):
        return chunk_kind(packet_flags(packet), packet) not in _COORDINATING
    return True
