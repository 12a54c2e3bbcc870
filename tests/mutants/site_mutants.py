"""The rules for sites of several processes (stacks/label/site.py) broken on purpose, each with the scene of the paper's
claims that shows it."""

from collections.abc import Callable
from functools import partial
from typing import Final

from antiphon.kernel.effects import BarrierReached, Delivered, Effects, Installed
from antiphon.kernel.identity import ProcessId, View
from antiphon.stacks.label.attached import AttachedProcess
from antiphon.stacks.label.hosting import Hosting
from antiphon.stacks.label.site import Site
from antiphon.stacks.label.site_frames import FAILS, SiteMessage, SiteRecord
from antiphon.stacks.label.site_groups import GroupTable
from antiphon.stacks.label.site_transfer import TableTransfer
from tests.mutants.mutants import Mutant
from tests.papers import test_isis_1987_sites as claims

_link_down = Hosting.link_down
_serve_all = Site._serve_all
_install = TableTransfer.install
_deliver_message = Site._deliver_message
_take_barrier = Site._take_barrier
_tick = Hosting.tick
_begin_life = Site._begin_life


def _at_once(self: Hosting, link: int) -> None:
    """The monitor does not wait for what the failed process has handed in: it is dropped."""
    attached = self.attached.get(link)
    if attached is not None:
        attached.inbox.clear()
    _link_down(self, link)


def _ahead_of_the_rest(self: Site, effects: Effects, now_ns: int) -> None:
    """The monitor tells of a failure though messages of the failed process still wait at the site."""
    for attached in self.hosting.failing:
        if attached.entered and self._member.put_record(SiteRecord(FAILS, 0, attached.process).encode()):
            attached.entered.clear()
    _serve_all(self, effects, now_ns)


def _never(self: Site, now_ns: int) -> None:
    """A process that has failed is never told of."""
    self.hosting.failing.clear()


def _sites_alone(
    self: GroupTable, view: View, left: tuple[ProcessId, ...], parted: object, failed: set[ProcessId]
) -> None:
    """Processes outlive their site."""


def _takes_from_anybody(self: Site, message: SiteMessage, event: Delivered, body: bytes) -> None:
    """What is not from a member is delivered, too."""
    hosted = self._transfer.table.groups.get(message.group)
    if hosted is not None and message.sender not in hosted.members:
        hosted.members[message.sender] = event.sender
        _deliver_message(self, message, event, body)
        del hosted.members[message.sender]
    else:
        _deliver_message(self, message, event, body)


def _nobody_is_dead(self: GroupTable, process: ProcessId) -> bool:
    """A life that has failed may enter again."""
    return False


def _tells_nobody(self: TableTransfer, event: Installed) -> None:
    """Only the first view in which a site is without the table begins with one."""
    _install(self, event)
    if self.has_table and not event.joined:
        self.owes_word = False


def _own_table(self: TableTransfer, event: Installed) -> None:
    """A site that joins begins with an empty table."""
    self.has_table = True
    _install(self, event)


def _handed_in(self: Site, destinations: tuple[ProcessId, ...]) -> tuple[ProcessId, ...]:
    """Destinations are found by a table that does not follow the view that has just been installed."""
    return self._delivery.sites_of(int(destinations[0].name), destinations[1:])


def _all_sites(self: Site, destinations: tuple[ProcessId, ...]) -> tuple[ProcessId, ...]:
    """A message goes to all sites, whoever it is for."""
    return self.view.members


def _changes_at_once(self: Site, event: BarrierReached) -> None:
    """Records take effect at each site when they come, each by itself, not with the view that follows."""
    _take_barrier(self, event)
    for site, record in self._records:
        self._transfer.table.change(self.view, [(site, record)], ())
    self._records = []


def _no_pause(self: Site, now_ns: int) -> None:
    """A process that takes nothing holds up nobody."""


def _no_silence(self: Hosting, effects: Effects, now_ns: int) -> None:
    """A process whose link stands is taken to live."""
    for attached in self.attached.values():
        attached.heard_ns = now_ns
    _tick(self, effects, now_ns)


