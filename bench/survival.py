"""Whether large groups, and many groups, are formed and survive: 200 processes in one group, 200 groups over 20
processes.

    python -m bench.survival            a table: what happened, how long it took in virtual time, views, packets
    python -m bench.survival --json     the same as one JSON document

On the lab's perfect network. Each step is done when all living processes are in one view of just them and have
delivered the same messages; if that takes more than a minute of virtual time, the run fails.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from random import Random
from typing import Final

from antiphon.kernel.inputs import Leave, Send
from antiphon.kernel.levels import AGREED, CAUSAL
from antiphon.kernel.options import MILLISECOND_NS, Options
from bench.growth import GROUP_MEMBERS, PACKET_BYTES_MAX, PROCESSES, overlapping
from bench.lab import Lab, Tally

LIMIT_NS: Final = 60_000 * MILLISECOND_NS
OPTIONS: Final = Options(packet_bytes_max=PACKET_BYTES_MAX)
G: Final = "g"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that happened, and what it took."""

    scene: str
    what: str
    milliseconds: int
    """Virtual time until all were in one view again, with the same messages."""
    views: int
    """That a group went through, at most."""
    packets: int
    """All packets, each multicast counted once per other member."""


def latest(lab: Lab) -> dict[str, int]:
    """The latest view of each group."""
    result: dict[str, int] = {}
    for views in lab.views:
        for group, view in views.items():
            result[group] = max(result.get(group, 0), view.id)
    return result


class Stage:
    """Groups in a lab, and the steps that were taken so far."""

    def __init__(self, scene: str, lab: Lab) -> None:
        self.scene = scene
        self.lab = lab
        self.steps: list[Step] = []
        self._said = 0

    def take(self, what: str, act: Callable[[], None], done: Callable[[], bool]) -> None:
        lab = self.lab
        lab.tally = Tally()
        before = latest(lab)
        start_ns = lab.now_ns
        act()
        lab.run_until(done, LIMIT_NS)
        views = [id - before.get(group, 0) for group, id in latest(lab).items()]
        step = Step(
            scene=self.scene,
            what=what,
            milliseconds=(lab.now_ns - start_ns) // MILLISECOND_NS,
            views=max(views),
            packets=lab.tally.unicasts.total(),
        )
        self.steps.append(step)
        print(step, file=sys.stderr)

    def say(self, group: str, place: int, level: int = CAUSAL) -> bytes:
        """Send a message that is like no other."""
        self._said += 1
        payload = b"message %d" % self._said
        self.lab.step(place, Send(group=group, payloads=[payload], level=level))
        return payload

    def have_delivered(self, group: str, payloads: list[bytes]) -> bool:
        """Whether all members of the group have delivered these."""
        lab = self.lab
        wanted = {(group, payload) for payload in payloads}
        return all(wanted <= set(lab.delivered[place]) for place in lab.members(group))


# ---- one large group -----------------------------------------------------------------------------------------------


