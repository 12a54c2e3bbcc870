"""What a seed alone makes of a run: members, messages, workload, levels, sizes and limits.

Small limits are drawn often: a window of four packets, a pending queue of a few hundred bytes and packets so short that
messages fall into fragments bring out what the defaults would hide.
"""

from random import Random
from typing import Final

from antiphon.kernel.options import Options
from antiphon.simulator.run import WORKLOADS, SimulationOptions

_LEVELS: Final = (
    ("causal",),
    ("causal",),
    ("causal", "fifo"),
    ("causal", "reliable"),
    ("causal", "fifo", "reliable"),
    ("agreed",),
    ("agreed", "causal"),
    ("safe", "agreed"),
    ("safe", "causal"),
    ("safe", "agreed", "causal", "fifo", "reliable"),
)


def draw(seed: int, faults: str = "all", members_min: int = 3, members_max: int = 9) -> SimulationOptions:
    """The run that belongs to this seed."""
    random = Random(f"{seed}/draw")
    options = Options(
        packet_bytes_max=random.choice((400, 1400, 9000)),
        pending_bytes_max=random.choice((300, 4_000, 4_000_000)),
        window_packets=random.choice((4, 16, 1024)),
        ack_every_packets=random.choice((1, 8, 64)),
        record_receives=random.random() < 0.2,
    )
    return SimulationOptions(
        members=random.randint(members_min, members_max),
        messages=random.choice((5, 20, 20, 40)),
        seed=seed,
        faults=faults,
        workload=random.choice(WORKLOADS),
        levels=random.choice(_LEVELS),
        size_max=random.choice((20, 200, 200, 5_000)),
        options=options,
    )
