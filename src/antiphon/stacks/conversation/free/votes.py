"""What an image does about the votes on who takes part (removal.py): whom it listens to, and up to which message."""

from antiphon.stacks.conversation.free.graph_replica import GraphReplica
from antiphon.stacks.conversation.free.removal import Removal


def heed_votes(replica: GraphReplica, removal: Removal, me: int) -> None:
    """Ignore participants whose removal is wanted, except for their messages that some voter says to have."""
    sender_filter = replica.sender_filter
    for (rank, life), number in removal.counted.items():
        if life >= removal.added[rank] and rank != me:
            sender_filter.wanted[rank] = max(sender_filter.wanted[rank], number)
    for rank, entries in enumerate(sender_filter.entries):
        if entries:
            sender_filter.entries[rank] = removal.entries(rank)
    for rank in removal.suspects:
        if not sender_filter.ignores(rank):
            replica.ignore(rank)


def carry_out_removal(replica: GraphReplica, removal: Removal, rank: int) -> None:
    """Stop waiting for a participant that was removed by agreement, and ignore its messages."""
    if removal.has_diverged(rank, replica.lives_of(rank)):
        replica.fork.left_behind = True
    replica.mask_out(rank)
    replica.sender_filter.close(rank)


def carry_out_entry(replica: GraphReplica, removal: Removal, rank: int) -> None:
    """Wait again for a participant that was admitted again by agreement, and take its messages."""
    replica.mask_in(rank)
    replica.sender_filter.entries[rank] = removal.entries(rank)
