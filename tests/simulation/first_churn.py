"""How churn were first drawn: one group, long runs. Kept for the seeds that found something."""

from random import Random

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import PRIMARY
from antiphon.simulator.fault_schedule import network_layers
from antiphon.simulator.script import CRASH, LEAVE, SAY, SLEEP, START, Deed, Gathering, Script


def draw_first_crowd(seed: int) -> Script:
    """The churn of this seed."""
    random = Random(f"{seed}/crowd")
    founders = random.randint(3, 7)
    names = [f"p{number}" for number in range(1, founders + random.randint(0, 5) + 1)]
    duration_ns = random.randint(2_000, 12_000) * MILLISECOND_NS
    layers = network_layers(random.choice(("none", "loss", "all", "all")), names, duration_ns, random)
    options = Options(window_packets=random.choice((4, 64, 1024)), packet_bytes_max=random.choice((600, 1400)))
    script = Script(
        run=f"seed-{seed}",
        seed=seed,
        policy=PRIMARY,
        names=names,
        groups=[Gathering("g", names, names[:founders])],
        layers=layers,
        options=options,
        domain=CausalityDomain(),
        calm_ns=duration_ns + 4_000 * MILLISECOND_NS,
    )
    levels = random.choice((("causal",), ("causal", "fifo"), ("causal", "fifo", "reliable")))
    for _ in range(random.randint(20, 300)):
        size = int(2_000 * random.random() ** 4)
        at_ns = int(random.random() * duration_ns)
        script.add(Deed(SAY, at_ns, names[random.randrange(len(names))], "g", random.choice(levels), (size,)))
    for _ in range(random.randint(0, 4)):
        who = names[random.randrange(len(names))]
        at_ns = int(random.random() * duration_ns)
        script.add(Deed(CRASH, at_ns, who))
        script.add(Deed(START, at_ns + random.randint(50, 3_000) * MILLISECOND_NS, who))
    storm_ns = int(random.random() * duration_ns)
    for late in names[founders:]:
        script.add(Deed(START, storm_ns + random.randint(0, 200) * MILLISECOND_NS, late))
    for place in random.sample(range(len(names)), random.randint(0, 2)):
        script.add(Deed(LEAVE, int(random.random() * duration_ns), names[place], "g"))
    for _ in range(random.randint(0, 2)):
        from_ns = int(random.random() * duration_ns)
        who = names[random.randrange(len(names))]
        script.add(Deed(SLEEP, from_ns, who, until_ns=from_ns + random.randint(100, 4_000) * MILLISECOND_NS))
    return script
