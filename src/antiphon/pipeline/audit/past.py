"""The past of every send run, as one number per source.

What a log sent, in all groups of a causality domain, it sent in one order: a *source*. Who knows of one message of a
source knows of all that came before it there. So the past of a message is fully told by one number per source: how many
of its messages, from the first on, lie in it. Which numbers of a key (group and sender) these are follows from where
the send runs of the key lie in the source. What an open log may have sent off record has no place in that order, so
each of its keys has one source more, for that alone.

The direct past comes from the summaries: how far the sender had delivered each key, and what it had sent itself. The
full past is the closure: a line is raised to the lines of the last messages that it names, until nothing changes. It
is gone through in blocks, as the logs ran side by side, so that what a line names has mostly been raised before it.

Memory: send runs × sources, four bytes each while no source has 2^31 messages, in a mapped file where that is much.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.rows import Key
from antiphon.pipeline.audit.summary import Summary
from antiphon.pipeline.intervals import Ints, Mask
from antiphon.pipeline.packing import unpack

BLOCK_RUNS: Final = 8192
MAPPED_BYTES: Final = 64 * 2**20
"""A matrix of this size or more lies in a file."""

Counts = npt.NDArray[np.signedinteger[Any]]
"""How many messages: one line per send run, one column per source."""


@dataclass
class Sources:
    """The sources of a run, and where the messages of each key are in them."""

    of_key: Ints
    """The source of a key's messages on record."""
    off_record: Ints
    """The source of those off record, or -1."""
    runs: list[Ints]
    """The send runs of each source, in the order in which they were sent."""
    begin: Ints
    """By send run: how many messages of its source come before it."""
    start: Ints
    """By send run: its first number."""
    first_run: Ints
    """Where the send runs of each key begin; one entry more than keys."""
    sent: Ints
    """How many messages of each key are on record."""
    domain: Ints
    """The domain of each key, as a number. Messages of other domains are in no past."""

    def __post_init__(self) -> None:
        keys_of = np.bincount(self.of_key, minlength=len(self.runs))
        self._lonely = (keys_of == 1).tolist()
        """Of which sources all messages are of one key, so that its numbers count the source."""

    def of_domain(self, domain: int) -> Mask:
        """Which sources are of a domain."""
        result = np.zeros(len(self.runs), bool)
        own = self.domain == domain
        result[self.of_key[own]] = True
        result[self.off_record[own & (self.off_record >= 0)]] = True
        return result

    def run_of(self, source: int, counts: Counts) -> Ints:
        """The send run of the last of so many messages of a source; at least one each."""
        runs = self.runs[source]
        found: Ints = runs[self.begin[runs].searchsorted(counts) - 1]
        return found

    def counts(self, place: int, numbers: Ints) -> Ints:
        """How many messages of its source are sent with the numbers of a key, as far as they are on record."""
        numbers = np.minimum(numbers, self.sent[place])
        first, end = self._on_record(place)
        if self._lonely[self.of_key[place]] or first == end:
            return numbers
        run = first + np.maximum(self.start[first:end].searchsorted(numbers, "right") - 1, 0)
        result: Ints = np.where(numbers > 0, self.begin[run] + numbers - self.start[run] + 1, 0)
        return result

    def numbers(self, place: int, counts: Counts) -> Ints:
        """How many of the first messages of its source are of a key."""
        counts = np.asarray(counts, np.int64)
        first, end = self._on_record(place)
        if self._lonely[self.of_key[place]] or first == end:
            lowest: Ints = np.minimum(counts, self.sent[place])
            return lowest
        run = np.maximum(self.begin[first:end].searchsorted(counts) - 1, 0)
        following = np.append(self.start[first + 1 : end], self.sent[place] + 1)[run]
        inside = np.minimum(self.start[first + run] + counts - self.begin[first + run], following) - 1
        return np.where(counts > self.begin[first], inside, 0)

    def _on_record(self, place: int) -> tuple[int, int]:
        """The send runs of a key, without the last if that is off record."""
        return int(self.first_run[place]), int(self.first_run[place + 1]) - int(self.off_record[place] >= 0)


@dataclass
class Past:
    """The past of each send run: in messages of sources, or as numbers of keys by [send runs, keys]."""

    counts: Counts
    sources: Sources

    def numbers(self, runs: Any, place: int) -> Ints:
        """Up to which number the messages of a key are in the past of some send runs, or of one."""
        source, beyond = int(self.sources.of_key[place]), int(self.sources.off_record[place])
        numbers = self.sources.numbers(place, np.asarray(self.counts[runs, source]))
        if beyond >= 0:
            off_record = np.asarray(self.counts[runs, beyond], np.int64)
            numbers = np.where(off_record > 0, self.sources.sent[place] + off_record, numbers)
        return numbers

    def __getitem__(self, at: Any) -> Ints:
        """Numbers of keys: of some send runs all keys, or of some one key, or of each some other key."""
        if not isinstance(at, tuple):
            columns = [self.numbers(at, place) for place in range(len(self.sources.sent))]
            return np.stack(columns, axis=-1) if columns else np.zeros((*self.counts[at].shape[:-1], 0), np.int64)
        runs, places = at
        if np.ndim(places) == 0:
            return self.numbers(runs, int(places))
        runs, places = np.broadcast_arrays(runs, places)
        result = np.empty(places.shape, np.int64)
        for place in np.unique(places).tolist():
            result[places == place] = self.numbers(runs[places == place], place)
        return result


