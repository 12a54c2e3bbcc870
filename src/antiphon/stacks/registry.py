"""The stacks there are. One line adds a stack: `register` with what it offers and what makes it for a process."""

from collections.abc import Callable
from random import Random
from typing import Final, Literal, cast, final

from antiphon.kernel.errors import LevelNotOfferedError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.stacks.conversation import offers as conversation
from antiphon.stacks.conversation.stack import ConversationStack
from antiphon.stacks.domain import offers as domain
from antiphon.stacks.domain.stack import DomainStack
from antiphon.stacks.label import offers as label
from antiphon.stacks.label.stack import LabelStack
from antiphon.stacks.sequencer import offers as sequencer
from antiphon.stacks.sequencer.stack import SequencerStack
from antiphon.stacks.stack import Capabilities, Stack
from antiphon.stacks.vector import offers as vector
from antiphon.stacks.vector.stack import VectorStack

MakeStack = Callable[[ProcessId, Random, Options], Stack]
"""Makes the one object of a stack that a process has."""


@final
class StackKind:
    """One stack that processes can run."""

    __slots__ = ("make", "offers")

    def __init__(self, offers: Capabilities, make: MakeStack) -> None:
        self.offers = offers
        self.make = make


_KINDS: Final[dict[str, StackKind]] = {}
OFFERS: Final[dict[str, Capabilities]] = {}
"""What each stack offers, by its name."""


def register(offers: Capabilities, make: MakeStack) -> None:
    """Add a stack. Raises UsageError if its name or its number is taken."""
    for other in OFFERS.values():
        if other.name == offers.name or other.number == offers.number:
            raise UsageError(
                f"stack {offers.name!r}, number {offers.number}, cannot be added beside stack {other.name!r}, "
                f"number {other.number}: names and numbers must differ"
            )
    if not 0 < offers.number < 256:
        raise UsageError(f"stack {offers.name!r} has the number {offers.number}; it must be one byte, and not 0")
    _KINDS[offers.name] = StackKind(offers, make)
    OFFERS[offers.name] = offers


def unregister(name: str) -> None:
    """Take a stack out again, for tests that add one. Engines that run it keep it."""
    offer(name)
    del _KINDS[name]
    del OFFERS[name]


register(vector.OFFERS, VectorStack)
register(conversation.OFFERS, ConversationStack)
register(domain.OFFERS, DomainStack)
register(sequencer.OFFERS, SequencerStack)
register(label.OFFERS, LabelStack)

StackName = Literal["vector", "conversation", "domain", "sequencer", "label"]
"""The names of the stacks above, as a type: a stack that is registered elsewhere is named by a cast to it."""
DEFAULT: Final[StackName] = "vector"
"""The stack of groups that name none."""


def offer(stack: str) -> Capabilities:
    """What the stack of this name offers. Raises UsageError if there is none."""
    return kind(stack).offers


def kind(stack: str) -> StackKind:
    """The stack of this name. Raises UsageError if there is none."""
    found = _KINDS.get(stack)
    if found is None:
        raise UsageError(f"there is no stack {stack!r}; the stacks are: {', '.join(_KINDS)}")
    return found


def has_number(number: int) -> bool:
    """Whether there is a stack with this number."""
    return any(offers.number == number for offers in OFFERS.values())


def unasked_stack(number: int, packet_kind: int) -> str:
    """The name of the stack with this number, if it takes packets of this kind before anybody has asked for it."""
    for offers in OFFERS.values():
        if offers.number == number and packet_kind in offers.unasked_kinds:
            return offers.name
    return ""


def founding_stacks() -> list[str]:
    """The stacks whose members found groups among themselves; the groups of the others live at a service."""
    return [offers.name for offers in OFFERS.values() if not offers.service_role]


def service_stack() -> StackName:
    """The stack whose groups live at a service. Raises UsageError if there is none."""
    for offers in OFFERS.values():
        if offers.service_role and offers.client_role:
            return cast("StackName", offers.name)
    raise UsageError("no stack has a service to connect to")


def check_level(offers: Capabilities, level: str) -> None:
    """Raise LevelNotOfferedError, which names the stacks that do offer the level, if this one does not."""
    if level not in offers.levels:
        others = tuple(other.name for other in OFFERS.values() if level in other.levels)
        raise LevelNotOfferedError(level, offers.name, offers.levels, others)


def check_options(options: Options) -> None:
    """Raise UsageError if an option is named that no stack has, or cannot be what is said."""
    for key, value in options.of_stacks.items():
        name, _, option = key.partition(".")
        if name not in OFFERS or option not in OFFERS[name].options:
            known = [f"{stack.name}.{one}" for stack in OFFERS.values() for one in stack.options]
            raise UsageError(f"no stack has the option {key!r}; there are: {', '.join(known)}")
        if value < 0:
            raise UsageError(f"the option {key!r} cannot be {value}; give 0 or more")
