"""Group requests: one asks, all members answer (isis-1991 7.2).

A request is a multicast, so all members get it in the promised place; each reply is a point-to-point message inside the
causal order. The members that are to answer are those of the view in which the request is delivered. Each of them ends
up as one reply, in view order: what its handler gave, what its handler raised, or that it failed, which the change of
view tells. So a request for all replies ends as soon as the last member has answered or is gone.

What comes twice, too late, or from somebody who was not asked is ignored.

Limits: OUTSTANDING_MAX requests of one member at a time; further ones wait for their turn within their own time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from antiphon import ProcessId, UsageError, View
from antiphon.toolkit.errors import UnansweredError
from antiphon.toolkit.messages import Answer

OUTSTANDING_MAX: Final = 1024
WANTS: Final = ("all", "first", "majority", "none")
FAILED: Final = "the member failed or left before it answered"
LATE: Final = "no answer yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a handler is given."""

    payload: bytes
    sender: ProcessId
    order: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one member gave."""

    process: ProcessId
    payload: bytes
    error: str = ""
    """Why there is no payload; empty: there is one."""

    @property
    def is_good(self) -> bool:
        return not self.error


Handler = Callable[[Request], Awaitable[bytes]]
"""Answers one request. What it raises goes to the asker as the reply's error."""


def check_want(want: str) -> None:
    if want not in WANTS:
        raise UsageError(f"there is no way to want {want!r} of the replies; choose one of {', '.join(WANTS)}")


class Outstanding:
    """One request on its way."""

    def __init__(self, want: str) -> None:
        self._want = want
        self._asked: tuple[ProcessId, ...] = ()
        self._answers: dict[ProcessId, Reply] = {}
        self._early: dict[ProcessId, Reply] = {}
        """Answers that came before the request: at the levels `agreed` and `safe` others may deliver it first."""
        self.done: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()

    def delivered(self, view: View) -> None:
        """The request has its place in the order, in this view: its members are asked."""
        self._asked = view.members
        for reply in self._early.values():
            self.take(reply)
        self._early.clear()

    def take(self, reply: Reply) -> None:
        """The first answer of each member counts."""
        if not self._asked:
            self._early.setdefault(reply.process, reply)
            return
        if reply.process not in self._asked or reply.process in self._answers or self.done.done():
            return
        self._answers[reply.process] = reply
        good = sum(answer.is_good for answer in self._answers.values())
        complete = len(self._answers) == len(self._asked)
        if complete if self._want == "all" else good >= self.needed():
            self.done.set_result([reply for reply in self.replies() if reply.process in self._answers])
        elif complete:
            self.done.set_exception(UnansweredError(self._want, "all others failed or gave errors", self.replies()))

    def needed(self) -> int:
        """How many good replies `first` or `majority` is content with."""
        return 1 if self._want == "first" else len(self._asked) // 2 + 1

    def replies(self) -> list[Reply]:
        """One for each that was asked, in view order."""
        late = {process: Reply(process=process, payload=b"", error=LATE) for process in self._asked}
        return list((late | self._answers).values())

    def lose(self, gone: tuple[ProcessId, ...]) -> None:
        """These are no longer members."""
        for process in gone:
            self.take(Reply(process=process, payload=b"", error=FAILED))


class Asks:
    """The requests of this member that are not yet answered."""

    def __init__(self) -> None:
        self.turn = asyncio.Semaphore(OUTSTANDING_MAX)
        self._number = 0
        self._outstanding: dict[int, Outstanding] = {}
        self._ended: Exception | None = None

    def open(self, want: str) -> tuple[int, Outstanding]:
        if self._ended is not None:
            raise self._ended
        self._number += 1
        self._outstanding[self._number] = Outstanding(want)
        return self._number, self._outstanding[self._number]

    def close(self, number: int) -> None:
        done = self._outstanding.pop(number).done
        if not done.cancel() and not done.cancelled():
            done.exception()  # looked at, so that nobody calls it forgotten

    def delivered(self, number: int, view: View) -> None:
        if number in self._outstanding:
            self._outstanding[number].delivered(view)

    def answered(self, process: ProcessId, answer: Answer) -> None:
        if answer.number in self._outstanding:
            reply = Reply(process=process, payload=answer.payload, error=answer.error)
            self._outstanding[answer.number].take(reply)

    def lose(self, gone: tuple[ProcessId, ...]) -> None:
        for outstanding in self._outstanding.values():
            outstanding.lose(gone)

    def end(self, error: Exception) -> None:
        """There will be no more replies, ever."""
        self._ended = error
        self.fail(error)

    def fail(self, error: Exception) -> None:
        """There will be no more replies to what has been asked."""
        for outstanding in self._outstanding.values():
            if not outstanding.done.done():
                outstanding.done.set_exception(error)
