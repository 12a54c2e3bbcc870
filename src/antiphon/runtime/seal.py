"""Seals: what makes a packet unreadable to outsiders, and refuses what they make, change or repeat.

A sealed packet is

    version u8 | class u8 | newest u16 | key tag 4 bytes | life 16 bytes | counter u64 | AES-256-GCM of the packet | tag

The first 32 bytes are all that is read before the packet is known to be sound; they are its associated data, and the
nonce is the counter. `newest` is the highest epoch that the sender's keyring has. The key is HKDF(secret of the key
with this tag, life, counter / SUBKEY_PACKETS): it follows from the keyring and the header alone, so nobody has to be
asked for it, and a packet that is lost, late or the first of its sender can be opened like any other. Whoever
transmits seals anew, so members can resend for each other, however late.

No (key, nonce) pair occurs twice. A *life* is 16 random bytes, drawn when a node starts, with a counter that only
rises. Whatever might repeat a counter begins a new life: a restart, with whatever clock and incarnation; a fork, seen
by the process id; the end of the counter. Two of 2^40 lives are alike with a chance of 2^-49. Names and incarnations
are not in the key: they would add nothing to that, and the receiver cannot know them before it has opened the packet.

Meeting. A receiver that has just begun knows no counters, so a window alone would let it take a capture of all that was
ever sent. Therefore a packet is taken only from a life that has been *met*: that has said, by a GREETING, which life it
speaks to. My life is random and new, so a greeting that names it was sealed after it began; and of the life that it
comes from, only counters above that of the greeting are taken. So:

    What a life takes was sealed by a holder of a key while that life went on, and it is taken once.

No clock is needed, and nothing is kept for a life that has not been met. A sound packet of such a life is dropped, as
if lost, and answered by a greeting that asks for one. That is no longer than the shortest packet, so nobody can be
flooded by way of it, and it goes to one address once in ASK_S. Meeting takes one round trip, and what was dropped is
resent as after any other loss. If a greeting is lost, the next packet brings another.

A window of 65,536 counters, moved only by packets that are sound, refuses repetitions. Windows of LIVES_MAX lives are
kept; when there are more, the half that was silent for longest is forgotten. That alone would allow their packets to
be repeated, under the old greetings. So whoever forgets begins a new life itself: old greetings then name nobody.

Work before a packet is known to be sound: one look into a table, and one decryption. To derive a key costs more, and
is needed for unknown lives and counters far off: at most WORK_PER_S times a second, so that a flood of such packets
takes a small part of a processor. During a flood, strangers have to try more often; those that have been met do not.

Which key. All keys of the keyring open; `newest`, which is part of each sound packet, tells which ones the others have.
Packets are sealed by the newest key that none of those heard within LATELY_S lacks. A life that has heard nobody takes
its keys in turn, and a greeting is sealed by the key of the packet that it answers. So a rotation needs no phases of
its own: members change over when the last of them has the file. A process that comes with an older key, as long as it
is listed, is understood and answered, and the others go back to that key while it is there. Nothing is to be resumed
after a crash. When a key is taken out of the keyring, everything that was learnt under it is forgotten.

Not promised: see docs/security.md. A shared key tells members from outsiders, and not one member from another.
"""

import os
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon.runtime.address import SocketAddress
from antiphon.runtime.keyring import Keyring, SharedKey, expand

VERSION: Final = 1
GREETING: Final = 0
PACKET: Final = 1
HEARS: Final = 2
BEACON: Final = 3
"""Classes: what is in a sealed packet."""

SEAL_HEADER: Final = Struct("<BBH4s16sQ")
HEADER_BYTES: Final = 32
LIFE_BYTES: Final = 16
TAG_BYTES: Final = 16
OVERHEAD: Final = HEADER_BYTES + TAG_BYTES
_NONCE_BYTES: Final = 12
_GREETING: Final = Struct("<B16s")

