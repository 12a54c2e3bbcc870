"""Members of the stack `label` for the tests of isis-1987: what each has delivered, and what it keeps."""

from antiphon.kernel.codec import HEADER_SIZE, unseal
from antiphon.kernel.packet_kinds import DATA
from antiphon.stacks.label.item import LINK_SIZE, Item, decode_frames
from tests.stacks.label.scene import LabelTable


def members(count: int, policy: str = "static", lazy_us: int = 0) -> LabelTable:
    return LabelTable(count, policy=policy, lazy_us=lazy_us)


def items_on(table: LabelTable, source: int, destination: int) -> list[Item]:
    """The broadcasts in the transfer packets that lie on a link."""
    found: list[Item] = []
    for packet in table.links.get((source, destination), []):
        kind, _, _, _, flags, _ = unseal(packet)
        if kind == DATA and not flags:
            frames = decode_frames(packet, HEADER_SIZE + LINK_SIZE, len(table.engines))
            found += [frame.item for frame in frames if frame.item is not None]
    return found


def names_on(table: LabelTable, source: int, destination: int) -> list[str]:
    """The same, as `sender.number`."""
    return [f"p{item.sender + 1}.{item.number}" for item in items_on(table, source, destination)]


def calm(table: LabelTable, milliseconds: int = 60) -> None:
    """Everything arrives, and what that causes too."""
    for _ in range(milliseconds):
        table.pass_all()
        table.wait(1_000_000)
