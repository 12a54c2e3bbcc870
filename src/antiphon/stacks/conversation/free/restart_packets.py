"""What a participant does about announcements of restarts and notices of the same form, and why it may not send.

Whoever comes back tells all others in which life, and where it is now, if that is another place than before. They send
what they have to say to that place from then on, and pass it on to others that come back (psync-1989, 5.1).
"""

from typing import TYPE_CHECKING

from antiphon.stacks.conversation.free.wire import ANSWER, FORGOTTEN, FORKED, GONE, HEARD, Restarted

if TYPE_CHECKING:
    from antiphon.stacks.conversation.free.conversation import ConversationCore


def take_restart(core: "ConversationCore", via: int, flags: int, said: Restarted, now_ns: int) -> None:
    """Process an announcement, an answer to one, or a notice."""
    replica, recovery = core.replica, core.recovery
    if flags & GONE:
        core.removal.notice(via, said.life)
    elif flags & FORKED:
        if replica.sender_filter.trusts(via, said.own_life):
            replica.receive_fork(via, said, bool(flags & ANSWER))
    elif flags & FORGOTTEN:
        if sorted(said.leaves) == sorted(leaf.mid() for leaf in replica.graph.leaves()):
            replica.fork.forgotten.add(via)
    elif not flags & (ANSWER | HEARD):
        is_whole = recovery is None or recovery.done or recovery.has_told_all_but(via)
        _learn_moved(core, said)
        if replica.receive_restart(via, said.life, is_whole, moved(core)) and via not in core.restarted:
            core.restarted.append(via)
    elif recovery is not None and said.life == core.life:
        _learn_moved(core, said)
        replica.learn_life(via, said.own_life)
        replica.sender_filter.strangers &= ~(1 << via)
        recovery.unheard.discard(via)
        if flags & ANSWER:
            recovery.answer(via, said.leaves)
            replica.learn_leaves(via, said.leaves, now_ns)
            core.recover()


def _learn_moved(core: "ConversationCore", said: Restarted) -> None:
    """Note at which address others are now."""
    for rank, life, address in said.moved:
        if rank != core.me and life > core.moved.get(rank, 0):
            core.moved[rank] = life
            core.addresses[rank] = address
            core.readdressed = True


def moved(core: "ConversationCore") -> list[tuple[int, int, str]]:
    """Return who came back at another address, in which life, and where."""
    return [(rank, life, core.addresses[rank]) for rank, life in core.moved.items()]


def is_left_behind(core: "ConversationCore") -> bool:
    """Return whether others have told this participant that they went on without it (fork.py)."""
    fork, removal = core.replica.fork, core.removal
    if fork.left_behind or not (fork.contradicting or fork.forgotten):
        return fork.left_behind
    fork.left_behind = removal.outnumbers(fork.contradicting)
    if core.recovery is None or core.recovery.complete:
        ignores = core.replica.sender_filter.ignores
        heard = {rank for rank in range(len(core.participants)) if rank != core.me and not ignores(rank)}
        all_forgot = bool(heard) and heard <= fork.forgotten
        fork.left_behind = fork.left_behind or all_forgot or removal.outnumbers(fork.forgotten)
    return fork.left_behind


def is_truncated(core: "ConversationCore") -> bool:
    """Return whether all that have answered a restarted participant, a majority with it, have forgotten the beginning
    of the history: then it can come back at the base of a checkpoint only (view_base.py)."""
    recovery = core.recovery
    if recovery is None or recovery.done or recovery.loading or core.view.count:
        return False
    answered = recovery.answered - {core.me}
    return 2 * len(recovery.answered) > len(core.participants) and answered <= core.replica.fork.forgotten


def why_not(core: "ConversationCore") -> str:
    """Return why this participant cannot send now."""
    if core.is_recovering():
        return "this participant is back, but does not have the graph yet; wait until its recovery is done"
    if core.removal.is_out:
        return "the others have removed this participant from the conversation; come back in a new life"
    if core.removal.outside:
        return "this participant was removed in a former life; receive until the others have let it in again"
    if core.replica.fork.reused:
        return "another process is, or was, in this conversation under the same name and incarnation; use a new one"
    if core.is_mute():
        return (
            "this participant came back without answers from a majority, or knows of own messages that it lacks; "
            "it can receive, and send when those have come"
        )
    if core.is_replaying():
        return "this participant has said more in its former life than it has received again; receive first"
    return (
        f"{core.limits.unstable_max} messages of this participant, or its share of "
        f"{core.limits.buffer_bytes_max} bytes, are not stable; receive before sending"
    )
