"""Versions of the schema: what is newer than this program is refused, what is older is brought up to date on reading.

A file names its version in its metadata. When the schema changes, SCHEMA_VERSION rises by one, and UPGRADES gets, under
the version before, the function that turns a table of that version into one of the next.

2: rows may carry digests; deliver rows name destinations; send rows are written at the call, and depart rows tell when
   messages left. In version 1 a send row was written as they left, which is what a send row with a view means still.
"""

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import SCHEMA_VERSION

VERSION_KEY: Final = b"antiphon.schema"


def _from_1(table: pa.Table) -> pa.Table:
    """Version 1 did not record for whom a delivered message was: an empty list says so. It had no digests."""
    if "digest" in table.column_names or not {"kind", "destinations"} <= set(table.column_names):
        return table  # a file of version 2 that names no version; or the reader tells what is missing
    destinations = table["destinations"].combine_chunks()
    unknown = pa.scalar([], destinations.type)
    chosen = pc.and_(pc.equal(table["kind"], "deliver"), pc.is_null(destinations))
    place = table.column_names.index("destinations")
    table = table.set_column(place, "destinations", pc.if_else(chosen, unknown, destinations))
    return table.append_column("digest", pa.nulls(len(table), pa.string()))


UPGRADES: Final[dict[int, Callable[[pa.Table], pa.Table]]] = {1: _from_1}


def check_version(version: int) -> None:
    """Refuse what this program cannot read."""
    if version > SCHEMA_VERSION:
        raise UnusableHistoryError(
            None,
            f"it was written with schema version {version}, this program reads up to {SCHEMA_VERSION}; update it",
        )
    if version < SCHEMA_VERSION and version not in UPGRADES:
        raise UnusableHistoryError(None, f"there never was a schema version {version}; record the run again")


def version_of(metadata: Mapping[bytes, bytes] | None) -> int:
    """The version that a file names, checked; a file that names none was not written by the recorder: version 1."""
    text = ((metadata or {}).get(VERSION_KEY) or b"1").decode(errors="replace")
    if not text.isdecimal():
        raise UnusableHistoryError(None, f"its schema version {text!r} is no number")
    check_version(int(text))
    return int(text)


def upgrade(table: pa.Table, version: int) -> pa.Table:
    """The table as the present version has it."""
    while version < SCHEMA_VERSION:
        table = UPGRADES[version](table)
        version += 1
    return table
