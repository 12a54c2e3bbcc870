"""Names of conversations, and of who takes part in them, as numbers."""

from hashlib import blake2b

from antiphon.kernel.identity import ProcessId


def conversation_id(opener: ProcessId, number: int, chance: int = 0) -> int:
    """Return a 64-bit id, unique to the n-th conversation that a process opens. `chance`: a random number, so that a
    process that is started anew, in the same incarnation perhaps, does not name a conversation of before."""
    name = f"{opener.name}/{opener.incarnation}#{number}/{chance:016x}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def participants_tag(participants: list[ProcessId]) -> int:
    """Return a 64-bit digest of the participants."""
    return int.from_bytes(blake2b(repr(participants).encode(), digest_size=8).digest(), "little")
