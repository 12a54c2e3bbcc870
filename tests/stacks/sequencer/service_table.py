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
from antiphon.kernel.effects import NEVER, Delivered, Effects, Ended, Event, Installed
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Leave, Open, Send, Tick
from antiphon.kernel.levels import AGREED
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.outcomes import CallOutcome
from antiphon.stacks.sequencer.wire import messages_parts
from tests.table_links import TableLink, TableLinks

SERVICE = "s"


def messages_bytes(number: int, level: int, payloads: list[bytes]) -> bytes:
    """Consecutive messages of one sender, as frames hold them."""
    return b"".join(messages_parts(number, level, payloads, [len(payload) for payload in payloads]))


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
        self._links = TableLinks(self.step)
        self.links = self._links.all
        self.unreachable = self._links.unreachable
        self._held: set[str] = set()
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
        self._links.carry_out(name, effects.calls or ())
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

    # ---- the network -----------------------------------------------------------------------------------------------

    def cut(self, name: str, unreachable: bool = False) -> None:
        """The link of this client breaks; what is under way is lost."""
        if unreachable:
            self.unreachable.add(name)
        self._links.cut(name)

    def accept(self, name: str) -> TableLink:
        """A link that somebody who is no engine has dialled."""
        return self._links.accept(name, SERVICE)

    def hold(self, name: str) -> None:
        self._held.add(name)

    def release(self, name: str) -> None:
        self._held.discard(name)

    def pass_all(self) -> bool:
        """What lies on the table arrives; whether there was anything."""
        return self._links.pass_all(self._held)

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
