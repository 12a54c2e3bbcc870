"""An application on a service: a list of what was said, which every member is to have alike."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from antiphon import Message
from antiphon.toolkit import ClientMessage, Request, Service
from antiphon.toolkit.channel import Channel
from antiphon.toolkit.inbox import BYTES_MAX, EVENTS_MAX
from antiphon.toolkit.service import ServiceEvent


class Ledger:
    """Reads its service in a task of its own."""

    def __init__(self, group: Channel, *, events_max: int = EVENTS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self.lines: list[bytes] = []
        self.events: list[ServiceEvent] = []
        self.restores = 0
        self.snapshots = 0
        self.error: BaseException | None = None
        self.service = Service(
            group, snapshot=self.snapshot, restore=self.restore, events_max=events_max, bytes_max=bytes_max
        )
        self.service.answer(self.handle)
        self._progress = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def snapshot(self) -> Iterable[bytes]:
        self.snapshots += 1
        return [line + b"\n" for line in self.lines]

    async def restore(self, chunks: AsyncIterator[bytes]) -> None:
        self.restores += 1
        lines = b"".join([chunk async for chunk in chunks]).split(b"\n")[:-1]
        self.lines = lines

    async def handle(self, request: Request) -> bytes:
        if request.payload == b"raise":
            raise ValueError("as told")
        self.lines.append(b"asked " + request.payload)
        self._progress.set()
        return b"%d" % len(self.lines)

    async def open(self) -> "Ledger":
        await self.service.__aenter__()
        self._task = asyncio.create_task(self._read())
        return self

    async def close(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.service.close()

    async def _read(self) -> None:
        try:
            async for event in self.service:
                self.events.append(event)
                if isinstance(event, Message | ClientMessage):
                    self.lines.append(event.payload)
                self._progress.set()
        except Exception as error:
            self.error = error
            self._progress.set()

    async def until(self, *lines: bytes) -> None:
        """Wait until the ledger holds just these."""
        while self.lines != list(lines):
            if self.error is not None:
                raise self.error
            self._progress.clear()
            await self._progress.wait()

    async def until_error(self) -> BaseException:
        while self.error is None:
            self._progress.clear()
            await self._progress.wait()
        return self.error
