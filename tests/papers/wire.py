"""What data packets say about order, read off the wire."""

from antiphon.kernel.codec import unseal
from antiphon.kernel.identity import wire_id
from antiphon.parts.packet import decode_data
from antiphon.stacks.vector.timestamp import OrderSection


def section_of(packet: bytes, members: int) -> OrderSection | None:
    """The order section of a packet, or None if it carries none."""
    _, _, _, sender, flags, level = unseal(packet)
    order = decode_data(packet, sender, flags, level).order
    return OrderSection(order, members) if order else None


def stamp_of(packet: bytes, members: int) -> list[tuple[int, int]] | None:
    """The timestamp entries that a packet carries, or None if it carries no order section at all."""
    section = section_of(packet, members)
    return None if section is None else section.vector


def places_in(packet: bytes, members: int) -> list[tuple[int, int, int]]:
    """The runs of packets (rank, first, count) that a packet puts in order."""
    section = section_of(packet, members)
    return [] if section is None or section.token is None else section.token.runs


def holder_in(packet: bytes, members: int) -> int | None:
    """To whom a packet passes the token, or None if it says nothing about it."""
    section = section_of(packet, members)
    return None if section is None or section.token is None else section.token.next_holder


def times_in(packet: bytes, members: int, groups: list[str]) -> dict[str, list[tuple[int, int]]]:
    """The times of other groups that a packet carries, by the names of these groups; views alone do not count."""
    section = section_of(packet, members)
    names = {wire_id(group): group for group in groups}
    return {} if section is None else {names[time.group]: time.entries for time in section.foreign if time.entries}
