"""Founding by name: the founders of a group are listed by name and address, and learn each other's incarnations.

The one that is listed first founds the group; all others only ever ask to be let in, as anybody does who comes later.

  JOIN        first → founders      I found the group, in this life; if you are a member, tell me (KNOCK)
  OUTSIDE     founder → first       I am no member, and will follow no earlier life of you
  INSTALL(p)  first → founders      p: the first view, with all that were outside
  INSTALLED   founder → first       I am in it

Rule. The first proposes when all founders are outside; or, except under `static`, `after_ns` later, when a majority of
them is (half counts: it holds the first) and no member has been heard. It enters the view itself when so many have
entered as the policy demands for going on: all under `static`, else a majority.

Safe: only one name founds, and only one life of it at a time: whoever has answered a life takes the first view from no
earlier one, and whoever has entered a first view answers nobody that it is outside. So a first that is restarted while
it founds does not make a second group beside one that some founder has entered.
Not covered: a first that is restarted, and for `after_ns` reaches a majority of founders that were all restarted too,
or never started, but none of those that are members. They are a minority, and stalled; now there are two groups.

Live: each question is asked again until it is answered. While the first is down nobody founds; founders that are listed
with their incarnations need no first (Join.view).
"""

from typing import final

from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.wire_versions import VERSION_MIN
from antiphon.parts.membership.messages import Proposal
from antiphon.parts.membership.policies import PRIMARY_POLICY


@final
class Founding:
    """What one founder knows of the others."""

    __slots__ = (
        "_addresses",
        "_after_ns",
        "_confirmed",
        "_met",
        "_names",
        "_needs_all",
        "_process",
        "_version",
        "_versions",
        "first_life",
        "last_view",
        "proposal",
    )

    def __init__(
        self,
        founders: tuple[tuple[str, str], ...],
        process: ProcessId,
        needs_all: bool,
        after_ns: int,
        last_view: int = 0,
        version: int = VERSION_MIN,
    ) -> None:
        """`founders`: names and addresses, the first first. `after_ns`: when the first need no longer wait for all.
        `last_view`: the last view that this process was in, in this life, before all left the group. `version`: the
        highest version of packets that this process reads."""
        self._version = version
        self._versions: dict[str, int] = {}
        self._names = [name for name, _ in founders]
        self._addresses = [address for _, address in founders]
        self._process = process
        self._needs_all = needs_all
        self._after_ns = after_ns
        self._met: dict[str, tuple[ProcessId, str]] = {}
        """Those that are outside, by name, and where they are."""
        self._confirmed: set[ProcessId] = set()
        self.last_view = last_view
        """The last view that any founder was in before: ids go on after it."""
        self.proposal: Proposal | None = None
        """The first view, if this process is the first and has proposed it."""
        self.first_life = 0
        """The latest incarnation of the first that this process has answered."""

    @property
    def is_first(self) -> bool:
        return self._names[0] == self._process.name

    def leads(self, process: ProcessId) -> bool:
        """Whether this is the first of the founders."""
        return process.name == self._names[0]

    def answer(self, first: ProcessId) -> bool:
        """Return whether to tell this incarnation of the first founder that this process is in no view; earlier
        incarnations are ignored from then on."""
        if self.is_first or not self.leads(first) or first.incarnation < self.first_life:
            return False
        self.first_life = first.incarnation
        return True

    def is_outdated(self, sender: ProcessId) -> bool:
        """Return whether this is an earlier incarnation of the first founder than the one that this process follows."""
        return self.leads(sender) and sender.incarnation < self.first_life

    def meet(self, process: ProcessId, address: str, last_view: int = 0, version: int = VERSION_MIN) -> None:
        """Note that a founder is in no view, the last view it was in, and the highest version of packets that it reads.
        Of two incarnations of one name the later counts."""
        if process.name not in self._names or process.name == self._process.name:
            return
        known = self._met.get(process.name)
        if known is None or known[0].incarnation <= process.incarnation:
            self._met[process.name] = (process, address)
            self._versions[process.name] = version
            self.last_view = max(self.last_view, last_view)

    def propose(self, members_heard: bool, now_ns: int) -> bool:
        """Make the proposal if it is time; whether there is a new one."""
        if self.proposal is not None or not self.is_first:
            return False
        present = [place for place, name in enumerate(self._names) if name in self._met or not place]
        if len(present) < len(self._names):
            if self._needs_all or now_ns < self._after_ns or members_heard:
                return False
            if not PRIMARY_POLICY.may_go_on(set(present), len(self._names)):
                return False
        members = [self._process if not place else self._met[self._names[place]][0] for place in present]
        addresses = [self._addresses[0] if not place else self._met[self._names[place]][1] for place in present]
        version = min([self._version, *[self._versions[self._names[place]] for place in present if place]])
        view = View(self.last_view + 1, tuple(members), tuple(addresses), version)
        self.proposal = Proposal(view, [], [], [], [], [], b"")
        self._confirmed.add(self._process)
        return True

    def has_proposed(self, view: View) -> bool:
        """Whether this process has proposed this view."""
        own = self.proposal
        return own is not None and own.view.id == view.id and own.view.members == view.members

    def confirm(self, process: ProcessId) -> None:
        """A founder is in the view that was proposed."""
        self._confirmed.add(process)

    def unconfirmed(self) -> list[tuple[ProcessId, str]]:
        """Those that are not yet known to be in the view that was proposed, and where they are."""
        if self.proposal is None:
            return []
        view = self.proposal.view
        pairs = zip(view.members, view.addresses, strict=True)
        return [(member, address) for member, address in pairs if member not in self._confirmed]

    def may_enter(self) -> bool:
        """Whether the first may enter the view that it proposed."""
        if self.proposal is None:
            return False
        members = self.proposal.view.members
        ranks = {rank for rank, member in enumerate(members) if member in self._confirmed}
        return len(ranks) == len(members) or (not self._needs_all and PRIMARY_POLICY.may_go_on(ranks, len(members)))
