"""What processes tell each other about configurations under the policy `partitionable`. The kind stands in the packet's
flags; the body is msgpack. Everything may be lost, doubled or late, and is sent again until it no longer matters.

ATTEMPT  (the paper: AJ) the configuration that its sender is in, for processes that are in others; `leaving`: its
         sender wants to be let go; `probe`: its sender has not heard the receiver for long, and asks for an answer;
         `row`: the links that its sender takes to be cut
COMMIT   (the paper: JOIN, and its acknowledgement) a suggestion that its sender is committed to, with the words on it
         of all that the sender knows of: whom each hears of the members of the suggestion, which is a row of the
         reachability matrix; and how much it holds, if it has closed its configuration. `installed`: its sender is in
         that configuration already

A row says to which processes its owner takes the link to be cut; rows are numbered by their owner, so of two rows the
higher one counts. A suggestion holds the rows that it was made by: those who get it need not know them.
"""

from typing import Final, final

import msgspec

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View, is_name
from antiphon.parts.membership.messages import Count, Life, Member
from antiphon.parts.membership.policies import HEIGHT_MAX, PARTITIONABLE_POLICY, height_of

ATTEMPT: Final = 1
COMMIT: Final = 2

_MEMBERS_MAX: Final = 1000

RowBody = tuple[Count, list[Life]]
AttemptBody = tuple[Member, Count, list[Member], bool, bool, RowBody]
Origin = tuple[Member, Count]
"""A member of a suggestion, and the configuration that it comes from."""
SuggestionBody = tuple[Count, Life, list[Origin], list[tuple[Life, RowBody]]]
CommitBody = tuple[Member, SuggestionBody, list[tuple[Life, list[Count], bytes]], bool]

_ENCODER: Final = msgspec.msgpack.Encoder()
_ATTEMPTS: Final = msgspec.msgpack.Decoder(AttemptBody)
_COMMITS: Final = msgspec.msgpack.Decoder(CommitBody)


@final
class CutRow:
    """The links that one process takes to be cut."""

    __slots__ = ("number", "others")

    def __init__(self, number: int, others: frozenset[ProcessId]) -> None:
        self.number = number
        self.others = others

    def body(self) -> RowBody:
        return (self.number, [(other.name, other.incarnation) for other in sorted(self.others)])


CutRows = dict[ProcessId, CutRow]
"""The last row that is known of each process that has one."""
NO_CUTS: Final = CutRow(0, frozenset())


@final
class Suggestion:
    """A configuration that may come next: its members with what they come from, and the rows of cut links for the sake
    of which others are not in it."""

    __slots__ = ("id", "number", "origins", "proposer", "rows", "view")

    def __init__(
        self,
        number: int,
        proposer: ProcessId,
        members: list[tuple[ProcessId, str]],
        origins: dict[ProcessId, int],
        rows: CutRows,
    ) -> None:
        self.number = number
        self.proposer = proposer
        self.origins = origins
        self.rows = rows
        self.id = PARTITIONABLE_POLICY.merged_id(sorted(set(origins.values())), proposer, number)
        self.view = View(
            self.id, tuple([process for process, _ in members]), tuple([address for _, address in members])
        )

    def has(self, process: ProcessId) -> bool:
        return process in self.origins

    def rank_key(self) -> tuple[int, ProcessId]:
        """Suggestions with a higher one replace others."""
        return (self.number, self.proposer)

    def body(self) -> SuggestionBody:
        members = zip(self.view.members, self.view.addresses, strict=True)
        origins = [((who.name, who.incarnation, where), self.origins[who]) for who, where in members]
        rows = [((who.name, who.incarnation), self.rows[who].body()) for who in sorted(self.rows)]
        return (self.number, (self.proposer.name, self.proposer.incarnation), origins, rows)


@final
class Attempt:
    """What somebody says of the configuration that it is in."""

    __slots__ = ("address", "leaving", "probe", "row", "sender", "view")

    def __init__(
        self, sender: ProcessId, address: str, view: View, leaving: bool, probe: bool = False, row: CutRow = NO_CUTS
    ) -> None:
        self.sender = sender
        self.address = address
        self.view = view
        self.leaving = leaving
        self.probe = probe
        self.row = row


