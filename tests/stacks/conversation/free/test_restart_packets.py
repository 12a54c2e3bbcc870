"""Announcements of restarts on the wire: what comes out is what went in, and nothing else is taken for one."""

import pytest

from antiphon.kernel.errors import MalformedError
from antiphon.stacks.conversation.free.wire import Restarted, decode_restart, encode_restart

SAID = Restarted(7, 8, [(0, 3), (2, 9)], [(1, 5, "10.0.0.2:7400"), (2, 6, "[::1]:7400")])


def test_an_announcement_comes_as_it_was_sent() -> None:
    came = decode_restart(encode_restart(1, 2, 0, 0, SAID), 3)
    assert (came.life, came.own_life, came.leaves, came.moved) == (7, 8, SAID.leaves, SAID.moved)


def test_what_is_cut_short_or_too_long_is_refused() -> None:
    packet = encode_restart(1, 2, 0, 0, SAID)
    for size in range(len(packet)):
        with pytest.raises(MalformedError):
            decode_restart(packet[:size], 3)
    with pytest.raises(MalformedError):
        decode_restart(packet + b"x", 3)
    with pytest.raises(MalformedError):
        decode_restart(packet, 2)
