"""What a `start` row says: its label is a JSON object, described in `antiphon.history.schema`."""

import json
from typing import NamedTuple

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import ALL_GROUPS, DOMAIN_SCOPE, PARTITIONABLE, SCHEMA_VERSION, SCOPES
from antiphon.history.versions import check_version


class StartFacts(NamedTuple):
    """What a process was promised in a group when it joined."""

    promises: tuple[str, ...]
    """The ids of the guarantees."""
    scope: str = ALL_GROUPS
    """Among which messages causal order holds: one of SCOPES."""
    domain: str = ""
    """The causality domain, with its stack, where that is the scope."""
    parts: bool = False
    """Whether the views of the group part and merge."""
    version: int = SCHEMA_VERSION
    """Of the schema of its log."""
    claimed: bool = False
    """Whether the promises are claimed of another system's log: what nothing could check is then unknown."""


def parse_start(label: str | None) -> StartFacts:
    """Read the label of a start row; raises UnusableHistoryError if it is none."""
    try:
        facts = json.loads(label or "")
    except ValueError:
        raise UnusableHistoryError(None, "the label of a start row is no JSON object") from None
    if not isinstance(facts, dict):
        raise UnusableHistoryError(None, "the label of a start row is no JSON object")
    version = facts.get("schema")
    if not isinstance(version, int) or version < 1:
        raise UnusableHistoryError(None, 'the label of a start row names no "schema" version')
    check_version(version)
    promises = facts.get("promises")
    if not isinstance(promises, list) or not all(isinstance(promise, str) for promise in promises):
        raise UnusableHistoryError(None, 'the label of a start row has no list "promises" of guarantee ids')
    scope, domain = facts.get("scope", ALL_GROUPS), facts.get("domain", "")
    if scope not in SCOPES:
        raise UnusableHistoryError(None, f'the "scope" of a start row is {scope!r}, but one of: {", ".join(SCOPES)}')
    if not isinstance(domain, str) or (scope == DOMAIN_SCOPE and not domain):
        raise UnusableHistoryError(None, 'the label of a start row names no "domain" for its scope')
    named = f"{facts.get('stack', '')} {domain}" if scope == DOMAIN_SCOPE else ""
    parts, claimed = facts.get("policy") == PARTITIONABLE, facts.get("claimed") is True
    return StartFacts(tuple(promises), scope, named, parts, version, claimed)
