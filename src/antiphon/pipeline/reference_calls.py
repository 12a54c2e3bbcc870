"""In which order a process sent, for the reference auditor.

A process sends in the order of its calls, domain by domain. There is one exception. While a group stands still for want
of a majority (from a note STALLED to the next view row of the group), calls below causal to other groups do not wait
for what waits there. So a message that waited while its group stood still takes its place behind the calls below causal
that were made after it and left meanwhile, but only up to the first call at causal or above that did not wait so
itself: such a call waits for the message, and holds up what comes after it. What follows in the same group, and what
follows at causal or above in the same domain, stays behind the message. A call that overtakes one message may have been
overtaken itself, in a group of its own that stood still: so places are raised until nothing changes. A call that never
left, since its process left the group or failed, keeps its place and holds up none.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from antiphon.history.schema import LEVELS, STALLED, Row
from antiphon.history.start import parse_start
from antiphon.pipeline.domains import domain_of, domains_of
from antiphon.pipeline.explain import MessageName

LAST = 2**62
"""An index above that of every row."""
PLACES = 2**10
"""Places for each row of a log: the row's own, and those of calls that were overtaken up to it, or by such calls."""
AT_LEAST_CAUSAL = frozenset(LEVELS[LEVELS.index("causal") :])


class _Call(NamedTuple):
    """One message that a process called for."""

    message: MessageName
    domain: str
    called: int
    """The index of the send row."""
    left: int
    """The row by which the message left; LAST if it did not."""
    is_causal: bool
    """At causal or above."""
    waited: bool
    """While its group stood still."""


def places_of_calls(
    rows: Sequence[Row], calls: Sequence[tuple[Row, MessageName]], left: dict[MessageName, int]
) -> list[int]:
    """A place for each call of a log, in the order of the calls: the calls are sent in the order of these places.

    What is no call stands at its index times PLACES; `left` tells by which row a message left that did not leave at
    once.
    """
    stalls = _stalls(rows)
    domains = domains_of((row.group or "", parse_start(row.label)) for row in rows if row.kind == "start")
    own: list[_Call] = []
    for row, message in calls:
        gone = row.index if row.view is not None else left.get(message, LAST)
        waited = any(begin < gone and end > row.index for begin, end in stalls[message.group])
        is_causal = row.level in AT_LEAST_CAUSAL
        own.append(_Call(message, domain_of(domains, message.group), row.index, gone, is_causal, waited))
    overtakers = [
        _overtaken_by(at, own, stalls[call.message.group]) if call.waited and call.left < LAST else []
        for at, call in enumerate(own)
    ]
    places = [call.called * PLACES for call in own]
    for _ in range(PLACES):  # ends by itself unless two calls left before each other, which no process does
        raised = _raise_places(own, places, overtakers)
        if raised == places:
            break
        places = raised
    return places


def _raise_places(own: Sequence[_Call], places: Sequence[int], overtakers: Sequence[Sequence[int]]) -> list[int]:
    """The places of the calls from those that they had: behind overtakers and their group, causal ones behind all."""
    raised: list[int] = []
    of_group: dict[str, int] = defaultdict(int)
    of_domain: dict[str, int] = defaultdict(int)
    for at, call in enumerate(own):
        if call.left == LAST:
            raised.append(places[at])
            continue
        place = max([places[at], *(places[other] + 1 for other in overtakers[at])])
        place = max(place, of_group[call.message.group], of_domain[call.domain] if call.is_causal else 0)
        of_group[call.message.group] = place
        of_domain[call.domain] = max(of_domain[call.domain], place)
        raised.append(place)
    return raised


def _overtaken_by(at: int, own: Sequence[_Call], stalls: Sequence[tuple[int, int]]) -> list[int]:
    """Those among the calls that were allowed to leave before a message that waited."""
    call = own[at]
    found: list[int] = []
    for place, other in enumerate(own[at + 1 :], at + 1):
        if other.domain != call.domain:
            continue
        if other.is_causal and not other.waited:
            break
        meanwhile = any(begin < other.left < end for begin, end in stalls)
        if not other.is_causal and other.message.group != call.message.group and other.left < call.left and meanwhile:
            found.append(place)
    return found


def _stalls(rows: Sequence[Row]) -> dict[str, list[tuple[int, int]]]:
    """By group: from which row to which it stood still."""
    views: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        if row.kind == "view":
            views[row.group or ""].append(row.index)
    stalls: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        if row.kind == "note" and row.label == STALLED and row.group is not None:
            end = next((index for index in views[row.group] if index > row.index), LAST)
            stalls[row.group].append((row.index, end))
    return stalls
