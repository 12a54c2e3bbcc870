"""Group requests: one member asks, all members reply (isis-1991 7.2).

A request is a multicast, so all members deliver it at the promised position; each reply is a point-to-point message in
causal order. The members that have to reply are those of the view in which the request is delivered. For each of them
there is in the end one reply, in view order: the result of its handler, the exception of its handler, or the statement
that it failed, which follows from a view change. So a request for all replies ends when the last member has replied or
is no longer a member. Second replies, late ones, and replies of processes that were not asked are ignored.

Limits: OUTSTANDING_MAX requests of one member at a time; further ones wait, within their own time-out.
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
    """A request, as a handler gets it."""

    payload: bytes
    sender: ProcessId
    order: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The reply of one member."""

    process: ProcessId
    payload: bytes
    error: str = ""
    """Why there is no payload; empty if there is one."""

    @property
    def is_good(self) -> bool:
        """Whether the handler returned a payload."""
        return not self.error


Handler = Callable[[Request], Awaitable[bytes]]
"""Answers one request. An exception becomes the `error` of the reply."""


def check_want(want: str) -> None:
    """Raise UsageError unless `want` is one of WANTS."""
    if want not in WANTS:
        raise UsageError(f"want={want!r} is unknown; choose one of {', '.join(WANTS)}")


class Outstanding:
    """A request that has not got all its replies."""

    def __init__(self, want: str) -> None:
        self._want = want
        self._asked: tuple[ProcessId, ...] = ()
        self._answers: dict[ProcessId, Reply] = {}
        self._early: dict[ProcessId, Reply] = {}
        """Replies that came before the request was delivered here: at `agreed` and `safe` others may deliver it
        first."""
        self.done: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()

    def delivered(self, view: View) -> None:
        """Note that the request was delivered in `view`: its members are to reply."""
        self._asked = view.members
        for reply in self._early.values():
            self.take(reply)
        self._early.clear()

    def take(self, reply: Reply) -> None:
        """Note a reply; only the first one of each member counts."""
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
            self.done.set_exception(
                UnansweredError(self._want, "the other members failed or returned errors", self.replies())
            )

    def needed(self) -> int:
        """The number of good replies that `first` or `majority` needs."""
        return 1 if self._want == "first" else len(self._asked) // 2 + 1

    def replies(self) -> list[Reply]:
        """Return one reply for each member that was asked, in view order; the error of missing ones says so."""
        late = {process: Reply(process=process, payload=b"", error=LATE) for process in self._asked}
        return list((late | self._answers).values())

    def lose(self, gone: tuple[ProcessId, ...]) -> None:
        """Count these processes, which are no longer members, as having failed to reply."""
        for process in gone:
            self.take(Reply(process=process, payload=b"", error=FAILED))


class Asks:
    """All requests of this member that have not got all their replies."""

    def __init__(self) -> None:
        self.turn = asyncio.Semaphore(OUTSTANDING_MAX)
        self._number = 0
        self._outstanding: dict[int, Outstanding] = {}
        self._ended: Exception | None = None

    def open(self, want: str) -> tuple[int, Outstanding]:
        """Begin a request; return its number and itself."""
        if self._ended is not None:
            raise self._ended
        self._number += 1
        self._outstanding[self._number] = Outstanding(want)
        return self._number, self._outstanding[self._number]

    def close(self, number: int) -> None:
        """Forget a request."""
        done = self._outstanding.pop(number).done
        if not done.cancel() and not done.cancelled():
            done.exception()  # marks it as retrieved, or asyncio would log it

    def delivered(self, number: int, view: View) -> None:
        """Note that an own request was delivered in `view`."""
        if number in self._outstanding:
            self._outstanding[number].delivered(view)

    def answered(self, process: ProcessId, answer: Answer) -> None:
        """Note the reply of a member."""
        if answer.number in self._outstanding:
            reply = Reply(process=process, payload=answer.payload, error=answer.error)
            self._outstanding[answer.number].take(reply)

    def lose(self, gone: tuple[ProcessId, ...]) -> None:
        """Note that these processes are no longer members."""
        for outstanding in self._outstanding.values():
            outstanding.lose(gone)

    def end(self, error: Exception) -> None:
        """Fail all requests, those to come included: this process is no longer a member."""
        self._ended = error
        self.fail(error)

    def fail(self, error: Exception) -> None:
        """Fail the requests there are."""
        for outstanding in self._outstanding.values():
            if not outstanding.done.done():
                outstanding.done.set_exception(error)
