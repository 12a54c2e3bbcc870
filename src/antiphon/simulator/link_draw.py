"""Draws churn whose links fail one by one: in one direction only, not transitively, or again and again.

The churn of the seed is that of churn_draw.py; what happens to the links is drawn by a generator of its own, so that
the seeds of other workloads mean what they did.
"""

from random import Random
from typing import Final

from antiphon.faults import Fault, Flapping, Partition
from antiphon.simulator.churn_draw import draw_churn
from antiphon.simulator.layers import layer_document
from antiphon.simulator.script import Script

DEAF: Final = "deaf"
MUTE: Final = "mute"
ONE_WAY: Final = "one way"
CUT: Final = "cut"
FLAPPING: Final = "flapping"
_KINDS: Final = (DEAF, MUTE, ONE_WAY, ONE_WAY, CUT, CUT, FLAPPING)


def draw_links(seed: int) -> Script:
    """The churn of this seed, with one to four bad links or members besides."""
    script = draw_churn(seed)
    random = Random(f"{seed}/links")
    silence_ns = script.options.silence_ns_min
    for _ in range(random.randint(1, 4)):
        from_ns = int(random.random() * script.heal_ns)
        until_ns = from_ns + int((1 + 7 * random.random()) * silence_ns)
        script.layers.append(layer_document(_bad_link(script.processes, from_ns, until_ns, silence_ns, random)))
        script.heal_ns = max(script.heal_ns, until_ns)
    return script


def _bad_link(names: list[str], from_ns: int, until_ns: int, silence_ns: int, random: Random) -> Fault:
    one, other = random.sample(names, 2)
    kind = random.choice(_KINDS)
    everybody = frozenset(names)
    if kind == DEAF:
        return Partition(everybody, frozenset((one,)), from_ns, until_ns)
    if kind == MUTE:
        return Partition(frozenset((one,)), everybody, from_ns, until_ns)
    if kind == ONE_WAY:
        return Partition(frozenset((one,)), frozenset((other,)), from_ns, until_ns)
    pair = frozenset((one, other))
    if kind == CUT:
        return Partition(pair, pair, from_ns, until_ns)
    up_ns = int(silence_ns * random.choice((0.2, 1, 3)))
    down_ns = int(silence_ns * random.choice((0.5, 1.5, 3)))
    return Flapping(frozenset((one,)), frozenset((other,)), from_ns, until_ns, up_ns, down_ns)
