"""Checks of what callers hand in: wrong values get a UsageError that names them, before anything has happened."""

from collections.abc import Mapping, Sequence
from typing import Final

from antiphon.faults import Fault
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import LEVEL_NAMES, LEVELS, Order
from antiphon.kernel.options import Options
from antiphon.kernel.policies import PARTITIONABLE, PRIMARY, SITES
from antiphon.kernel.wire_versions import VERSION, VERSION_MIN
from antiphon.stacks.registry import DEFAULT, check_level
from antiphon.stacks.stack import Capabilities

INCARNATION_MAX: Final = 2**62 - 1


LABEL_LENGTH_MAX: Final = 64


def check_count(what: str, value: object, least: int) -> None:
    """Refuse what is no whole number, or less than `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{what} is a whole number from {least} on, not {value!r}")


def check_seconds(what: str, value: object) -> None:
    """Refuse what is no length of time."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise UsageError(f"{what} is a number of seconds, 0 or more, not {value!r}")


def check_incarnation(value: object) -> None:
    """Refuse what cannot number a life of a process."""
    check_count("an incarnation", value, 1)
    if isinstance(value, int) and value > INCARNATION_MAX:
        raise UsageError(f"an incarnation is less than 2^62, which {value} is not")


def check_options(options: object) -> None:
    """Refuse what is not an Options."""
    if options is not None and not isinstance(options, Options):
        raise UsageError(f"options are an antiphon.Options, as in options=Options(…), not {options!r}")
    if isinstance(options, Options) and not VERSION_MIN <= options.wire_version <= VERSION:
        raise UsageError(f"wire_version is {VERSION_MIN} to {VERSION} in this release, not {options.wire_version}")


def check_faults(faults: object) -> None:
    """Refuse what are not fault layers."""
    if isinstance(faults, str) or not isinstance(faults, Sequence):
        raise UsageError(f"faults are a list of fault layers (antiphon.faults), not {faults!r}")
    for fault in faults:
        if not isinstance(fault, Fault):
            raise UsageError(f"faults are layers of antiphon.faults, as in faults=[Loss(0.1)]; {fault!r} is none")


def check_members(members: object) -> None:
    """Refuse what does not map names of founders to addresses."""
    if members is None:
        return
    if not isinstance(members, Mapping):
        raise UsageError(f'members map names to addresses, as in {{"alice": "10.0.0.1:7400"}}; {members!r} does not')
    for name, address in members.items():
        if not isinstance(name, str) or not isinstance(address, str):
            raise UsageError(f"members map names to addresses, both text; {name!r}: {address!r} is not")


def check_contacts(contacts: object) -> None:
    """Refuse what can tell nobody to ask."""
    if isinstance(contacts, str):
        raise UsageError(f"contacts are a list of addresses, as in contacts=[{contacts!r}]")
    if isinstance(contacts, Sequence):
        for contact in contacts:
            if not isinstance(contact, str):
                raise UsageError(f'a contact is an address, as in "10.0.0.1:7400", not {contact!r}')
    elif not hasattr(contacts, "addresses"):
        raise UsageError(f"contacts are a list of addresses or a discovery, not a {type(contacts).__name__}")


def check_way_in(group: str, members: object, contacts: object, policy: str | None) -> None:
    """Refuse a way into a group that leads nowhere: founding members or contacts, and what the policy wants of them."""
    check_members(members)
    check_contacts(contacts)
    if (members is None) == (not contacts):
        raise UsageError(f"to join group {group!r}, name either its founding members, or contacts to be let in by")
    if contacts and policy not in (None, PRIMARY, PARTITIONABLE, SITES):
        raise UsageError(f"nobody can be let into a group whose policy is {policy!r}; with contacts it is `primary`")
    if policy == SITES and (members is not None or not isinstance(contacts, Sequence) or len(contacts) != 1):
        raise UsageError(f"to join group {group!r} by way of a site, name the address of the site as the contact")


def check_kind(stack: object, policy: object, domain: object) -> None:
    """Refuse what names no stack or policy, or is no causality domain."""
    if not isinstance(stack, str):
        raise UsageError(f'a stack is named by text, as in stack="{DEFAULT}", not {stack!r}')
    if policy is not None and not isinstance(policy, str):
        raise UsageError(f'a policy is named by text, as in policy="primary", not {policy!r}')
    if not isinstance(domain, CausalityDomain):
        raise UsageError(f"a domain is an antiphon.CausalityDomain, as in CausalityDomain(name=…), not {domain!r}")


def check_order(order: object) -> None:
    """Refuse what names no service level."""
    if not isinstance(order, str) or order not in LEVELS:
        raise UsageError(f"there is no order {order!r}; choose one of {', '.join(LEVEL_NAMES)}")


def check_payloads(payloads: object) -> None:
    """Refuse what is no list of payloads."""
    if isinstance(payloads, bytes | str) or not isinstance(payloads, Sequence):
        raise UsageError(f"send_many takes a list of payloads, not {type(payloads).__name__}")


def check_label(label: object) -> None:
    """Refuse what is not a short text; `barrier` is what the history calls barriers."""
    if label is None:
        return
    if not isinstance(label, str) or not 0 < len(label) <= LABEL_LENGTH_MAX or not label.isprintable():
        raise UsageError(f"a label is a text of 1 to {LABEL_LENGTH_MAX} printable characters, not {label!r}")
    if label == "barrier":
        raise UsageError("the history calls barriers by the label 'barrier'; choose another one")


def check_order_and_label(offered: Capabilities, order: Order, label: str | None, outside: bool = False) -> None:
    """Refuse a level that the stack does not offer, and a label that is none, or cannot order such a message."""
    check_order(order)
    check_level(offered, order)
    check_label(label)
    if label is not None and offered.check_label is not None:
        offered.check_label(label, LEVELS[order], outside)


Destinations = ProcessId | Sequence[ProcessId] | None
"""One member, several where the stack allows for it, or all (None)."""


def check_destinations(to: object, several: bool) -> tuple[ProcessId, ...]:
    """The processes that `to` names. Refuses what is no process nor, where `several` may be named, a list of them."""
    if isinstance(to, ProcessId):
        return (to,)
    if not several or isinstance(to, str | bytes) or not isinstance(to, Sequence) or not to:
        raise UsageError(f"`to` is a process, as in `group.view.members` or `message.sender`, not {to!r}")
    for process in to:
        check_destinations(process, False)
    return tuple(dict.fromkeys(to))