def _one_life(self: Site, now_ns: int) -> None:
    """A site that was excluded comes back under the same incarnation."""
    if self.site.incarnation >= 1:
        self.site = ProcessId(self.site.name, self.site.incarnation - 1)
    _begin_life(self, now_ns)


def _keeps_processes(self: Hosting, attached: AttachedProcess, reason: str, effects: Effects) -> None:
    """A site that is dead does not let go of its processes."""


_SCENES: Final[tuple[tuple[Mutant, Callable[[], None]], ...]] = (
    (
        Mutant("the monitor drops what waits", (), ((Hosting, "link_down", _at_once),)),
        claims.test_4_1_the_monitor_waits_for_what_the_site_could_not_send_yet,
    ),
    (
        Mutant("the monitor speaks before the last message", (), ((Site, "_serve_all", _ahead_of_the_rest),)),
        claims.test_4_1_the_monitor_waits_for_what_the_site_could_not_send_yet,
    ),
    (
        Mutant("the monitor says nothing", (), ((Site, "_tell_failed", _never),)),
        claims.test_4_1_a_process_fails_while_its_site_lives,
    ),
    (
        Mutant("processes outlive their site", (), ((GroupTable, "_lose_sites", _sites_alone),)),
        claims.test_4_1_all_processes_of_a_site_fail_with_it,
    ),
    (
        Mutant("messages of the dead are delivered", (), ((Site, "_deliver_message", _takes_from_anybody),)),
        claims.test_4_1_messages_of_a_failed_incarnation_are_discarded,
    ),
    (
        Mutant("the dead enter again", (), ((GroupTable, "is_dead", _nobody_is_dead),)),
        claims.test_4_1_a_former_incarnation_of_a_process_is_told_that_it_is_dead,
    ),
    (
        Mutant("the table is told once", (), ((TableTransfer, "install", _tells_nobody),)),
        claims.test_4_2_if_the_site_that_tells_it_fails_another_does,
    ),
    (
        Mutant("a site that joins has an empty table", (), ((TableTransfer, "install", _own_table),)),
        claims.test_4_2_a_site_that_recovers_learns_who_is_in_which_group,
    ),
    (
        Mutant("destinations of the view before", (), ((Site, "find", _handed_in),)),
        claims.test_4_3_2_destinations_are_those_of_the_view_in_which_a_message_leaves,
    ),
    (
        Mutant("all sites get everything", (), ((Site, "find", _all_sites),)),
        claims.test_4_3_2_a_message_goes_to_the_sites_of_its_destinations_only,
    ),
    (
        Mutant("records take effect before their view", (), ((Site, "_take_barrier", _changes_at_once),)),
        claims.test_4_1_a_process_fails_while_its_site_lives,
    ),
    (
        Mutant("a slow process holds up nobody", (), ((Site, "_pause_if_owed", _no_pause),)),
        claims.test_3_5_a_process_that_does_not_read_holds_up_its_senders_and_loses_nothing,
    ),
    (
        Mutant("a silent process lives", (), ((Hosting, "tick", _no_silence),)),
        claims.test_4_1_a_process_that_is_silent_at_its_site_has_failed,
    ),
    (
        Mutant("a site has one life", (), ((Site, "_begin_life", _one_life),)),
        claims.test_4_1_a_site_that_was_killed_comes_back_under_the_next_incarnation,
    ),
    (
        Mutant("a dead site keeps its processes", (), ((Hosting, "give_up", _keeps_processes),)),
        claims.test_4_1_a_site_that_was_killed_comes_back_under_the_next_incarnation,
    ),
)  # fmt: skip


def problem_of(scene: Callable[[], None]) -> str | None:
    """What the scene says that fails."""
    try:
        scene()
    except AssertionError as error:
        return f"assertion: {error}"
    return None


SITE_MUTANTS: Final = tuple(mutant for mutant, _ in _SCENES)
SITE_STAGED: Final[dict[str, Callable[[], str | None]]] = {
    mutant.name: partial(problem_of, scene) for mutant, scene in _SCENES
}
