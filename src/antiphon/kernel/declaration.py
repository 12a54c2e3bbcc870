"""What all members of a group have to declare alike: stack, policy, causality domain, and limits of packets.

A declaration is a text that is the same exactly where the declarations are. Its 64-bit id stands in the tag of every
packet about membership, and goes into the tag of every view: so processes that have declared a group differently take
no packet of each other for one of the group, and no order between groups rests on a declaration that others do not
share. So that they do not merely stay silent, whoever gets such a packet answers with its own declaration
(parts/membership/group.py).
"""

from hashlib import blake2b
from typing import Final, final

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options

_SHOWN_MAX: Final = 1500
"""Characters of a declaration that others are shown."""


def declare(stack: str, policy: str, domain: CausalityDomain, options: Options) -> str:
    """The declaration of a group, for people and for comparison."""
    parts = [
        f"stack {stack}",
        f"policy {policy}",
        f"causality domain {domain.name!r}",
        f"rule {domain.rule}",
        f"resilience {domain.resilience}",
    ]
    if domain.groups:
        parts.append(f"groups {', '.join(sorted(domain.groups))}")
    if domain.overlaps:
        pairs = sorted({(min(one, other), max(one, other)) for one, other in domain.overlaps})
        parts.append(f"overlaps {', '.join([f'{one} and {other}' for one, other in pairs])}")
    if domain.excluded:
        parts.append(f"excluded {', '.join(sorted(domain.excluded))}")
    parts.append(f"packets of {options.packet_bytes_max} bytes")
    parts.append(f"windows of {options.window_packets} packets")
    parts.append(f"messages of {options.message_bytes_max} bytes")
    return "; ".join(parts)


@final
class Declaration:
    """How this process has declared a group."""

    __slots__ = ("id", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.id = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")

    def shown(self) -> bytes:
        """The text for others, cut where it is very long: what is compared is the id."""
        text = self.text if len(self.text) <= _SHOWN_MAX else self.text[:_SHOWN_MAX] + "…"
        return text.encode()


def read_shown(encoded: bytes) -> str:
    """The text that somebody else has shown. Raises MalformedError."""
    try:
        text = encoded.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("membership") from error
    if len(text) > _SHOWN_MAX + 1 or not text.isprintable():
        raise MalformedError("membership")
    return text
