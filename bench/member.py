"""One member of a crew: a process with a node, in one or more groups, that executes its parent's jobs.

It counts over all groups what was sent, and what the application was handed, batch by batch; the numbers of each sender
in each group are checked for gaps. A job that finds an error ends the process, and so the run.
"""

import asyncio
import importlib
import os
import resource
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from antiphon import Batch, CausalityDomain, Group, Node, Options, Order, ProcessId
from antiphon.runtime.events import BatchEvent
from antiphon.runtime.workers import Object, Parent
from bench.figures import IncompleteError
from bench.namespaces import enter
from bench.trace import Trace

CHUNK_MESSAGES: Final = 256
CHUNK_BYTES: Final = 256 * 1024
"""Handed to one `send_many`: at most so many messages, and so many bytes if more than one."""
ASK: Final = b"?"
ANSWER: Final = b"!"
STAMP: Final = struct.Struct("<q")
NOTHING_NEW_S: Final = 5.0
KEEP_TOKEN: Final = 4
"""The oldest member gives one answer in so many at level `agreed`, which keeps the ordering token with it."""
TICK_S: Final = 0.001


def chunk_of(size: int) -> int:
    return max(1, min(CHUNK_MESSAGES, CHUNK_BYTES // max(size, 1)))


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Gaps:
    """Whether the messages of each sender come without gaps: by the numbers that they have in their group."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, ProcessId], int] = {}

    def take(self, batch: Batch) -> None:
        key = (batch.group, batch.sender)
        expected = self._next.get(key, batch.number)
        if batch.number != expected:
            raise IncompleteError(f"message {batch.number} of {batch.sender} came where {expected} was due")
        self._next[key] = batch.number + len(batch.payloads)


class Stamps:
    """How old messages of others are when the application is handed them; every `stride`-th is looked at."""

    def __init__(self, own: ProcessId, stride: int) -> None:
        self._own = own
        self._stride = stride
        self._seen = 0
        self.ages_ns: list[int] = []

    def take(self, batch: Batch) -> None:
        if batch.sender == self._own:
            return
        now_ns = time.monotonic_ns()
        first = -self._seen % self._stride
        for place in range(first, len(batch.payloads), self._stride):
            self.ages_ns.append(now_ns - STAMP.unpack_from(batch.payloads[place])[0])
        self._seen += len(batch.payloads)


class Serials:
    """Whether the numbers that each sender has written into its messages come one after the other, from 0."""

    def __init__(self) -> None:
        self._next: dict[ProcessId, int] = {}

    def take(self, batch: Batch) -> None:
        due = self._next.get(batch.sender, 0)
        for payload in batch.payloads:
            serial = STAMP.unpack_from(payload)[0]
            if serial != due:
                raise IncompleteError(f"message {serial} of {batch.sender} came where {due} was due")
            due += 1
        self._next[batch.sender] = due


Take = Callable[[Batch], None]


class Member:
    """The node and what it is doing."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._node: Node | None = None
        self._groups: list[Group] = []
        self._reading: asyncio.Task[None] | None = None
        self._takes: list[Take] = []
        self._stamps: Stamps | None = None
        self._handed = 0
        self._handed_new = asyncio.Event()
        self._over = False
        self._trace: Trace | None = None

    async def work(self) -> None:
        """Do jobs until there is no parent any more."""
        while True:
            job = await self._parent.expect("job")
            what = getattr(self, "do_" + job["what"])
            self._parent.tell("done", **(await what(job) or {}))

    # Setting up.

    async def do_hello(self, job: Object) -> Object:
        return {"pid": os.getpid()}

    async def do_enter(self, job: Object) -> None:
        enter(job["namespace"])

    async def do_bind(self, job: Object) -> Object:
        node = Node(
            job["name"],
            address=f"{job['host']}:0",
            incarnation=1,
            multicast=job["multicast"],
            **({"poll_s": job["poll_us"] / 1e6} if job["poll_us"] else {}),  # older checkouts have no such thing
            linger_s=1.0,
            history=job["history"],
            insecure=True,  # also between namespaces; bench.sealing measures what keys cost
            options=replace(Options.local(), of_stacks=job["of_stack"]) if job["of_stack"] else None,
        )
        await node.start()
        self._node = node
        return {"address": node.address}

    async def do_join(self, job: Object) -> None:
        assert self._node is not None
        for number in range(job["groups"]):
            domain = CausalityDomain(name=f"d{number}") if job["own_domains"] else CausalityDomain()
            options: dict[str, Any] = {"domain": domain} if job["stack"] == "vector" else {"stack": job["stack"]}
            if job.get("contacts"):
                options["contacts"] = job["contacts"]
            else:
                options |= {"members": job["members"], "policy": "static"}
            self._groups.append(await self._node.join(f"g{number}", **options))

    async def do_statistics(self, job: Object) -> Object:
        assert self._node is not None
        return dict(self._node.statistics())

    async def do_trace(self, job: Object) -> None:
        """Begin to write down wake-ups and steps."""
        assert self._node is not None
        self._trace = Trace(self._node)

    async def do_traced(self, job: Object) -> Object:
        assert self._trace is not None
        traced, self._trace = self._trace.end(), None
        return traced

    async def do_say(self, job: Object) -> None:
        """Send one message."""
        [group] = self._groups
        await group.send(bytes(job["size"]), order=job["order"])

    async def do_close(self, job: Object) -> None:
        assert self._node is not None
        await self._stop_reading()
        await self._node.close()

    # Reading all the time, by a task.

    def _read_on(self) -> None:
        self._reading = asyncio.create_task(self._read_all())

    async def _read_all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for group in self._groups:
                tasks.create_task(self._read(group))

    async def _read(self, group: Group) -> None:
        async for event in group.batches():
            if isinstance(event, Batch):
                for take in self._takes:
                    take(event)
                self._handed += len(event.payloads)
                self._handed_new.set()

    async def _stop_reading(self) -> None:
        """If the reader found something wrong, it is told here."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            if not self._reading.cancelled():
                self._reading.result()
            self._reading = None

    async def do_count(self, job: Object) -> None:
        """Begin to count what comes; with a `stride` also its age, with `serials` the numbers written into it."""
        await self._stop_reading()
        self._handed = 0
        self._takes = [Gaps().take]
        self._stamps = None
        if job.get("serials"):
            self._takes.append(Serials().take)
        if "stride" in job:
            self._stamps = Stamps(self._groups[0].process, job["stride"])
            self._takes.append(self._stamps.take)
        self._read_on()

    async def do_pause(self, job: Object) -> Object:
        await self._stop_reading()
        return {"handed": self._handed}

    async def do_resume(self, job: Object) -> Object:
        assert self._node is not None
        self._read_on()
        return {"handed": self._handed, "unread": self._node.statistics()["messages_unread"]}

    async def do_complete(self, job: Object) -> Object:
        """Wait until everything has come. Nothing new for a while: something is lost."""
        assert self._reading is not None
        while self._handed < job["messages"] and not self._reading.done():
            self._handed_new.clear()
            try:
                async with asyncio.timeout(NOTHING_NEW_S):
                    await self._handed_new.wait()
            except TimeoutError:
                raise IncompleteError(
                    f"{job['messages']} messages were sent and {self._handed} came; nothing new for {NOTHING_NEW_S} s"
                ) from None
        await self._stop_reading()
        if self._handed != job["messages"]:
            raise IncompleteError(f"{job['messages']} messages were sent and {self._handed} came")
        return {"ages_ns": self._stamps.ages_ns if self._stamps is not None else []}

    # Sending.

    async def do_flood(self, job: Object) -> Object:
        """Send without end, if this one `sends`, and count what comes once the warm-up is over."""
        self._over = False
        senders = [self._flood(group, job) for group in self._groups] if job["sends"] else []
        sending = [asyncio.create_task(sender) for sender in senders]
        await asyncio.sleep(job["warmup"])
        begin_s, handed, used_s = time.perf_counter(), self._handed, cpu_s()
        await asyncio.sleep(job["seconds"])
        lasted_s = time.perf_counter() - begin_s
        handed, used_s = self._handed - handed, cpu_s() - used_s
        self._over = True
        sent = sum(await asyncio.gather(*sending))
        assert self._reading is not None
        if self._reading.done():
            self._reading.result()
        if not handed:
            raise IncompleteError(
                f"no {job['order']} message of {job['size']} bytes came in {job['seconds']} s; measure for longer"
            )
        return {"sent": sent, "rate": handed / lasted_s, "cpu_s": used_s / handed}

    async def _flood(self, group: Group, job: Object) -> int:
        count = chunk_of(job["size"])
        chunk = [bytes(job["size"])] * count
        sent = 0
        while not self._over:
            if job.get("serials"):
                chunk = [STAMP.pack(serial).ljust(job["size"], b".") for serial in range(sent, sent + count)]
            await group.send_many(chunk, order=job["order"])
            sent += count
        return sent

    async def do_pace(self, job: Object) -> Object:
        """Send `rate` messages a second, each with the time of its call, a tick's worth at a time."""
        [group] = self._groups
        loop = asyncio.get_running_loop()
        begin_s, sent = loop.time() + job["offset"], 0
        end_s = begin_s + job["seconds"]
        while (now_s := loop.time()) < end_s:
            due = int((now_s - begin_s) * job["rate"]) - sent
            if due > 0:
                stamped = STAMP.pack(time.monotonic_ns()).ljust(job["size"], b".")
                await group.send_many([stamped] * due, order=job["order"])
                sent += due
            await asyncio.sleep(max(TICK_S, begin_s + (sent + 1) / job["rate"] - loop.time()))
        return {"sent": sent}

    # Round trips.

    async def do_ask(self, job: Object) -> Object:
        """Multicast, wait for the answers, and again; how long each round took."""
        await self._stop_reading()
        [group] = self._groups
        request = ASK.ljust(job["size"], b".")
        times_ns = []
        reader = group.batches()
        for _ in range(job["count"]):
            missing = job["answers"]
            begin_ns = time.perf_counter_ns()
            await group.send(request, order=job["order"])
            while missing:
                event = await anext(reader)
                if isinstance(event, Batch):
                    missing -= sum(payload[:1] == ANSWER for payload in event.payloads)
            times_ns.append(time.perf_counter_ns() - begin_ns)
        return {"times_ns": times_ns}

    async def do_ask_listening(self, job: Object) -> Object:
        """The same, answers being taken by a listener, as the echo takes them by a protocol's method."""
        await self._stop_reading()
        [group] = self._groups
        loop = asyncio.get_running_loop()
        request = ASK.ljust(job["size"], b".")
        times_ns = []
        missing = 0
        done: asyncio.Future[None] = loop.create_future()

        def hear(event: BatchEvent) -> None:
            nonlocal missing
            if isinstance(event, Batch) and missing:
                missing -= sum(payload[:1] == ANSWER for payload in event.payloads)
                if not missing:
                    done.set_result(None)

        group.listen(hear)
        for _ in range(job["count"]):
            done = loop.create_future()
            missing = job["answers"]
            begin_ns = time.perf_counter_ns()
            if not group.send_now(request, order=job["order"]):
                raise IncompleteError("an idle group had no room for a message")
            await done
            times_ns.append(time.perf_counter_ns() - begin_ns)
        group.listen(None)
        return {"times_ns": times_ns}

    async def do_answer_listening(self, job: Object) -> None:
        """Answer what is asked from now on, by a listener: to all, at a level, or, if `private`, to whoever asks."""
        await self._stop_reading()
        [group] = self._groups
        private = job.get("private", False)
        order: Order = job.get("order", "causal")

        def answer(event: BatchEvent) -> None:
            if isinstance(event, Batch) and event.payloads[0][:1] == ASK:
                group.send_now(ANSWER, order=order, to=event.sender if private else None)

        group.listen(answer)

    async def do_ask_self(self, job: Object) -> Object:
        """The same in a group of one: this process answers itself."""
        await self._stop_reading()
        [group] = self._groups
        request = ASK.ljust(job["size"], b".")
        times_ns = []
        reader = group.batches()
        for _ in range(job["count"]):
            begin_ns = time.perf_counter_ns()
            await group.send(request, order=job["order"])
            await self._await(reader, ASK)
            await group.send(ANSWER, order=job["order"])
            await self._await(reader, ANSWER)
            times_ns.append(time.perf_counter_ns() - begin_ns)
        return {"times_ns": times_ns}

    async def _await(self, reader: Any, first: bytes) -> None:
        while not (isinstance(event := await anext(reader), Batch) and event.payloads[0][:1] == first):
            pass

    async def do_answer(self, job: Object) -> None:
        """Answer what is asked from now on: the asker alone, or all at the level `all`, if that is given."""
        await self._stop_reading()
        [group] = self._groups
        self._reading = asyncio.create_task(self._answer(group, job.get("all"), job.get("keep_token", False)))

    async def _answer(self, group: Group, to_all: Order | None, keep_token: bool) -> None:
        keeps = keep_token and group.view.members[0] == group.process
        answered = 0
        async for event in group.batches():
            if not isinstance(event, Batch) or event.payloads[0][:1] != ASK:
                continue
            answered += 1
            if to_all is not None:
                await group.send(ANSWER, order=to_all)
            elif keeps and answered % KEEP_TOKEN == 0:
                await group.send(ANSWER, order="agreed")
            else:
                await group.send(ANSWER, to=event.sender)


async def main() -> None:
    await Member(await Parent.connect()).work()


if __name__ == "__main__":
    factory = importlib.import_module("uvloop").new_event_loop if "uvloop" in sys.argv else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
