"""How churn was first drawn: one group, long runs. Kept for the seeds that found something."""

from random import Random

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import PRIMARY
from antiphon.simulator.actions import CRASH, LEAVE, PAUSE, SEND, START, Action
from antiphon.simulator.fault_schedule import network_layers
from antiphon.simulator.script import Script, ScriptedGroup


def draw_first_churn(seed: int) -> Script:
    """The script of this seed."""
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
        processes=names,
        groups=[ScriptedGroup("g", names, names[:founders])],
        layers=layers,
        options=options,
        domain=CausalityDomain(),
        heal_ns=duration_ns + 4_000 * MILLISECOND_NS,
    )
    levels = random.choice((("causal",), ("causal", "fifo"), ("causal", "fifo", "reliable")))
    for _ in range(random.randint(20, 300)):
        size = int(2_000 * random.random() ** 4)
        at_ns = int(random.random() * duration_ns)
        script.add(Action(SEND, at_ns, names[random.randrange(len(names))], "g", random.choice(levels), (size,)))
    for _ in range(random.randint(0, 4)):
        process = names[random.randrange(len(names))]
        at_ns = int(random.random() * duration_ns)
        script.add(Action(CRASH, at_ns, process))
        script.add(Action(START, at_ns + random.randint(50, 3_000) * MILLISECOND_NS, process))
    together_ns = int(random.random() * duration_ns)
    for late in names[founders:]:
        script.add(Action(START, together_ns + random.randint(0, 200) * MILLISECOND_NS, late))
    for host in random.sample(range(len(names)), random.randint(0, 2)):
        script.add(Action(LEAVE, int(random.random() * duration_ns), names[host], "g"))
    for _ in range(random.randint(0, 2)):
        from_ns = int(random.random() * duration_ns)
        process = names[random.randrange(len(names))]
        script.add(Action(PAUSE, from_ns, process, until_ns=from_ns + random.randint(100, 4_000) * MILLISECOND_NS))
    return script
