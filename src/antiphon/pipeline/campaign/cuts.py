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
"""A deed by its place in the script and, of a deed that says several messages, one of them."""


def size_of(script: Script) -> int:
    """How many parts there are, in all."""
    return sum(len(parts_of(script)) for parts_of, _ in PARTS)


def groups_of(script: Script) -> list[str]:
    return [group["name"] for group in script["groups"]]


def with_groups(script: Script, names: Sequence[str]) -> Script | None:
    groups = [group for group in script["groups"] if group["name"] in names]
    return _without_strangers({**script, "groups": groups}) if groups else None


def processes_of(script: Script) -> list[str]:
    return list(script["names"])


def with_processes(script: Script, names: Sequence[str]) -> Script | None:
    groups = [
        {
            **group,
            "places": [name for name in group["places"] if name in names],
            "founders": [name for name in group["founders"] if name in names],
        }
        for group in script["groups"]
    ]
    if not all(group["founders"] for group in groups):
        return None
    return _without_strangers(
        {**script, "names": [name for name in script["names"] if name in names], "groups": groups}
    )


def layers_of(script: Script) -> list[int]:
    """All but the first, by place: without the delay nothing would take time."""
    return list(range(1, len(script["layers"])))


def with_layers(script: Script, places: Sequence[int]) -> Script:
    return {**script, "layers": script["layers"][:1] + [script["layers"][place] for place in places]}


def atoms_of(script: Script) -> list[Atom]:
    return [(place, number) for place, deed in enumerate(script["deeds"]) for number in range(_messages(deed))]


def with_atoms(script: Script, atoms: Sequence[Atom]) -> Script:
    numbers: dict[int, list[int]] = {}
    for place, number in atoms:
        numbers.setdefault(place, []).append(number)
    deeds = []
    for place, kept in numbers.items():
        deed = script["deeds"][place]
        deeds.append({**deed, "sizes": [deed["sizes"][number] for number in kept]} if "sizes" in deed else deed)
    return {**script, "deeds": deeds}


def long_messages_of(script: Script) -> list[Atom]:
    """The messages that are not empty."""
    return [
        (place, number)
        for place, deed in enumerate(script["deeds"])
        for number, size in enumerate(deed.get("sizes", ()))
        if size
    ]


def with_long_messages(script: Script, atoms: Sequence[Atom]) -> Script:
    long = set(atoms)
    deeds = [
        {**deed, "sizes": [size if (place, number) in long else 0 for number, size in enumerate(deed["sizes"])]}
        if "sizes" in deed
        else deed
        for place, deed in enumerate(script["deeds"])
    ]
    return {**script, "deeds": deeds}


def _messages(deed: dict[str, Any]) -> int:
    return len(deed["sizes"]) if "sizes" in deed else 1


def _without_strangers(script: Script) -> Script:
    """Without what is said of groups and processes that are not there."""
    groups = {group["name"] for group in script["groups"]}
    names = set(script["names"])
    deeds = [
        deed
        for deed in script["deeds"]
        if deed.get("group", "") in groups | {""} and {deed.get("who", ""), deed.get("to", "")} <= names | {""}
    ]
    domain = dict(script["domain"])
    if "overlaps" in domain:
        domain["overlaps"] = [pair for pair in domain["overlaps"] if set(pair) <= groups]
    if "excluded" in domain:
        domain["excluded"] = [name for name in domain["excluded"] if name in groups]
    return {**script, "deeds": deeds, "domain": domain}


PARTS: Final[tuple[tuple[PartsOf, WithParts], ...]] = (
    (groups_of, with_groups),
    (processes_of, with_processes),
    (atoms_of, with_atoms),
    (layers_of, with_layers),
    (long_messages_of, with_long_messages),
)
"""What can be taken out, the most at once first."""
