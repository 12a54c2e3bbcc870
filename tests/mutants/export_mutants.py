"""Domains that export, broken on purpose, and mutants of the stack `domain` that the audit of recorded runs must catch.

ANTIPHON_PURE=1 python -m tests.mutants.hunt export audited
"""

from collections.abc import Sequence
from dataclasses import replace

from antiphon.kernel.errors import MalformedError
from antiphon.pipeline.campaign.judge import judge
from antiphon.stacks.domain.export import (
    MESSAGE,
    SAFE_EXPORT,
    DomainExports,
    ExportFrame,
    GlobalId,
    GlobalMessage,
)
from tests.mutants.domain_mutants import DOMAIN_MUTANTS
from tests.mutants.mutants import Mutant
from tests.simulation.test_islands import run_islands
from tests.stacks.domain.test_export import play, test_a_safe_message_waits_for_all_its_domains

TABLE = "table"

_may_import = DomainExports.may_import
_send = DomainExports._send
_deliver = DomainExports._deliver


def _in_any_order(self: DomainExports, frame: ExportFrame) -> bool:
    """Only the count of the link itself is looked at."""
    me = self.domain
    return frame.destination == me and frame.number() == self.counters.get((frame.origin, me), 0) + 1


def _by_pairs_alone(self: DomainExports, frame: ExportFrame) -> bool:
    """Numbers on a link may have gaps."""
    me = self.domain
    others = [pair for pair in frame.counters if pair[1] == me and pair[0] != frame.origin]
    late = any(frame.counters[pair] > self.counters.get(pair, 0) for pair in others)
    return frame.destination == me and not late and frame.number() > self.counters.get((frame.origin, me), 0)


def _no_maximum(self: DomainExports, frame: ExportFrame) -> bool:
    """What others have sent each other is not remembered."""
    if not _may_import(self, frame):
        return False
    kept = dict(frame.counters)
    frame.counters = {pair: count for pair, count in kept.items() if pair == (frame.origin, self.domain)}
    done = _import_frame(self, frame)
    frame.counters = kept
    return done


_import_frame = DomainExports.import_frame


def _one_by_one(self: DomainExports, targets: set[str], kind: int, id: GlobalId, message: GlobalMessage | None) -> None:
    """Pairs are counted one after the other, each frame stamped before the next is counted."""
    for target in sorted(targets):
        _send(self, {target}, kind, id, message)


def _causal_at_once(self: DomainExports, message: GlobalMessage) -> None:
    """Causal messages do not stand in line."""
    self.delivered.append(message)


def _as_they_come(self: DomainExports, message: GlobalMessage) -> None:
    """Ordered messages are delivered when they are imported, without a place."""
    if self.domain in message.domains:
        self.delivered.append(message)


def _safe_at_its_place(self: DomainExports) -> None:
    for id in self._order:
        message = self._bodies.get(id)
        if message is not None and message.level == SAFE_EXPORT:
            self._held_by[id] = set(message.domains)
    _deliver(self)


def _export_what_was_imported(self: DomainExports, message: GlobalMessage) -> None:
    """A domain passes on what others initiated."""
    _import_message(self, message)
    _send(self, set(message.domains) - {message.id[0]}, MESSAGE, message.id, message)


_import_message = DomainExports._import_message

EXPORT_MUTANTS = (
    Mutant("import looks at its own link alone", (TABLE,), ((DomainExports, "may_import", _in_any_order),)),
    Mutant("import leaves gaps", (TABLE,), ((DomainExports, "may_import", _by_pairs_alone),)),
    Mutant("counters of others are forgotten", (TABLE,), ((DomainExports, "import_frame", _no_maximum),)),
    Mutant("pairs are counted one by one", (TABLE,), ((DomainExports, "_send", _one_by_one),)),
    Mutant("causal messages do not stand in line", (TABLE,), ((DomainExports, "_line_up", _causal_at_once),)),
    Mutant("no places", (TABLE,), ((DomainExports, "_import_message", _as_they_come),)),
    Mutant("safe at its place", (TABLE,), ((DomainExports, "_deliver", _safe_at_its_place),)),
    Mutant("exports what it imported", (TABLE,), ((DomainExports, "_import_message", _export_what_was_imported),)),
)
AUDITED = (
    "safe messages at their place",
    "other messages overtake ordered ones",
    "K is what one holds oneself",
    "whoever was there comes along",
    "K is not finished by the old rule",
)
"""Mutants of parting and merging that the audit of recorded runs catches, too."""
AUDITED_MUTANTS = tuple(
    replace(mutant, name=f"audit: {mutant.name}") for mutant in DOMAIN_MUTANTS if mutant.name in AUDITED
)


def export_symptoms(seed: int, breaks: Sequence[str]) -> str | None:
    """What this seed's exports between domains show; -1 is a staged claim."""
    try:
        if seed < 0:
            test_a_safe_message_waits_for_all_its_domains()
        else:
            play(seed)
    except (AssertionError, LookupError) as error:
        return str(error) or type(error).__name__
    return None


def audited_symptoms(seed: int, breaks: Sequence[str]) -> str | None:
    """What the audit says of this seed's recorded islands; what runs show otherwise is not asked here."""
    try:
        run = run_islands(seed, "domain", 5)
    except (AssertionError, MalformedError, LookupError, ValueError):
        return None
    if run.mistake:
        return None
    return next((str(problem) for problem in judge(run).problems if problem.guarantee != "rest"), None)
