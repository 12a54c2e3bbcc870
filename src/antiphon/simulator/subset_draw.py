"""What a run draws for a stack that delivers to chosen members: to whom each message goes."""

from random import Random

from antiphon.simulator.actions import SEND
from antiphon.simulator.script import Script


def draw_subsets(script: Script) -> None:
    """Some messages go to fewer members than the view, at whatever level."""
    random = Random(f"{script.seed}/subsets")
    members = script.groups[0].members
    for action in script.actions:
        if action.kind == SEND and len(members) > 1 and random.random() < 0.3:
            action.destinations = tuple(random.sample(members, random.randint(1, len(members) - 1)))
