"""Lets each mutant loose on seeds, one by one, until the audit or an assertion catches it; a few on staged scenes.

    ANTIPHON_PURE=1 python -m tests.mutants.hunt [--seeds 200] [--remember] [NAME OR FAMILY …]

Prints one JSON line per mutant: the seed that caught it, what was seen, and the seconds of processor it took. Exit code
1 if one got away. The seed that caught a mutant last stands in caught.json and is tried first; `--remember` writes down
what this hunt found. The suite hunts those that are remembered there or have a staged scene, `make mutants` and
`make hunt` the others too. Seeds below 0 stand for staged scenes, which are tried before the others.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final
from unittest.mock import patch

from antiphon._build import pure_forced
from antiphon.kernel.errors import UsageError
from antiphon.pipeline import reference
from antiphon.pipeline.campaign.judge import MISTAKE
from antiphon.pipeline.result import BROKEN
from antiphon.simulator.adversarial_draw import draw_adversarial
from antiphon.simulator.draw import draw
from antiphon.simulator.run import simulate
from antiphon.testing import timeline
from tests.mutants.cluster_mutants import CLUSTER_MUTANTS, CLUSTER_STAGED
from tests.mutants.conversation_group_mutants import CONVERSATION_GROUP_MUTANTS, CONVERSATION_GROUP_STAGED
from tests.mutants.conversation_mutants import CONVERSATION_MUTANTS, CONVERSATION_STAGED
from tests.mutants.domain_mutants import DOMAIN_MUTANTS, ISLANDS, domain_symptoms
from tests.mutants.export_mutants import AUDITED_MUTANTS, EXPORT_MUTANTS, audited_symptoms, export_symptoms
from tests.mutants.group_mutants import GROUP_MUTANTS, GROUP_STAGED
from tests.mutants.guest_mutants import GUEST_MUTANTS, GUEST_STAGED
from tests.mutants.identity_mutants import IDENTITY_MUTANTS, IDENTITY_STAGED
from tests.mutants.label_mutants import CLAIMS, LABEL_MUTANTS, label_symptoms
from tests.mutants.latency_mutants import LATENCY_MUTANTS, LATENCY_STAGED
from tests.mutants.library_mutants import BROADCAST, LIBRARY_MUTANTS, OPERATIONS, SESSION
from tests.mutants.linked_mutants import LINKED_MUTANTS, linked_symptoms
from tests.mutants.mutants import MUTANTS, QUIET, Mutant
from tests.mutants.object_mutants import OBJECT_MUTANTS, OBJECT_STAGED
from tests.mutants.order_mutants import ORDER_MUTANTS
from tests.mutants.restart_mutants import RESTART_MUTANTS, RESTART_STAGED
from tests.mutants.runtime_mutants import RUNTIME_MUTANTS, RuntimeMutant
from tests.mutants.seal_mutants import SEAL_MUTANTS, SEAL_STAGED
from tests.mutants.seat_mutants import DISK_MUTANTS, SEAT_MUTANTS, SEAT_STAGED, disk_symptoms, seat_symptoms
from tests.mutants.sequencer_mutants import SEQUENCER_MUTANTS
from tests.mutants.service_mutants import SERVICE_MUTANTS, STAGED_SERVICES
from tests.mutants.site_mutants import SITE_MUTANTS, SITE_STAGED
from tests.mutants.tool_mutants import TOOL_MUTANTS, tool_symptoms
from tests.mutants.view_mutants import VIEW_MUTANTS, VIEW_STAGED
from tests.mutants.wire_mutants import WIRE_MUTANTS, WIRE_STAGED
from tests.programs.campaign import run_program
from tests.simulation.campaign import explain, make_logs
from tests.simulation.churn import run_churn
from tests.simulation.free_conversations import run_seed
from tests.simulation.sequencers import run_seed as run_service
from tests.stacks.conversation.library.plays import broadcast_problem, operations_problem, session_problem

STAGED: Final[dict[str, Callable[[], str | None]]] = {
    **CONVERSATION_GROUP_STAGED,
    **CONVERSATION_STAGED,
    **GROUP_STAGED,
    **GUEST_STAGED,
    **LATENCY_STAGED,
    **OBJECT_STAGED,
    **RESTART_STAGED,
    **SEAL_STAGED,
    **IDENTITY_STAGED,
    **SEAT_STAGED,
    **SITE_STAGED,
    **CLUSTER_STAGED,
    **STAGED_SERVICES,
    **WIRE_STAGED,
    **VIEW_STAGED,
}
"""By name of the mutant, the scene that catches it."""
BUSY_EVENTS: Final = 120_000
"""The programs as they are take half of this at most."""
CAUGHT_BY: Final = Path(__file__).with_name("caught.json")
Symptoms = Callable[[int, Sequence[str]], str | None]
PLAYS = {OPERATIONS: operations_problem, BROADCAST: broadcast_problem, SESSION: session_problem}


def symptoms(seed: int, breaks: Sequence[str]) -> str | None:
    """What goes wrong in this seed's run: a broken guarantee that is expected to break, or a failed assertion."""
    options = draw(seed, members_max=6)
    logs = make_logs(options)
    try:
        result = simulate(options, logs)
    except AssertionError as error:
        return f"assertion: {error}"
    if QUIET in breaks and not result.quiet:
        return f"{result.sent} messages were accepted, but {result.delivered} deliveries is all that came of them"
    audit = reference.audit(logs)
    if any(finding.verdict == BROKEN and finding.guarantee in breaks for finding in audit.findings):
        return explain(audit)
    return None


