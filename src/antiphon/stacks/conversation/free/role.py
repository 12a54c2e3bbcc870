"""The role of a participant, as one process has it on its stack: conversations without a group, in the engine's terms.

Requests, packets and time come in; packets, events and records for the disk go out as effects, once at the end of each
step for each conversation that the step has touched.

What the history tells. A conversation is a group of its own, named after its id. Whoever takes part tells so, by
`RoleOpened`, and is held to PROMISED. A message is told as sent when it leaves, which is when the application calls,
and as delivered when it enters the view of a participant: when the application, or the filter that the application
has put on the conversation, receives it, and its own when it sends them. The messages that the conversation itself
needs are told like all others, so that every sender's numbers are 1, 2, 3… in each of its lives. A participant that has
come back tells the messages that its checkpoint held as delivered, and so the ones that it had sent in former lives, as
those enter its view.
"""

from collections.abc import Callable
from random import Random
from typing import Final, final

from antiphon.kernel.calls import Load
from antiphon.kernel.effects import NEVER, Changed, Delivered, Effects, RoleClosed, RoleOpened, Sent
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import StackRequest
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import CallOutcome, Loaded
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.graph_replica import ANSWER_MAX
from antiphon.stacks.conversation.free.host import ConversationHost
from antiphon.stacks.conversation.free.requests import (
    AcceptConversation,
    CloseConversation,
    ConversationRequest,
    ListStored,
    OfferingRequest,
    OpenConversation,
    ParticipantSettings,
    RestartConversation,
    StartingRequest,
)
from antiphon.stacks.conversation.free.store import INDEX, ConversationStore, latest_life, log_of, read_index, read_log
from antiphon.stacks.conversation.free.trimmed_history import KEEP_NS, TrimmedHistory
from antiphon.stacks.conversation.free.wire import payload_of
from antiphon.stacks.conversation.offers import OFFERS

PROMISED: Final = ("creation", "duplication", "content", "fifo", "causal", "settled")
"""The guarantees that a conversation is held to."""
RESUMED: Final = ("creation", "duplication", "content")
"""The same for a participant that came back at the base of a checkpoint: what it had before that is not told."""
VIEW: Final = 1
"""The id of the one view of a conversation, as histories tell it (recording.py)."""


ANY: Final = f"{OFFERS.name}/"
"""Stands for the role itself, where an event concerns no single conversation."""


def conversation_name(cid: int) -> str:
    """Return the name that stands for a conversation where groups have names. No group can be called so."""
    return f"{ANY}{cid:016x}"


