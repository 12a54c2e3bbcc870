"""What the judgement of a piece hangs on, as a digest: if the rows and the digest are the same, so is the judgement.

A piece is judged from its rows and from knowledge of the rest of the run (`antiphon.pipeline.audit.judge`). As a
history grows, that knowledge grows, but most of it lies beyond what the piece can ask for. So only what it can ask for
goes into the digest, by name and number, never by a place in some table that shifts when others come in:

* the send runs that hold what it delivered, and their past, as far as some key is in it;
* level, size and digest of what it delivered, as its senders recorded them;
* how many messages of the delivered keys were sent, as far as they were delivered, and whether more may have been;
* what the process was owed of each key, up to the highest number that those pasts name;
* what is lost, as far as it is known in those send runs;
* what it had delivered before, its views, and whether it completed them or left, as of the last row of the piece;
* the positions of the agreed and safe messages that it delivered, and what was promised.

That this is enough is tested: over growing random histories, equal digests must go with equal judgements.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Final

import numpy as np

from antiphon.pipeline.audit.judge import CHECKS, GroupPositions, PieceKnowledge
from antiphon.pipeline.audit.order import NO_ROW, Order
from antiphon.pipeline.audit.rows import AGREED_RANK, Key
from antiphon.pipeline.audit.summary import Summary
from antiphon.pipeline.audit.total import Positions
from antiphon.pipeline.guarantees import TOTAL
from antiphon.pipeline.intervals import EMPTY, Ints, Mask, Spans, clip, intersection, span
from antiphon.pipeline.promises import Promises

DIGEST_BYTES: Final = 16


class Digest:
    """Texts, numbers and arrays, one behind the other, each told apart from its neighbours."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=DIGEST_BYTES)

    def add(self, *parts: object) -> None:
        """Plain values whose repr says all: texts, numbers, None, and tuples of these."""
        self._put(repr(parts).encode())

    def add_array(self, array: Ints | Mask) -> None:
        self._put(repr((array.dtype.str, array.shape)).encode())
        self._put(np.ascontiguousarray(array).tobytes())

    def text(self) -> str:
        return self._hash.hexdigest()

    def _put(self, data: bytes) -> None:
        self._hash.update(len(data).to_bytes(8, "little"))
        self._hash.update(data)


