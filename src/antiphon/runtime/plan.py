"""A plan for many groups, as `antiphon structure` writes it: which causality domain each group is in, and more.

    plan = antiphon.load_plan("plan.toml")
    group = await node.join("quotes", contacts=[…], domain=plan.domain("quotes"))

Every process that shares groups in a domain must load the same plan. Causality domains are of use to a stack that
keeps an order between groups, sequencers and broadcast domains to a stack that has them. All are held to their rules on
loading, so that a plan that was edited by hand is refused where it is wrong, and not where it fails.

What is checked: each group has one causality domain and one sequencer, each process one broadcast domain; groups that
share members are declared as overlapping, in one causality domain; groups that share two or more have one sequencer
(kindberg-1995, section 4.2); a relay belongs to its domain, and every domain with members of a crossing group has one.
"""

import tomllib
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from antiphon.kernel.causality_domain import CARRY, CausalityDomain
from antiphon.kernel.errors import UsageError

PLAN_VERSION: Final = 1
PLAN_BYTES_MAX: Final = 64 * 1024 * 1024


class PlanError(UsageError):
    """A plan cannot be used; the text says what is wrong with it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class GroupPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is to be in a group."""

    name: str
    members: tuple[str, ...]


class CausalityPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One causality domain; see `antiphon.CausalityDomain`."""

    name: str
    groups: tuple[str, ...]
    rule: str = CARRY
    resilience: int = 0
    overlaps: tuple[tuple[str, str], ...] = ()
    excluded: tuple[str, ...] = ()


class SequencerPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One sequencer, and the load that it was given by."""

    groups: tuple[str, ...]
    process: str | None = None
    messages: int = 0
    bytes: int = 0


class BroadcastPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One broadcast domain."""

    name: str
    members: tuple[str, ...]
    relay: str | None = None
    crossing: tuple[str, ...] = ()


T = TypeVar("T")
Named = TypeVar("Named", GroupPlan, CausalityPlan, BroadcastPlan)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    group: tuple[GroupPlan, ...]
    causality: tuple[CausalityPlan, ...] = ()
    sequencer: tuple[SequencerPlan, ...] = ()
    broadcast: tuple[BroadcastPlan, ...] = ()


class Plan:
    """A plan that was found to be sound; `load_plan` makes it."""

    def __init__(self, file: _File) -> None:
        self.groups: Mapping[str, GroupPlan] = _by_name("group", file.group)
        self.causality = file.causality
        self.sequencers = file.sequencer
        self.broadcast_domains = file.broadcast
        self._domains = {group: _domain(part) for part in file.causality for group in part.groups}
        self._sequencer_of = {group: part for part in file.sequencer for group in part.groups}
        self._broadcast_of = {process: part for part in file.broadcast for process in part.members}

    def __repr__(self) -> str:
        return f"<Plan of {len(self.groups)} groups in {len(self.causality)} causality domains>"

    def domain(self, group: str) -> CausalityDomain:
        """The causality domain to join `group` with."""
        return self._look_up("causality domain", "group", group, self._domains)

    def sequencer(self, group: str) -> SequencerPlan:
        """Who is to sequence `group`."""
        return self._look_up("sequencer", "group", group, self._sequencer_of)

    def broadcast_domain(self, process: str) -> BroadcastPlan:
        """The broadcast domain that `process` is to be in."""
        return self._look_up("broadcast domain", "process", process, self._broadcast_of)

    def _look_up(self, what: str, of: str, name: str, known: Mapping[str, T]) -> T:
        if name not in known:
            raise UsageError(f"the plan has no {what} for {of} {name!r}; make it anew from a run that has this {of}")
        return known[name]


def load_plan(path: Path | str) -> Plan:
    """Read and check a plan. Raises PlanError if it is not one, or contradicts itself."""
    path = Path(path)
    try:
        if path.stat().st_size > PLAN_BYTES_MAX:
            raise PlanError(path, f"it is larger than {PLAN_BYTES_MAX:,} bytes, so it cannot be a plan")
        file = msgspec.convert(tomllib.loads(path.read_text()), _File)
        if file.version != PLAN_VERSION:
            raise PlanError(path, f"it is of version {file.version}, this program reads {PLAN_VERSION}; make it anew")
        plan = Plan(file)
        _check(plan)
    except OSError as error:
        raise PlanError(path, f"it cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise PlanError(path, f"it is no plan: {error}") from error
    except PlanError:
        raise
    except UsageError as error:
        raise PlanError(path, str(error)) from error
    return plan


def _domain(part: CausalityPlan) -> CausalityDomain:
    return CausalityDomain(
        name=part.name,
        rule=part.rule,
        resilience=part.resilience,
        groups=part.groups,
        overlaps=part.overlaps,
        excluded=part.excluded,
    )


def _by_name(what: str, parts: Iterable[Named]) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for part in parts:
        if part.name in found:
            raise UsageError(f"there are two {what}s {part.name!r}; give each a name of its own")
        found[part.name] = part
    return found


def _check(plan: Plan) -> None:
    _by_name("causality domain", plan.causality)
    _by_name("broadcast domain", plan.broadcast_domains)
    processes = {process for group in plan.groups.values() for process in group.members}
    _check_division("group", plan.groups, "causality domain", [part.groups for part in plan.causality])
    _check_division("group", plan.groups, "sequencer", [part.groups for part in plan.sequencers])
    _check_division("process", processes, "broadcast domain", [part.members for part in plan.broadcast_domains])
    _check_overlaps(plan)
    _check_processes(plan, processes)


def _check_division(kind: str, known: Iterable[str], what: str, parts: list[tuple[str, ...]]) -> None:
    """Whether each thing is in exactly one part; a plan may also leave such parts out altogether."""
    seen: set[str] = set()
    for name in (name for part in parts for name in part):
        if name in seen:
            raise UsageError(f"{kind} {name!r} is in more than one {what}; leave it in one")
        seen.add(name)
    if strangers := sorted(seen - set(known)):
        raise UsageError(f"{what}s name the {kind} {strangers[0]!r}, which no [[group]] knows; add it there")
    if parts and (left_out := sorted(set(known) - seen)):
        raise UsageError(f"{kind} {left_out[0]!r} is in no {what}; add it to one")


def _check_overlaps(plan: Plan) -> None:
    declared = {part.name: {frozenset(pair) for pair in part.overlaps} for part in plan.causality}
    domain_of = {group: part for part in plan.causality for group in part.groups}
    for (one, other), shared in _shared(plan.groups).items():
        names = f"groups {one!r} and {other!r} share {', '.join(sorted(shared)[:3])}"
        if plan.causality and domain_of[one] != domain_of[other]:
            raise UsageError(f"{names}, but they are in two causality domains; put them into one")
        if plan.causality and domain_of[one].overlaps and frozenset((one, other)) not in declared[domain_of[one].name]:
            raise UsageError(f"{names}, but the overlaps of domain {domain_of[one].name!r} lack the pair; add it")
        if plan.sequencers and len(shared) >= 2 and plan.sequencer(one) is not plan.sequencer(other):
            raise UsageError(f"{names}: two or more members, so one sequencer must order both; put them together")


def _shared(groups: Mapping[str, GroupPlan]) -> dict[tuple[str, str], set[str]]:
    """Pairs of groups with members in common, and these."""
    groups_of: dict[str, list[str]] = {}
    for group in groups.values():
        for process in set(group.members):
            groups_of.setdefault(process, []).append(group.name)
    shared: dict[tuple[str, str], set[str]] = {}
    for process, own in groups_of.items():
        for pair in combinations(sorted(own), 2):
            shared.setdefault((pair[0], pair[1]), set()).add(process)
    return shared


def _check_processes(plan: Plan, processes: set[str]) -> None:
    for sequencer in plan.sequencers:
        if sequencer.process is not None and sequencer.process not in processes:
            raise UsageError(f"the sequencer {sequencer.process!r} is in no group; name a process that is")
    for domain in plan.broadcast_domains:
        own = set(domain.members)
        if domain.relay is not None and domain.relay not in own:
            raise UsageError(f"the relay {domain.relay!r} is not in its broadcast domain {domain.name!r}")
        crossing = sorted(g.name for g in plan.groups.values() if own & set(g.members) and not own >= set(g.members))
        if crossing and domain.relay is None:
            raise UsageError(
                f"group {crossing[0]!r} has members in the broadcast domain {domain.name!r} and outside it, "
                "so the domain needs a relay; name one of its members"
            )
        if sorted(domain.crossing) != crossing:
            raise UsageError(
                f"the groups that cross the broadcast domain {domain.name!r} are {crossing}, not "
                f"{sorted(domain.crossing)}; make the plan anew"
            )
