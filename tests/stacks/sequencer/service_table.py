"""A sequencer and its clients on a table: whole engines, and links that lie in the open.

    table = ServiceTable(2)         # a sequencer "s", and clients "p1" and "p2"
    table.join("p1", "g")
    table.run()                     # everything that is under way arrives, until nothing moves
    table.log["p1"]                 # what p1 has delivered: ["g:p1#1"]

`cut(name)` breaks the link of a client, with all that is under way on it; `hold(name)` keeps frames for a client on the
table until `release(name)`.
"""

from random import Random

from antiphon.engine import Engine
from antiphon.kernel.calls import Dial, Frames, Hang, Listen, accepted_link
from antiphon.kernel.effects import NEVER, Delivered, Effects, Ended, Event, Installed
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Leave, Open, Send, Tick
from antiphon.kernel.levels import AGREED
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.outcomes import CallOutcome, LinkDown, LinkFrames, LinkUp
from antiphon.stacks.sequencer.wire import messages_parts

SERVICE = "s"


def messages_bytes(number: int, level: int, payloads: list[bytes]) -> bytes:
    """Consecutive messages of one sender, as frames hold them."""
    return b"".join(messages_parts(number, level, payloads, [len(payload) for payload in payloads]))


class TableLink:
    """One link: the client's id of it, the service's, and what is under way."""

    def __init__(self, client: str, dialled: int, accepted: int) -> None:
        self.client = client
        self.dialled = dialled
        self.accepted = accepted
        self.to_service: list[bytes] = []
        self.to_client: list[bytes] = []


class ServiceTable:
    """One sequencer and some clients; time stands still until `wait`."""

    def __init__(self, clients: int, options: Options | None = None) -> None:
        self.names = [SERVICE, *[f"p{number}" for number in range(1, clients + 1)]]
        self.options = options or Options()
        self.now_ns = 0
        self.engines = {name: Engine(ProcessId(name), Random(0), self.options) for name in self.names}
        self.deadline_ns = dict.fromkeys(self.names, NEVER)
        self.log: dict[str, list[str]] = {name: [] for name in self.names}
        self.events: dict[str, list[Event]] = {name: [] for name in self.names}
        self.views: dict[str, dict[str, View]] = {name: {} for name in self.names}
        self.links: list[TableLink] = []
        self.unreachable: set[str] = set()
        self._held: set[str] = set()
        self._listen = 0
        self._accepted = 0
        self.step(SERVICE, Open(stack="sequencer", role="peer"))

    # ---- what applications do --------------------------------------------------------------------------------------

    def join(self, name: str, *groups: str) -> None:
        for group in groups:
            self.step(name, Join(group=group, stack="sequencer", policy="primary", contacts=(SERVICE,)))

    def leave(self, name: str, group: str) -> None:
        self.step(name, Leave(group))

    def send(self, name: str, group: str, *payloads: bytes, level: int = AGREED, request: int = 0) -> Effects:
        return self.step(
            name, Send(group=group, stack="sequencer", payloads=list(payloads or (b"m",)), level=level, request=request)
        )

    # ---- steps -----------------------------------------------------------------------------------------------------

    def step(self, name: str, input: Input | CallOutcome) -> Effects:
        effects = self.engines[name].step(input, self.now_ns)
        self.deadline_ns[name] = effects.deadline_ns
        for event in effects.events:
            self._observe(name, event)
        for call in effects.calls or ():
            if isinstance(call, Listen):
                self._listen = call.token
            elif isinstance(call, Dial):
                self._dial(name, call)
            elif isinstance(call, Frames):
                self._send(name, call)
            elif isinstance(call, Hang):
                self._hang(name, call.link)
        return effects

    def _observe(self, name: str, event: Event) -> None:
        self.events[name].append(event)
        if isinstance(event, Delivered):
            numbers = range(event.number, event.number + len(event.payloads))
            self.log[name] += [f"{event.group}:{event.sender.name}#{number}" for number in numbers]
        elif isinstance(event, Installed):
            self.views[name][event.group] = event.view
            members = " ".join(member.name for member in event.view.members)
            self.log[name].append(f"{event.group}: {members}")
        elif isinstance(event, Ended):
            self.views[name].pop(event.group, None)
            self.log[name].append(f"{event.group}: {'excluded' if event.excluded else 'left'}")

    def _dial(self, name: str, dial: Dial) -> None:
        if name in self.unreachable:
            self.step(name, LinkDown(dial.link, "nobody listens there"))
            return
        self._accepted += 1
        link = TableLink(name, dial.link, accepted_link(self._listen, self._accepted))
        self.links.append(link)
        self.step(SERVICE, LinkUp(link.accepted, ProcessId(name), self._listen))
        self.step(name, LinkUp(link.dialled, ProcessId(SERVICE)))

    def _send(self, name: str, call: Frames) -> None:
        for link in self.links:
            if link.client == name and link.dialled == call.link:
                link.to_service += call.frames
            elif name == SERVICE and link.accepted == call.link:
                link.to_client += call.frames

    def _hang(self, name: str, id: int) -> None:
        for link in list(self.links):
            if (name == SERVICE and link.accepted == id) or (link.client == name and link.dialled == id):
                self.links.remove(link)
                self.step(
                    link.client if name == SERVICE else SERVICE,
                    LinkDown(link.dialled if name == SERVICE else link.accepted, "hung up"),
                )

    # ---- the network -----------------------------------------------------------------------------------------------

    def cut(self, name: str, unreachable: bool = False) -> None:
        """The link of this client breaks; what is under way is lost."""
        if unreachable:
            self.unreachable.add(name)
        for link in [link for link in self.links if link.client == name]:
            self.links.remove(link)
            self.step(SERVICE, LinkDown(link.accepted, "cut"))
            self.step(name, LinkDown(link.dialled, "cut"))

    def hold(self, name: str) -> None:
        self._held.add(name)

    def release(self, name: str) -> None:
        self._held.discard(name)

    def pass_all(self) -> bool:
        """What lies on the table arrives; whether there was anything."""
        moved = False
        for link in list(self.links):
            frames, link.to_service = link.to_service, []
            if frames:
                moved = True
                self.step(SERVICE, LinkFrames(link.accepted, frames))
            if link in self.links and link.to_client and link.client not in self._held:
                frames, link.to_client = link.to_client, []
                moved = True
                self.step(link.client, LinkFrames(link.dialled, frames))
        return moved

    def wait(self, duration_ns: int) -> None:
        end_ns = self.now_ns + duration_ns
        while min(self.deadline_ns.values()) <= end_ns:
            self.now_ns = max(self.now_ns, min(self.deadline_ns.values()))
            for name in self.names:
                if self.deadline_ns[name] <= self.now_ns:
                    self.step(name, Tick())
        self.now_ns = end_ns

    def run(self, milliseconds: int = 40) -> None:
        """So much time passes, and everything arrives within a millisecond."""
        for _ in range(milliseconds):
            while self.pass_all():
                pass
            self.wait(MILLISECOND_NS)
        while self.pass_all():
            pass

    def messages(self, name: str) -> list[str]:
        """What it has delivered, without views."""
        return [entry for entry in self.log[name] if "#" in entry]
