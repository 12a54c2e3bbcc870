"""The picture of one idle message: what is drawn follows from the traces."""

from xml.etree import ElementTree

from antiphon import Message, Node
from antiphon.runtime.workers import Object
from bench.trace import Trace
from bench.waterfall import chosen, draw, span, story
from tests.runtime.cluster import run


def step(what: str, at_us: int, came: list[int], left: list[int], delivered: list[str], kind: str = "data") -> Object:
    return {
        "what": what,
        "begin_ns": at_us * 1000,
        "end_ns": at_us * 1000 + 10_000,
        "in": [(mark, kind) for mark in came],
        "out": [(mark, kind) for mark in left],
        "delivered": delivered,
        "due_ns": None,
    }


LANES: list[Object] = [
    {
        "rows": [
            step("send", 5, [], [9], ["p1#1"]),
            step("send", 100, [], [1], []),
            step("receive", 400, [2], [], ["p1#2"]),
        ]
    },
    {
        "rows": [
            step("receive", 20, [9], [], ["p1#1"]),
            step("receive", 200, [1], [], []),
            {"what": "wake", "begin_ns": 300_000, "why": "timer"},
            step("timer", 310, [], [2], ["p1#2"], "ack"),
        ]
    },
]


def test_a_message_is_drawn_from_its_call_to_its_last_delivery() -> None:
    assert chosen(LANES, 0) == "p1#2"
    assert span(LANES, 0, "p1#2") == (100_000, 410_000)
    told = story(LANES[1], 1, "p1#2", 100_000, 410_000)
    assert told == "p2: 100 µs data; 200 µs woken by a timer; 210 µs timer → ack ● delivered"
    picture = ElementTree.fromstring(draw(LANES, 0, "vector, safe, idle"))
    shapes = [element.tag.rpartition("}")[2] for element in picture.iter()]
    assert shapes.count("circle") == 2  # deliveries
    assert shapes.count("rect") == 1 + 4  # the ground, and the steps since the call
    lines = [element for element in picture.iter() if element.tag.endswith("line")]
    assert sum(line.get("stroke") == "#c0392b" for line in lines) == 1  # the timer
    assert sum(line.get("stroke-width") == "1.3" for line in lines) == 2  # packets


def test_a_node_is_traced_and_is_as_it_was_afterwards() -> None:
    async def test() -> None:
        async with Node("a", address="127.0.0.1:0", incarnation=1, linger_s=0.1) as node:
            group = await node.join("g", members={"a": node.address}, policy="static")
            assert node._driver is not None
            engine = node._driver.engine
            trace = Trace(node)
            await group.send(b"x", order="safe")
            async for event in group:
                if isinstance(event, Message):
                    break
            traced = trace.end()
            assert node._driver.engine is engine
            assert traced["counts"]["steps: send"] == 1
            assert traced["counts"]["deliveries"] == 1
            assert [row["delivered"] for row in traced["rows"] if row["what"] == "send"] == [["a#1"]]

    run(test)
