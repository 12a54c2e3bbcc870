"""What a `start` row says: its label is a JSON object, described in `antiphon.history.schema`."""

import json

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.versions import check_version


def parse_start(label: str | None) -> tuple[str, ...]:
    """The ids of the promised guarantees."""
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
    return tuple(promises)
