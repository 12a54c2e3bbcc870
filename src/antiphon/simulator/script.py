"""Scripts: a run of the simulator, action by action, as a document that can be kept, cut down and run again.

A seed draws a script; the script decides the run. It names the processes, the groups and who founds them, the limits,
the causality domain, the layers of faults of the network, and every action (actions.py). Actions can be taken out one
by one, which is what shrinking does. All names are written in full, so that taking one out changes no other.

A script of policy `static` has one group, whose members all found it and stay. Its sends may also come from a workload
(world.py) instead of the script.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final, final

from antiphon.faults import Fault
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join
from antiphon.kernel.levels import LEVELS
from antiphon.kernel.options import Options
from antiphon.kernel.policies import PRIMARY, SITES
from antiphon.simulator.actions import ACTION_FIELDS, STATIC_ACTIONS, Action
from antiphon.simulator.crash_triggers import PACKETS
from antiphon.simulator.layers import layer_document, layer_of
from antiphon.stacks.registry import DEFAULT, offer

FORMAT: Final = 2


@final
class ScriptedGroup:
    """One group: its name, the processes that belong to it, and those of them that found it."""

    __slots__ = ("founders", "members", "name")

    def __init__(self, name: str, members: Sequence[str], founders: Sequence[str]) -> None:
        self.name = name
        self.members = list(members)
        self.founders = list(founders)

    def document(self) -> dict[str, Any]:
        """Plain values."""
        return {"name": self.name, "members": self.members, "founders": self.founders}


@final
class Script:
    """A whole run. `heal_ns`: when the last action has ended and the network only delays."""

    def __init__(
        self,
        *,
        run: str,
        seed: int,
        policy: str,
        processes: Sequence[str],
        groups: Sequence[ScriptedGroup],
        layers: Sequence[Fault],
        options: Options,
        domain: CausalityDomain,
        heal_ns: int = 0,
        stack: str = DEFAULT,
        services: Sequence[str] = (),
    ) -> None:
        self.run = run
        self.stack = stack
        self.seed = seed
        self.policy = policy
        self.processes = list(processes)
        self.groups = list(groups)
        self.layers = [layer_document(layer) for layer in layers]
        self.options = options
        self.domain = domain
        self.actions: list[Action] = []
        self.heal_ns = heal_ns
        self.services = list(services)
        """The processes that hold the groups, on a stack whose members do not found them; they are no members."""

    def add(self, action: Action) -> None:
        """One more action; of those at the same time, the one added first comes first."""
        self.actions.append(action)

    def faults(self) -> list[Fault]:
        """The layers of the network, made anew: some have a memory."""
        return [layer_of(document) for document in self.layers]

    def join(self, plan: ScriptedGroup, process: ProcessId, host: int, first_view: View) -> Join:
        """How a process joins a group: in its first view, or by asking the others, or a service, to let it in."""
        view: View | None = None
        contacts: tuple[str, ...] = ()
        if self.services:
            first = host % len(self.services)
            contacts = (*self.services[first:], *self.services[:first])
            contacts = contacts[:1] if self.policy == SITES else contacts
        elif first_view.rank(process) >= 0:
            view = first_view
        else:
            contacts = tuple(other for other in plan.members if other != process.name)
        return Join(
            group=plan.name,
            view=view,
            contacts=contacts,
            stack=self.stack,
            policy=self.policy,
            address=process.name,
            domain=self.domain,
        )

    def document(self) -> dict[str, Any]:
        """Plain values, ready for `json.dumps`; `script_of` is the way back."""
        return {
            "format": FORMAT,
            "run": self.run,
            "seed": self.seed,
            **({} if self.stack == DEFAULT else {"stack": self.stack}),
            "policy": self.policy,
            "processes": self.processes,
            **({"services": self.services} if self.services else {}),
            "groups": [group.document() for group in self.groups],
            "options": _differences(self.options, Options()),
            "domain": _differences(self.domain, CausalityDomain()),
            "layers": self.layers,
            "heal_ns": self.heal_ns,
            "actions": [action.document() for action in self.actions],
        }


def _differences(chosen: Any, default: Any) -> dict[str, Any]:
    names = [field.name for field in fields(chosen)]
    return {name: getattr(chosen, name) for name in names if getattr(chosen, name) != getattr(default, name)}


def script_of(document: Any) -> Script:
    """The script that a document describes. Raises UsageError where it makes no sense."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(f'this is no script of a simulated run: it has no "format": {FORMAT}')
    try:
        return _script_of(document)
    except (KeyError, TypeError, ValueError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"the script of a simulated run makes no sense: {problem}") from error


