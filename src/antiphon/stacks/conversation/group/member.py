"""Stack `conversation`: Psync, as the stack of ordinary groups. What all stacks have in common is in
parts/membership/group.py; what a view is, in session.py.

Levels: all. `reliable` and `fifo` are given more than they ask for: everything comes in the order of its context.
`agreed` goes by waves, `safe` by stability. Policies: `static` and `primary`. Joining, leaving and failing end the
conversation of a view by agreement and begin another.

Messages for some of the members go to all, and are handed out to those (2: everybody receives everything).

Not offered: causal order between groups. A group that is to be in a causality domain is refused when it is joined.

Limits: per sender `window_packets` nodes that are not stable; own messages wait within `pending_bytes_max`. The names
of predecessors must leave half of a packet for messages (members_max).
"""

from typing import final

from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join
from antiphon.kernel.options import Options
from antiphon.parts.membership.group import GroupMember
from antiphon.parts.membership.session import Session
from antiphon.stacks.conversation.group.session import ConversationSession, members_max
from antiphon.stacks.conversation.offers import NUMBER


@final
class ConversationMember(GroupMember):
    """One member of one group."""

    def __init__(self, join: Join, process: ProcessId, last_number: int, options: Options) -> None:
        super().__init__(NUMBER, join, process, last_number, options)
        self._found(join, members_max(options))

    def _make_session(self, view: View, annex: bytes) -> Session:
        return ConversationSession(self.group, self._process, view, self._pending, self._options, self._declaration.id)
