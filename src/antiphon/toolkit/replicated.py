"""Replicated objects: a class whose methods are operations, with a copy at every member.

    class Bank(ReplicatedObject):
        def __init__(self, place: ObjectPlace) -> None:
            super().__init__(place)
            self.balances: dict[str, int] = {}

        @commuting
        def deposit(self, account: str, amount: int) -> None:
            self.balances[account] = self.balances.get(account, 0) + amount

        @ordered
        def withdraw(self, account: str, amount: int) -> bool:
            ...

    async with Bank(await node.join("bank", contacts=…)) as bank:
        await bank.deposit("alice", 5)

The place is where the copies are:

  a group, or Tools     all operations are executed in one order at all members; a joiner gets the state; on disk, if a
                        `path` is given, so that the state outlives the end of all members (group_copy.py)
  a `partitionable`     the same within a component; when components merge, `merge_rule` makes one state of theirs
  group                 (merging_copy.py)
  a conversation        commuting operations are executed as they arrive, ordered ones in one order (psync-1989, 4.3;
                        conversation_copy.py)

Calling an operation has every copy execute it once and waits until it is executed here; the caller gets what it returns
or raises here. All copies become equal if the following holds:

  - Two commuting operations have the same results and the same effect in either order, whatever their arguments. A
    commuting operation and an ordered one need not commute.
  - An operation depends on its arguments and on the object alone: not on time, on randomness or on the copy.
  - Only operations change the object.

In a group the attributes are the state: they travel to joiners and to disk as MessagePack, and come back as the types
that the class annotates, `balances: dict[str, int]` say; what has no annotation comes back as MessagePack gives it.

An exception in an operation is part of its effect: it is raised to the caller, and logged at the other copies.
"""

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, Self, TypeVar

from antiphon import Group, Order, UsageError
from antiphon.conversation import Conversation, FilterOptions
from antiphon.toolkit.conversation_copy import ConversationCopy
from antiphon.toolkit.group_copy import Consistency, GroupCopy
from antiphon.toolkit.merging import ComponentState
from antiphon.toolkit.merging_copy import MergingCopy
from antiphon.toolkit.object_log import ObjectLog
from antiphon.toolkit.operations import OperationMethod
from antiphon.toolkit.tools import Tools

R = TypeVar("R")

ObjectPlace = Group | Tools | Conversation
"""Where the copies of an object are: all members of a group, or all participants of a conversation."""
CALL_S: Final = 30.0


class ReplicatedObject:
    """One copy of an object. Nobody else may use its group or conversation; all others run the same class."""

    operations: ClassVar[dict[str, OperationMethod[Any, Any, Any]]] = {}
    """The operations of this class and its bases, by name."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        found = {name: each for name, each in vars(cls).items() if isinstance(each, OperationMethod)}
        cls.operations = cls.operations | found

    @staticmethod
    def merge_rule(components: Sequence[ComponentState[dict[str, Any]]]) -> dict[str, Any]:
        """Make the attributes of one object of those that components of a `partitionable` group had; see merging.py. A
        class that is used there has one."""
        raise NotImplementedError

    def __init__(
        self,
        place: ObjectPlace,
        options: FilterOptions | None = None,
        *,
        name: str | None = None,
        path: str | os.PathLike[str] | None = None,
        founders: Sequence[str] = (),
        order: Literal["safe", "agreed", "causal"] = "safe",
        timeout_s: float = CALL_S,
        remove_silent: bool = False,
    ) -> None:
        """`options` and `remove_silent` are for a conversation; the others for groups.

        name          of the object among the tools of its members; by default that of the class
        path          a file of this member's own, in which the object outlives the process; all members have one
        founders      with a path: the names of the members that are there in the beginning. An object starts for the
                      first time when a majority of them is present, and so nobody begins anew while the others' disks
                      hold a state.
        order         `safe`: what a call has returned outlives this member. `agreed`: it is faster, and lost with this
                      member if nobody else had it yet. `causal`: calls return at once, if all operations commute.
        timeout_s     after so long a call raises TimeoutError; the operation may still be executed
        """
        self._copy: ConversationCopy | GroupCopy | MergingCopy
        name = name or type(self).__name__
        if isinstance(place, Conversation):
            if path is not None:
                raise UsageError(
                    "an object in a conversation has no file of its own: a conversation that is kept is restarted "
                    "instead; use a group"
                )
            self._copy = ConversationCopy(self, place, options, remove_silent)
            return
        self._check_order(order, path)
        if getattr(place, "policy", "primary") == "partitionable" and not isinstance(place, Tools):
            if path is not None:
                raise UsageError("where components go on apart there is no one state to keep; leave out `path`")
            if type(self).merge_rule is ReplicatedObject.merge_rule:
                raise UsageError(
                    f"group {place.name!r} is partitionable, and {type(self).__name__} does not say how states merge: "
                    "give it a `merge_rule`"
                )
            self._copy = MergingCopy(self, place, type(self).merge_rule, order, timeout_s)
            return
        log = None if path is None else ObjectLog(path)
        self._copy = GroupCopy(self, place, name, order, log, tuple(founders), timeout_s)

    def _check_order(self, order: Order, path: object) -> None:
        if order not in ("safe", "agreed", "causal"):
            raise UsageError(f"an object's `order` is `safe`, `agreed` or `causal`, not {order!r}")
        if order != "safe" and path is not None:
            raise UsageError("an object on disk needs `safe` messages: others may be delivered here and nowhere else")
        strict = [name for name, method in self.operations.items() if not method.commutes]
        if order == "causal" and strict:
            raise UsageError(f"`causal` is for commuting operations, and {', '.join(strict)} have to be ordered")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self._copy.place!r}>"

    async def __aenter__(self) -> Self:
        await self._copy.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._copy.finish()

    @property
    def conversation(self) -> Conversation:
        """The conversation that the copies are in. Raises UsageError if they are in a group."""
        return self._in_conversation().conversation

    @property
    def strays(self) -> int:
        """How many messages were dropped because they were no operations of this class."""
        return self._copy.strays

    async def catch_up(self, consistency: Consistency = "agreed") -> None:
        """Wait until what is read here is as fresh as wanted; read the attributes then, before the next `await`.

        local    as it is: maybe behind others, maybe ahead of what is on disk
        mine     after all operations that were called here before
        agreed   after all operations that were acknowledged anywhere before; none of what is read can be lost
        """
        await self._copy.catch_up(consistency)

    async def settled(self, timeout_s: float | None = None) -> None:
        """Wait until all copies have all operations that were called here. Raises TimeoutError."""
        await self._copy.settled(timeout_s)

    def laggards(self) -> list[str]:
        """Return the participants of the conversation that have been silent for too long."""
        return self._in_conversation().laggards()

    async def go_on_without(self, *, confirm: str) -> None:
        """Have the object go on without the disks that are missing: what only those hold is lost, if they hold
        anything. `confirm` is the name of the group."""
        if not isinstance(self._copy, GroupCopy):
            raise UsageError("only an object on disk waits for disks")
        await self._copy.go_on_without(confirm)

    def _in_conversation(self) -> ConversationCopy:
        if not isinstance(self._copy, ConversationCopy):
            raise UsageError(f"{self!r} is in a group, not in a conversation")
        return self._copy

    async def _issue(self, method: OperationMethod[Any, Any, R], payload: bytes) -> R:
        result: R = await self._copy.call(method, payload)
        return result
