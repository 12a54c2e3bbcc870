"""The plan as TOML: what a later run is to be told, and `antiphon.load_plan` reads.

[[group]]      name, members: what the rest was derived from
[[causality]]  name, rule, overlaps, groups: one causality domain per connected component of the overlap graph
               (isis-1991, sections 6.6 and 7.3); what it declares holds as long as no other groups come to overlap
[[sequencer]]  process, groups, messages, bytes (kindberg-1995, section 4.2); no process where no group has a member
[[broadcast]]  name, members, relay, crossing (transis-1992, section 4); a relay only where groups cross

A domain is named after the first of its groups. Names may hold any character: they are written as TOML escapes them.
"""

import json
from collections.abc import Iterable
from typing import Final

from antiphon.pipeline.structure.finding import Structure

PLAN_VERSION: Final = 1

HEAD: Final = """\
# A plan for process groups, made by `antiphon structure` from a recorded history; `antiphon.load_plan` reads it.
# It holds as long as no groups overlap other than those it names.
"""

Value = str | int | tuple[str, ...] | list[tuple[str, str]]


def plan_text(structure: Structure) -> str:
    """The plan, as the text of a TOML file."""
    domain_of = {group: groups[0] for groups in structure.graph.connected for group in groups}
    overlaps: dict[str, list[tuple[str, str]]] = {}
    for overlap in structure.graph.overlaps:
        overlaps.setdefault(domain_of[overlap.first], []).append((overlap.first, overlap.second))
    parts = [f"{HEAD}version = {PLAN_VERSION}\n"]
    for group, members in structure.traffic.members.items():
        parts.append(_table("group", {"name": group, "members": tuple(sorted(members))}))
    for groups in structure.graph.connected:
        own = overlaps.get(groups[0], [])
        parts.append(_table("causality", {"name": groups[0], "rule": "carry", "groups": groups, "overlaps": own}))
    for sequencer in structure.sequencers:
        process: dict[str, Value] = {} if sequencer.process is None else {"process": sequencer.process}
        load = {"messages": sequencer.messages, "bytes": sequencer.bytes}
        parts.append(_table("sequencer", {**process, "groups": sequencer.groups, **load}))
    for domain in structure.broadcast_domains:
        relay: dict[str, Value] = {} if domain.relay is None else {"relay": domain.relay, "crossing": domain.crossing}
        parts.append(_table("broadcast", {"name": domain.members[0], "members": domain.members, **relay}))
    return "\n".join(parts)


def _table(name: str, entries: dict[str, Value]) -> str:
    lines = [f"{key} = {_value(value)}" for key, value in entries.items()]
    return "\n".join([f"[[{name}]]", *lines, ""])


def _value(value: Value | tuple[str, str]) -> str:
    if isinstance(value, str):
        # A JSON string is a TOML one, but for the one control character that JSON lets stand.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int):
        return str(value)
    return _list(_value(item) for item in value)


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"