class Fingerprints:
    """Of the pieces of one run."""

    def __init__(self, order: Order, positions: GroupPositions, promises: Promises) -> None:
        self._order = order
        self._positions = positions
        self._promises = promises
        self._off_record = order.off_record()
        self._left_out: dict[str, Mask] = {}

    def of(self, piece: Summary, known: PieceKnowledge) -> str:
        digest = Digest()
        delivered = [(entry["group"], entry["sender"], entry["starts"], entry["ends"]) for entry in piece["delivered"]]
        groups = sorted({group for group, *_ in delivered})
        digest.add(piece["run"], piece["process"], [(group, self._held(group)) for group in groups])
        self._add_log(digest, piece, known, groups)
        reached: dict[int, int] = {}
        for group, sender, starts, ends in delivered:
            self._add_key(digest, piece["process"], (group, sender), Spans(starts, ends), reached)
        self._add_owed(digest, piece["process"], reached)
        self._add_written_off(digest, piece["process"], reached, known.known_end)
        for group in groups:
            if group in self._order.partings:
                self._add_parting(digest, piece, known, group)
        for entry in piece["ordered"]:
            of_key = self._positions.get(entry["group"], {}).get(self._order.places[entry["group"], entry["sender"]])
            digest.add(entry["group"], entry["sender"])
            for column in _within(of_key, Spans(entry["starts"], entry["ends"])):
                digest.add_array(column)
        return digest.text()

    def _add_parting(self, digest: Digest, piece: Summary, known: PieceKnowledge, group: str) -> None:
        """Which rows lie behind transitional ones, and what others delivered as safe before theirs."""
        parting = self._order.partings[group]
        late = parting.late.get(piece["process"], EMPTY)
        _add_spans(digest, {(group, "late"): clip(late, piece["first_index"], known.known_end)})
        for presence in known.presences.get(group, ()):
            safe = parting.safe.get(presence.view, {})
            _add_spans(digest, {(group, sender): spans for sender, spans in safe.items()})

    def _held(self, group: str) -> list[str]:
        run = self._order.run
        return [guarantee for guarantee in (*CHECKS, TOTAL) if self._promises.holds(guarantee, run, group)]

    def _add_log(self, digest: Digest, piece: Summary, known: PieceKnowledge, groups: list[str]) -> None:
        """What the rest of the log says: what came before the piece, and what became of its views behind it."""
        first, end = piece["first_index"], known.known_end
        agreed = {entry["group"] for entry in piece["ordered"] if entry["level"] == AGREED_RANK}
        completed = [(group, min(max(known.completed_ends.get(group, 0), first), end)) for group in sorted(agreed)]
        left = sorted((group, index) for group, index in known.left.items() if index < end)
        digest.add(first, end, completed, left, min(known.apart, end))
        for group in groups:
            presences = known.presences.get(group, ())
            digest.add(group, [(one.begin, one.view, sorted(one.dropped)) for one in presences])
        for key, already in sorted(known.already.items(), key=lambda item: item[0]):
            digest.add(already.below)
            owed = self._order.owed(piece["process"], self._order.places[key])
            _add_spans(digest, {key: already.others, (*key, "owed"): clip(owed, 1, already.below)})

    def _add_key(self, digest: Digest, process: str, key: Key, spans: Spans, reached: dict[int, int]) -> None:
        """The send runs of one key that hold what was delivered; `reached` is raised to the numbers that they name."""
        order = self._order
        place = order.places[key]
        highest = int(spans.ends[-1]) - 1
        sent, is_open = int(order.sent[place]), bool(order.open_keys[place])
        digest.add(key, min(sent, highest), is_open and sent < highest)
        reached[place] = max(reached.get(place, 0), highest)
        self._add_contents(digest, place, spans)
        for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True):
            end = end if is_open else min(end, sent + 1)
            if end > start:
                first, last = order.run_of(place, np.array([start, end - 1])).tolist()
                self._add_runs(digest, process, slice(first, last + 1), reached)

    def _add_contents(self, digest: Digest, place: int, spans: Spans) -> None:
        """Level, size and digest of what was delivered, as far as it is on record."""
        sent = self._order.contents[place]
        for start, end in zip(*(side.tolist() for side in clip(spans, 1, sent.sent + 1)), strict=True):
            rows = slice(*np.searchsorted(sent.starts, [start + 1, end + 1]) - [1, 0])
            for column in (sent.starts[rows], sent.levels[rows], sent.bytes_before[rows] - sent.bytes_before[rows][:1]):
                digest.add_array(column)
            digest.add_array(sent.digested[start - 1 : end - 1])
            digest.add_array(sent.digests[start - 1 : end - 1].astype(np.int64))

    def _add_runs(self, digest: Digest, process: str, runs: slice, reached: dict[int, int]) -> None:
        order = self._order
        if process not in self._left_out:  # the last: none named
            self._left_out[process] = np.array([*(process not in meant for meant in order.destinations), False])
        left_out, narrow = self._left_out[process], order.narrow[runs]
        for column in (order.start, order.end, order.time_ns, order.view):
            digest.add_array(column[runs])
        for mask in (order.index[runs] == NO_ROW, narrow < 0, left_out[narrow], self._off_record[runs]):
            digest.add_array(mask)
        past = order.past[runs]
        known = np.flatnonzero(past.any(axis=0))
        digest.add([order.keys[place] for place in known.tolist()])
        digest.add_array(past[:, known])
        for place, highest in zip(known.tolist(), past[:, known].max(axis=0).tolist(), strict=True):
            reached[place] = max(reached.get(place, 0), highest)
        for place, lost in order.lost.items():
            domain = order.past.sources.domain
            digest.add(order.keys[place], bool(domain[place] == domain[order.key[runs.start]]))
            digest.add_array(lost.sent_before[runs])
            reached[place] = max(reached.get(place, 0), int(lost.spans.ends[-1]) - 1)
            for part in lost.spans:
                digest.add_array(part)
            for spans, teller, index in lost.told:
                digest.add(index)
                digest.add_array(order.told[teller, runs])
                for part in spans:
                    digest.add_array(part)

    def _add_owed(self, digest: Digest, process: str, reached: Mapping[int, int]) -> None:
        owed = (
            (self._order.keys[place], intersection(self._order.owed(process, place), span(1, highest + 1)))
            for place, highest in reached.items()
        )
        _add_spans(digest, dict(owed))
        perhaps = (
            (self._order.keys[place], intersection(self._order.perhaps_owed(process, place), span(1, highest + 1)))
            for place, highest in reached.items()
        )
        _add_spans(digest, {key: spans for key, spans in perhaps if spans.size()})

    def _add_written_off(self, digest: Digest, process: str, reached: Mapping[int, int], end: int) -> None:
        """What the process is not owed any more by some row of the log so far, in groups that part; and of what that is
        left open, in groups that were torn."""
        for place, highest in sorted(reached.items(), key=lambda item: self._order.keys[item[0]]):
            for name, known in (("off", self._order.written_off), ("open", self._order.left_open)):
                off = known.get((process, place))
                if off is not None:
                    chosen = (off.row < end) & (off.starts <= highest)
                    digest.add(name, self._order.keys[place])
                    for column in off:
                        digest.add_array(column[chosen])


def _add_spans(digest: Digest, by_key: Mapping[tuple[str, ...], Spans]) -> None:
    for key, spans in sorted(by_key.items(), key=lambda item: item[0]):
        digest.add(key)
        for part in spans:
            digest.add_array(part)


def _within(known: Positions | None, spans: Spans) -> Iterator[Ints]:
    """The positions of some numbers: as few stretches as tell them, whichever way the model's rows were cut."""
    if known is None or not len(known.start):
        return
    low = np.searchsorted(known.end, spans.starts, "right")
    count = np.maximum(np.searchsorted(known.start, spans.ends, "left") - low, 0)
    part = np.repeat(low - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
    start = np.maximum(known.start[part], np.repeat(spans.starts, count))
    end = np.minimum(known.end[part], np.repeat(spans.ends, count))
    position = known.position[part] + start - known.start[part]
    fresh = np.append(True, (start[1:] != end[:-1]) | (position[1:] != position[:-1] + end[:-1] - start[:-1]))
    fresh = fresh[: len(start)]
    yield from (start[fresh], position[fresh], end[np.append(fresh[1:], True)[: len(end)]])


def joined(parts: Iterable[str]) -> str:
    """One digest of several texts."""
    digest = Digest()
    digest.add(*parts)
    return digest.text()
