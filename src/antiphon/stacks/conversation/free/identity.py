"""Names of conversations, and of who takes part in them, as numbers."""

from hashlib import blake2b

from antiphon.kernel.identity import ProcessId


def conversation_id(opener: ProcessId, number: int) -> int:
    """Return a 64-bit id, unique to the n-th conversation that a process opens."""
    name = f"{opener.name}/{opener.incarnation}#{number}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def participants_tag(participants: list[ProcessId]) -> int:
    """Return a 64-bit digest of the participants."""
    return int.from_bytes(blake2b(repr(participants).encode(), digest_size=8).digest(), "little")
