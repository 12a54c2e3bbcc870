"""The root of a hierarchy: it maps newcomers to leaves (isis-1991 3: hierarchical groups).

    async with HierarchyRoot(hierarchy, address="10.0.0.1:7600"):           # at some representatives
        ...
    place = await find_leaf(["10.0.0.1:7600", "10.0.0.2:7600"], key=b"account 17")
    group = await node.join(place.leaf, contacts=place.contacts)            # from here on, only that leaf

The representatives of all leaves are the root: the leader of each leaf tells the others the leaf's members whenever
they change, so each of them has the whole directory. `find_leaf` asks one that runs a HierarchyRoot.

The rule. With a key, the leaf with the highest hash of (leaf, key) is chosen: data can be partitioned by key, and when
a leaf comes or goes only the keys that it gets or had move. Without a key, the leaf with the fewest members.

What it promises. Two roots with the same directory give the same answer. Directories are equal when leaves and leaders
have not changed for as long as a message takes; until then two roots may disagree. The contacts are those of the leaf's
last known view; if none of them is alive, joining fails, and the root is asked again.

Limits: LEAVES_MAX leaves, the one that changed least recently is forgotten; CONNECTIONS_MAX questions at a time.
"""

import asyncio
from collections.abc import Callable, Sequence
from hashlib import blake2b
from types import TracebackType
from typing import Final, Self

import msgspec

from antiphon import ProcessId, Trust, UsageError, open_connection, start_server
from antiphon.toolkit.errors import NoLeafError
from antiphon.toolkit.frames import FrameError, hang_up, join_host, put_frame, read_frame, send_frame, split_host
from antiphon.toolkit.messages import WireProcess, from_wire

LEAVES_MAX: Final = 16_384
CONNECTIONS_MAX: Final = 64
ANSWER_S: Final = 5.0
KEY_BYTES_MAX: Final = 4096


class LeafState(msgspec.Struct, tag="leaf", array_like=True, frozen=True):
    """A leaf's leader to the other representatives: the members of its leaf."""

    leaf: str
    contacts: list[str]
    """Addresses of all members, the oldest first."""
    representatives: list[WireProcess]
    down: int = 0
    """The place up to which messages to all are delivered at all members (hierarchy_log.py)."""


class LeafPlace(msgspec.Struct, tag="place", array_like=True, frozen=True):
    """Where to join: the name of a leaf and the addresses of its members."""

    leaf: str
    contacts: list[str]


class WhichLeaf(msgspec.Struct, tag="which", array_like=True, frozen=True):
    """A question to a root."""

    key: bytes | None


class NoLeaf(msgspec.Struct, tag="none", array_like=True, frozen=True):
    """A root's answer when it knows no leaf."""

    why: str


_ENCODER: Final = msgspec.msgpack.Encoder()
_QUESTIONS: Final = msgspec.msgpack.Decoder(WhichLeaf)
_ANSWERS: Final = msgspec.msgpack.Decoder(LeafPlace | NoLeaf)


class LeafDirectory:
    """All leaves, as one representative knows them."""

    def __init__(self) -> None:
        self._leaves: dict[str, LeafState] = {}

    def learn(self, state: LeafState) -> list[str]:
        """Take over what a leader tells of its leaf; the leaves that are forgotten for it."""
        self._leaves.pop(state.leaf, None)
        self._leaves[state.leaf] = state
        gone = list(self._leaves)[:-LEAVES_MAX]
        for name in gone:
            del self._leaves[name]
        return gone

    def keep(self, representatives: Sequence[ProcessId]) -> list[str]:
        """Forget the leaves none of whose representatives is in the leaders' group any more; which they are."""
        present = set(representatives)
        gone = [
            name for name, state in self._leaves.items() if present.isdisjoint(map(from_wire, state.representatives))
        ]
        for name in gone:
            del self._leaves[name]
        return gone

    def states(self) -> list[LeafState]:
        """What is known of each leaf, the one that changed least recently first."""
        return list(self._leaves.values())

    @property
    def leaves(self) -> dict[str, list[str]]:
        """The leaves and the addresses of their members."""
        return {name: list(state.contacts) for name, state in sorted(self._leaves.items())}

    def find(self, key: bytes | None) -> LeafPlace | None:
        """Return the leaf for `key`, or without a key the smallest one; None if there is no leaf."""
        if not self._leaves:
            return None
        if key is None:
            state = min(self._leaves.values(), key=lambda each: (len(each.contacts), each.leaf))
        else:
            state = max(self._leaves.values(), key=lambda each: (_weight(each.leaf, key), each.leaf))
        return LeafPlace(state.leaf, list(state.contacts))


