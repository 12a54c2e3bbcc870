"""The stack `label` through the public interface, over real sockets."""

import pytest

import antiphon
from antiphon.kernel.errors import UsageError
from tests.runtime.cluster import run
from tests.runtime.places import HASTY, LOOPBACK, founded


def by_length(first: bytes, second: bytes) -> int:
    return len(first) - len(second)


def test_messages_go_to_any_set_of_members_at_every_level() -> None:
    async def test() -> None:
        async with founded(stack="label") as places:
            first, second, third = places
            for order in ("reliable", "fifo", "causal", "agreed", "safe"):
                await first.group.send(order.encode(), order=order, to=[second.process, third.process])
            await first.group.send(b"to all", order="agreed")
            for place in (second, third):
                heard = [await place.message() for _ in range(6)]
                assert heard == [b"reliable", b"fifo", b"causal", b"agreed", b"safe", b"to all"]
            assert await first.message() == b"to all"

    run(test)


def test_abcasts_of_a_label_come_in_one_order_at_all_members() -> None:
    async def test() -> None:
        async with founded(stack="label") as places:
            for count in range(10):
                for place in places:
                    payload = f"{place.process.name} {count}".encode()
                    await place.group.send(payload, order="abcast", label=("red", "blue")[count % 2])
            heard = [[await place.message() for _ in range(30)] for place in places]
            for parity in (0, 1):
                orders = [[each for each in own if int(each.split()[1]) % 2 == parity] for own in heard]
                assert len(orders[0]) == 15
                assert orders[0] == orders[1] == orders[2]

    run(test)


def test_labels_order_reliable_messages_by_a_comparison_of_the_program() -> None:
    async def test() -> None:
        antiphon.register_comparison("by length", by_length)
        async with founded(stack="label") as places:
            for count in range(1, 20):
                await places[0].group.send(b"%d" % count, order="reliable", label="by length=" + count * "x")
            for place in places:
                assert [await place.message() for _ in range(19)] == [b"%d" % count for count in range(1, 20)]

    run(test)


def test_what_makes_no_sense_is_refused_in_words() -> None:
    async def test() -> None:
        async with founded(stack="label") as places:
            group = places[0].group
            with pytest.raises(UsageError, match="`to` is a process"):
                await group.send(b"", to=[])
            with pytest.raises(UsageError, match="not a member of group"):
                await group.send(b"", to=[antiphon.ProcessId("stranger")])

    run(test)


def test_a_process_outside_sends_to_the_group_though_its_door_is_killed() -> None:
    async def test() -> None:
        async with founded(stack="label") as places, antiphon.Node("x", address=LOOPBACK, options=HASTY) as outside:
            first, *others = places
            group = await outside.reach("g", contacts=[first.node.address], stack="label")
            assert len(group.view.members) == 3
            for count in range(100):
                await outside.send(b"%d" % count, to="g", order=("causal", "agreed")[count % 2])
            await group.flush()
            first.kill()
            for count in range(100, 200):
                await group.send(b"%d" % count, order=("causal", "safe")[count % 2])
            await group.flush()
            for place in others:
                assert [await place.message() for _ in range(200)] == [b"%d" % count for count in range(200)]
            assert len(group.view.members) == 2

    run(test)