def adversarial_symptoms(seed: int, breaks: Sequence[str], stack: str) -> str | None:
    """The same in this seed's adversarial run, where members come and go."""
    outcome = run_churn(seed, draw_adversarial, stack)
    expected = [f"{guarantee} broken" for guarantee in (*breaks, MISTAKE)]
    return next((problem for problem in outcome.problems if any(words in problem for words in expected)), None)


def play_symptoms(seed: int, breaks: Sequence[str]) -> str | None:
    """The same in this seed's plays with the library over the context graph."""
    for play in breaks:
        try:
            problem = PLAYS[play](seed)
        except AssertionError as error:
            return f"assertion: {error}"
        if problem is not None:
            return problem
    return None


def talk_symptoms(seed: int, breaks: Sequence[str]) -> str | None:
    """The same in this seed's conversation."""
    problems = run_seed(seed).problems
    return problems[0][:200] if problems else None


def program_symptoms(seed: int, breaks: Sequence[str], programs: Sequence[str]) -> str | None:
    """The same in this seed's whole program, which also checks what it is handed."""
    try:
        with patch.object(timeline, "EVENTS_MAX", BUSY_EVENTS):
            result = run_program(seed, programs[seed % len(programs)])
    except (AssertionError, UsageError) as error:
        return f"assertion: {error}"
    return result.problems[0][:200] if result.problems else None


def service_symptoms(seed: int, breaks: Sequence[str]) -> str | None:
    """The same in this seed's run of several sequencers."""
    expected = [f"{guarantee} broken" for guarantee in (*breaks, MISTAKE)]
    problems = run_service(seed).problems
    return next((problem[:200] for problem in problems if any(words in problem for words in expected)), None)


def adversarial_of(mutant: Mutant) -> Symptoms:
    return partial(adversarial_symptoms, stack=mutant.stack)


def program_of(mutant: Mutant) -> Symptoms:
    assert isinstance(mutant, RuntimeMutant)
    return partial(program_symptoms if mutant in RUNTIME_MUTANTS else tool_symptoms, programs=mutant.programs)


@dataclass(frozen=True)
class Family:
    """Mutants that are hunted in the same manner. `staged`: how many scenes come before the seeds, numbered from -1;
    `seeds_max`: after so many seeds the others show nothing new."""

    mutants: Sequence[Mutant]
    symptoms_of: Callable[[Mutant], Symptoms]
    staged: int = 0
    seeds_max: int = sys.maxsize


def same(symptoms: Symptoms) -> Callable[[Mutant], Symptoms]:
    """All mutants of a family have the same symptoms."""
    return lambda mutant: symptoms


