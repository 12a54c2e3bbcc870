"""Percentiles, medians and spreads, and the common format of all results.

A percentile is a value that was measured (nearest rank), never one in between. A spread is (greatest - least) / median.
"""

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, Final

from antiphon import AntiphonError, _build

PERCENTILES: Final = (50.0, 99.0, 99.9)
ANTIPHON: Final = "antiphon"


class IncompleteError(AntiphonError):
    """A run did not complete, or lost messages: there is no result."""


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of the values do not exceed."""
    if not values:
        raise IncompleteError("the run measured no values; run it for longer")
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]


def spread(values: Sequence[float]) -> float:
    middle = statistics.median(values)
    return round((max(values) - min(values)) / middle, 3) if middle else 0.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """One measurement; `value` is the median of the repeats."""

    system: str = ANTIPHON
    workload: str
    order: str
    size: int
    """Payload bytes."""
    members: int
    value: float
    unit: str
    spread: float
    more: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        fields = asdict(self)
        more: dict[str, Any] = fields.pop("more")
        return fields | more


def median_of(values: Sequence[float], digits: int = 3) -> tuple[float, float]:
    """Value and spread of a result."""
    return round(statistics.median(values), digits), spread(values)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns wide enough, figures to the right, the first column to the left."""
    lines = [[cell(value) for value in row] for row in [head, *rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def progress(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Report:
    """What a measuring program has found: results, the same in words, and pictures by name."""

    name: str
    results: list[Result]
    words: str
    pictures: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {"build": _build.describe(), "results": [result.document() for result in self.results]}

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{self.name}.json").write_text(json.dumps(self.document(), indent=1) + "\n")
        for name, picture in self.pictures.items():
            (directory / f"{name}.svg").write_text(picture)


def parser(description: str) -> argparse.ArgumentParser:
    """What all measuring programs understand."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", action="store_true", help="print one JSON document, and nothing else")
    made.add_argument("--out", type=Path, help="also write the JSON document and the plots into this directory")
    return made


def run(measure: Callable[[argparse.Namespace], Awaitable[Report]], arguments: argparse.Namespace) -> int:
    """Measure and tell. A run that failed or is incomplete is not reported, but its reason is."""

    async def measured() -> Report:
        return await measure(arguments)

    try:
        report = asyncio.run(measured())
    except AntiphonError as error:
        print(f"nothing to report: {error}", file=sys.stderr)
        return 1
    if arguments.out is not None:
        report.write(arguments.out)
    print(json.dumps(report.document()) if arguments.json else f"{_build.describe()}\n\n{report.words}")
    return 0
