"""Which rows make sense by themselves. What a log must fulfil as a whole is the auditor's business.

`row_problem` looks at all rows of a table at once and tells of the first one that cannot be meant.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import BARRIER, DIGEST_DIGITS, KINDS, LEVELS, SCHEMA
from antiphon.history.start import parse_start

NUMBER_MAX: Final = 2**62
"""So that the end of a run of messages still is a 64-bit integer."""

PROCESS: Final = r"^.+/\d+$"

_KINDS: Final = pa.array(KINDS, pa.string())

Mask = npt.NDArray[np.bool_]

ALWAYS_SET: Final = ("run", "process", "incarnation", "index", "time_ns", "kind")
SET_BY_KIND: Final = {
    "start": ("group", "label"),
    "view": ("group", "view", "members"),
    "transitional": ("group", "view", "members"),
    "send": ("group", "sender", "sender_incarnation", "number", "count", "level", "size"),
    "depart": ("group", "view", "sender", "sender_incarnation", "number", "count"),
    "receive": ("group", "view", "sender", "sender_incarnation", "number", "count", "level", "size"),
    "deliver": ("group", "view", "sender", "sender_incarnation", "number", "count", "level", "size"),
    "suspect": ("group", "view", "label"),
    "stop": ("label",),
}


def row_problem(table: pa.Table) -> tuple[int, str] | None:
    """The place in the table and the fault of a row that makes no sense, or None."""
    for name in ALWAYS_SET:
        if table[name].null_count and (place := _first(_null(table, name))):
            return place[0], f"column {name!r} is null"
    kind = table["kind"]
    codes = pc.fill_null(pc.index_in(kind, value_set=_KINDS), -1).to_numpy()
    if place := _first(codes < 0):
        return place[0], f"kind {kind[place[0]].as_py()!r} is none of {', '.join(KINDS)}"
    nulls = {name: _null(table, name) for name in SCHEMA.names if table[name].null_count}
    for of_kind, names in SET_BY_KIND.items():
        chosen = codes == KINDS.index(of_kind)
        if not chosen.any():
            continue
        for name in names:
            if name in nulls and (place := _first(chosen & nulls[name])):
                return place[0], f"a row of kind {of_kind!r} leaves column {name!r} null"
    return _value_problem(table) or _sender_problem(table) or _destination_problem(table) or _label_problem(table)


def _value_problem(table: pa.Table) -> tuple[int, str] | None:
    """Numbers and levels out of their range."""
    for name, least in (("index", 0), ("incarnation", 0), ("number", 1), ("count", 1), ("size", 0)):
        column = table[name]
        extent = pc.min_max(column).as_py()
        if extent["min"] is None or (extent["min"] >= least and extent["max"] <= NUMBER_MAX):
            continue
        outside = pc.or_(pc.less(column, least), pc.greater(column, NUMBER_MAX))
        if place := _first(_true(outside)):
            return place[0], f"{name} is {column[place[0]].as_py()}, but must be at least {least} and at most 2^62"
    if _is_set(table, "label"):
        barrier = _true(pc.equal(table["label"], BARRIER)) & _among(table["kind"], ("send", "deliver"))
        if place := _first(barrier & _true(pc.not_equal(table["count"], 1))):
            return place[0], f"a barrier is one message, but count is {table['count'][place[0]].as_py()}"
    if _is_set(table, "digest"):
        digest = table["digest"]
        right = pc.equal(pc.utf8_length(digest), pc.multiply(table["count"], DIGEST_DIGITS))
        right = pc.and_(right, pc.match_substring_regex(digest, "^[0-9a-f]*$"))
        if place := _first(~_null(table, "digest") & ~_true(right)):
            told = digest[place[0]].as_py()
            return place[0], f"a digest is {DIGEST_DIGITS} hexadecimal digits per message, not {told!r}"
    level = table["level"]
    if place := _first(~_null(table, "level") & ~_among(level, LEVELS)):
        return place[0], f"level {level[place[0]].as_py()!r} is none of {', '.join(LEVELS)}"
    return None


def _sender_problem(table: pa.Table) -> tuple[int, str] | None:
    """A process records only its own sends and departures."""
    own = pc.and_(
        pc.equal(table["sender"], table["process"]), pc.equal(table["sender_incarnation"], table["incarnation"])
    )
    place = _first(_among(table["kind"], ("send", "depart")) & ~_true(own))
    return (
        (place[0], "a send or depart row names another sender than the process whose log it is in") if place else None
    )


def _destination_problem(table: pa.Table) -> tuple[int, str] | None:
    """Destinations that are no processes."""
    if not _is_set(table, "destinations"):
        return None
    lists = table["destinations"].combine_chunks()
    names = pc.list_flatten(lists)
    place = _first(~_true(pc.match_substring_regex(names, PROCESS)))
    if place is None:
        return None
    row = pc.list_parent_indices(lists)[place[0]].as_py()
    return row, f"destinations must be of the form name/incarnation, not {lists[row].as_py()!r}"


def _label_problem(table: pa.Table) -> tuple[int, str] | None:
    """Views and start rows are few: looked at one by one."""
    for place in np.flatnonzero(_among(table["kind"], ("start", "view", "transitional"))).tolist():
        members = table["members"][place].as_py()
        if table["kind"][place].as_py() == "start":
            try:
                parse_start(table["label"][place].as_py())
            except UnusableHistoryError as error:
                return place, error.problem
        elif not members or not all(_is_process(member) for member in members):
            return place, f"the members of a view must be of the form name/incarnation, not {members!r}"
    return None


def _is_process(text: str | None) -> bool:
    name, _, incarnation = (text or "").rpartition("/")
    return bool(name) and incarnation.isdecimal()


def column_problems(schema: pa.Schema) -> list[str]:
    """How a file's columns differ from SCHEMA; more columns do no harm."""
    problems = []
    for field in SCHEMA:
        places = schema.get_all_field_indices(field.name)
        if not places:
            problems.append(f"column {field.name!r} is missing")
        elif not _same_type(schema.field(places[0]).type, field.type):
            problems.append(f"column {field.name!r} is {schema.field(places[0]).type}, not {field.type}")
    return problems


def _same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Strings may be stored as other tools like to store them."""
    if pa.types.is_string(wanted):
        plain = found.value_type if pa.types.is_dictionary(found) else found
        return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain))
    if pa.types.is_list(wanted):
        is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
        return bool(is_list and _same_type(found.value_type, wanted.value_type))
    return bool(found == wanted)


def _first(bad: Mask) -> tuple[int] | None:
    """The first place that is set, wrapped so that place 0 is not taken for none."""
    return (int(bad.argmax()),) if bad.any() else None


def _is_set(table: pa.Table, name: str) -> bool:
    """Whether a column has a value in some row: a history is many small files, so that each look counts."""
    return bool(table[name].null_count < len(table))


def _null(table: pa.Table, name: str) -> Mask:
    return _true(pc.is_null(table[name]))


def _among(column: pa.ChunkedArray, values: tuple[str, ...]) -> Mask:
    return _true(pc.is_in(column, pa.array(values, pa.string())))


def _true(column: pa.Array | pa.ChunkedArray) -> Mask:
    """Where a column is true; null counts as false."""
    result: Mask = pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(bool)
    return result
