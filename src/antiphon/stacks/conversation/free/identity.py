"""Names of conversations, and of who takes part in them, as numbers."""

from hashlib import blake2b

from antiphon.kernel.identity import ProcessId


def conversation_id(opener: ProcessId, number: int) -> int:
    """A 64-bit number for the conversation that a process opens as its so-many-th: no other has it."""
    name = f"{opener.name}/{opener.incarnation}#{number}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def participants_tag(participants: list[ProcessId]) -> int:
    """A 64-bit digest of who takes part."""
    return int.from_bytes(blake2b(repr(participants).encode(), digest_size=8).digest(), "little")