SUBKEY_BITS: Final = 22
"""2^22 packets of 2^12 blocks stay far below what AES-GCM allows under one key."""
COUNTER_MAX: Final = 2**48
"""Counters are below this."""
WINDOW: Final = 65_536
_RING: Final = WINDOW // 8 + 1
LIVES_MAX: Final = 4096
WORK_PER_S: Final = 2000
ASK_S: Final = 0.02
ASKED_MAX: Final = 256
"""Strangers that are remembered as asked; beyond, the one that was asked first is asked again."""
LATELY_S: Final = 10.0
_GOLDEN: Final = 0x9E3779B97F4A7C15
"""2^64 by the golden ratio: its multiples are spread evenly, by whatever step."""


def sealed_class(datagram: bytes) -> int:
    """The class that a datagram says it is of, sound or not."""
    return datagram[1] if len(datagram) > 1 else GREETING


@final
class ReplayWindow:
    """Which counters of a life were taken: a ring of bits, 8 to a byte, for the last 65,536 counters."""

    __slots__ = ("_bits", "_top")

    def __init__(self, floor: int) -> None:
        """Counters up to `floor` count as taken."""
        self._top = floor
        self._bits = bytearray(b"\xff") * _RING
        self._bits[(floor >> 3) % _RING] = (2 << (floor & 7)) - 1

    def is_new(self, counter: int) -> bool:
        """Whether this counter can still be taken."""
        if counter > self._top:
            return True
        return self._top - counter < WINDOW and not self._bits[(counter >> 3) % _RING] >> (counter & 7) & 1

    def take(self, counter: int) -> None:
        """From here on this counter is not new. Only for what is known to be sound."""
        block, last = self._top >> 3, counter >> 3
        if last - block >= _RING:
            self._bits = bytearray(_RING)
        else:
            for passed in range(block + 1, last + 1):
                self._bits[passed % _RING] = 0
        self._bits[last % _RING] |= 1 << (counter & 7)
        if counter > self._top:
            self._top = counter


@final
class MetLife:
    """A life that has said whom it speaks to."""

    __slots__ = ("_former", "_latest", "heard_s", "life", "newest", "source", "window")

    def __init__(self, life: bytes, source: SocketAddress, greeting: int, newest: int, heard_s: float) -> None:
        """`greeting`: the counter of its greeting."""
        self.life = life
        self.source = source
        self.window = ReplayWindow(greeting)
        self.newest = newest
        self.heard_s = heard_s
        self._latest: tuple[bytes, int, AESGCM | None] = (b"", 0, None)
        self._former: tuple[bytes, int, AESGCM | None] = self._latest

    def cipher(self, tag: bytes, index: int) -> AESGCM | None:
        """The cipher under this key and for this part of the counters, if it was used before."""
        latest = self._latest
        if latest[1] == index and latest[0] == tag:
            return latest[2]
        former = self._former
        return former[2] if former[1] == index and former[0] == tag else None

    def keep(self, tag: bytes, index: int, cipher: AESGCM) -> None:
        """A packet was sound under this cipher."""
        self._former = self._latest
        self._latest = (tag, index, cipher)


def in_turn(keys: Sequence[SharedKey], count: int) -> SharedKey:
    """One of these: over many counts, in whatever steps, each comes up equally often."""
    return keys[(count * _GOLDEN % 2**64) * len(keys) >> 64]


def derive(key: SharedKey, life: bytes, index: int) -> AESGCM:
    """The cipher of one life for one part of its counters."""
    return AESGCM(expand(key.secret, b"datagrams" + life + index.to_bytes(8, "little")))


