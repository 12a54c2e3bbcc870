"""`antiphon chat`: a group by hand, in several terminals."""

import asyncio
import signal
import sys
from contextlib import suppress
from typing import Annotated, Final, cast, final

import typer

from antiphon import (
    Barrier,
    Excluded,
    Group,
    Message,
    Node,
    Order,
    ProcessId,
    Stalled,
    UsageError,
    ViewChange,
)
from antiphon.cli.console import steps
from antiphon.cli.key import InsecureOption, KeyringOption
from antiphon.cli.line_editor import LineEditor
from antiphon.kernel.errors import AntiphonError
from antiphon.kernel.levels import LEVELS
from antiphon.runtime.events import StreamEvent
from antiphon.stacks.registry import DEFAULT, StackName, offer

COMMANDS: Final = "/who  /order LEVEL  /recover  /quit"
COLOURS: Final = (32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96)
TEXT_BYTES_MAX: Final = 8192


@final
class ChatRoom:
    """One member, what it types and what it reads."""

    def __init__(self, group: Group, editor: LineEditor, order: Order) -> None:
        self._group = group
        self._editor = editor
        self.order = order
        self._is_coloured = sys.stdout.isatty()

    def paint(self, text: str, colour: int) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._is_coloured else text

    def note(self, text: str) -> None:
        """Something that nobody said."""
        self._editor.show(self.paint(f"* {text}", 90))

    async def read(self) -> None:
        """Show what happens, in the order in which it happens at all members."""
        async for event in self._group:
            self.show(event)

    def show(self, event: StreamEvent) -> None:
        match event:
            case Message(payload=payload, sender=sender, order=order, number=number):
                who = self.paint(sender.name, COLOURS[sum(sender.name.encode()) % len(COLOURS)])
                self._editor.show(f"{who}: {printable(payload)}" + self.paint(f"  {order} #{number}", 90))
            case ViewChange(view=view, joined=joined, left=left, failed=failed, founded=founded):
                is_first = founded or self._group.process in joined
                changes = {} if is_first else {"joined": joined, "left": left, "failed": failed}
                told = [f"{names(who)} {word}" for word, who in changes.items() if who]
                self.note(f"view {view.id}: {names(view.members)}" + "".join(f"; {text}" for text in told))
            case Stalled(view=view):
                self.note(
                    f"no majority of view {view.id} can be reached: nothing is delivered until it can. If the others "
                    "are gone for good: /recover"
                )
            case Excluded():
                self.note("the others went on without this member; it asks to be let in again")
            case Barrier():
                self.note("a barrier")
            case _:
                self.note(type(event).__name__)

    async def type(self) -> None:
        """Send what is typed, and do what the commands say."""
        async for line in self._editor.lines():
            text = line.strip()
            if text in ("/quit", "/q"):
                return
            try:
                await self._obey(text)
            except (AntiphonError, TimeoutError) as error:
                self.note(str(error) or "it takes too long")

    async def _obey(self, text: str) -> None:
        command, _, rest = text.partition(" ")
        if not text:
            return
        if command == "/who":
            self.note(f"view {self._group.view.id}: {names(self._group.view.members)}")
        elif command == "/order":
            self.order = check_level(rest.strip(), self._group.stack)
            self.note(f"what you say goes {self.order} from here on")
        elif command == "/recover":
            await self._group.recover(confirm=self._group.name)
        elif command.startswith("/"):
            self.note(f"commands are: {COMMANDS}")
        else:
            await self._group.send(text.encode()[:TEXT_BYTES_MAX], order=self.order)


def names(processes: tuple[ProcessId, ...]) -> str:
    return ", ".join(process.name for process in processes)


def printable(payload: bytes) -> str:
    """A payload as text that cannot move the cursor."""
    text = payload.decode(errors="replace")
    return "".join(character if character.isprintable() else "�" for character in text)


def check_level(order: str, stack: str) -> Order:
    """Raise UsageError for a level that the stack does not offer."""
    levels = [level for level in LEVELS if level in offer(stack).levels]
    if order not in levels:
        raise UsageError(f"stack {stack!r} has no level {order!r}; choose one of: {', '.join(levels)}")
    return cast("Order", order)


async def enter(node: Node, group: str, stack: StackName, contacts: list[str]) -> Group:
    """Join by contacts, or found the group."""
    if not contacts and offer(stack).service_role:
        node.serve(stack)
        contacts = [node.address]
    if contacts:
        with steps(f"asking {', '.join(contacts)} to be let in"):
            return await node.join(group, contacts=contacts, stack=stack)
    return await node.join(group, members={node.process.name: node.address}, stack=stack)


async def talk(node: Node, group: str, stack: StackName, contacts: list[str], order: Order) -> None:
    """Chat until the input ends."""
    loop = asyncio.get_running_loop()
    async with node:
        joined = await enter(node, group, stack, contacts)
        with LineEditor(f"{node.process.name}> ") as editor:
            room = ChatRoom(joined, editor, order)
            hint = f"antiphon chat NAME --contact {node.address}"
            extra = "".join(
                f" --{name} {value}" for name, value, usual in (("group", group, "chat"), ("stack", stack, DEFAULT))
                if value != usual
            )  # fmt: skip
            room.note(f"you are {node.process.name} in group {group!r}; others join by: {hint}{extra}")
            room.note(f"what you type goes to all, {order}; commands: {COMMANDS}")
            tasks = {asyncio.create_task(room.read()), asyncio.create_task(room.type())}
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, lambda: [task.cancel() for task in tasks])
            done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            with suppress(asyncio.CancelledError):
                for task in done:
                    task.result()


def chat(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Your name in the group.")],
    contact: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="A member to be let in by; may be repeated. None: found it."),
    ] = None,
    group: Annotated[str, typer.Option(metavar="G", help="The group.")] = "chat",
    stack: Annotated[str, typer.Option(metavar="S", help="The stack that the group is on.")] = DEFAULT,
    order: Annotated[str, typer.Option(metavar="LEVEL", help="How what you say is ordered.")] = "agreed",
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="The address to receive on.")] = "127.0.0.1:0",
    keyring: KeyringOption = None,
    insecure: InsecureOption = False,
) -> None:
    """Try a group by hand: what you type is multicast, and everybody sees the same lines and views in the same order.

    Start it in several terminals. The first founds the group and says how others join:

    \b
      antiphon chat alice                                     says: --contact 127.0.0.1:40123
      antiphon chat bob --contact 127.0.0.1:40123
      antiphon chat carol --contact 127.0.0.1:40123

    Then kill one (kill -9): the others have a view without it within two seconds, and go on. Of two members the
    older one goes on alone; the younger one stands still, since it cannot know whether the other lives (/recover).
    Stop one by Ctrl-Z for a while: it is excluded, and comes back when it goes on. --order safe shows a line only when
    all members hold it. On loopback no key is needed; from host to host it is:

    \b
      antiphon key new chat.key                               and copy it to the other host
      antiphon chat alice --address 10.0.0.1:7400 --keyring chat.key
      antiphon chat bob --address 10.0.0.2:0 --contact 10.0.0.1:7400 --keyring chat.key
    """
    offer(stack)  # raises for one that does not exist
    level = check_level(order, stack)
    node = Node(name, address=address, keyring=keyring, insecure=insecure, rejoin=True, linger_s=2.0)
    asyncio.run(talk(node, group, cast("StackName", stack), list(contact or ()), level))
