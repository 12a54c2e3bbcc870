"""One participant's side of a conversation (psync-1989, 2, 3 and 5): its host's image of the graph, and its view.

A participant sends in the context of all it has sent or received. It receives what the image has and its view has not,
in the order in which it was attached, which is an order of the context. It never receives what it sent itself.

Nothing here waits: `send` says no while too much of our own is not stable, `receive` gives None while nothing is there.
Time comes in by `tick`.

A participant that runs again from a former state says again what it had said since (replay.py).

With `probing`, what may have been lost at the end is looked for without the application's help (probe.py). Without,
that is left to `resend`, as in the paper (3.2.2).
"""

from typing import final

from antiphon.kernel.errors import MalformedError, MessageTooLargeError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import ADD, ASK, ASK_PARTS, PART, RESTART, START
from antiphon.parts.message_graph import GraphNode, GraphView, Mid
from antiphon.stacks.conversation.free.filter_machine import FilterMachine
from antiphon.stacks.conversation.free.forgetting import Forgetting
from antiphon.stacks.conversation.free.graph_replica import EVERYBODY, GraphReplica
from antiphon.stacks.conversation.free.identity import conversation_id, participants_tag
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.outstanding import OutstandingMessages
from antiphon.stacks.conversation.free.probe import Probe
from antiphon.stacks.conversation.free.recovery import Recovery, ReplayError
from antiphon.stacks.conversation.free.removal import Removal
from antiphon.stacks.conversation.free.replay import Replay
from antiphon.stacks.conversation.free.restart_packets import (
    is_left_behind,
    moved,
    take_restart,
    why_not,
)
from antiphon.stacks.conversation.free.slices import SliceTransfer
from antiphon.stacks.conversation.free.spare import SpareMessages
from antiphon.stacks.conversation.free.view_base import Change, ViewBase, base_of, begin_at, encode_base
from antiphon.stacks.conversation.free.votes import carry_out_entry, carry_out_removal, heed_votes
from antiphon.stacks.conversation.free.wire import (
    GONE,
    NOTED,
    OPENING,
    REMOVAL,
    RESENT,
    SAID,
    Added,
    Restarted,
    decode_add,
    decode_ask,
    decode_ask_parts,
    decode_part,
    decode_restart,
    decode_start,
    encode_ask_parts,
    form_of,
    life_of_packet,
    participants_section,
    payload_of,
    read_section,
    section,
)


