"""The outer layer lets nothing through that was not sealed like this."""

import pytest

from antiphon.kernel.codec import HEADER_SIZE, STACK_AT, seal, unseal, view_tag
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import DATA
from antiphon.kernel.wire_versions import VERSION


def sealed() -> bytes:
    return seal(1, DATA, 2**64 - 1, 77, 513, 5, 2, [b"body", b" and more"])


def test_what_is_sealed_is_unsealed() -> None:
    data = sealed()
    assert unseal(data) == (DATA, 2**64 - 1, 77, 513, 5, 2)
    assert data[STACK_AT] == 1
    assert data[HEADER_SIZE:] == b"body and more"


def test_every_single_flipped_bit_is_noticed() -> None:
    data = sealed()
    for bit in range(8 * len(data)):
        spoiled = bytearray(data)
        spoiled[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(MalformedError):
            unseal(bytes(spoiled))


@pytest.mark.parametrize("length", range(len(sealed())))
def test_every_truncation_is_noticed(length: int) -> None:
    with pytest.raises(MalformedError):
        unseal(sealed()[:length])


def test_reasons_tell_strangers_from_other_versions() -> None:
    data = bytearray(sealed())
    data[4] ^= 0xFF
    with pytest.raises(MalformedError, match="magic"):
        unseal(bytes(data))
    data = bytearray(sealed())
    data[5] = VERSION + 1
    with pytest.raises(MalformedError, match="version"):
        unseal(bytes(data))


def test_the_view_tag_tells_views_members_and_limits_apart() -> None:
    members = (ProcessId("a"), ProcessId("b"))
    tags = {
        view_tag(View(1, members), Options()),
        view_tag(View(2, members), Options()),
        view_tag(View(1, members[::-1]), Options()),
        view_tag(View(1, (ProcessId("a", 2), ProcessId("b"))), Options()),
        view_tag(View(1, members), Options(window_packets=5)),
        view_tag(View(1, members), Options(), 7),
    }
    assert len(tags) == 6
    assert view_tag(View(1, members), Options()) == view_tag(View(1, tuple(members)), Options(ack_delay_ns=1))
