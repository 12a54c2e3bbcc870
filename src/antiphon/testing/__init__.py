"""Testing whole programs: asyncio in virtual time, a simulated network with faults, and the audit of what was done.

    result = antiphon.testing.simulate({"a": main, "b": main, "c": main}, seed=7, faults="all")
    assert result.kept, result.report("…")

See docs/testing.md.
"""

from antiphon.testing.fault_plan import FaultPlan, KillProgram, NetworkFault, PauseProgram
from antiphon.testing.host import Host
from antiphon.testing.simulate import Result, SimulationFailedError, simulate

__all__ = [
    "FaultPlan",
    "Host",
    "KillProgram",
    "NetworkFault",
    "PauseProgram",
    "Result",
    "SimulationFailedError",
    "simulate",
]
