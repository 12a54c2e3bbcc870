"""A group as its application sees it: send, read, leave, close."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from antiphon.kernel.effects import Delivered
from antiphon.kernel.errors import MessageTooLargeError, UsageError
from antiphon.kernel.identity import View
from antiphon.kernel.inputs import Send
from antiphon.kernel.inputs import SendBarrier as BarrierInput
from antiphon.kernel.levels import CAUSAL, LEVEL_NAMES, LEVELS, SAFE, Order
from antiphon.kernel.policies import PARTITIONABLE, SITES, STATIC
from antiphon.parts.membership.group import BARRIER_BYTES_MAX
from antiphon.runtime.arguments import (
    Destinations,
    check_count,
    check_destinations,
    check_order_and_label,
    check_payloads,
    check_seconds,
)
from antiphon.runtime.events import Batch
from antiphon.runtime.group_events import NO_VIEW, TO_ALL, GroupEvents
from antiphon.runtime.logs import log_event
from antiphon.runtime.outbox import SendMode, measure
from antiphon.runtime.readers import BatchReader, MessageReader, caller
from antiphon.runtime.stream import Listener
from antiphon.runtime.trust import Trust

RECOVER_S: Final = 10.0
RECOVER_AGAIN_S: Final = 1.0


class Group(GroupEvents):
    """This process's membership of one group; made by `Node.join`.

    `async for event in group` reads Messages and ViewChanges, one by one; `group.batches()` reads the same stream as
    Batches and ViewChanges. Either promises the order within this group only: who wants to see the order between
    groups reads the node. Own messages come back in the stream like everybody's. `view` is the one that the engine is
    in, of which the stream tells when it gets there.
    """

    def __repr__(self) -> str:
        state = ", over" if self.is_over else ", closed" if self._closed else ""
        return f"<Group {self.name!r} on stack {self.stack!r}, policy {self.policy!r}, {self.view}{state}>"

    @property
    def trust(self) -> Trust:
        """See `antiphon.Node.trust`."""
        return self._driver.trust

    def _offer(self, payloads: list[bytes], way: SendMode) -> int:
        if way.barrier:
            return self._driver.step(BarrierInput(group=self.name, payload=payloads[0]))
        return self._driver.step(
            Send(
                group=self.name,
                payloads=payloads,
                level=way.level,
                destinations=way.destinations,
                label=way.label if way.label is not None and self._offered.labels else "",
            )
        )

    def _deliver(self, event: Delivered) -> None:
        self._stream.put(
            Batch(
                event.payloads,
                event.sender,
                event.number,
                LEVEL_NAMES[event.level],
                event.group,
                event.view_id,
                event.private,
                event.size,
            )
        )

    async def send(
        self, payload: bytes, *, order: Order = "causal", to: Destinations = None, label: str | None = None
    ) -> None:
        """Multicast `payload` to all members, this one included, at level `order`; or send it to the member `to` alone,
        in causal order with everything else. On a stack that has subsets, `to` may be several members, at any level.

        Returns when the message is accepted: at once, unless the group cannot keep up; then it waits until there is
        room. It never waits for the network. What is sent to a member that is gone by then is lost.

        While more is delivered here than is read, nothing leaves: own messages would be delivered here, too. So a task
        that reads this group and sends to it must not wait for room that only its own reading can make: that raises
        ReaderBlockedError. Up to outbox.MESSAGES_MAX messages or outbox.BYTES_MAX bytes fit before that.

        Messages of one process to the groups of one causality domain leave in the order of the calls. So while a group
        stands still for want of a majority, what was sent there before holds up what is sent to others of its domain
        and must come after; `leave` it, or `recover` it, if it is not to be waited for. What is sent there meanwhile
        waits at the call, and holds up nothing.

        `label` is a short text that the history keeps with the message, and its page and `antiphon lineage` show. On a
        stack that has labels, `comparison=value` orders a `reliable` message by that comparison alone
        (`antiphon.register_comparison`).
        """
        try:
            mode = self._modes.get(order) if to is None else None
        except TypeError:
            mode = None
        if mode is None or label is not None:
            mode = self._way(order, to, label)
        lane = self._lane
        if type(payload) is not bytes or lane.error is not None or not self._going.is_set():
            await self._put((payload,), mode)
            return
        size = len(payload)
        if size > self._message_bytes_max:
            raise MessageTooLargeError(size, self._message_bytes_max)
        if not self._outbox.put(lane, (payload,), mode, size):
            await self._outbox.send(lane, (payload,), mode, size, caller())

    @property
    def _is_held_up(self) -> bool:
        """Whether what is sent here waits at the call, so that it does not hold up other groups."""
        return not self._going.is_set() and self._outbox.lanes > 1

    async def send_many(
        self,
        payloads: Sequence[bytes],
        *,
        order: Order = "causal",
        to: Destinations = None,
        label: str | None = None,
    ) -> None:
        """`send` for many, in this order, with the same destinations and label; cheaper than one by one. Cancelled, it
        has sent some from the front."""
        check_payloads(payloads)
        await self._put(payloads, self._way(order, to, label))

    def send_now(
        self, payload: bytes, *, order: Order = "causal", to: Destinations = None, label: str | None = None
    ) -> bool:
        """`send` for where nothing can wait, as in a listener; false, and nothing is sent, if there is no room."""
        size = self._measure((payload,))
        way = self._way(order, to, label)
        if self._is_held_up:
            return False
        return self._outbox.put(self._lane, (payload,), way, size) == 1

    async def barrier(self, payload: bytes) -> None:
        """Have an event, `antiphon.Barrier`, at the same place among all deliveries at all members; a new view follows.
        This is the GBCAST of isis-1987: messages of every level and label, and other barriers, are on the same side of
        it everywhere. It is for what all must decide on alike: rankings, properties, checkpoints.

        Waits like `send`. The members agree on its place as they do on a view, so it costs as much as one, and its
        payload is small.
        """
        if not self._offered.barriers:
            raise UsageError(f"stack {self.stack!r} has no barriers; `agreed` messages have one place among all")
        if self.policy == PARTITIONABLE:
            raise UsageError(f"group {self.name!r} may part, so it has no barriers; join with `primary`")
        if self.policy == STATIC:
            raise UsageError(
                f"the view of group {self.name!r} is static, and a barrier ends a view; join with `primary`"
            )
        measure((payload,), BARRIER_BYTES_MAX)
        await self._put((payload,), SendMode(SAFE, barrier=True))

    async def flush(self, *, k: int = 0) -> None:
        """Wait until all that was sent or delivered here is delivered at every member, or (`k`) until so many members
        beside its sender have received it, and no failure of so few can undo it.

        What is sent after a flush, even in another causality domain, is delivered after what was flushed. On stacks
        whose members do not tell what they have delivered, a flush waits until all have received it.
        """
        check_count("k", k, 0)
        await self._drain()
        await self._driver.flush([self.name], k)

    async def _put(self, payloads: Sequence[bytes], way: SendMode) -> None:
        size = self._measure(payloads)
        if self._is_held_up:
            await self._going.wait()
            self._check_open()
        await self._outbox.send(self._lane, payloads, way, size, caller())

    async def _drain(self) -> None:
        """Wait until the engine has taken all that was sent here. Raises if it never will."""
        self._check_open()
        await self._outbox.drain(self._lane)

    def __aiter__(self) -> MessageReader:
        return MessageReader(self._streams.read_group(self))

    def events(self, *, own: bool = True) -> MessageReader:
        """The stream, one by one, as `async for event in group` reads it; without own messages if `own` is false."""
        return MessageReader(self._streams.read_group(self), "" if own else self.process.name)

    def batches(self, *, own: bool = True) -> BatchReader:
        """The same stream in batches, for those in a hurry."""
        return BatchReader(self._streams.read_group(self), "" if own else self.process.name)

    def listen(self, listener: Listener | None, *, own: bool = True) -> None:
        """Instead of reading: have `listener` called with each event, in batches, at the very moment it is due; first
        with those that wait. None ends that, and readers can read again.

        This is the quickest way to an answer, by `send_now`. The listener holds up everything else on the event loop
        while it runs; what it raises fails the node. Listeners of several groups are called in the order of delivery,
        which keeps the order between groups, if each is there before messages are: call this right after `join`. If a
        message has to wait for its listener while another group has one, the groups count as read apart from then on,
        and the history says so.
        """
        if listener is not None and not callable(listener):
            raise UsageError(f"a listener is a function that takes an event, not {listener!r}")
        self._streams.read_group(self, listening=True).listen(listener, "" if own else self.process.name)
        self._driver.guard(self._stream.tell)

    async def close(self) -> bool:
        """Send no more, wait until all members have what was sent here (at most the node's `linger_s`), stop reading.

        True if all members are known to have everything. The process itself stays a member while its node is up: it
        helps the others with what they miss, and takes in their messages, which nobody reads then.
        """
        settled = await self._settle(self._linger_s)
        self._end(self._driver.error)
        return settled

    async def leave(self, *, timeout_s: float | None = None) -> bool:
        """Leave in good order: send no more, wait until all members have what was sent here, and until they have a view
        without this process. What was delivered here until then can still be read.

        Each of the two waits lasts at most `timeout_s`, or the node's `linger_s`. True if all went well. False if time
        ran out: then this process is silent from here on, and the others will take it to have failed.
        """
        if self.policy == STATIC:
            raise UsageError(f"the view of group {self.name!r} is static: nobody can leave it; join with `primary`")
        if timeout_s is not None:
            check_seconds("timeout_s", timeout_s)
        return await self._leave(self._linger_s if timeout_s is None else timeout_s)

    async def _leave(self, linger_s: float) -> bool:
        if self.view is NO_VIEW:
            self._abandon()  # never let in, or not again: there is nothing to leave
            return self._settled
        if not self._over.is_set():
            self._settled = await self._settle(linger_s)
        if not self._over.is_set():
            self._driver.leave(self.name)
            try:
                async with asyncio.timeout(linger_s):
                    await self._over.wait()
            except TimeoutError:
                text = "this process is silent from here on, and the others will take it to have failed"
                log_event(logging.WARNING, "leave_unconfirmed", text, group=self.name, linger_s=linger_s)
            finally:  # also when cancelled: half a member is no member
                self._abandon()
        return self._left and self._settled

    async def _wind_up(self, linger_s: float) -> bool:
        """What the end of the node asks of this group: leave it, or where nobody can, settle; whether all went well."""
        return await (self._settle(linger_s) if self.policy == STATIC else self._leave(linger_s))

    async def _enter(self, timeout_s: float) -> bool:
        """Wait for the first view; whether it came in time. Raises if it never will."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._entered.wait()
        except TimeoutError:
            return False
        if self.view is NO_VIEW:
            self._check_open()
        return True

    async def recover(self, *, confirm: str, timeout_s: float = RECOVER_S) -> View:
        """Have a group that stands still for want of a majority go on with those members that can be reached.

        For an operator who knows that the others are gone for good: members that were killed, machines that are lost.
        If they live on, there are two groups of this name from here on, each with messages that the other never sees,
        and what a `primary` view promises is void. `confirm` is the name of the group, typed again as a safeguard.
        Returns the new view. Raises TimeoutError if there is none after `timeout_s`.
        """
        check_seconds("timeout_s", timeout_s)
        if confirm != self.name:
            raise UsageError(
                f"to go on without a majority can split group {self.name!r} in two; if the other members are gone for "
                f"good, say so by confirm={self.name!r}"
            )
        self._check_open()
        if self.policy == SITES:
            raise UsageError(f"a majority of sites is wanted, not of group {self.name!r}; start the lost sites again")
        if self._going.is_set():
            raise UsageError(f"group {self.name!r} does not stand still for want of a majority: nothing is to recover")
        async with asyncio.timeout(timeout_s):
            while not self._going.is_set():
                self._driver.recover(self.name)
                await asyncio.wait([asyncio.ensure_future(self._going.wait())], timeout=RECOVER_AGAIN_S)
        self._check_open()
        return self.view

    def _abandon(self) -> None:
        """Take no more part, without a word to the others."""
        if not self._over.is_set():
            self._finish()
            self._driver.abandon(self.name)

    async def _settle(self, linger_s: float) -> bool:
        """Send no more and wait until all members have what was sent here, at most `linger_s`; whether they have."""
        if self._over.is_set():
            return self._left and self._settled
        self._closed = True
        self._outbox.close(self._lane, self._closed_error())
        settled = await self._driver.settle(self, linger_s)
        if not settled and self._driver.error is None and not self._over.is_set():
            text = "a member may be down, or linger_s too short"
            log_event(
                logging.WARNING,
                "messages_unsettled",
                text,
                group=self.name,
                linger_s=linger_s,
                outstanding=self.outstanding(),
            )
        return settled

    def outstanding(self) -> int:
        """Messages and packets sent here that some member is not yet known to have; 0: everyone has all of mine."""
        if self._over.is_set():
            return self._unsettled
        engine = self._driver.engine
        return self._lane.messages + (engine.outstanding(self.name) if engine.is_member(self.name) else 0)

    @property
    def is_stalled(self) -> bool:
        """Whether the group stands still here for want of a majority; see `recover`."""
        return not self._going.is_set()

    @property
    def is_primary(self) -> bool:
        """Whether this process is in the view of the majority.

        Where views may part, that is a view with more than half of the `members` that were named at `join`, or exactly
        half with the first by name: no two views are primary at once if all were told the same members. Without
        `members` nobody can tell, and it is false. Of other policies a group is primary unless it stands still. A
        process that was just cut off learns of it when the others have been silent for long enough.
        """
        if self.policy != PARTITIONABLE:
            return self.view is not NO_VIEW and not self.is_stalled
        here = {member.name for member in self.view.members}
        present = [name for name in self._named if name in here]
        if 2 * len(present) == len(self._named):
            return bool(present) and min(self._named) in present
        return 2 * len(present) > len(self._named)

    @property
    def message_bytes_max(self) -> int:
        """The longest message that `send` takes."""
        return self._message_bytes_max

    @property
    def barrier_bytes_max(self) -> int:
        """The longest payload that `barrier` takes."""
        return BARRIER_BYTES_MAX

    @property
    def is_private(self) -> bool:
        """Whether the stack sends a message with `to` to that member alone; on others `send` refuses `to`."""
        return self._offered.private

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can be sent here."""
        return self._closed

    @property
    def is_over(self) -> bool:
        """Whether this process is no longer a member: it left, was excluded, or gave up."""
        return self._over.is_set()

    @property
    def _left_well(self) -> bool:
        """Whether this process has left, in good order, and all members had what it sent."""
        return self._left and self._settled

    @property
    def unread(self) -> int:
        """Messages that were delivered here and that the application has not read."""
        return self._stream.count(self.name) + self._stream.unread

    def _way(self, order: Order, to: Destinations, label: str | None) -> SendMode:
        check_order_and_label(self._offered, order, label)
        if to is None:
            return TO_ALL[order] if label is None else SendMode(LEVELS[order], label=label)
        if not self._offered.private:
            raise UsageError(f"stack {self.stack!r} sends every message to all members; leave `to` out")
        if LEVELS[order] != CAUSAL and not self._offered.subsets:
            raise UsageError(f"what goes to one member alone goes in causal order, not {order!r}")
        destinations = check_destinations(to, self._offered.subsets)
        for member in destinations:
            if self.view.rank(member) < 0:
                raise UsageError(f"{member} is not a member of group {self.name!r} now; the members are: {self.view}")
        return SendMode(LEVELS[order], destinations, label=label)

    def _measure(self, payloads: Sequence[bytes]) -> int:
        self._check_open()
        if self._forbidden is not None:
            raise self._forbidden
        return measure(payloads, self._message_bytes_max)
