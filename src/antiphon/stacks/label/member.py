"""Stack `label`: the primitives of isis-1987, as a member of one group has them. What all stacks have in common is in
parts/membership/group.py; what a view is, in session.py.

Levels: all. `reliable`, `fifo` and `causal` are CBCASTs (pool.py), `agreed` is the causal atomic broadcast of 3.4,
`safe` adds the extra phase of 3.2 (ordering.py). A barrier is a GBCAST: it ends the view, by the agreement on the next
one.

Limits: `window_packets` own broadcasts that not all have delivered; own messages wait within `pending_bytes_max`.
"""

from random import Random
from typing import final

from antiphon.kernel.effects import Effects
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join, Send
from antiphon.kernel.options import Options
from antiphon.parts.membership.group import GroupMember
from antiphon.parts.membership.session import Session
from antiphon.stacks.label.comparison import check_order_label
from antiphon.stacks.label.offers import NUMBER
from antiphon.stacks.label.session import LabelSession, members_max


@final
class LabelMember(GroupMember):
    """One member of one group."""

    __slots__ = ("_lazy_ns", "_random")

    def __init__(
        self, join: Join, process: ProcessId, last_number: int, random: Random, options: Options, lazy_ns: int
    ) -> None:
        super().__init__(NUMBER, join, process, last_number, options)
        self._random = random
        self._lazy_ns = lazy_ns
        self._found(join, members_max(options))

    def _make_session(self, view: View, annex: bytes) -> Session:
        return LabelSession(
            self.group, self._process, view, self._pending, self._random, self._options, self._declaration.id,
            self._lazy_ns,
        )  # fmt: skip

    def send(self, input: Send, effects: Effects, now_ns: int) -> int:
        if input.label:
            check_order_label(input.label, input.level)
        return super().send(input, effects, now_ns)