def _script_of(document: dict[str, Any]) -> Script:
    groups = [ScriptedGroup(group["name"], group["members"], group["founders"]) for group in document["groups"]]
    domain = dict(document["domain"])
    if "overlaps" in domain:
        domain["overlaps"] = tuple((one, other) for one, other in domain["overlaps"])
    if "excluded" in domain:
        domain["excluded"] = tuple(domain["excluded"])
    script = Script(
        run=document["run"],
        seed=document["seed"],
        policy=document["policy"],
        processes=document["processes"],
        groups=groups,
        layers=[layer_of(layer) for layer in document["layers"]],
        options=Options(**document["options"]),
        domain=CausalityDomain(**domain),
        heal_ns=document["heal_ns"],
        stack=document.get("stack", DEFAULT),
        services=document.get("services", ()),
    )
    for action in document["actions"]:
        script.add(Action(**action))
    check(script)
    return script


def service_role(stack: str, policy: str) -> str:
    """The role of processes beside the members, where those are attached to sites or clients of a service; or none."""
    offered = offer(stack)
    return offered.site_role if policy == SITES else offered.service_role


def check(script: Script) -> None:
    """Raise UsageError for what cannot be run."""
    offered = offer(script.stack)
    if len(script.groups) > 1 and not offered.crosses_groups:
        raise UsageError(f"stack {script.stack!r} keeps no order between groups; its scripts have one group")
    if script.policy not in offered.policies:
        raise UsageError(f"the script's policy {script.policy!r} is none of: {', '.join(offered.policies)}")
    if not script.groups or not all(group.founders for group in script.groups):
        raise UsageError("a script needs a group, and each group a process that founds it")
    if script.policy != PRIMARY and len(script.groups) != 1:
        raise UsageError(f"a script of policy {script.policy!r} has one group")
    groups = {group.name for group in script.groups}
    role = service_role(script.stack, script.policy)
    if bool(script.services) != bool(role) or not set(script.services) <= set(script.processes):
        raise UsageError(f"the services {script.services} of the script are not what stack {script.stack!r} needs")
    for group in script.groups:
        strangers = sorted(set(group.members) - set(script.processes))
        strangers += sorted(set(group.founders) - set(group.members))
        if strangers:
            raise UsageError(f"group {group.name!r} of the script names {strangers[0]!r}, who does not belong there")
    allowed = tuple(ACTION_FIELDS) if script.policy == PRIMARY else STATIC_ACTIONS
    for number, action in enumerate(script.actions):
        problem = _problem(action, allowed, script.processes, groups)
        if problem:
            raise UsageError(f"action {number} of the script makes no sense: {problem}")


def _problem(action: Action, allowed: Sequence[str], processes: Sequence[str], groups: set[str]) -> str:
    if action.kind not in allowed:
        return f"there is no {action.kind!r} in it; there is {', '.join(allowed)}"
    used = ACTION_FIELDS[action.kind]
    if action.at_ns < 0 or ("until_ns" in used and action.until_ns < action.at_ns):
        return "its times run backwards"
    for name, value in (("process", action.process), ("to", action.to)):
        if name in used and value not in processes:
            return f"{value!r} is not among the processes"
    if "group" in used and action.group not in groups:
        return f"there is no group {action.group!r}"
    if "level" in used and (action.level not in LEVELS or not action.sizes):
        return f"a message needs a size and one of the levels {', '.join(LEVELS)}"
    if not set(action.destinations) <= set(processes):
        return f"of its destinations {action.destinations} some are not among the processes"
    if "packet" in used and action.packet not in PACKETS:
        return f"there is no packet {action.packet!r}"
    return ""