FAMILIES: Final = {
    "vector": Family(MUTANTS, same(symptoms)),
    "view": Family(VIEW_MUTANTS, adversarial_of),
    "order": Family(ORDER_MUTANTS, adversarial_of),
    "group": Family(GROUP_MUTANTS, adversarial_of),
    "library": Family(LIBRARY_MUTANTS, same(play_symptoms)),
    "conversation_group": Family(CONVERSATION_GROUP_MUTANTS, adversarial_of),
    "conversation": Family(CONVERSATION_MUTANTS, same(talk_symptoms)),
    "restart": Family(RESTART_MUTANTS, same(talk_symptoms)),
    "runtime": Family(RUNTIME_MUTANTS, program_of),
    "sequencer": Family(SEQUENCER_MUTANTS, adversarial_of),
    "service": Family(SERVICE_MUTANTS, same(service_symptoms)),
    "seal": Family(SEAL_MUTANTS, same(symptoms)),
    "wire": Family(WIRE_MUTANTS, same(symptoms)),
    "identity": Family(IDENTITY_MUTANTS, same(symptoms)),
    "seat": Family(SEAT_MUTANTS, same(seat_symptoms)),
    "seat_disk": Family(DISK_MUTANTS, same(disk_symptoms)),
    "domain": Family([one for one in DOMAIN_MUTANTS if ISLANDS in one.breaks], same(domain_symptoms)),
    "domain_scenes": Family(
        [one for one in DOMAIN_MUTANTS if ISLANDS not in one.breaks], same(domain_symptoms), seeds_max=1
    ),
    "export": Family(EXPORT_MUTANTS, same(export_symptoms), staged=1),
    "linked": Family(LINKED_MUTANTS, same(linked_symptoms), staged=1),
    "audited": Family(AUDITED_MUTANTS, same(audited_symptoms)),
    "guest": Family(GUEST_MUTANTS, same(symptoms)),
    "site": Family(SITE_MUTANTS, same(symptoms)),
    "cluster": Family(CLUSTER_MUTANTS, same(symptoms)),
    "label": Family(LABEL_MUTANTS, same(label_symptoms), staged=len(CLAIMS)),
    "latency": Family(LATENCY_MUTANTS, same(symptoms)),
    "tool": Family(TOOL_MUTANTS, program_of),
    "object": Family(OBJECT_MUTANTS, program_of),
}
ALL_MUTANTS: Final = tuple(mutant for family in FAMILIES.values() for mutant in family.mutants)


def remembered() -> dict[str, int]:
    """By name of the mutant, the seed that caught it last."""
    seeds: dict[str, int] = json.loads(CAUGHT_BY.read_text())
    return seeds


def hunt(mutant: Mutant, family: Family, seeds: int) -> dict[str, object]:
    """The first seed that catches the mutant, or what is seen of it on the table."""
    known = [seed for name, seed in remembered().items() if name == mutant.name]
    look = family.symptoms_of(mutant)
    with mutant.at_large():
        if mutant.name in STAGED:
            problem = STAGED[mutant.name]() or None
            return {"mutant": mutant.name, "caught": problem is not None, "seen": problem, "seeds": 0}
        for seed in chain(known, range(-family.staged, 0), range(min(seeds, family.seeds_max))):
            seen = look(seed, mutant.breaks)
            if seen is not None:
                return {"mutant": mutant.name, "caught": True, "seed": seed, "seen": seen[:200]}
    return {"mutant": mutant.name, "caught": False, "seeds": seeds}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds a mutant may survive")
    parser.add_argument("--remember", action="store_true", help="write the seeds that caught them to caught.json")
    parser.add_argument("names", nargs="*", help="mutants or families to hunt; all if none is named")
    arguments = parser.parse_args()
    if not pure_forced():
        print("mutants patch the plain-Python core: set ANTIPHON_PURE=1", file=sys.stderr)
        return 2
    escaped = 0
    caught_by = remembered()
    for name, mutant in [(name, mutant) for name, family in FAMILIES.items() for mutant in family.mutants]:
        if not arguments.names or name in arguments.names or mutant.name in arguments.names:
            begun_s = time.process_time()
            result = hunt(mutant, FAMILIES[name], arguments.seeds)
            escaped += not result["caught"]
            if isinstance(seed := result.get("seed"), int):
                caught_by[mutant.name] = seed
            print(json.dumps(result | {"seconds": round(time.process_time() - begun_s, 2)}), flush=True)
            if arguments.remember:
                CAUGHT_BY.write_text(json.dumps(dict(sorted(caught_by.items())), indent=2) + "\n")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
