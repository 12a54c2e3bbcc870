"""What the applications of a simulated world do beside its script; workloads/ has one a file."""

from typing import TYPE_CHECKING

from antiphon.kernel.effects import AskApplication, Delivered, Event

if TYPE_CHECKING:
    from antiphon.simulator.world import World


class Workload:
    """What applications do beside the script. This one does nothing."""

    def begin(self, world: "World") -> None:
        """The founders have started: schedule what is to come."""

    def act(self, world: "World", host: int) -> None:
        """A time that was scheduled for this host has come."""

    def delivered(self, world: "World", host: int, event: Delivered) -> None:
        """The application of this host was handed messages."""

    def answer(self, world: "World", host: int, event: AskApplication) -> bytes | None:
        """What the application of this host answers to a question of its stack; None: nothing. This one repeats the
        question."""
        return event.question

    def sent(self, world: "World", host: int, payloads: list[bytes], level: int) -> None:
        """The application of this host has sent these; they may wait for the engine to accept them."""

    def started(self, world: "World", host: int) -> None:
        """A new incarnation of this host runs."""

    def react(self, world: "World", host: int, told: list[Event]) -> None:
        """The last step of this host has told this of what is no group."""

    def may_lose(self, world: "World", host: int) -> bool:
        """Whether the run goes on without the incarnation of this host, if it crashes now."""
        return True
