"""What an image does about the votes on who takes part (removal.py): whom it listens to, and up to which message."""

from antiphon.stacks.conversation.free.graph_replica import GraphReplica
from antiphon.stacks.conversation.free.removal import Removal


def heed_votes(image: GraphReplica, removal: Removal, me: int) -> None:
    """Ignore those whose removal is wanted, but for the messages of theirs that somebody has by that one's word."""
    ears = image.ears
    for (rank, life), number in removal.counted.items():
        if life >= removal.added[rank] and rank != me:
            ears.wanted[rank] = max(ears.wanted[rank], number)
    for rank, entries in enumerate(ears.entries):
        if entries:
            ears.entries[rank] = removal.entries(rank)
    for rank in removal.suspects:
        if not ears.ignores(rank):
            image.ignore(rank)


def carry_out_removal(image: GraphReplica, removal: Removal, rank: int) -> None:
    """A participant was removed, by agreement: neither wait for it nor listen to it."""
    image.conflict = image.conflict or removal.has_diverged(rank, image.lives_of(rank))
    image.mask_out(rank)
    image.ears.close(rank)


def carry_out_entry(image: GraphReplica, removal: Removal, rank: int) -> None:
    """A participant was let in again, by agreement."""
    image.mask_in(rank)
    image.ears.entries[rank] = removal.entries(rank)
