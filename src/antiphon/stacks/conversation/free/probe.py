"""Looking for what may have been lost at the end, without the application's help.

While something is not stable and nothing comes, the others are asked for what follows our leaves, one after the other
and then all together, more and more seldom.
Those who have never said anything may not know of the conversation: the first message is resent to them.

Deviations: the paper leaves this to the application, which resends when it has waited in vain (3.2.2).
"""

from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.conversation.free.graph_replica import GraphReplica

PROBE_NS_MAX: Final = 2000 * MILLISECOND_NS
"""What may have been lost is looked for at least so often."""


@final
class Probe:
    """Decides when to ask the others whether something is missing here."""

    __slots__ = ("_greet_at_ns", "_greetings", "_options", "_probe_at_ns", "_probes", "stirred")

    def __init__(self, options: Options) -> None:
        self._options = options
        self.stirred = False
        """Something was sent or has come."""
        self._probe_at_ns = NEVER
        self._probes = 0
        self._greet_at_ns = NEVER
        self._greetings = 0

    def note_time(self, now_ns: int, strangers: list[int]) -> None:
        """Start the wait for what may follow what was just sent or received."""
        self.stirred = False
        self._probes = 0
        self._probe_at_ns = now_ns + self._options.probe_interval_ns
        if self._greet_at_ns == NEVER and strangers:
            self._greet_at_ns = now_ns + self._options.probe_interval_ns

    def deadline_ns(self) -> int:
        return min(self._probe_at_ns, self._greet_at_ns)

    def tick(self, replica: GraphReplica, is_settled: bool, strangers: list[int], now_ns: int) -> None:
        if now_ns >= self._probe_at_ns:
            self._probe_at_ns = NEVER
            if not is_settled:
                self._probes += 1
                replica.ask_around(self._probes)
                self._probe_at_ns = now_ns + self._interval_ns(self._probes)
        if now_ns >= self._greet_at_ns:
            self._greet_at_ns = NEVER
            for rank in strangers:
                self._greetings += 1
                replica.resend_first(rank)
                self._greet_at_ns = now_ns + self._interval_ns(self._greetings)

    def _interval_ns(self, tries: int) -> int:
        return min(self._options.probe_interval_ns << min(tries, 10), PROBE_NS_MAX)