def _weight(leaf: str, key: bytes) -> bytes:
    return blake2b(key, digest_size=16, key=blake2b(leaf.encode(), digest_size=32).digest()).digest()


class HierarchyRoot:
    """Answers `find_leaf` at `address`, from the directory of a representative."""

    def __init__(self, hierarchy: "LeafFinder", *, address: str = "127.0.0.1:0", trust: Trust | None = None) -> None:
        """`trust` says who may ask, as `Node.trust` does; by default, on loopback everybody."""
        self._trust = trust or Trust()
        self._find: Callable[[bytes | None], LeafPlace | None] = hierarchy.find_leaf
        self._address = address
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.Task[None], None] = {}

    def __repr__(self) -> str:
        return f"<HierarchyRoot at {self._address}>"

    async def __aenter__(self) -> Self:
        host, port = split_host(self._address)
        try:
            self._server = await start_server(self._serve, host, port, trust=self._trust)
        except OSError as error:
            raise UsageError(f"no root can be opened at {self._address}: {error}") from error
        self._address = join_host(host, self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def address(self) -> str:
        """The address for `find_leaf`."""
        return self._address

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._serving) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._serving[task] = None
        try:
            async with asyncio.timeout(ANSWER_S):
                question = _QUESTIONS.decode(await read_frame(reader))
                found = self._find(question.key)
                put_frame(
                    writer, _ENCODER.encode(found or NoLeaf("this root knows no leaf yet; ask again, or another"))
                )
                await writer.drain()
        except (FrameError, OSError, msgspec.DecodeError, asyncio.CancelledError):
            pass  # the other side hung up, was too slow or sent something else, or the root closes
        finally:
            del self._serving[task]
            writer.close()


class LeafFinder:
    """The interface by which a root asks a hierarchy for a leaf."""

    def find_leaf(self, key: bytes | None = None) -> LeafPlace | None:
        """Return the leaf for `key`, or the smallest; None if this process knows no leaf."""
        raise NotImplementedError


async def find_leaf(roots: Sequence[str], *, key: bytes | None = None, trust: Trust | None = None) -> LeafPlace:
    """Ask the roots, one after the other, which leaf is in charge of `key`, or without a key which is the smallest.

    Raises NoLeafError if none of them can tell.
    """
    if isinstance(roots, str) or not roots:
        raise UsageError("name the roots as a list of addresses, as in find_leaf(['10.0.0.1:7600'])")
    if key is not None and len(key) > KEY_BYTES_MAX:
        raise UsageError(f"the key has {len(key)} bytes, and at most {KEY_BYTES_MAX} are allowed; shorten it")
    why = ""
    for root in roots:
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await _ask(root, key, trust or Trust())
        except (FrameError, OSError, ValueError, msgspec.DecodeError) as error:
            why = f"{root}: {str(error) or type(error).__name__}"
            continue
        if isinstance(answer, LeafPlace):
            return answer
        why = f"{root}: {answer.why}"
    raise NoLeafError(why)


async def _ask(root: str, key: bytes | None, trust: Trust) -> LeafPlace | NoLeaf:
    host, port = split_host(root)
    reader, writer = await open_connection(host, port, trust=trust)
    try:
        await send_frame(writer, _ENCODER.encode(WhichLeaf(key)))
        answer: LeafPlace | NoLeaf = _ANSWERS.decode(await read_frame(reader))
        return answer
    finally:
        await hang_up(writer)