def large_group(members: int, cut_off: int) -> list[Step]:
    """A group that forms by joins, talks, and loses members in every way there is."""
    lab = Lab(members, OPTIONS)
    stage = Stage(f"{members} processes in one group", lab)
    everybody = list(range(members))

    def join_all() -> None:
        lab.found(G, [0])
        for place in everybody[1:]:
            lab.ask_to_join(G, place, [0])

    stage.take("all but one ask to join at once", join_all, lambda: lab.agree(G, members))
    said: list[bytes] = []

    def talk() -> None:
        said.extend(
            stage.say(G, place, level) for place in lab.members(G)[:: members // 5] for level in (CAUSAL, AGREED)
        )

    stage.take("five members send", talk, lambda: stage.have_delivered(G, said))
    stage.take("one leaves", lambda: lab.step(members - 1, Leave(G)), lambda: lab.agree(G, members - 1))

    def crash() -> None:
        said[:] = [stage.say(G, place) for place in (1, 2, 3)]
        lab.crash(0)

    stage.take(
        "the oldest crashes while others send", crash,
        lambda: lab.agree(G, members - 2) and stage.have_delivered(G, said),
    )  # fmt: skip
    minority = everybody[2 : 2 + cut_off]
    majority = members - 2 - len(minority)
    stage.take(
        f"{len(minority)} are cut off", lambda: lab.separated.update(minority),
        lambda: agree_apart(lab, minority, majority),
    )  # fmt: skip
    stage.take("they are back", lab.separated.clear, lambda: come_back(lab, minority, members - 2))
    said.clear()
    stage.take("five members send again", talk, lambda: stage.have_delivered(G, said))
    return stage.steps


def agree_apart(lab: Lab, minority: list[int], majority: int) -> bool:
    """Whether those that are not in the minority are in a view of just them."""
    views = [lab.views[place][G] for place in lab.members(G) if place not in minority]
    return len(views) == majority and all(view.id == views[0].id and len(view.members) == majority for view in views)


def come_back(lab: Lab, minority: list[int], members: int) -> bool:
    """Whoever finds itself excluded begins another life and asks to join; whether all are together again."""
    for place, group, excluded in lab.ended:
        if excluded and place in minority:
            lab.restart(place)
            lab.ask_to_join(group, place, [1])
    lab.ended.clear()
    return lab.agree(G, members)


# ---- many groups ---------------------------------------------------------------------------------------------------


def many_groups(groups: int) -> list[Step]:
    """Groups that overlap at every process: talk in all, a process that crashes and comes back to all of its groups."""
    lab = Lab(PROCESSES, OPTIONS)
    stage = Stage(f"{groups} groups of {GROUP_MEMBERS} over {PROCESSES} processes", lab)
    drawn = overlapping(groups, Random(groups))
    crowd = {name: len(places) for name, places in drawn}
    said: dict[str, bytes] = {}

    def found() -> None:
        for name, places in drawn:
            lab.found(name, places)

    def settled() -> bool:
        return all(lab.agree(name, members) for name, members in crowd.items()) and all(
            stage.have_delivered(name, [payload]) for name, payload in said.items()
        )

    def talk() -> None:
        for name, _ in drawn:
            said[name] = stage.say(name, lab.members(name)[-1])

    lost = 0
    of_lost = [name for name, places in drawn if lost in places]

    def crash() -> None:
        talk()
        lab.crash(lost)
        for name in of_lost:
            crowd[name] -= 1

    def restart() -> None:
        said.clear()
        lab.restart(lost)
        for name, places in drawn:
            if lost in places:
                lab.ask_to_join(name, lost, [place for place in places if place != lost])
                crowd[name] += 1

    def leave() -> None:
        lab.step(lab.members("g0")[0], Leave("g0"))
        crowd["g0"] -= 1

    stage.take("all groups are founded", found, settled)
    stage.take("a message in each group", talk, settled)
    stage.take(f"a process in {len(of_lost)} groups crashes while all send", crash, settled)
    stage.take("it is back, and asks to join them all", restart, settled)
    stage.take("a message in each group again", talk, settled)
    stage.take("one process leaves one group", leave, settled)
    return stage.steps


def main() -> None:
    parser = argparse.ArgumentParser(description="200 processes in one group, and 200 groups over 20 processes.")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--cut-off", type=int, default=50, help="how many of them are cut off for a while")
    parser.add_argument("--groups", type=int, default=200)
    arguments = parser.parse_args()
    steps = [*many_groups(arguments.groups), *large_group(arguments.members, arguments.cut_off)]
    if arguments.json:
        print(json.dumps({"results": [asdict(step) for step in steps]}, indent=1))
        return
    for step in steps:
        print(
            f"{step.scene:44}{step.what:52}{step.milliseconds:>7} ms{step.views:>4} views{step.packets:>10} packets"
        )  # fmt: skip


if __name__ == "__main__":
    main()