@final
class Word:
    """What one process says of a suggestion that it is committed to."""

    __slots__ = ("heard", "held")

    def __init__(self, held: list[int], heard: int) -> None:
        self.held = held
        """How much it holds of each member's messages of the configuration that it comes from, once it has closed that;
        nothing before."""
        self.heard = heard
        """The members of the suggestion, a bit for each rank, that it hears itself."""


@final
class Commit:
    """A suggestion that somebody is committed to, and the commits that it has."""

    __slots__ = ("address", "installed", "sender", "suggestion", "words")

    def __init__(
        self,
        sender: ProcessId,
        address: str,
        suggestion: Suggestion,
        words: dict[ProcessId, Word],
        installed: bool,
    ) -> None:
        self.sender = sender
        self.address = address
        self.suggestion = suggestion
        self.words = words
        self.installed = installed


def encode_attempt(attempt: Attempt) -> bytes:
    view = attempt.view
    members = [(who.name, who.incarnation, where) for who, where in zip(view.members, view.addresses, strict=True)]
    sender = (attempt.sender.name, attempt.sender.incarnation, attempt.address)
    body: AttemptBody = (sender, view.id, members, attempt.leaving, attempt.probe, attempt.row.body())
    return _ENCODER.encode(body)


def encode_commit(commit: Commit) -> bytes:
    width = (len(commit.suggestion.origins) + 7) // 8
    words = [
        ((who.name, who.incarnation), commit.words[who].held, commit.words[who].heard.to_bytes(width, "little"))
        for who in sorted(commit.words)
    ]
    sender = (commit.sender.name, commit.sender.incarnation, commit.address)
    body: CommitBody = (sender, commit.suggestion.body(), words, commit.installed)
    return _ENCODER.encode(body)


def decode_attempt(data: bytes) -> Attempt:
    """Raises MalformedError."""
    try:
        sender, view_id, members, leaving, probe, row = _ATTEMPTS.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError("membership") from error
    processes = tuple([_process(name, incarnation) for name, incarnation, _ in members])
    view = View(view_id, processes, tuple([address for _, _, address in members]))
    own = _process(sender[0], sender[1])
    if own not in processes or len(set(processes)) != len(processes) or len(processes) > _MEMBERS_MAX:
        raise MalformedError("membership")
    return Attempt(own, sender[2], view, leaving, probe, _row(row))


def decode_commit(data: bytes) -> Commit:
    """Raises MalformedError."""
    try:
        sender, (number, proposer, origins, told_rows), told, installed = _COMMITS.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError("membership") from error
    members = [(_process(who[0], who[1]), who[2]) for who, _ in origins]
    by_process = {_process(who[0], who[1]): origin for who, origin in origins}
    if not members or len(by_process) != len(members) or len(members) > _MEMBERS_MAX:
        raise MalformedError("membership")
    if max([height_of(origin) for origin in by_process.values()]) >= HEIGHT_MAX:
        raise MalformedError("membership")
    if len(told_rows) > _MEMBERS_MAX:
        raise MalformedError("membership")
    rows = {_process(who[0], who[1]): _row(row) for who, row in told_rows}
    suggestion = Suggestion(number, _process(proposer[0], proposer[1]), members, by_process, rows)
    words: dict[ProcessId, Word] = {}
    for who, held, row in told:
        heard = int.from_bytes(row, "little")
        if heard >> len(members):
            raise MalformedError("membership")
        words[_process(who[0], who[1])] = Word(held, heard)
    own = _process(sender[0], sender[1])
    if own not in words or not all(suggestion.has(who) for who in words):
        raise MalformedError("membership")
    if installed and (len(words) != len(members) or not all(word.held for word in words.values())):
        raise MalformedError("membership")
    return Commit(own, sender[2], suggestion, words, installed)


def _row(row: RowBody) -> CutRow:
    number, others = row
    if len(others) > _MEMBERS_MAX:
        raise MalformedError("membership")
    return CutRow(number, frozenset([_process(name, incarnation) for name, incarnation in others]))


def _process(name: str, incarnation: int) -> ProcessId:
    if not is_name(name):
        raise MalformedError("membership")
    return ProcessId(name, incarnation)
