"""A campaign's directory, and the chunks that its seeds are run in: what makes it resumable.

    campaign.json              which campaign this is
    results/chunk-000017.parquet   the outcomes of one chunk of seeds, complete
    failing/<kind>-<seed>/     what is kept of a failing seed: see failing.py
    summary.html, summary.json

A chunk's file appears by a rename when all its seeds are done, so what is there is whole, whenever the campaign was
killed; what is not there is run again. Since a seed decides its run, running one twice could do no harm but cost time.
Nothing is synced: a machine that loses power may leave an unreadable file; it is refused with its name.

With a cluster the directory must be one that all executors and this program share.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from antiphon.kernel.errors import UsageError
from antiphon.pipeline.campaign.outcome import OUTCOME, Outcome, outcomes_of, table_of

CHUNK_SEEDS: Final = 25
"""Seeds per chunk: so many are run again, per core, after a kill."""
SEEDS_MAX: Final = 10_000_000
MANIFEST: Final = "campaign.json"
RESULTS: Final = "results"
FAILING: Final = "failing"


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Which seeds, of what. Two campaigns with the same values have the same outcomes, but for real time."""

    stack: str
    workload: str
    first: int
    end: int
    """The seed after the last."""
    program: str
    """A digest of all that decides a run and its verdict: another program may find otherwise."""
    chunk_seeds: int = CHUNK_SEEDS

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.end:
            raise UsageError(f"there are no seeds {self.first}:{self.end}; name the first, and the one after the last")
        if self.end - self.first > SEEDS_MAX:
            raise UsageError(f"a campaign has at most {SEEDS_MAX:,} seeds; make several of it")

    @property
    def seeds(self) -> int:
        return self.end - self.first

    @property
    def chunks(self) -> int:
        return -(-self.seeds // self.chunk_seeds)

    def seeds_of(self, chunk: int) -> range:
        first = self.first + chunk * self.chunk_seeds
        return range(first, min(first + self.chunk_seeds, self.end))


def open_directory(directory: Path, campaign: Campaign) -> None:
    """Make the campaign's directory, or see that it is this campaign that lies there."""
    manifest = directory / MANIFEST
    if not manifest.exists():
        if directory.is_dir() and any(directory.iterdir()):
            raise UsageError(f"{directory} holds something else than a campaign; name an empty or a new directory")
        (directory / RESULTS).mkdir(parents=True, exist_ok=True)
        write_text(manifest, json.dumps(asdict(campaign), indent=1) + "\n")
        return
    try:
        found = json.loads(manifest.read_text())
        differences = [name for name, value in asdict(campaign).items() if found.get(name) != value]
    except (ValueError, AttributeError) as error:
        raise UsageError(f"{manifest} is damaged; name another directory") from error
    if differences == ["program"]:
        raise UsageError(
            f"the campaign in {directory} was begun by another version of the program, whose outcomes would not go "
            "with those of this one; name another directory"
        )
    if differences:
        told = ", ".join(f"{name} {found.get(name)} and not {getattr(campaign, name)}" for name in differences)
        raise UsageError(f"{directory} holds another campaign: {told}; name another directory")


def chunk_file(directory: Path, chunk: int) -> Path:
    return directory / RESULTS / f"chunk-{chunk:06}.parquet"


def missing_chunks(directory: Path, campaign: Campaign) -> list[int]:
    """The chunks that are still to be run."""
    present = {entry.name for entry in os.scandir(directory / RESULTS)}
    return [chunk for chunk in range(campaign.chunks) if chunk_file(directory, chunk).name not in present]


def write_chunk(directory: Path, chunk: int, outcomes: list[Outcome]) -> None:
    """All outcomes of a chunk, at once or not at all. A try that was given up may still be writing: each has a name."""
    file = chunk_file(directory, chunk)
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    pq.write_table(table_of(outcomes), partial, compression="zstd")
    partial.replace(file)


def read_chunk(directory: Path, chunk: int) -> list[Outcome]:
    file = chunk_file(directory, chunk)
    try:
        table = pq.read_table(file)
        return outcomes_of(table.select(OUTCOME.names))
    except (pa.ArrowException, KeyError, OSError) as error:
        raise UsageError(f"{file} cannot be read ({error}); remove it, and its seeds will be run again") from error


def write_text(file: Path, text: str) -> None:
    """The whole text or nothing."""
    partial = file.with_name(f"{file.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)
