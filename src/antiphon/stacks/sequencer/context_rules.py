"""The contexts of places: kindberg-1995, 4.1, and rule 3 of section 5, kept short.

Rule. The place of an agreed message, or of a change of members, carries the numbers of all groups at this sequencer
that intersect with its group (4.1). The place of any message carries the context of its sender (5). Left out is what
an earlier place of the group carries, and what is group-stable; the places of joins carry all that is not stable.

Safe. Whoever is owed a place delivers the places of the group before it first, from its own join on: so it has waited
for what they carry. What is stable is at everybody who is owed it. Contexts are passed on to what their receivers
send (client_links.py) in full, so nothing is lost for those who follow."""

from antiphon.kernel.levels import AGREED
from antiphon.stacks.sequencer.context import BOTTOM, Context
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.service_peer import ServicePeer


class ContextRules(ServicePeer):
    """The groups of one sequencer, and what their places carry."""

    __slots__ = ("_context", "_entries", "_entries_literal", "_groups")

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[int, SequencedGroup] = {}
        self._context: Context = {}
        """The last number of each group."""
        self._entries = 0
        """Of contexts of messages, beside that of their own group…"""
        self._entries_literal = 0
        """…and how many the rules would have had them carry, word for word."""

    def is_alone(self) -> bool:
        """Whether there are no other sequencers: the order is this peer's, and clients need not tell contexts."""
        return True

    def _is_stable(self, id: int, number: int) -> bool:
        """Whether a place of some group is known to be at all who are owed it."""
        group = self._groups.get(id)
        return group is not None and number <= group.stable

    def _context_of_messages(self, group: SequencedGroup, level: int, cause: Context) -> Context:
        """The context of the next place, with messages whose sender has this context: rule 3 of section 5, without what
        earlier places of the group carry, and without what is stable. Among several sequencers the numbers of
        intersecting groups concern agreed messages alone."""
        number = self._context[group.id] = group.number + 1
        context: Context = {group.id: number}
        carried = group.carried
        self._entries_literal += len(cause.keys() | set(group.intersecting)) - 1
        if level == AGREED or self.is_alone():
            for id in group.intersecting:
                self._carry(id, self._context[id], carried, context)
        for id, entry in list(cause.items()):
            if self._is_stable(id, entry):
                del cause[id]
            else:
                self._carry(id, entry, carried, context)
        self._entries += len(context) - 1
        return context

    def _carry(self, id: int, number: int, carried: Context, context: Context) -> None:
        if number > max(carried.get(id, BOTTOM), context.get(id, BOTTOM)) and not self._is_stable(id, number):
            context[id] = carried[id] = number

    def _context_of_change(self, group: SequencedGroup) -> Context:
        """The context of the next place, where members change: all that earlier places carry, and is not stable, for
        those who join here."""
        number = self._context[group.id] = group.number + 1
        for id, entry in list(group.carried.items()):
            if self._is_stable(id, entry):
                del group.carried[id]
        context: Context = {group.id: number}
        for id in group.intersecting:
            self._carry(id, self._context[id], group.carried, context)
        for id, entry in group.carried.items():
            context.setdefault(id, entry)
        return context