def scratch(shape: tuple[int, int], largest: int) -> Counts:
    """A matrix of zeros for counts up to `largest`; a large one lies in a file that goes away with it."""
    of = np.dtype(np.int32 if largest < 2**31 else np.int64)
    if prod(shape) * of.itemsize < MAPPED_BYTES:
        return np.zeros(shape, of)
    with tempfile.TemporaryFile(prefix="antiphon-past-") as file:
        return np.memmap(file, of, "w+", shape=shape).view(np.ndarray)


def direct_past(logs: Mapping[str, LogFacts], keys: Sequence[Key], sources: Sources, reach: str) -> Past:
    """What the sender of each send run had delivered and sent before.

    `reach` is the column of the summaries that says up to which number it had delivered.
    """
    places = {key: place for place, key in enumerate(keys)}
    largest = max((int(sources.begin[runs[-1]]) for runs in sources.runs if len(runs)), default=0)
    counts = scratch((len(sources.start), len(sources.runs)), largest + int(sources.sent.max(initial=0)))
    for process, log in logs.items():
        own = [place for place, (_, sender) in enumerate(keys) if sender == process]
        if not own:
            continue
        domains = [(domain, sources.of_domain(domain)) for domain in np.unique(sources.domain[own]).tolist()]
        known = np.zeros(counts.shape[1], np.int64)
        for piece in log.pieces:
            runs, key = _runs_of_piece(piece, process, places, sources)
            lines = _direct_lines(piece, known, places, sources, reach)
            known = lines[-1]
            lines = lines[:-1]
            for domain, within in domains:
                lines[np.ix_(sources.domain[key] == domain, ~within)] = 0
            at = np.arange(len(runs)), sources.of_key[key]
            lines[at] = np.maximum(lines[at], sources.begin[runs])
            counts[runs] = lines
        for domain, within in domains:
            of_domain = [place for place in own if sources.domain[place] == domain]
            source = int(sources.of_key[of_domain[0]])
            known[source] = max(int(known[source]), int(sources.sent[of_domain].sum()))
            for beyond in sources.off_record[of_domain]:
                if beyond >= 0:
                    counts[sources.runs[beyond]] = np.where(within, known, 0)
    return Past(counts, sources)


def _runs_of_piece(piece: Summary, process: str, places: Mapping[Key, int], sources: Sources) -> tuple[Ints, Ints]:
    """Which send runs the send rows of a piece are, in order of index, and of which keys."""
    result, key = (np.empty(len(piece["send_number"]), np.int64) for _ in range(2))
    for place, group in enumerate(piece["send_groups"]):
        own = piece["send_group"] == place
        key[own] = places[group, process]
        first, end = sources.first_run[places[group, process]], sources.first_run[places[group, process] + 1]
        result[own] = first + np.searchsorted(sources.start[first:end], piece["send_number"][own])
    return result, key


def _direct_lines(piece: Summary, known: Ints, places: Mapping[Key, int], sources: Sources, reach: str) -> Ints:
    """What was delivered before each send run of a piece, and at its end; `known` is what was before it."""
    lines = np.tile(known, (len(piece["send_number"]) + 1, 1))
    for entry, packed in zip(piece["delivered"], piece[reach] or piece["reach"], strict=True):
        place, numbers = places[entry["group"], entry["sender"]], unpack(packed)
        column = lines[:, sources.of_key[place]]
        np.maximum(column, sources.counts(place, numbers), out=column)
        if sources.off_record[place] >= 0:
            column = lines[:, sources.off_record[place]]
            np.maximum(column, numbers - sources.sent[place], out=column)
    return lines


def raise_to_full(past: Past, time_ns: Ints) -> None:
    """Raise the direct past to the full one, in place. The times only say in which order that is quickest."""
    blocks = [
        (int(time_ns[runs[first]]), source, first)
        for source, runs in enumerate(past.sources.runs)
        for first in range(0, len(runs), BLOCK_RUNS)
    ]
    blocks.sort()
    changed = True
    while changed:
        changed = False
        for _, source, first in blocks:
            changed |= _raise_block(past, source, first)


def _raise_block(past: Past, source: int, first: int) -> bool:
    """Raise some lines of a source to those of the last messages that they name; whether that changed anything."""
    sources, counts = past.sources, past.counts
    runs = sources.runs[source][first : first + BLOCK_RUNS]
    lines = counts[runs]
    before = counts[sources.runs[source][first - 1]] if first else np.zeros_like(lines[0])
    raised = lines.copy()
    np.maximum(raised[0], before, out=raised[0])
    named = lines > np.concatenate((before[np.newaxis], lines[:-1]))  # else the line before tells as much
    named[:, source] = lines[:, source] > sources.begin[runs]
    for other in np.flatnonzero(named.any(axis=0)).tolist():
        at = np.flatnonzero(named[:, other])
        raised[at] = np.maximum(raised[at], counts[sources.run_of(other, lines[at, other])])
    np.maximum.accumulate(raised, axis=0, out=raised)
    if (raised == lines).all():
        return False
    counts[runs] = raised
    return True