@final
class ParticipantRole:
    """All conversations without a group of one process."""

    __slots__ = ("_histories", "_host", "_listing", "_new_token", "_out", "_process", "_reading", "_store", "_touched")

    def __init__(
        self,
        process: ProcessId,
        options: Options,
        settings: ParticipantSettings,
        new_token: Callable[[], int],
        random: Random | None = None,
    ) -> None:
        self._process = process
        self._new_token = new_token
        self._store = ConversationStore() if settings.storage else None
        self._listing: dict[int, ListStored] = {}
        """By token: whoever waits for the index to be read."""
        self._out: set[int] = set()
        """Conversations that this process was removed from, or that went on without it."""
        self._host = ConversationHost(
            process.name,
            options,
            life=process.incarnation,
            limits=settings.limits,
            recording=settings.storage,
            random=random,
        )
        self._histories: dict[int, TrimmedHistory] = {}
        """Of conversations whose beginning somebody has asked for: what their logs have of it."""
        self._reading: dict[int, int] = {}
        """By token: the conversation whose log is being read for somebody else."""
        self._touched: dict[int, ConversationCore] = {}
        """The conversations that this step has done something to."""

    # ---- what the application asks for -----------------------------------------------------------------------------

    def request(self, request: StackRequest, effects: Effects, now_ns: int) -> None:
        """Carry out a request. Raises UsageError before anything has changed."""
        if isinstance(request, ConversationRequest):
            conversation = self._find(request.cid)
            request.act(conversation, now_ns)
            if isinstance(request, OfferingRequest):
                self._host.note_due(request.cid, now_ns)
            else:
                self._touched[request.cid] = conversation
        elif isinstance(request, StartingRequest):
            self._start(request, effects)
        elif isinstance(request, CloseConversation):
            self._find(request.cid)
            self._close(request.cid, effects, now_ns)
        elif isinstance(request, ListStored):
            self._list(request, effects)
        else:
            raise UsageError(f"a participant in conversations knows no {type(request).__name__}")

    def _find(self, cid: int) -> ConversationCore:
        conversation = self._host.conversation(cid)
        if conversation is None:
            raise UsageError(f"this process takes no part in conversation {cid:016x}; open, accept or restart it first")
        return conversation

    def _start(self, request: StartingRequest, effects: Effects) -> None:
        host = self._host
        if isinstance(request, OpenConversation):
            conversation: ConversationCore | None = host.active_open(
                request.others, request.own_address, keep=request.keep
            )
        elif isinstance(request, RestartConversation):
            loading = self._store is not None
            conversation = host.restart(
                request.cid,
                request.participants,
                request.leaves,
                request.sections,
                loading,
                base=request.base,
                own_address=request.own_address,
            )
            self._out.discard(request.cid)
            if self._store is not None:
                self._store.load(request.cid, effects, self._new_token())
        else:
            assert isinstance(request, AcceptConversation)
            conversation = host.passive_open()
        request.conversation = conversation
        if conversation is not None:
            promised = RESUMED if isinstance(request, RestartConversation) and request.base else PROMISED
            effects.events.append(RoleOpened(conversation_name(conversation.cid), OFFERS.name, promised))
            if self._store is not None and conversation.keeps and conversation.recovery is None:
                self._store.begin(conversation, effects, self._new_token())
                self._store.begin_life(conversation, effects, self._new_token())
            self._touched[conversation.cid] = conversation

    def _close(self, cid: int, effects: Effects, now_ns: int) -> None:
        self._finish(self._find(cid), effects, now_ns)
        self._touched.pop(cid, None)
        self._host.close(cid)
        if cid not in self._out:
            effects.events.append(RoleClosed(conversation_name(cid)))
        self._out.discard(cid)

    def close(self, effects: Effects, now_ns: int) -> None:
        """Leave all conversations."""
        for cid in self._host.open_ids():
            self._close(cid, effects, now_ns)

    def _list(self, request: ListStored, effects: Effects) -> None:
        if self._store is None:
            raise UsageError("this process writes nothing down; give it storage")
        token = self._new_token()
        self._listing[token] = request
        effects.call(Load(INDEX, token))

    def outcome(self, outcome: CallOutcome, effects: Effects) -> None:
        """Process the outcome of a call to the disk."""
        assert self._store is not None
        if isinstance(outcome, Loaded) and outcome.token in self._listing:
            self._listing.pop(outcome.token).stored = read_index(outcome.records)
            effects.events.append(Changed(ANY))
            return
        if isinstance(outcome, Loaded) and outcome.token in self._reading:
            self._take_history(self._reading.pop(outcome.token), outcome.records)
            return
        cid = self._store.outcome(outcome)
        conversation = None if cid is None else self._host.conversation(cid)
        if conversation is not None and isinstance(outcome, Loaded):
            self._take_loaded(conversation, outcome.records, effects)

    def _take_loaded(self, conversation: ConversationCore, records: list[bytes], effects: Effects) -> None:
        """Let a participant that is back have what was written down in its former lives."""
        assert self._store is not None
        if latest_life(records) >= conversation.life and conversation.recovery is not None:
            conversation.recovery.reused = True
        else:
            if not records or conversation.moved:  # then the index does not name it, or has another address of it
                self._store.begin(conversation, effects, self._new_token())
            self._store.begin_life(conversation, effects, self._new_token())
        conversation.take_loaded(read_log(records))
        self._touched[conversation.cid] = conversation

    # ---- what was forgotten here -----------------------------------------------------------------------------------

    def _answer_early(self, conversation: ConversationCore, effects: Effects, now_ns: int) -> None:
        """Send what was freed here, and is in the log, to participants that lack it; read the log first if need be."""
        cid, replica = conversation.cid, conversation.replica
        history = self._histories.get(cid)
        if history is not None and now_ns < history.until_ns:
            history.until_ns = now_ns + KEEP_NS
            for rank, leaves in replica.early_asks.items():
                known = history.known(leaves)
                replica.answer_early(rank, known, history.answer(known, replica.graph.first, ANSWER_MAX))
            replica.early_asks = {}
        elif cid not in self._reading.values():
            self._histories.pop(cid, None)
            token = self._new_token()
            self._reading[token] = cid
            effects.call(Load(log_of(cid), token))

    def _take_history(self, cid: int, records: list[bytes]) -> None:
        conversation = self._host.conversation(cid)
        if conversation is not None:
            history = TrimmedHistory(read_log(records), len(conversation.participants))
            history.until_ns = NEVER  # until somebody is answered from it
            self._histories = {cid: history}
            self._touched[cid] = conversation

    # ---- the network and time --------------------------------------------------------------------------------------

    def receive(
        self, kind: int, cid: int, tag: int, via: int, flags: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        """Process one packet. Raises MalformedError before anything has changed."""
        conversation = self._host.take(kind, cid, tag, via, flags, data, now_ns)
        if conversation is not None:
            self._touched[cid] = conversation
        else:
            effects.events.append(Changed(ANY))

    def deadline_ns(self) -> int:
        """Return when to call `tick`."""
        return self._host.deadline_ns()

    def tick(self, now_ns: int) -> None:
        """Do what is due."""
        for conversation in self._host.tick(now_ns):
            self._touched[conversation.cid] = conversation

    def end_step(self, effects: Effects, now_ns: int) -> None:
        """Add to the effects what follows from all that this step has changed in conversations."""
        if self._histories:
            self._histories = {cid: kept for cid, kept in self._histories.items() if now_ns < kept.until_ns}
        if self._touched:
            touched, self._touched = self._touched, {}
            for conversation in touched.values():
                group = conversation_name(conversation.cid)
                if conversation.filter is not None:
                    conversation.filter.run(group, effects, now_ns)
                self._finish(conversation, effects, now_ns)
                effects.events.append(Changed(group))

    def _finish(self, conversation: ConversationCore, effects: Effects, now_ns: int) -> None:
        """Report what has happened to a conversation, send what it has to send, and store what is to be kept."""
        self._tell(conversation, effects)
        if self._store is not None and conversation.replica.early_asks:
            if conversation.records:
                self._store.write(conversation, effects, self._new_token())
            self._answer_early(conversation, effects, now_ns)
        effects.transmits += self._host.flush(conversation, now_ns)
        if self._store is not None and conversation.records:
            self._store.write(conversation, effects, self._new_token())
        if conversation.has_lost_touch() and conversation.cid not in self._out:
            self._out.add(conversation.cid)
            if self._store is not None and conversation.keeps:
                self._store.leave_behind(conversation.cid, effects, self._new_token())
            reason = "removed" if conversation.removal.is_out else "diverged"
            effects.events.append(RoleClosed(conversation_name(conversation.cid), reason))

    # ---- what the history is told ----------------------------------------------------------------------------------

    def _tell(self, conversation: ConversationCore, effects: Effects) -> None:
        """Report which messages have entered the view."""
        messages = conversation.messages
        if not messages.entered:
            return
        entered, messages.entered = messages.entered, []
        group = conversation_name(conversation.cid)
        for node, section in entered:
            life, number = conversation.replica.place_in_life(node)
            payload = payload_of(section) if section else b""
            sender = ProcessId(conversation.participants[node.sender].name, life)
            if sender == self._process:
                effects.events.append(Sent(group, VIEW, number, 1, CAUSAL, len(payload), payloads=[payload]))
            effects.events.append(Delivered(group, VIEW, sender, number, CAUSAL, [payload], len(payload)))

    def pending(self) -> int:
        """Return how many conversations wait to be accepted."""
        return self._host.pending()
