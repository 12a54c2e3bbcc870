"""What a program was handed, and what must hold of it there: the audit judges rows, this judges payloads."""

from antiphon import Message
from antiphon.testing import Result

CAUSAL_AND_ABOVE = ("causal", "agreed", "safe")


class Seen:
    """The messages that one program read. Their payloads begin with "name+start:number:" (common.payload)."""

    def __init__(self) -> None:
        self.payloads: dict[tuple[str, str, int], bytes] = {}
        """By group, sender and the number that the group gave it."""
        self._last: dict[tuple[str, str], int] = {}
        self.numbers: dict[tuple[str, str], set[int]] = {}
        """The application's own numbers, by group and start of the sender."""
        self._ordered: dict[tuple[str, str], dict[str, int]] = {}
        """The highest of these for each level."""

    def read(self, message: Message, between_groups: bool = False) -> None:
        """Take note of one message; raises AssertionError where the application's own numbers are out of order."""
        key = (message.group, repr(message.sender), message.number)
        assert key not in self.payloads, f"{key} twice"
        self.payloads[key] = message.payload[:40]
        head, _, rest = message.payload.partition(b":")
        if not rest[:1].isdigit() or message.payload.startswith(b"answer"):
            return  # an answer
        start, number = head.decode(), int(rest.partition(b":")[0])
        assert start.startswith(message.sender.name), f"{message.payload[:40]!r} from {message.sender}"
        self.numbers.setdefault((message.group, start), set()).add(number)
        highest = self._ordered.setdefault((message.group, start), {})
        highest[message.order] = max(number, highest.get(message.order, -1))
        if message.order in CAUSAL_AND_ABOVE:
            scope = "" if between_groups else message.group
            last = self._last.get((scope, start), -1)
            assert number > last, f"{start} sent {number} before {last}, and {message.group} delivers it after"
            self._last[scope, start] = number

    def check_gaps(self, between_groups: bool = False) -> None:
        """Every sender is heard without gaps, from the first message heard on to the last whose level keeps the
        sender's order: in the group that it sends to, or over all groups, from the first message that was heard in each
        of them. A `reliable` message may outlive what a sender that failed had sent before it."""
        keeping = CAUSAL_AND_ABOVE if between_groups else ("fifo", *CAUSAL_AND_ABOVE)
        joined: dict[str, list[tuple[str, str]]] = {}
        for group, start in self.numbers:
            joined.setdefault(start if between_groups else f"{start} in {group}", []).append((group, start))
        for sender, keys in joined.items():
            first = max(min(self.numbers[key]) for key in keys)
            last = max(self._ordered[key].get(level, -1) for key in keys for level in keeping)
            heard = sorted(number for key in keys for number in self.numbers[key] if first <= number <= last)
            assert heard == list(range(first, last + 1)), f"heard of {sender}: {heard}"


def same_payloads(result: Result) -> None:
    """A message has the same payload wherever it is read."""
    payloads: dict[tuple[str, str, int], bytes] = {}
    for seen in result.returned.values():
        for key, payload in seen.payloads.items():
            assert payloads.setdefault(key, payload) == payload, f"{key}: {payload!r} and {payloads[key]!r}"
