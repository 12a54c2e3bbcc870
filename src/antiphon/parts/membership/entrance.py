"""Membership before there is a view: the first of the founders, and those that answer it (founding.py)."""

from antiphon.kernel.effects import Effects
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.parts.membership import messages
from antiphon.parts.membership.agreement import Agreement
from antiphon.parts.membership.founding import Founding
from antiphon.parts.membership.messages import MembershipMessage


class Entrance(Agreement):
    """How one process comes into the first view of a group, where its founders have to meet."""

    def __init__(
        self,
        stack: int,
        group: str,
        group_id: int,
        declared: int,
        process: ProcessId,
        address: str,
        options: Options,
        members_max: int,
    ) -> None:
        super().__init__(stack, group, group_id, declared, process, address, options, members_max)
        self._last_view = 0
        self._founding: Founding | None = None
        self._knocked: dict[ProcessId, int] = {}
        """While I ask to join: the members that answered me directly, and when they last did."""

    def _receive_founder(self, founding: Founding, message: MembershipMessage, effects: Effects, now_ns: int) -> None:
        """Take the answer of another founder; only the first founder gets such answers."""
        if message.kind == messages.OUTSIDE and message.about == self._process:
            founding.meet(message.sender, message.address, message.round, message.version)
            self._try_found(founding, effects, now_ns)
        elif message.kind == messages.INSTALLED and founding.proposal is not None:
            founding.confirm(message.sender)
            self._try_begin(founding)

    def _try_found(self, founding: Founding, effects: Effects, now_ns: int) -> None:
        """Propose the first view, if it is time, and offer it to the other founders."""
        heard = any(at_ns >= now_ns - self._options.silence_ns_min for at_ns in self._knocked.values())
        founding.propose(heard, now_ns)
        if founding.proposal is not None:
            self._last_install = self._post.encode(self._post.message(messages.INSTALL, accepted=founding.proposal))
            for member, address in founding.unconfirmed():
                self._post.transmit(member, address, self._last_install, effects)
            self._try_begin(founding)

    def _try_begin(self, founding: Founding) -> None:
        if self.decided is None and founding.may_enter():
            self.decided = founding.proposal

    def answer_founder(self, message: MembershipMessage, effects: Effects) -> None:
        """Confirm to the first founder that this process is in the first view, which never changes under `static`."""
        proposal = message.accepted if message.kind == messages.INSTALL else None
        if proposal is not None and proposal.view.id == self._view.id and self._view.rank(message.sender) >= 0:
            self._post.tell(message.sender, self._post.message(messages.INSTALLED), effects, message.address)
