"""The words of an audit: how examples and reasons read. Both auditors speak through these functions."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from antiphon.history.names import shown_process


class MessageName(NamedTuple):
    """The name of a message within a run; `sender` is "name/incarnation"."""

    group: str
    sender: str
    number: int


class Link(NamedTuple):
    """One step of a causal chain: the sender of `sent` sent it after it had delivered, or itself sent, `after`."""

    after: MessageName
    sent: MessageName


class Step(NamedTuple):
    """One step of a cycle in the order of deliveries: the process delivered `before` before `after`."""

    process: str
    before: MessageName
    after: MessageName


def process_name(process: str) -> str:
    """The first incarnation goes by its name alone, one from the clock by its short form."""
    return shown_process(process).removesuffix("/1")


def message_name(message: MessageName, with_group: bool) -> str:
    name = f"{process_name(message.sender)}#{message.number}"
    return f"{name} of {message.group}" if with_group else name


def creation_text(process: str, message: MessageName, sent: int) -> str:
    sender = process_name(message.sender)
    how_many = f"sent only {sent} message{'' if sent == 1 else 's'}" if sent else "sent nothing"
    return (
        f"{process_name(process)} delivered {message_name(message, False)}, but {sender} {how_many} to {message.group}"
    )


def destination_text(process: str, message: MessageName, destinations: Sequence[str]) -> str:
    sender, meant = process_name(message.sender), _list(sorted(destinations))
    return f"{process_name(process)} delivered {message_name(message, False)}, which {sender} sent to {meant} only"


def duplication_text(process: str, message: MessageName) -> str:
    return f"{process_name(process)} delivered {message_name(message, False)} twice"


def fifo_text(process: str, message: MessageName, missing: MessageName, later: bool) -> str:
    return (
        f"{_wrong_order(process, message, missing, later, False)}, "
        f"although {process_name(message.sender)} sent #{missing.number} first"
    )


def causal_text(process: str, message: MessageName, missing: MessageName, later: bool, chain: Sequence[Link]) -> str:
    """`chain` leads from `missing` to `message`; where these are the same, the message is in its own past."""
    with_group = len({part.group for link in chain for part in link}) > 1
    steps = " and ".join(_step(link, with_group) for link in chain)
    if message == missing:
        name = message_name(message, with_group)
        return f"{process_name(process)} delivered {name}, which is in its own past: {steps}"
    return f"{_wrong_order(process, message, missing, later, with_group)}, although {steps}"


def total_text(cycle: Sequence[Step]) -> str:
    """`cycle` leads from a message back to itself."""
    first, *others = cycle
    wrong = f"{process_name(first.process)} delivered {_before(first)}"
    if len(others) == 1:
        return f"{wrong}, {process_name(others[0].process)} after it"
    return ", ".join([wrong, *(f"{process_name(step.process)} {_before(step)}" for step in others)])


def pairwise_text(process: str, other: str, first: MessageName, second: MessageName) -> str:
    """`process` delivered `first` before `second`, `other` after it."""
    with_group = first.group != second.group
    return (
        f"{process_name(process)} delivered {message_name(first, with_group)} before "
        f"{message_name(second, with_group)}, {process_name(other)} after it"
    )


def safe_text(process: str, message: MessageName, other: str, view: int) -> str:
    """`other` delivered the message in `view`, in which `process` is as well."""
    return (
        f"{process_name(process)} never delivered {message_name(message, False)}, "
        f"although {process_name(other)} delivered it as safe in view {view}, which holds {process_name(process)}"
    )


def group_broadcast_text(message: MessageName, barrier: MessageName, process: str, other: str) -> str:
    """`process` delivered the message before the barrier, `other` after it."""
    return (
        f"{process_name(process)} delivered {message_name(message, False)} before the barrier "
        f"{message_name(barrier, False)}, {process_name(other)} after it"
    )


def content_text(process: str, message: MessageName) -> str:
    return (
        f"{process_name(process)} delivered {message_name(message, False)} with another level, size or payload "
        f"than {process_name(message.sender)} sent it with"
    )


def settled_text(process: str, message: MessageName) -> str:
    return f"{process_name(process)} never delivered {message_name(message, False)}, although the run went quiet"


def members_differ_text(process: str, group: str, view: int, members: Sequence[str], other: str) -> str:
    """`other` has the members that most view rows with this id have."""
    return (
        f"{process_name(process)} has {_list(members)} in view {view} of {group}, "
        f"but {process_name(other)} has other members or another ranking"
    )


def view_falls_text(process: str, group: str, view: int, before: int) -> str:
    return f"{process_name(process)} goes from view {before} of {group} to view {view}, which is no later one"


def not_in_view_text(process: str, group: str, view: int, members: Sequence[str]) -> str:
    return f"{process_name(process)} is not among {_list(members)}, the members of its own view {view} of {group}"


def view_sending_text(process: str, message: MessageName, sent_in: int, delivered_in: int | None) -> str:
    where = "before its first view" if delivered_in is None else f"in view {delivered_in}"
    return (
        f"{process_name(process)} delivered {message_name(message, False)} {where}, "
        f"but {process_name(message.sender)} sent it in view {sent_in}"
    )


def view_synchrony_text(process: str, message: MessageName, other: str, view: int, following: int) -> str:
    """`other` delivered the message in `view`, `process` did not."""
    one, two = sorted((process_name(process), process_name(other)))
    return (
        f"{one} and {two} both went from view {view} to {following}, "
        f"but {process_name(process)} did not deliver {message_name(message, False)} in view {view}"
    )


def transitional_text(process: str, message: MessageName, other: str, view: int, late: bool) -> str:
    """`other` delivered the message in `view`, before or behind its transitional row, `process` did not."""
    where = "in the transitional configuration behind" if late else "in"
    return (
        f"{process_name(other)} delivered {message_name(message, False)} {where} view {view}, "
        f"{process_name(process)}, who came along, did not"
    )


def transitional_members_text(process: str, group: str, view: int, following: int, members: Sequence[str]) -> str:
    return (
        f"{process_name(process)} went from view {view} of {group} to {following} with {_list(members)}, "
        "but others went with it, or were told of other companions"
    )


def merged_text(process: str, group: str, view: int, members: Iterable[str], survivors: Sequence[str]) -> str:
    return (
        f"{process_name(process)} ended in view {view} of {group} with {_list(sorted(members))}, "
        f"but {_list(survivors)} stayed to the end"
    )


def silence_text(process: str, message: MessageName, view: int) -> str:
    return (
        f"{process_name(process)} delivered {message_name(message, False)} in view {view}, "
        f"which no longer holds {process_name(message.sender)}"
    )


def fork_text(group: str, view: int, members: Sequence[str], first: Sequence[str]) -> str:
    return f"view {view} of {group} exists twice: with {_list(first)}, and with {_list(members)}"


def no_majority_text(group: str, view: int, present: int, before: int) -> str:
    """`present` of the `before` members of the view before are in it, or left."""
    return f"view {view} of {group} holds only {present} of the {before} members of view {view - 1}"


def broken_chain_text(group: str, view: int) -> str:
    return f"view {view} of {group} follows no view: nobody was in view {view - 1}"


def _list(members: Sequence[str]) -> str:
    return ", ".join(process_name(member) for member in members) or "nobody"


def _before(step: Step) -> str:
    return f"{message_name(step.before, False)} before {message_name(step.after, False)}"


def label_text(process: str, message: MessageName, missing: MessageName, later: bool, less: str, label: str) -> str:
    """`less` is the label of what is missing, `label` that of what was delivered."""
    return f"{_wrong_order(process, message, missing, later, False)}, although its label {less!r} precedes {label!r}"


def comparison_text(name: str) -> str:
    return f"the comparison {name!r} of labels is not known here"


def _wrong_order(process: str, message: MessageName, missing: MessageName, later: bool, with_group: bool) -> str:
    before = "before" if later else "but never"
    done, wanted = message_name(message, with_group), message_name(missing, with_group)
    return f"{process_name(process)} delivered {done} {before} {wanted}"


def _step(link: Link, with_group: bool) -> str:
    sender = process_name(link.sent.sender)
    of_group = f" of {link.sent.group}" if with_group else ""
    if link.after.sender == link.sent.sender and link.after != link.sent:
        return f"{sender} sent #{link.sent.number}{of_group} after sending {message_name(link.after, with_group)}"
    return f"{sender} sent #{link.sent.number}{of_group} after delivering {message_name(link.after, with_group)}"


def unchecked_text(nothing: str, named: bool) -> str:
    """Why nothing is known of a guarantee; `named`: it was asked for by name."""
    return f"{nothing}, so {'what was asked for' if named else 'the promise'} was never put to the test"


def reason_text(unknown: int, open_logs: Sequence[str]) -> str:
    """Why `unknown` checks are undecided; `open_logs` says, log by log, what is missing."""
    shown = 5
    more = [f"and {len(open_logs) - shown} more"] if len(open_logs) > shown else []
    extent = "1 check is undecided" if unknown == 1 else f"{unknown:,} checks are undecided"
    return f"{extent}: {', '.join([*open_logs[:shown], *more])}"


def open_log_text(process: str, rows: int, run: str | None, behind: int, cause: str) -> str:
    """What is known of an open log; `run` is told where there are several, `behind` where rows lie behind a gap."""
    of_run = "" if run is None else f" in run {run}"
    extent = "missing" if rows == 0 else f"cut short after {rows} row{'' if rows == 1 else 's'}"
    gap = f"{behind} more lie{'s' if behind == 1 else ''} behind a gap" if behind else ""
    why = "; ".join(text for text in (gap, cause) if text)
    return f"the log of {process}{of_run} is {extent}{f' ({why})' if why else ''}"


def undescribed_text(process: str, group: str, view: int, run: str | None) -> str:
    """Of a view in which a process sent and that no view row describes, so that nobody knows who was owed it."""
    of_run = "" if run is None else f" in run {run}"
    return f"no view row describes view {view} of {group}{of_run}, in which {process} sent"


def forced_text(told: Sequence[str], group: str, view: int, following: int, run: str | None) -> str:
    """Of a step from view to view that an operator forced; `told`: who was told to go on."""
    of_run = "" if run is None else f" in run {run}"
    names = ", ".join(process_name(process) for process in told)
    return (
        f"on an operator's word {names} went on from view {view} to view {following} of {group}{of_run} without a "
        f"majority, so that what the other members delivered in view {view} may be lost"
    )


def overrides_text(overrides: Sequence[str]) -> str:
    """Who was told to go on without a majority; at most five are named."""
    shown = 5
    more = [f"and {len(overrides) - shown} more"] if len(overrides) > shown else []
    return f"an operator's word overrides this promise: {', '.join([*overrides[:shown], *more])}"


def override_text(process: str, group: str, view: int | None, run: str | None) -> str:
    """Of a process that was told to go on without a majority; `view` is the next view that it installed, if any."""
    of_run = "" if run is None else f" in run {run}"
    went_on = "" if view is None else f" and installed view {view}"
    return f"{process_name(process)} was told to go on in {group}{of_run} without a majority{went_on}"


def readers_apart_text(readers: Sequence[str]) -> str:
    """To whom order between groups was not promised; at most five are named."""
    shown = 5
    more = [f"and {len(readers) - shown} more"] if len(readers) > shown else []
    return f"no order between groups was promised to {', '.join([*readers[:shown], *more])}"


def reader_apart_text(process: str, index: int, run: str | None) -> str:
    """Of a process that reads each group by itself from this row on."""
    of_run = "" if run is None else f" in run {run}"
    return f"{process_name(process)}{of_run}, which reads its groups apart from row {index} on"


def early_text(process: str, ending: str, run: str | None) -> str:
    """Of a process that stopped before the run went quiet."""
    of_run = "" if run is None else f" in run {run}"
    return f"{process}{of_run} did not stay until the run went quiet ({ending})"


def untold_text(process: str, groups: Iterable[str], run: str | None) -> str:
    """Of a process that was in views of which its log does not tell."""
    of_run = "" if run is None else f" in run {run}"
    named = ", ".join(sorted(groups))
    why = "it left messages unread, or was excluded from another group"
    return f"{process}{of_run} was in views of {named} of which its application was not told: {why}"
