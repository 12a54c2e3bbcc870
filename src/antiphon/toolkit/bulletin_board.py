"""Bulletin boards (isis-1987, 5): members post under subjects, everybody reads its own copy, at the level it asks for.

    board = BulletinBoard(tools)
    async with tools:
        await board.post("weather", b"rain", consistency="agreed")
        board.read("weather")                       # what is on this member's copy, at once
        await board.read_latest("weather")          # what was posted, by anybody, before this call
        async for post in board.watch("weather"): ...

Posting never waits for the network. What the levels promise, for posts under one subject or under several:

    fifo      posts of one author are in the order of its calls
    causal    and a post follows every post that its author had read
    agreed    and all boards have these posts in one order
    safe      and one that is on a board is on the boards of all members that live

Reading is local. A board may lag behind; `read_latest` first posts a marker at level `agreed` and waits for it, so it
has every agreed or safe post that any `post` had brought onto its author's own board before the call, and all posts of
this member. `settle` waits until all boards have what is on this one.

Limits: the newest `kept` posts of a subject, SUBJECTS_MAX subjects (the one that was posted to longest ago goes first);
a watcher that is WATCHED_MAX posts behind misses the oldest, and its `missed` says how many.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import msgspec

from antiphon import Message, Order, ProcessId, UsageError
from antiphon.toolkit.messages import WireProcess, from_wire, to_wire
from antiphon.toolkit.tools import Tool, Tools

KEPT: Final = 1000
SUBJECTS_MAX: Final = 4096
WATCHED_MAX: Final = 1024
CONSISTENCIES: Final = ("fifo", "causal", "agreed", "safe")


class _Posted(msgspec.Struct, array_like=True, tag="post"):
    subject: str
    payload: bytes


class _Marker(msgspec.Struct, array_like=True, tag="marker"):
    number: int


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Posted | _Marker)
_STATE: Final = msgspec.msgpack.Decoder(dict[str, list[tuple[WireProcess, int, str, bytes]]])


@dataclass(frozen=True, slots=True)
class Post:
    """One post on a board."""

    subject: str
    author: ProcessId
    number: int
    """Its number among the author's messages to the group."""
    consistency: str
    payload: bytes


class BoardWatcher:
    """Reads what is posted under a subject from now on."""

    def __init__(self, board: "BulletinBoard", subject: str) -> None:
        self.missed = 0
        self._board = board
        self._subject = subject
        self._posts: deque[Post] = deque()
        self._news = asyncio.Event()
        board.watchers.setdefault(subject, []).append(self)

    def put(self, post: Post) -> None:
        """Note a post; without room the oldest is dropped and counted."""
        if len(self._posts) == WATCHED_MAX:
            self._posts.popleft()
            self.missed += 1
        self._posts.append(post)
        self._news.set()

    def wake(self) -> None:
        """Look again: the group may be over."""
        self._news.set()

    async def __aiter__(self) -> AsyncIterator[Post]:
        try:
            while True:
                while not self._posts:
                    if self._board.tools.error is not None:
                        return
                    self._news.clear()
                    await self._news.wait()
                yield self._posts.popleft()
        finally:
            watchers = self._board.watchers.get(self._subject, [])
            if self in watchers:
                watchers.remove(self)


class BulletinBoard(Tool):
    """One member's copy of the board."""

    def __init__(self, tools: Tools, name: str = "board", *, kept: int = KEPT) -> None:
        super().__init__(tools, name)
        if kept < 1:
            raise UsageError(f"kept={kept}: a board keeps at least one post of a subject")
        self.watchers: dict[str, list[BoardWatcher]] = {}
        self._kept = kept
        self._posts: dict[str, deque[Post]] = {}
        self._number = 0
        self._markers: dict[int, asyncio.Future[None]] = {}

    async def post(self, subject: str, payload: bytes, *, consistency: Order = "causal") -> None:
        """Put a post onto all boards. Waits only for flow control."""
        if consistency not in CONSISTENCIES:
            raise UsageError(f"consistency={consistency!r} is unknown; choose one of {', '.join(CONSISTENCIES)}")
        await self.tools.send(self, _ENCODER.encode(_Posted(subject, payload)), order=consistency)

    def read(self, subject: str) -> list[Post]:
        """Return what is on this copy, the oldest first."""
        return list(self._posts.get(subject, ()))

    @property
    def subjects(self) -> list[str]:
        """The subjects, the one that was posted to last at the end."""
        return list(self._posts)

    async def read_latest(self, subject: str) -> list[Post]:
        """Return what is on this copy when it is up to date; see the levels above."""
        await self.tools.live()
        self._number += 1
        number = self._number
        self._markers[number] = asyncio.get_running_loop().create_future()
        try:
            await self.tools.send(self, _ENCODER.encode(_Marker(number)), order="agreed")
            await self._markers[number]
        finally:
            del self._markers[number]
        return self.read(subject)

    def watch(self, subject: str) -> BoardWatcher:
        """Read posts as they come: `async for post in board.watch(subject)`."""
        return BoardWatcher(self, subject)

    async def settle(self) -> None:
        """Wait until all boards have what is on this one."""
        await self.tools.flush()

    def take(self, event: Message, payload: bytes) -> None:
        message = _DECODER.decode(payload)
        if isinstance(message, _Marker):
            marker = self._markers.get(message.number) if event.sender == self.tools.process else None
            if marker is not None and not marker.done():
                marker.set_result(None)
            return
        self._add(Post(message.subject, event.sender, event.number, event.order, message.payload))

    def _add(self, post: Post) -> None:
        posts = self._posts.pop(post.subject, None)
        if posts is None:
            posts = deque(maxlen=self._kept)
            if len(self._posts) >= SUBJECTS_MAX:
                del self._posts[next(iter(self._posts))]
        posts.append(post)
        self._posts[post.subject] = posts
        for watcher in self.watchers.get(post.subject, ()):
            watcher.put(post)

    def suspend(self, why: str, excluded: bool) -> None:
        if excluded:
            self._fail(self.tools.lost_error())

    def end(self, error: Exception) -> None:
        self._fail(error)
        for watchers in self.watchers.values():
            for watcher in watchers:
                watcher.wake()

    def _fail(self, error: Exception) -> None:
        for marker in self._markers.values():
            if not marker.done():
                marker.set_exception(error)

    def export(self) -> bytes:
        posts = {
            subject: [(to_wire(post.author), post.number, post.consistency, post.payload) for post in kept]
            for subject, kept in self._posts.items()
        }
        return _ENCODER.encode(posts)

    def restore(self, state: bytes) -> None:
        self._posts = {
            subject: deque(
                (
                    Post(subject, from_wire(author), number, consistency, payload)
                    for author, number, consistency, payload in posts
                ),
                maxlen=self._kept,
            )
            for subject, posts in _STATE.decode(state).items()
        }
