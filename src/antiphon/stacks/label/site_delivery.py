"""What a site tells its processes of their groups: messages, GBCASTs and views, by the table that all sites have alike
(site.py, rules 2 and 3)."""

from typing import final

from antiphon.kernel.effects import Effects
from antiphon.kernel.identity import ProcessId
from antiphon.stacks.label.attached import AttachedProcess
from antiphon.stacks.label.hosting import Hosting
from antiphon.stacks.label.site_frames import (
    GBCAST,
    GroupChange,
    SiteMessage,
    SiteRecord,
    encode_deliver,
    encode_ended,
    encode_reached,
)
from antiphon.stacks.label.site_groups import Departure
from antiphon.stacks.label.site_transfer import TableTransfer


@final
class SiteDelivery:
    """The processes of one site in their groups, in one life of the site."""

    __slots__ = ("_hosting", "_site", "_transfer", "dropped")

    def __init__(self, site: ProcessId, hosting: Hosting, transfer: TableTransfer) -> None:
        self._site = site
        self._hosting = hosting
        self._transfer = transfer
        self.dropped = 0
        """Messages of processes that are not in the group that they were for."""

    def sites_of(self, group: int, chosen: tuple[ProcessId, ...]) -> tuple[ProcessId, ...]:
        """The sites of these members of a group, or of all."""
        hosted = self._transfer.table.groups.get(group)
        if hosted is None:
            return ()
        members = hosted.members
        return tuple(dict.fromkeys([members[process] for process in chosen or tuple(members) if process in members]))

    def attached_member(self, group: int, process: ProcessId) -> AttachedProcess | None:
        """A process of this site that is in a group."""
        attached = self._hosting.by_process.get(process)
        if attached is None or attached.is_gone or not self._transfer.table.is_member(group, process, self._site):
            return None
        return attached

    def hand_over(self, message: SiteMessage, site: ProcessId, level: int, body: bytes) -> None:
        """Hand messages of a process at that site to those of this site that they are for."""
        if not self._transfer.table.is_member(message.group, message.sender, site):
            self.dropped += 1  # the sender is dead, to all sites alike
            return
        hosted = self._transfer.table.groups[message.group]
        frame = b""
        for process in message.destinations or hosted.members:
            attached = self.attached_member(message.group, process)
            if attached is not None:
                frame = frame or encode_deliver(message.group, hosted.view_id, level, body)
                attached.deliver(frame)

    def reach(self, site: ProcessId, record: SiteRecord) -> None:
        """Tell of a GBCAST of a process at that site, if the record is one."""
        hosted = self._transfer.table.groups.get(record.group)
        is_from_member = self._transfer.table.is_member(record.group, record.process, site)
        if record.kind != GBCAST or hosted is None or not is_from_member:
            return
        frame = encode_reached(record.group, hosted.view_id, record.number, record.process, record.payload)
        for process in hosted.members:
            attached = self.attached_member(record.group, process)
            if attached is not None:
                attached.deliver(frame)

    def tell_changes(self, changes: list[GroupChange], departures: list[Departure], effects: Effects) -> None:
        """Tell the next views of groups."""
        for change in changes:
            frame = change.encode()
            for process in change.view.members:
                attached = self.attached_member(change.group, process)
                if attached is not None:
                    attached.out.append(frame)
        for departure in departures:
            attached = self._hosting.by_process.get(departure.process)
            if attached is None or attached.is_gone:
                continue
            if departure.is_dead:
                self._hosting.give_up(attached, "the others have gone on without this incarnation", effects)
            else:
                attached.out.append(encode_ended(departure.group, departure.view))