@final
class Seal:
    """Seals and opens what one socket sends and receives. `greet` sends a greeting to an address."""

    def __init__(
        self,
        keyring: Keyring,
        draw: Callable[[int], bytes],
        now_s: Callable[[], float],
        greet: Callable[[bytes, SocketAddress], None],
    ) -> None:
        """`draw` gives bytes that nobody has drawn before; `now_s` is time that never goes back."""
        self._keyring = keyring
        self._draw = draw
        self._now_s = now_s
        self._greet = greet
        self._met: dict[bytes, MetLife] = {}
        self._asked: dict[tuple[bytes, SocketAddress], float] = {}
        """Strangers that were asked for a greeting, and when."""
        self._work = float(WORK_PER_S)
        self._work_s = now_s()
        self._key: SharedKey | None = None
        """What packets are sealed by; None while nobody is heard: then all keys in turn."""
        self.forged = 0
        self.replayed = 0
        self.unmet = 0
        self.unreadable = 0
        self.deferred = 0
        self.sealed = 0
        self.meetings = 0
        """Lives that were met until now."""
        self._begin_life()

    def _begin_life(self) -> None:
        self._pid = os.getpid()
        self.life = self._draw(LIFE_BYTES)
        self._counter = 0
        self._ciphers: dict[bytes, tuple[int, AESGCM]] = {}
        """For sealing, by the tag of the key."""
        self._asked.clear()

    # ---- out -------------------------------------------------------------------------------------------------------

    def seal(self, packets: list[bytes], kind: int = PACKET) -> list[bytes]:
        """These packets, sealed; each of them once, for whatever destinations."""
        self._notice_fork()
        key = self._key
        if key is None:
            key = in_turn(self._keyring.keys, self._counter)
        self.sealed += len(packets)
        return [self._seal(packet, kind, key) for packet in packets]

    def _notice_fork(self) -> None:
        if self._pid != os.getpid():  # the other copy of this process has the same counter
            self._met.clear()
            self._begin_life()

    def _seal(self, packet: bytes, kind: int, key: SharedKey) -> bytes:
        counter = self._counter + 1
        if counter >= COUNTER_MAX:
            self._begin_life()
            counter = 1
        self._counter = counter
        index = counter >> SUBKEY_BITS
        known = self._ciphers.get(key.tag)
        if known is None or known[0] != index:
            known = self._ciphers[key.tag] = (index, derive(key, self.life, index))
        header = SEAL_HEADER.pack(VERSION, kind, self._keyring.newest.epoch, key.tag, self.life, counter)
        return header + known[1].encrypt(counter.to_bytes(_NONCE_BYTES, "little"), packet, header)

    # ---- in --------------------------------------------------------------------------------------------------------

    def open(self, datagrams: list[bytes], sources: list[SocketAddress], kind: int = PACKET) -> list[bytes]:
        """What is in those of these datagrams that are sound, new, of this class, and from lives that have been met."""
        opened: list[bytes] = []
        now_s = self._now_s()
        met = self._met
        for at, datagram in enumerate(datagrams):
            if len(datagram) < OVERHEAD:
                self.unreadable += 1
                continue
            version, found, newest, tag, life, counter = SEAL_HEADER.unpack_from(datagram)
            key = self._keyring.by_tag.get(tag)
            if (
                version != VERSION
                or key is None
                or counter >= COUNTER_MAX
                or life == self.life
                or (found != kind and found != GREETING)
            ):
                self.unreadable += 1
                continue
            peer = met.get(life)
            if peer is None:
                self._meet(datagram, sources[at], key, now_s)
                continue
            if not peer.window.is_new(counter):
                self.replayed += 1
                continue
            index = counter >> SUBKEY_BITS
            cipher = peer.cipher(tag, index)
            is_known = cipher is not None
            if cipher is None:
                if not self._may_work(now_s):
                    continue
                cipher = derive(key, life, index)
            packet = open_sealed(datagram, cipher, counter)
            if packet is None:
                self.forged += 1
                continue
            peer.window.take(counter)
            peer.heard_s = now_s
            if not is_known:
                peer.keep(tag, index, cipher)
            if peer.newest != newest:
                peer.newest = newest
                self.choose_key()
            if found == kind:
                opened.append(packet)
            elif _asks(packet):
                self._answer(life, sources[at], key, False)
        return opened

    def _may_work(self, now_s: float) -> bool:
        """Whether a key may be derived for something that may be a forgery."""
        self._work = min(WORK_PER_S, self._work + (now_s - self._work_s) * WORK_PER_S)
        self._work_s = now_s
        if self._work < 1:
            self.deferred += 1
            return False
        self._work -= 1
        return True

    def _meet(self, datagram: bytes, source: SocketAddress, key: SharedKey, now_s: float) -> None:
        """Something came from a life that has not been met."""
        _, kind, newest, _, life, counter = SEAL_HEADER.unpack_from(datagram)
        asked_s = self._asked.get((life, source))
        is_asked = asked_s is not None and now_s - asked_s < ASK_S
        if is_asked and kind != GREETING:
            self.unmet += 1
            return
        if not self._may_work(now_s):
            return
        index = counter >> SUBKEY_BITS
        cipher = derive(key, life, index)
        packet = open_sealed(datagram, cipher, counter)
        if packet is None:
            self.forged += 1
        elif kind == GREETING and _names(packet, self.life):
            peer = MetLife(life, source, counter, newest, now_s)
            peer.keep(key.tag, index, cipher)
            self._remember(peer)
            if _asks(packet):
                self._answer(life, source, key, False)
        else:
            self.unmet += 1
            if not is_asked:
                self._asked.pop((life, source), None)
                self._asked[life, source] = now_s
                if len(self._asked) > ASKED_MAX:
                    del self._asked[next(iter(self._asked))]
                self._answer(life, source, key, True)

    def _answer(self, life: bytes, source: SocketAddress, key: SharedKey, asks: bool) -> None:
        """Greet a life, by the key that it used."""
        self._notice_fork()
        self._greet(self._seal(_GREETING.pack(asks, life), GREETING, key), source)

    def _remember(self, peer: MetLife) -> None:
        self.meetings += 1
        self._met[peer.life] = peer
        if len(self._met) > LIVES_MAX:
            for silent in sorted(self._met.values(), key=lambda met: met.heard_s)[: LIVES_MAX // 2]:
                del self._met[silent.life]
            self._begin_life()
        self.choose_key()

    # ---- keys ------------------------------------------------------------------------------------------------------

    def choose_key(self) -> None:
        """Choose what to seal by: the newest key that nobody heard lately lacks."""
        since_s = self._now_s() - LATELY_S
        # Of several lives at one address the last counts: the others are over.
        heard = {peer.source: peer.newest for peer in self._met.values() if peer.heard_s >= since_s}
        if not heard:
            self._key = None
            return
        keys = self._keyring.keys
        least = min(heard.values())
        self._key = max((key for key in keys if key.epoch <= least), key=lambda key: key.epoch, default=keys[0])

    def change_keys(self, keyring: Keyring) -> None:
        """Use these keys from now on. What was learnt under a key that is not among them is forgotten."""
        is_cut = any(key.tag not in keyring.by_tag for key in self._keyring.keys)
        self._keyring = keyring
        if is_cut:
            self._met.clear()
            self._begin_life()
        self.choose_key()

    def statistics(self) -> dict[str, int]:
        return {
            "packets_sealed": self.sealed,
            "packets_forged": self.forged,
            "packets_replayed": self.replayed,
            "packets_unmet": self.unmet,
            "packets_unreadable": self.unreadable,
            "packets_deferred": self.deferred,
            "lives_met": len(self._met),
            "key_epoch": 0 if self._key is None else self._key.epoch,
            "key_epoch_newest": self._keyring.newest.epoch,
        }


def open_sealed(datagram: bytes, cipher: AESGCM, counter: int) -> bytes | None:
    """What is in a datagram; None if it was not sealed by this cipher."""
    try:
        return cipher.decrypt(
            counter.to_bytes(_NONCE_BYTES, "little"), memoryview(datagram)[HEADER_BYTES:], datagram[:HEADER_BYTES]
        )
    except InvalidTag:
        return None


def _names(greeting: bytes, life: bytes) -> bool:
    return len(greeting) == _GREETING.size and bool(greeting[1:] == life)


def _asks(greeting: bytes) -> bool:
    return len(greeting) == _GREETING.size and greeting[0] == 1
