"""Stack `label`: the primitives of isis-1987, as a member of one group has them. What all stacks have in common is in
parts/membership/group.py; what a view is, in session.py.

Levels: all. `reliable`, `fifo` and `causal` are CBCASTs (pool.py), `agreed` is the causal atomic broadcast of 3.4,
`safe` adds the extra phase of 3.2 (ordering.py). A barrier is a GBCAST: it ends the view, by the agreement on the next
one. Processes that are no members send by way of one (guests.py, door.py), if the policy is `primary`.

Limits: `window_packets` own broadcasts that not all have delivered; own messages wait within `pending_bytes_max`.
"""

from random import Random
from typing import final

from antiphon.kernel.effects import Effects
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join, Send
from antiphon.kernel.levels import SAFE
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import KNOCK
from antiphon.parts.membership.founding import Founding
from antiphon.parts.membership.group import BARRIER_BYTES_MAX, GroupMember
from antiphon.parts.membership.session import Session
from antiphon.stacks.label.addressing import Addressing
from antiphon.stacks.label.comparison import check_order_label
from antiphon.stacks.label.guests import GuestTable, KnockListener, decode_table
from antiphon.stacks.label.offers import NUMBER
from antiphon.stacks.label.session import LabelSession, members_max
from antiphon.stacks.label.view_end import ORDER_ANNEX_SIZE


@final
class LabelMember(GroupMember):
    """One member of one group."""

    __slots__ = ("_lazy_ns", "_listener", "_random", "_seen_ns", "address", "addressing", "founds_above", "session")

    def __init__(
        self,
        join: Join,
        process: ProcessId,
        last_number: int,
        random: Random,
        options: Options,
        lazy_ns: int,
        listener: KnockListener,
    ) -> None:
        super().__init__(NUMBER, join, process, last_number, options)
        self._random = random
        self._lazy_ns = lazy_ns
        self._listener = listener
        self._seen_ns: dict[ProcessId, int] = {}
        self.address = join.address
        self.addressing: Addressing | None = None
        """What finds the destinations of own broadcasts when they leave (site.py)."""
        self.founds_above = 0
        """The id of a first view that this process founds with others is greater."""
        self.session: LabelSession | None = None
        """The view that this process is in."""
        self._found(join, members_max(options))

    def _make_session(self, view: View, annex: bytes) -> Session:
        table = decode_table(annex, ORDER_ANNEX_SIZE) if annex else {}
        guests = GuestTable(table, len(view.members), self._seen_ns)
        guests.forget()
        self.session = LabelSession(
            self.group, self._process, view, self._pending, self._random, self._options, self._declaration.id,
            self._lazy_ns, guests, self.addressing,
        )  # fmt: skip
        return self.session

    def _make_founding(self, now_ns: int) -> Founding | None:
        founding = super()._make_founding(now_ns)
        if founding is not None:
            founding.last_view = max(founding.last_view, self.founds_above)
        return founding

    def receive(
        self, kind: int, tag: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        if kind == KNOCK:
            self._listener.knocked(self.group_id, flags, data, effects)
        else:
            super().receive(kind, tag, sender, flags, level, data, effects, now_ns)

    def is_open(self) -> bool:
        """Whether guests can send by way of this member."""
        if self._membership is None or self.session is None or self.over or self.retiring:
            return False
        return not self._membership.is_stalled()

    def are_all_present(self) -> bool:
        """Whether all members are known to have installed this view."""
        return self._membership is None or self._membership.are_all_present()

    def end_view(self, now_ns: int) -> None:
        """Have the view end, without a change of members."""
        if self._membership is not None:
            self._membership.request_flush(now_ns)

    def put_record(self, record: bytes) -> bool:
        """Have a record of a site (site.py) delivered as a GBCAST, with others that wait to be, if there are any;
        whether there was room. Such a record holds a barrier of a process, and so may be longer than one."""
        return self._pending.extend_barrier(record, BARRIER_BYTES_MAX) or bool(
            self._pending.accept([record], SAFE, barrier=True)
        )

    def send(self, input: Send, effects: Effects, now_ns: int) -> int:
        if input.label:
            check_order_label(input.label, input.level)
        return super().send(input, effects, now_ns)
