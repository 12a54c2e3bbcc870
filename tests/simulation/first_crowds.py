"""How crowds were first drawn: one group, long runs. Kept for the seeds that found something."""

from random import Random

from antiphon.history.log import MemoryLog
from antiphon.kernel.levels import LEVELS
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.simulator.crowd import Charter, Crowd
from antiphon.simulator.weather import network_layers
from tests.simulation.crowd_draw import Drawing


def draw_first_crowd(seed: int) -> Drawing:
    """The crowd of this seed."""
    random = Random(f"{seed}/crowd")
    founders = random.randint(3, 7)
    names = [f"p{number}" for number in range(1, founders + random.randint(0, 5) + 1)]
    duration_ns = random.randint(2_000, 12_000) * MILLISECOND_NS
    layers = network_layers(random.choice(("none", "loss", "all", "all")), names, duration_ns, random)
    options = Options(window_packets=random.choice((4, 64, 1024)), packet_bytes_max=random.choice((600, 1400)))

    def make_log(process: str, incarnation: int) -> MemoryLog:
        return MemoryLog(run=f"seed-{seed}", process=process, incarnation=incarnation)

    charter = Charter("g", list(range(len(names))), list(range(founders)))
    crowd = Crowd(names, [charter], seed, layers, options, make_log)
    levels = random.choice((("causal",), ("causal", "fifo"), ("causal", "fifo", "reliable")))
    for _ in range(random.randint(20, 300)):
        size = int(2_000 * random.random() ** 4)
        at_ns = int(random.random() * duration_ns)
        crowd.plan_say(at_ns, random.randrange(len(names)), LEVELS[random.choice(levels)], bytes(size))
    for _ in range(random.randint(0, 4)):
        place = random.randrange(len(names))
        at_ns = int(random.random() * duration_ns)
        crowd.plan_crash(at_ns, place)
        crowd.plan_start(at_ns + random.randint(50, 3_000) * MILLISECOND_NS, place)
    storm_ns = int(random.random() * duration_ns)
    for place in range(founders, len(names)):
        crowd.plan_start(storm_ns + random.randint(0, 200) * MILLISECOND_NS, place)
    for place in random.sample(range(len(names)), random.randint(0, 2)):
        crowd.plan_leave(int(random.random() * duration_ns), place)
    for _ in range(random.randint(0, 2)):
        from_ns = int(random.random() * duration_ns)
        crowd.pause(random.randrange(len(names)), from_ns, from_ns + random.randint(100, 4_000) * MILLISECOND_NS)
    return Drawing(crowd, duration_ns + 4_000 * MILLISECOND_NS)
