"""The outgoing stream keeps its packets until everybody has them."""

from antiphon.parts.outgoing import OutgoingStream


def test_copies_are_kept_until_stable() -> None:
    stream = OutgoingStream()
    for packet in (b"1", b"2", b"3"):
        stream.keep(packet)
    assert stream.note_stable(2)
    assert not stream.note_stable(1)
    assert stream.copies == {3: b"3"}
