"""Links between engines on a table: frames lie in the open and arrive when the test says so.

A link is a pair of queues, one for each direction. It loses only a suffix: frames arrive in their order, until the
link breaks, and then what is under way is lost. Both ends of a link that breaks, or is hung up, are told.
"""

from collections.abc import Callable, Sequence

from antiphon.kernel.calls import Call, Dial, Frames, Hang, Listen, accepted_link
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.outcomes import CallOutcome, LinkDown, LinkFrames, LinkUp


class TableLink:
    """One link: who dialled it and whom, each one's id of it, and what is under way."""

    def __init__(self, client: str, dialled: int, service: str, accepted: int) -> None:
        self.client = client
        self.dialled = dialled
        self.service = service
        self.accepted = accepted
        self.to_service: list[bytes] = []
        self.to_client: list[bytes] = []


class TableLinks:
    """All links of a table, and who can be dialled. A process that listens is dialled by its name."""

    def __init__(self, step: Callable[[str, CallOutcome], object]) -> None:
        self._step = step
        self.all: list[TableLink] = []
        self.unreachable: set[str] = set()
        """Those that can dial nobody."""
        self._listening: dict[str, int] = {}
        self._accepted = 0

    def carry_out(self, name: str, calls: Sequence[Call]) -> None:
        """Do what an engine asks for."""
        for call in calls:
            if isinstance(call, Listen):
                self._listening[name] = call.token
            elif isinstance(call, Dial):
                self._dial(name, call)
            elif isinstance(call, Frames):
                self._send(name, call)
            elif isinstance(call, Hang):
                self._hang(name, call.link)

    def _dial(self, name: str, dial: Dial) -> None:
        if name in self.unreachable or dial.address not in self._listening:
            self._step(name, LinkDown(dial.link, "nobody listens there"))
            return
        self._step(name, LinkUp(self.accept(name, dial.address, dial.link).dialled, ProcessId(dial.address)))

    def accept(self, name: str, service: str, dialled: int = 0) -> TableLink:
        """Tell one that listens of a link that was dialled; the link."""
        self._accepted += 1
        listen = self._listening[service]
        link = TableLink(name, dialled, service, accepted_link(listen, self._accepted))
        self.all.append(link)
        self._step(service, LinkUp(link.accepted, ProcessId(name), listen))
        return link

    def _send(self, name: str, call: Frames) -> None:
        for link in self.all:
            if link.client == name and link.dialled == call.link:
                link.to_service += call.frames
            elif link.service == name and link.accepted == call.link:
                link.to_client += call.frames

    def _hang(self, name: str, id: int) -> None:
        for link in list(self.all):
            if link.client == name and link.dialled == id:
                self.all.remove(link)
                self._step(link.service, LinkDown(link.accepted, "hung up"))
            elif link.service == name and link.accepted == id:
                self.all.remove(link)
                self._step(link.client, LinkDown(link.dialled, "hung up"))

    # ---- the network -----------------------------------------------------------------------------------------------

    def cut(self, name: str) -> None:
        """The links that this process has dialled break; what is under way on them is lost."""
        for link in [link for link in self.all if link.client == name]:
            self.all.remove(link)
            self._step(link.service, LinkDown(link.accepted, "cut"))
            self._step(name, LinkDown(link.dialled, "cut"))

    def under_way(self) -> list[tuple[TableLink, bool]]:
        """The directions of links on which frames lie: each link, and whether they go to the one who dialled it."""
        there = [(link, False) for link in self.all if link.to_service]
        return there + [(link, True) for link in self.all if link.to_client]

    def pass_on(self, link: TableLink, to_client: bool, count: int = 0) -> None:
        """The first `count` frames of one direction arrive; without a count, all."""
        frames = link.to_client if to_client else link.to_service
        arriving = frames[: count or len(frames)]
        del frames[: len(arriving)]
        if to_client:
            self._step(link.client, LinkFrames(link.dialled, arriving))
        else:
            self._step(link.service, LinkFrames(link.accepted, arriving))

    def pass_all(self, held: Sequence[str] | set[str] = ()) -> bool:
        """What lies on the table arrives, but for those that are held; whether there was anything."""
        moved = False
        for link in list(self.all):
            for to_client in (False, True):
                waiting = link.to_client if to_client else link.to_service
                if waiting and link in self.all and not (to_client and link.client in held):
                    self.pass_on(link, to_client)
                    moved = True
        return moved
