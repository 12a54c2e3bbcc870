"""The disk and the links of one node, as stacks use them: what a step calls for is begun here, and what becomes of it
goes back into the engine as an input. Neither is touched before a stack asks for it."""

from collections.abc import Callable
from pathlib import Path
from typing import final

from antiphon.kernel.calls import Call, Dial, Frames, Hang, Listen
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.outcomes import CallOutcome
from antiphon.runtime.keyring import KeySupply
from antiphon.runtime.links import Links
from antiphon.runtime.stores import Stores


@final
class NodeDevices:
    """What stacks of one node can call. `address`: where it listens for links; `storage`: where its logs lie."""

    def __init__(
        self,
        process: ProcessId,
        address: str,
        storage: Path | None,
        report: Callable[[CallOutcome], object],
        fail: Callable[[Exception], object],
        keys: KeySupply | None = None,
    ) -> None:
        self._process = process
        self._address = address
        self._storage = storage
        self._report = report
        self._fail = fail
        self._keys = keys
        self._links: Links | None = None
        self._retired: list[Links] = []
        """Of former incarnations."""
        self._stores: Stores | None = None

    @property
    def has_storage(self) -> bool:
        """Whether stacks can write to disk."""
        return self._storage is not None

    def carry_out(self, calls: list[Call]) -> None:
        """Begin what these ask for, in their order."""
        for call in calls:
            if isinstance(call, Listen | Dial | Frames | Hang):
                if self._links is None:
                    self._links = Links(self._process, self._address, self._report, self._fail, self._keys)
                self._links.carry_out(call)
            else:
                if self._stores is None:
                    self._stores = self._open_stores()
                self._stores.carry_out(call)

    def renew(self, process: ProcessId) -> None:
        """The next incarnation begins: it has no links yet, and nothing more is heard of those of the former one."""
        self._process = process
        if self._links is not None:
            self._links.mute()
            self._retired.append(self._links)
            self._links = None

    def _open_stores(self) -> Stores:
        if self._storage is None:
            raise UsageError("a stack of this node writes to disk; give the node a directory: Node(…, storage=…)")
        return Stores(self._storage / f"{self._process.name}.logs", self._report, self._fail)

    async def close(self) -> None:
        """End all links, and wait until all that was stored is on disk."""
        for links in (*self._retired, self._links):
            if links is not None:
                await links.close()
        if self._stores is not None:
            await self._stores.close()
