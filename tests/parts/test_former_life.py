"""What makes a process believe that it was in its view before."""

from antiphon.parts.former_life import FormerLife

PATIENCE_NS = 1000


def told(packets: int, at_ns: int = 0) -> FormerLife:
    """Of three members, the one with rank 1 contradicts; asked once."""
    former = FormerLife(3, PATIENCE_NS)
    for _ in range(packets):
        former.contradicts(1)
    assert not former.is_certain(at_ns)
    return former


def test_one_member_that_contradicts_for_long_enough_is_believed() -> None:
    former = told(3)
    assert not former.is_certain(PATIENCE_NS - 1)
    assert former.is_certain(PATIENCE_NS)


def test_few_packets_are_not_enough() -> None:
    former = told(2)
    assert not former.is_certain(10 * PATIENCE_NS)
    former.contradicts(1)
    assert former.is_certain(10 * PATIENCE_NS)


def test_a_status_of_the_same_member_that_fits_ends_it() -> None:
    former = told(100)
    former.fits(1)
    assert not former.is_certain(PATIENCE_NS)
    for _ in range(3):
        former.contradicts(1)
    assert not former.is_certain(2 * PATIENCE_NS), "time counts from here on"
    assert former.is_certain(3 * PATIENCE_NS)


def test_what_others_say_does_not_end_it() -> None:
    former = told(3)
    former.fits(0)
    former.fits(2)
    assert former.is_certain(PATIENCE_NS)


def test_members_are_not_added_up() -> None:
    former = FormerLife(3, PATIENCE_NS)
    for rank in (0, 1, 2, 0, 1, 2):
        former.contradicts(rank)
    assert not former.is_certain(0)
    assert not former.is_certain(PATIENCE_NS)
