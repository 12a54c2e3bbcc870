"""Past and future as the page's script finds them, against a twin that walks every step; both axes on the way."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from antiphon.report.contents import contents_of
from antiphon.report.html import report
from tests.report.browser import CHROMIUM, Browser
from tests.report.sample import Sample, kept

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine (Debian: apt-get install chromium)"),
]


def random_sample(random: Random) -> Sample:
    """Runs of messages that are sent, and delivered in pieces that are cut elsewhere; late, in any order, or never."""
    names = [f"p{number}" for number in range(1, random.randint(2, 6) + 1)]
    sample = Sample(*names)
    waiting: list[tuple[str, str, int, int]] = []
    for _ in range(random.randint(10, 80)):
        if random.random() < 0.4 or not waiting:
            name = random.choice(names)
            number, count = sample.send(name, random.randint(1, 5)), sample.sent[name]
            for other in names:
                if random.random() < 0.9:
                    waiting.append((other, name, max(1, number - random.randint(0, 3)), count))
        else:
            name, sender, first, last = waiting.pop(random.randrange(len(waiting)))
            sample.deliver(name, sender, first, last - first + 1)
    return sample


def reachable(events: dict[str, list[Any]]) -> list[set[int]]:
    """For each row, all rows that a walk back along logs and messages comes to."""
    size = len(events["lane"])
    before: list[list[int]] = []
    for row in range(size):
        steps = [row - 1] if row and events["lane"][row - 1] == events["lane"][row] else []
        if events["kind"][row] == "deliver":
            wanted = range(events["number"][row], events["number"][row] + events["count"][row])
            for send in range(size):
                alike = all(events[name][send] == events[name][row] for name in ("group", "sender"))
                sent = range(events["number"][send], events["number"][send] + events["count"][send])
                if events["kind"][send] == "send" and alike and set(sent) & set(wanted):
                    steps.append(send)
        before.append(steps)
    return [_walked(before, row) for row in range(size)]


def _walked(before: list[list[int]], row: int) -> set[int]:
    found: set[int] = set()
    ahead = list(before[row])
    while ahead:
        step = ahead.pop()
        if step not in found:
            found.add(step)
            ahead += before[step]
    return found


def show(chromium: Browser, sample: Sample, directory: Path) -> dict[str, Any]:
    history = directory / "history"
    history.mkdir()
    audit = sample.audit(kept("causal"))
    contents = contents_of(audit, sample.write(history))
    (directory / "page.html").write_text(report(audit, contents, "title"))
    chromium.open(directory / "page.html")
    return dict(contents.data["explorer"])


@pytest.mark.parametrize("seed", range(8))
def test_past_and_future_are_those_of_the_twin(chromium: Browser, seed: int, tmp_path: Path) -> None:
    data = show(chromium, random_sample(Random(seed)), tmp_path)
    past = reachable(data["events"])
    rows = range(len(past))
    found = chromium.evaluate("explorer.events.lane.map((_, row) => explorer.causality.past(row))")
    assert [set(one) for one in found] == past
    future = [{other for other in rows if row in past[other]} for row in rows]
    found = chromium.evaluate("explorer.events.lane.map((_, row) => explorer.causality.future(row))")
    assert [set(one) for one in found] == future
    places = chromium.evaluate("[...explorer.causality.orderPlace]")
    assert all(places[before] <= places[row] for row in rows for before in past[row]), "causes stand left of effects"
    taken = [(lane, place) for lane, place in zip(data["events"]["lane"], places, strict=True)]
    assert len(set(taken)) == len(taken), "no two rows stand at the same place"


def test_a_record_that_contradicts_itself_is_still_drawn(chromium: Browser, tmp_path: Path) -> None:
    """a delivers b#1 before it sends a#1, and b delivers a#1 before it sends b#1: each comes before itself."""
    sample = Sample("a", "b")
    sample.deliver("a", "b", 1)
    sample.deliver("b", "a", 1)
    sample.send("a")
    sample.send("b")
    data = show(chromium, sample, tmp_path)
    assert chromium.complaints == []
    size = len(data["events"]["lane"])
    found = chromium.evaluate("explorer.events.lane.map((_, row) => explorer.causality.past(row))")
    assert len(found) == size
    assert all(row not in past for row, past in enumerate(found)), "nothing is shown before itself"
