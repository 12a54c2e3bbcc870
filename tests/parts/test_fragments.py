"""Assembly: fragments in order make a message, anything else is given up."""

from antiphon.parts.fragments import Assembly


def test_fragments_in_order_make_the_message() -> None:
    assembly = Assembly(100)
    assert assembly.add(7, 0, 3, b"a")
    assert assembly.add(7, 1, 3, b"b")
    assert not assembly.complete()
    assert assembly.add(7, 2, 3, b"c")
    assert assembly.complete()
    assert assembly.take() == b"abc"
    assert not assembly.is_open()


def test_what_does_not_follow_is_given_up() -> None:
    for message, index, total in ((7, 2, 3), (7, 0, 3), (8, 1, 3), (7, 1, 4)):
        assembly = Assembly(100)
        assembly.add(7, 0, 3, b"a")
        assert not assembly.add(message, index, total, b"b")
        assert not assembly.is_open()


def test_a_message_beyond_the_limit_is_given_up() -> None:
    assembly = Assembly(5)
    assert assembly.add(1, 0, 3, b"abc")
    assert not assembly.add(1, 1, 3, b"def")
    assert not assembly.is_open()