@final
class ConversationCore:
    """One participant in one conversation."""

    __slots__ = (
        "_blasts",
        "_changes",
        "_forgetting",
        "_options",
        "_probe",
        "_replay",
        "_spare",
        "_start_size",
        "addresses",
        "cid",
        "filter",
        "keeps",
        "life",
        "limits",
        "me",
        "messages",
        "moved",
        "participants",
        "readdressed",
        "records",
        "recovery",
        "removal",
        "replica",
        "restarted",
        "tag",
        "view",
    )

    def __init__(
        self,
        cid: int,
        participants: list[ProcessId],
        addresses: list[str],
        me: ProcessId,
        options: Options,
        *,
        keep_bodies: bool = False,
        limits: Limits | None = None,
        life: int = 0,
        probing: bool = False,
        recording: bool = False,
    ) -> None:
        if me not in participants:
            raise UsageError(f"{me} is not among the participants of the conversation; name it, too")
        if len(set(participants)) != len(participants):
            raise UsageError("a participant is named twice; name each once")
        self.cid = cid
        self.participants = participants
        self.addresses = addresses
        self.me = participants.index(me)
        self.keeps = keep_bodies
        """All that is said is kept, so that whoever fails can come back."""
        self.tag = participants_tag(participants)
        start = participants_section(participants, addresses)
        self._start_size = len(start)
        self.limits = limits or Limits()
        self.replica = GraphReplica(
            cid,
            self.tag,
            len(participants),
            self.me,
            start,
            options,
            keep_bodies=keep_bodies,
            limits=self.limits,
            life=life,
        )
        self.replica.logged = recording
        self.view = GraphView(self.replica.graph)
        self.messages = OutstandingMessages(self.replica.graph, self.view, self.me)
        """What is to be received, and what has entered the view."""
        self.moved: dict[int, int] = {}
        """By rank of one that came back at another address: in which life."""
        self.readdressed = False
        """Whether somebody has another address since the host last looked."""
        self._changes: list[Change] = []
        """The messages about who takes part, for checkpoints."""
        self.filter: FilterMachine | None = None
        """What stands on the conversation in place of the application, if anything does."""
        self.restarted: list[int] = []
        """Ranks of participants that have said that they are back, for the application to take."""
        self.records: list[bytes] | None = [] if recording else None
        """What is to be written to the host's storage, for the runtime to take, in this order, when it likes."""
        self.removal = Removal(self.replica.graph, self.me, life)
        """Who is in and who is out, by agreement."""
        self.recovery: Recovery | None = None
        """If this participant has come back: how that went."""
        self._options = options
        self.life = life
        self._blasts = SliceTransfer(options, self.limits)
        self._forgetting = Forgetting(self.replica.graph, self.view, self.limits, keep_bodies)
        self._spare = SpareMessages(self.replica)
        self._replay = Replay(self.replica.graph, self.view, self.me)
        self._probe = Probe(options) if probing else None

    # ---- the application's side ------------------------------------------------------------------------------------

    def may_send(self) -> bool:
        """Return whether a message may be sent now: the window has room, or the message repeats one of a former
        life."""
        return self._may_say(False)

    def _may_say(self, urgent: bool) -> bool:
        if self.is_recovering() or self.removal.is_out:
            return False
        if self._replay.is_repeating():
            return True
        if self.is_replaying() or self.is_mute() or not self.removal.may_speak(self.view):
            return False
        return urgent or self.replica.has_room(self.me)

    def is_mute(self) -> bool:
        """Return whether this participant came back with less than it needs to send (recovery.py)."""
        recovery = self.recovery
        return recovery is not None and not recovery.may_speak(self.replica.graph, self.removal.removed)

    def unstable_max(self) -> int:
        """Return how many messages of one sender may be unstable at a time."""
        return self.limits.unstable_max

    def is_recovering(self) -> bool:
        """Return whether this participant has restarted and its replica of the graph is not complete yet."""
        return self.recovery is not None and not self.recovery.done

    def is_replaying(self) -> bool:
        """Return whether the view still lacks messages that this participant sent in a former life."""
        return self._replay.is_receiving()

    def send(self, payload: bytes, *, urgent: bool = False) -> GraphNode:
        """Send a message in the context of all that was sent or received here; ask `may_send` first.

        What is urgent goes out whether there is room or not: acknowledgements, for which others may be waiting, and
        which have a limit of their own (library/filter_base.py).
        """
        if len(payload) > self.limits.message_bytes_max:
            raise MessageTooLargeError(len(payload), self.limits.message_bytes_max)
        if not self._may_say(urgent):
            raise UsageError(why_not(self))
        if self._replay.is_repeating():
            node = self._replay.repeat(payload)
            self.messages.advance(self._replay.said())
            return node
        predecessors = self._leaf_mids()
        if self.me == 0 and not self.replica.graph.last[0]:
            first = section(0, 1, predecessors, payload, self.life)
            if not self.replica.fits(first, self._start_size):
                self.say(b"", OPENING)
        return self.say(payload, SAID)

    def note(self, payload: bytes, *, urgent: bool = False) -> GraphNode:
        """Send a message that a restarted participant will not send again, such as an acknowledgement. What it sends
        after a restart is compared only with what it had sent by `send`. Ask `may_note` first."""
        if not self.may_note(urgent):
            raise UsageError(why_not(self))
        return self.say(payload, NOTED)

    def may_note(self, urgent: bool = False) -> bool:
        """Return whether everything of a former life has been received and sent again, and the window has room."""
        return self._may_say(urgent) and not self._replay.is_repeating()

    def say(self, payload: bytes, form: int) -> GraphNode:
        """Send a message of the application, or one that the conversation itself needs, whatever the window allows."""
        predecessors = self._leaf_mids()
        number = self.replica.graph.last[self.me] + 1
        said = section(self.me, number, predecessors, payload, self.life, form)
        node = self.replica.send(predecessors, said)
        self.messages.enter(node, said)
        self._replay.note_sent(number)
        self._take_note(node)
        return node

    def _leaf_mids(self) -> list[Mid]:
        return [leaf.mid() for leaf in self.view.leaves()]

    def receive(self) -> tuple[GraphNode, bytes] | None:
        """Return the earliest message that is not in the view yet, with its payload, and add it to the view."""
        if self.is_recovering():
            return None
        node = self.messages.take()
        self._advance()
        if node is None:
            return None
        payload = payload_of(node.body or b"")
        self._forgetting.trim()
        if self.removal.is_due():
            self.pursue_changes()
        return node, payload

    def _advance(self) -> None:
        """Add to the view what nobody receives."""
        if not self.is_recovering():
            self.messages.advance(self._replay.said())

    def has_diverged(self) -> bool:
        """Return whether the others have gone on without this participant (fork.py)."""
        return is_left_behind(self)

    def has_lost_touch(self) -> bool:
        """Return whether the others have removed this participant or gone on without it."""
        return self.removal.is_out or self.has_diverged()

    def former(self) -> list[GraphNode]:
        """Return what this participant said in former lives and has not said again."""
        return [] if self.is_recovering() else self._replay.former()

    def adopt(self) -> None:
        """Count all that was said in former lives as said by this one."""
        self._replay.adopt()
        self._advance()

    def put_filter(self, machine: FilterMachine) -> None:
        """Let a filter receive and send in place of the application from now on."""
        self.filter = machine
        machine.begin()

    def has_outstanding(self) -> bool:
        """Return whether `receive` has a message to return."""
        return self.messages.receivable > 0 and not self.is_recovering()

    def resend(self, node: GraphNode) -> None:
        """Send a message once more, unless it is stable."""
        self.replica.resend(node)

    def free(self, node: GraphNode) -> int:
        """Forget a message and all that precede it, as far as they are stable and received; return how many (3.3)."""
        return self.replica.graph.free(node) if self.view.holds(node) else 0

    def checkpoint_leaves(self) -> list[Mid]:
        """Return the ids of the leaves of the view, which name this point in a checkpoint (5.1)."""
        if self.is_recovering() or self.is_replaying():
            raise UsageError("this participant is still on its way back to where it was; take a checkpoint after that")
        return self._leaf_mids()

    def checkpoint_base(self) -> bytes:
        """Return what is needed of the graph to come back at this point; empty if the conversation is not kept."""
        base = base_of(self.replica.graph, self.view, self.replica.life_marks(), self._changes) if self.keeps else None
        return b"" if base is None else encode_base(base)

    def checkpoint_sections(self) -> list[bytes]:
        """Return the unstable messages of the view, predecessors first, for a checkpoint. All other participants have
        what is stable; an unstable message may be lost everywhere else by the time this participant restarts."""
        graph = self.replica.graph
        nodes = [
            graph.node((rank, number))
            for rank in range(graph.participants)
            for number in range(graph.stable_to[rank] + 1, self.view.received[rank] + 1)
        ]
        unstable = sorted([(node.wave, node.sender, node.body or b"") for node in nodes if node is not None])
        return [body for _, _, body in unstable]

    def mids(self, nodes: list[GraphNode]) -> list[Mid]:
        """Return the ids by which a checkpoint names these messages."""
        return [node.mid() for node in nodes]

    # ---- coming back -----------------------------------------------------------------------------------------------

    def restore(self, sections: list[bytes]) -> int:
        """Attach the messages that the storage of this host has, before the restart; return how many were attached."""
        self._spare.add(sections)
        return self._use_spare()

    def _use_spare(self) -> int:
        """Attach stored messages whose predecessors are here now; return how many were attached."""
        attached = self._spare.attach()
        for node in attached:
            self.messages.add(node)
            self._take_note(node)
        return len(attached)

    def begin_at(self, base: ViewBase, leaves: list[Mid]) -> None:
        """Start at the base of a checkpoint, before anything else, as if all before it had been forgotten. Raises
        MalformedError."""
        begin_at(self.replica.graph, self.view, base, leaves)
        self.replica.learn_marks(base.marks)
        for sender, number, payload in base.changes:
            self._take_change(sender, number, payload)

    def restart(self, leaves: list[Mid], loading: bool = False) -> None:
        """Begin the recovery of a restarted participant, whose view ends in these leaves; without leaves, from the
        beginning (5.1, 5.2). `loading`: the storage of the host is being read, and `take_loaded` will bring its
        contents."""
        others = [rank for rank in range(len(self.participants)) if rank != self.me]
        self.recovery = Recovery(self.me, others, leaves, self._options, self.replica.sender_filter)
        self.recovery.loading = loading
        self.removal.is_back = True
        self.replica.sender_filter.strangers = sum(1 << rank for rank in others)
        self.pursue_changes()  # the storage may tell of removals and admissions

    def is_loading(self) -> bool:
        """Return whether the storage of the host is still being read."""
        return self.recovery is not None and self.recovery.loading

    def take_loaded(self, sections: list[bytes]) -> None:
        """Attach what the storage of the host has, unless the recovery was ended before it was read."""
        recovery = self.recovery
        if recovery is None or not recovery.loading:
            return
        recovery.loading = False
        if not recovery.done:
            self.restore(sections)
            self.pursue_changes()
        if self.records is not None:
            stored = set(sections)
            self.records = [record for record in self.records if record not in stored]

    def settle_for_less(self) -> None:
        """End the recovery with the part of the history that is here, without those that have not answered."""
        if self.recovery is not None and not self.recovery.done:
            self._begin_view(self.recovery)

    def recover(self) -> None:
        """Check whether the replica is complete, and end the recovery if it is."""
        recovery = self.recovery
        if recovery is None or recovery.done:
            return
        if self._use_spare():
            self.pursue_changes()  # which comes back here
            return
        if recovery.is_whole(self.replica.graph):
            self._begin_view(recovery)

    def _begin_view(self, recovery: Recovery) -> None:
        self.replica.sender_filter.strangers = 0
        self._spare.drop()
        recovery.end(self.replica.graph)
        seen = recovery.seen(self.replica.graph)
        self.messages.begin_view(seen)
        self._replay.begin(seen[self.me])
        self._advance()
        self.pursue_changes()
        self.replica.sender_filter.lives[self.me] = self.life

    # ---- the network's side ----------------------------------------------------------------------------------------

    def take(self, kind: int, via: int, flags: int, data: bytes, now_ns: int) -> None:
        """Process one packet of this conversation. Raises MalformedError before anything has changed."""
        count = len(self.participants)
        if via >= count or via == self.me:
            raise MalformedError("rank")
        if kind == ADD:
            self._take_added(decode_add(data, flags, count), via, now_ns, life_of_packet(data))
        elif kind == START:
            participants, _, added = decode_start(data, flags)
            if participants != self.participants:
                raise MalformedError("participants")
            self._take_added(added, via, now_ns, life_of_packet(data))
        elif kind == ASK:
            wanted, leaves = decode_ask(data, count)
            self.replica.receive_ask(wanted, leaves, via, now_ns)
            if via in self.removal.removed:
                self.replica.tell(via, GONE, Restarted(self.removal.removed[via], self.life, []))
        elif kind == RESTART:
            take_restart(self, via, flags, decode_restart(data, count), now_ns)
        elif kind == PART:
            self._take_part(via, flags, data, now_ns)
        elif kind == ASK_PARTS:
            slicing, ranges = decode_ask_parts(data, count)
            self.replica.receive_ask_parts(slicing, ranges, via)
        else:
            raise MalformedError("kind")

    def _take_added(self, added: Added, via: int, now_ns: int, via_life: int) -> None:
        self._blasts.forget(added.mid())
        attached = self.replica.receive(added, via, now_ns, via_life)
        for node in attached:
            self.messages.add(node)
            self._take_note(node)
        if attached:
            self._advance()
            self.pursue_changes()
        elif self.replica.fork.reused and self.recovery is not None:
            self.recovery.reused = True

    def _take_note(self, node: GraphNode) -> None:
        """Process what follows from a message that was attached."""
        if self._probe is not None:
            self._probe.stirred = True
        if self.records is not None and node.body is not None:
            self.records.append(node.body)
        if node.body is not None and form_of(node.body) == REMOVAL:
            self._take_change(node.sender, node.number, payload_of(node.body))
        self._forgetting.note(node)

    def _take_part(self, via: int, flags: int, data: bytes, now_ns: int) -> None:
        via_life = life_of_packet(data)
        slicing, index, part = decode_part(data, len(self.participants))
        if self.replica.has(slicing.mid):
            if flags & RESENT and index == 0:
                self.replica.resend_successors(slicing.mid, via)
            return
        if not self.replica.sender_filter.trusts(via, via_life):
            return
        whole = self._blasts.take(slicing, index, part, via, now_ns)
        if whole is not None:
            added = read_section(whole, len(self.participants), flags)
            if added.mid() != slicing.mid or added.life != slicing.life:
                raise MalformedError("fragment")
            self._take_added(added, via, now_ns, via_life)

    # ---- who takes part --------------------------------------------------------------------------------------------

    def mask_out(self, rank: int) -> None:
        """Stop waiting for a participant, and ignore its messages (3.2.4)."""
        if rank == self.me:
            raise UsageError("a participant cannot mask itself out; close the conversation instead")
        self.replica.mask_out(rank)
        self.recover()

    def mask_in(self, rank: int) -> None:
        """Wait for a participant again, and take its messages."""
        self.replica.mask_in(rank)

    def remove(self, rank: int) -> None:
        """Ask all participants to remove one from the conversation (removal.py)."""
        if self.removal.suspect(rank, self.replica.sender_filter.lives[rank]):
            self.replica.ignore(rank)
            self.pursue_changes()

    def add(self, rank: int) -> None:
        """Ask all participants to admit one again that was removed and has restarted."""
        self.removal.ask_in(rank, self.replica.sender_filter.lives[rank])
        self.pursue_changes()

    def _take_change(self, sender: int, number: int, payload: bytes) -> None:
        try:
            self.removal.take(sender, number, payload)
        except MalformedError:
            self.replica.count("contradiction")
            return
        self._changes.append((sender, number, payload))
        heed_votes(self.replica, self.removal, self.me)

    def pursue_changes(self) -> None:
        """Send the votes and consents that are due about who takes part, and carry out what is decided."""
        removal = self.removal
        while removal.is_open():
            removed = removal.newly_removed()
            for rank in removed:
                carry_out_removal(self.replica, removal, rank)
            if removal.is_astray(self.replica.lives_of(self.me)):
                removal.is_out = True
            added = removal.newly_added()
            for rank in added:
                if rank != self.me:
                    carry_out_entry(self.replica, removal, rank)
            due = removal.is_due() and self._may_change()
            if due:
                self.say(removal.vote() if removal.vote_due else removal.consent(), REMOVAL)
            if not due and not removed and not added:
                break
        self.recover()

    def _may_change(self) -> bool:
        if self.is_recovering() or self.is_replaying() or self.is_mute():
            return False
        return self.removal.may_speak(self.view)

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        """Return when to call `tick` next."""
        due_ns = min(self.replica.deadline_ns(), self._blasts.deadline_ns())
        if self.recovery is not None:
            due_ns = min(due_ns, self.recovery.deadline_ns())
        if self.filter is not None:
            due_ns = min(due_ns, self.filter.deadline_ns())
        return due_ns if self._probe is None else min(due_ns, self._probe.deadline_ns())

    def is_stirred(self) -> bool:
        """Return whether there is something to send, or something has happened since `note_time` was last called."""
        return bool(self.replica.out) or (self._probe is not None and self._probe.stirred)

    def note_time(self, now_ns: int) -> None:
        """Note when something was last sent or received; the time to wait for what may follow starts there."""
        if self._probe is not None and self._probe.stirred:
            self._probe.note_time(now_ns, self._strangers())

    def tick(self, now_ns: int) -> None:
        """Do what is due at this time."""
        self.replica.tick(now_ns)
        if self.removal.is_due():
            self.pursue_changes()
        for question in self._blasts.tick(now_ns):
            packet = encode_ask_parts(self.cid, self.tag, self.me, question.slicing, question.ranges)
            self.replica.out.append((question.rank, packet))
        if self.recovery is not None:
            for rank in self.recovery.tick(now_ns):
                self.replica.tell(rank, 0, Restarted(self.life, self.life, [], moved(self)))
            if self.recovery.is_stuck(self.replica.graph, now_ns):
                self.replica.ask_everybody()
        self.note_time(now_ns)
        if self._probe is not None:
            self._probe.tick(self.replica, self.is_settled(), self._strangers(), now_ns)

    def is_settled(self) -> bool:
        """Return whether every message of the replica is stable."""
        return self.replica.graph.last == self.replica.graph.stable_to

    def _strangers(self) -> list[int]:
        """Return the participants that have never sent anything, if this one has to make sure that they know of the
        conversation."""
        if 0 not in self.replica.graph.last:
            return []
        ranks = range(len(self.participants))
        if self.me != min([rank for rank in ranks if not self.replica.sender_filter.ignores(rank)]):
            return []
        last = self.replica.graph.last
        return [
            rank
            for rank in ranks
            if not last[rank] and rank != self.me and not self.replica.sender_filter.ignores(rank)
        ]


__all__ = ["EVERYBODY", "ConversationCore", "ReplayError", "conversation_id", "participants_tag"]
