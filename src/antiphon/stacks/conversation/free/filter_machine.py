"""What can stand on a conversation in place of the application: a filter (library/).

It receives, sends and acknowledges by itself, and hands out what the application is to have. It takes a turn whenever
something has happened to its conversation, and at its own deadlines.
"""

from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import UsageError
from antiphon.parts.message_graph import GraphNode, Mid


class FilterMachine:
    """One participant's end of a filtered conversation."""

    __slots__ = ()

    def begin(self) -> None:
        """Start the conversation, if this participant has to and there is nothing else to send."""

    def run(self, group: str, effects: Effects, now_ns: int) -> None:
        """Process what has happened since the last call; deliver to the application by events of `group`."""
        raise NotImplementedError

    def may_offer(self) -> bool:
        """Return whether the filter has room for something more to send."""
        return False

    def outstanding(self) -> int:
        """Return how many own messages are not sent yet, or not acknowledged by all."""
        return 0

    def state(self, handed_out: list[tuple[GraphNode, bytes]]) -> bytes:
        """Return what a checkpoint has to hold of the filter; `handed_out`: what the application has not seen yet."""
        raise UsageError("no checkpoint can be taken with this filter; come back by running again from the beginning")

    def former(self) -> list[tuple[Mid, bytes]]:
        """Return what the application said in former lives and has not offered again."""
        return []

    def adopt(self) -> None:
        """Expect nothing of that to be offered again."""

    def laggards(self) -> list[int]:
        """Return the participants that have acknowledged nothing through all retries."""
        return []

    def deadline_ns(self) -> int:
        """Return when to call `run` next, if nothing happens before."""
        return NEVER
