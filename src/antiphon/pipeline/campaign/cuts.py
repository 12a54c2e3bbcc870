"""The parts that a script can do without, and the script with only some of them.

A script is a document as simulator/script.py describes it. Taking out a group or a process takes with it all that is
said of it elsewhere. A cut that leaves nothing to run (a group that nobody founds, no group at all) gives None.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from antiphon.pipeline.campaign.contract import Script

PartsOf = Callable[[Script], list[Any]]
WithParts = Callable[[Script, Sequence[Any]], Script | None]
Atom = tuple[int, int]
"""An action by its index in the script and, of an action that sends several messages, one of them."""


def size_of(script: Script) -> int:
    """How many parts there are, in all."""
    return sum(len(parts_of(script)) for parts_of, _ in PARTS)


def groups_of(script: Script) -> list[str]:
    return [group["name"] for group in script["groups"]]


def with_groups(script: Script, names: Sequence[str]) -> Script | None:
    groups = [group for group in script["groups"] if group["name"] in names]
    return _without_strangers({**script, "groups": groups}) if groups else None


def processes_of(script: Script) -> list[str]:
    return list(script["processes"])


def with_processes(script: Script, names: Sequence[str]) -> Script | None:
    groups = [
        {
            **group,
            "members": [name for name in group["members"] if name in names],
            "founders": [name for name in group["founders"] if name in names],
        }
        for group in script["groups"]
    ]
    if not all(group["founders"] for group in groups):
        return None
    return _without_strangers(
        {**script, "processes": [name for name in script["processes"] if name in names], "groups": groups}
    )


def layers_of(script: Script) -> list[int]:
    """All but the first, by index: without the delay nothing would take time."""
    return list(range(1, len(script["layers"])))


def with_layers(script: Script, indexes: Sequence[int]) -> Script:
    return {**script, "layers": script["layers"][:1] + [script["layers"][index] for index in indexes]}


def atoms_of(script: Script) -> list[Atom]:
    return [(index, number) for index, action in enumerate(script["actions"]) for number in range(_messages(action))]


def with_atoms(script: Script, atoms: Sequence[Atom]) -> Script:
    numbers: dict[int, list[int]] = {}
    for index, number in atoms:
        numbers.setdefault(index, []).append(number)
    actions = []
    for index, kept in numbers.items():
        action = script["actions"][index]
        actions.append(
            {**action, "sizes": [action["sizes"][number] for number in kept]} if "sizes" in action else action
        )
    return {**script, "actions": actions}


def long_messages_of(script: Script) -> list[Atom]:
    """The messages that are not empty."""
    return [
        (index, number)
        for index, action in enumerate(script["actions"])
        for number, size in enumerate(action.get("sizes", ()))
        if size
    ]


def with_long_messages(script: Script, atoms: Sequence[Atom]) -> Script:
    long = set(atoms)
    actions = [
        {**action, "sizes": [size if (index, number) in long else 0 for number, size in enumerate(action["sizes"])]}
        if "sizes" in action
        else action
        for index, action in enumerate(script["actions"])
    ]
    return {**script, "actions": actions}


def _messages(action: dict[str, Any]) -> int:
    return len(action["sizes"]) if "sizes" in action else 1


def _without_strangers(script: Script) -> Script:
    """Without what is said of groups and processes that are not there."""
    groups = {group["name"] for group in script["groups"]}
    names = set(script["processes"])
    actions = [
        action
        for action in script["actions"]
        if action.get("group", "") in groups | {""}
        and {action.get("process", ""), action.get("to", "")} <= names | {""}
    ]
    domain = dict(script["domain"])
    if "overlaps" in domain:
        domain["overlaps"] = [pair for pair in domain["overlaps"] if set(pair) <= groups]
    if "excluded" in domain:
        domain["excluded"] = [name for name in domain["excluded"] if name in groups]
    return {**script, "actions": actions, "domain": domain}


PARTS: Final[tuple[tuple[PartsOf, WithParts], ...]] = (
    (groups_of, with_groups),
    (processes_of, with_processes),
    (atoms_of, with_atoms),
    (layers_of, with_layers),
    (long_messages_of, with_long_messages),
)
"""What can be taken out, the most at once first."""
