"""What can stand on a conversation in place of the application: a filter (library/).

It receives, sends and acknowledges by itself, and hands out what the application is to have. It takes a turn whenever
something has happened to its conversation, and at its own deadlines.
"""

from antiphon.kernel.effects import NEVER, Effects


class FilterMachine:
    """One participant's end of a filtered conversation."""

    __slots__ = ()

    def begin(self) -> None:
        """Start the conversation, if that is ours to do and there is nothing to say yet."""

    def run(self, group: str, effects: Effects, now_ns: int) -> None:
        """Take a turn; what the application is to have goes out as an event of `group`."""
        raise NotImplementedError

    def may_offer(self) -> bool:
        """Whether there is room for something more to send."""
        return False

    def outstanding(self) -> int:
        """How much of ours was not sent yet, or not acknowledged by everybody."""
        return 0

    def laggards(self) -> list[int]:
        """Who has not acknowledged anything for so long that all tries were in vain."""
        return []

    def deadline_ns(self) -> int:
        """When to take the next turn, if nothing happens before."""
        return NEVER
