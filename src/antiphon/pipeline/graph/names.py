"""How a message is named on a command line: GROUP:PROCESS#NUMBER, such as `quotes:alice#42`.

The process is written as in examples: `alice` is the first incarnation, `alice/2` the second; `alice/1` will do too.
Where incarnations come from the clock, `alice` is the only one there is; of several, `alice~mi2v9q0r` names one.
The group may be left out where the sender sent that many messages to one group only. What does not name exactly one
message is refused, with the names that come near. A name is compared with those on record, never taken apart, so that
names may hold any sign.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from antiphon.kernel.errors import UsageError
from antiphon.pipeline.audit.rows import Key
from antiphon.pipeline.explain import MessageName, process_name
from antiphon.pipeline.graph.causal import CausalRun

SHOWN_MAX: Final = 5


class UnknownMessageError(UsageError):
    """What was asked for names no message on record, or several."""


class UnknownProcessError(UsageError):
    """What was asked for names no process of the run."""


def full_name(message: MessageName) -> str:
    """The name by which the command line takes it."""
    return f"{message.group}:{process_name(message.sender)}#{message.number}"


def find_message(runs: Mapping[str, CausalRun], text: str, run: str | None) -> tuple[CausalRun, MessageName]:
    """The one message that is meant, and the run that it lies in."""
    if run is not None and run not in runs:
        raise UnknownMessageError(f"there is no run {run!r} in the history; its runs are: {listed(list(runs))}")
    sender, _, digits = text.rpartition("#")
    if not sender or not digits.isascii() or not digits.isdecimal() or int(digits) == 0:
        raise UnknownMessageError(
            f"{text!r} names no message; write GROUP:PROCESS#NUMBER, such as {_example(runs)}, counted from 1"
        )
    searched = runs if run is None else {run: runs[run]}
    keys = [(name, key) for name, of_run in searched.items() for key in of_run.order.keys if sender in _spellings(key)]
    if not keys:
        raise UnknownMessageError(f"nobody named {sender!r} sent anything{_near(sender, searched)}")
    return _only(searched, keys, text, int(digits))


def find_process(run: CausalRun, text: str) -> str:
    """The process of a run that is meant."""
    found = [process for process in run.logs if text in _names(process)]
    if len(found) > 1:
        lives = listed([process_name(process) for process in found])
        raise UnknownProcessError(f"{text!r} may be any of {lives} in run {run.name}; name one of them")
    if not found:
        names = [process_name(process) for process in run.logs]
        close = sorted(get_close_matches(text, names, SHOWN_MAX, 0.4)) or names
        raise UnknownProcessError(f"there is no process {text!r} in run {run.name}; there is: {listed(close)}")
    return found[0]


def listed(names: list[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return ", ".join(names[:SHOWN_MAX]) + more


def _only(
    runs: Mapping[str, CausalRun], keys: list[tuple[str, Key]], text: str, number: int
) -> tuple[CausalRun, MessageName]:
    """The only key of which there is this number."""
    sent = {(name, key): int(runs[name].order.sent[runs[name].order.places[key]]) for name, key in keys}
    fitting = [place for place in keys if number <= sent[place]]
    if len(fitting) == 1:
        name, (group, sender) = fitting[0]
        return runs[name], MessageName(group, sender, number)
    if not fitting:
        name, (group, sender) = max(keys, key=lambda place: sent[place])
        most = sent[name, (group, sender)]
        cut_short = runs[name].logs[sender].open
        known = f"{process_name(sender)} sent {most} message{'' if most == 1 else 's'} to {group}"
        end = ", and its log is cut short there" if cut_short else ""
        raise UnknownMessageError(f"there is no {text} on record: {known}{end}; name a number from 1 to {most}")
    groups = sorted({full_name(MessageName(group, sender, number)) for _, (group, sender) in fitting})
    if len(groups) > 1:
        raise UnknownMessageError(f"{text} may be any of {listed(groups)}; name the group as well")
    raise UnknownMessageError(f"{text} lies in several runs: {listed([name for name, _ in fitting])}; choose by --run")


def _spellings(key: Key) -> set[str]:
    group, sender = key
    names = _names(sender)
    return names | {f"{group}:{name}" for name in names}


def _names(process: str) -> set[str]:
    """What a process can be called."""
    short = process_name(process)
    name = process.rpartition("/")[0]
    return {process, short, name} if short.startswith(f"{name}~") else {process, short}


def _near(text: str, runs: Mapping[str, CausalRun]) -> str:
    """The senders whose names come near, as the end of a sentence."""
    names = sorted({spelling for of_run in runs.values() for key in of_run.order.keys for spelling in _spellings(key)})
    close = sorted(get_close_matches(text, names, SHOWN_MAX, 0.5))
    if not close:
        close = sorted({f"{key[0]}:{process_name(key[1])}" for of_run in runs.values() for key in of_run.order.keys})
    return f"; near that are: {listed(close)}" if close else "; no message was sent at all"


def _example(runs: Mapping[str, CausalRun]) -> str:
    """A message that there is, if there is any."""
    for of_run in runs.values():
        for (group, sender), sent in zip(of_run.order.keys, of_run.order.sent.tolist(), strict=True):
            if sent:
                return full_name(MessageName(group, sender, sent))
    return "quotes:alice#42"
