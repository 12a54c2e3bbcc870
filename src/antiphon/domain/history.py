"""What a member of linked domains sends and is handed, as rows of its history: one audit judges all domains together.

Messages for the same domains are a group of the history, whichever of these domains they were sent in: those for A and
B are the group "domain/A,B", those for A alone "domain/A". A message keeps its name everywhere: that group, its sender
and its number there travel with it over the links. All these groups are in one causal order, and in one total order
(`total_global`), so the audit of the histories of all domains, put into one directory, counts what is promised across
domains from rows alone. The groups of the domains themselves, with the records that carry all this, have rows of their
own, and are judged as before.

Who is owed what. A process has one view row in each of these groups. One that was there when its domain began is in
view WHOLE, and every message leaves in that view: so it is owed all messages for its domain. One that came later, or
came back, is in a view of its own: it is owed nothing, since no row can tell which messages of other domains its
domain's state already had. It is held to creation, duplication, content and total order all the same.

With more than SETS_OPENED domains there are too many sets of domains to name them all in advance. Then a process is in
such a group from its first message there on, and the audit does not see that a set of messages reached a domain not at
all.
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import combinations
from typing import Final

from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import LEVELS
from antiphon.runtime.driver_recording import RecordingDriver
from antiphon.stacks.domain.offers import OFFERS

PROMISED: Final = (
    *("creation", "duplication", "content", "fifo", "causal"),
    *("total", "total_global", "safe", "settled"),
)
"""The guarantees that messages of linked domains are held to."""
WHOLE: Final = 1
"""The view of those that are owed everything."""
SETS_OPENED: Final = 6
SEPARATOR: Final = ","
CLOSED: Final = 0


def own_view(process: ProcessId) -> int:
    """The id of the view that a process is in alone: by its name, so that no two have the same."""
    return WHOLE + 1 + int.from_bytes(blake2b(process.full.encode(), digest_size=7).digest())


class DomainHistory:
    """Numbers what one member sends, and records it where its node records."""

    def __init__(self, driver: RecordingDriver, name: str, domain: str, domains: Sequence[str]) -> None:
        wrong = [each for each in domains if SEPARATOR in each or not each]
        if wrong:
            raise UsageError(f"the name of a domain is a text without {SEPARATOR!r}, not {wrong[0]!r}")
        self._driver = driver
        self._name = f"{OFFERS.name}/{name}" if name else OFFERS.name
        self._domain = domain
        self._domains = domains
        self._opened: set[str] = set()
        self.view_id = CLOSED
        """The view in which this process takes part, in its present life."""

    def claim(self) -> None:
        """Have the name for this member alone; raises UsageError if another one of this node has it."""
        if self._name in self._driver.open_roles:
            raise UsageError(
                f"this node is in linked domains called {self._name!r} already; give one of them another `name`, alike "
                "in all its domains"
            )
        self._driver.open_roles.add(self._name)

    def open(self, process: ProcessId, whole: bool) -> None:
        """This life takes part from here on; `whole`: since the beginning of its domain."""
        self.view_id = WHOLE if whole else own_view(process)
        self._opened.clear()
        if len(self._domains) <= SETS_OPENED:
            others = [domain for domain in self._domains if domain != self._domain]
            for count in range(len(others) + 1):
                for chosen in combinations(others, count):
                    self._open_set(self._group((self._domain, *chosen)))

    def lapse(self) -> None:
        """This life is over."""
        self.view_id = CLOSED

    def call(self, domains: Sequence[str], order: str, payload: bytes) -> int:
        """The application calls for a message; its number among those that this life has sent to these domains."""
        group = self._group(domains)
        self._open_set(group)
        return self._driver.record_role_call(group, LEVELS[order], payload)

    def depart(self, domains: Sequence[str], number: int, size: int) -> None:
        """The message is on its way."""
        self._driver.record_role_departure(self._group(domains), WHOLE, number, size)

    def deliver(self, domains: Sequence[str], sender: str, number: int, order: str, payload: bytes) -> None:
        """The application is handed a message."""
        group = self._group(domains)
        self._open_set(group)
        name, _, incarnation = sender.rpartition("/")
        process = ProcessId(name, int(incarnation))
        self._driver.record_role_taken(group, self.view_id, process, number, order, payload)

    def close(self) -> None:
        """The application takes no more part: nothing is owed to it any more."""
        self._driver.open_roles.discard(self._name)
        if self.view_id != CLOSED:
            self._driver.record_role_left(sorted(self._opened))
            self.view_id = CLOSED

    def _group(self, domains: Sequence[str]) -> str:
        return f"{self._name}/{SEPARATOR.join(sorted(domains))}"

    def _open_set(self, group: str) -> None:
        if group in self._opened:
            return
        self._opened.add(group)
        self._driver.record_role(group, OFFERS.name, PROMISED, self._name, self.view_id)
