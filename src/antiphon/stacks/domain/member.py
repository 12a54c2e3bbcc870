"""Stack `domain`: the broadcast domain of transis-1992, as a member of one group has it. What all stacks have in common
is in parts/membership/group.py; what a view is, in session.py.

Levels: all. Policies: `static` and `primary` here, `partitionable` in partitionable.py.

Limits: `window_packets` nodes with messages that not all have acknowledged, of all senders together (window.py); own
messages wait within `pending_bytes_max`. The acks of a node must leave half of a packet for messages (members_max).
"""

from random import Random
from typing import final

from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join
from antiphon.kernel.options import Options
from antiphon.parts.membership.group import GroupMember
from antiphon.parts.membership.session import Session
from antiphon.stacks.domain.offers import NUMBER
from antiphon.stacks.domain.session import DomainSession, members_max


@final
class DomainMember(GroupMember):
    """One member of one group."""

    __slots__ = ("_random",)

    def __init__(self, join: Join, process: ProcessId, last_number: int, random: Random, options: Options) -> None:
        super().__init__(NUMBER, join, process, last_number, options)
        self._random = random
        self._found(join, members_max(options))

    def _make_session(self, view: View, annex: bytes) -> Session:
        return DomainSession(
            self.group, self._process, view, self._pending, self._random, self._options, self._declaration.id
        )
