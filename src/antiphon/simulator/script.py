"""Scripts: a run of the simulator spelled out, deed by deed, as a document that can be kept, cut down and run again.

A seed draws a script; the script alone decides the run. It says who there is and who founds which group, the limits,
the causality domain, what the network does, and every single *deed*: what an application does and what befalls a
process. Deeds can be taken out one by one, which is what shrinking does; what is planned for a process that is not
there, or for a group that it is not in, is nothing (see churn_world.py).

what      beside `what`, `at_ns` and `who`
say       group, level, sizes: one multicast of as many messages as there are sizes, in bytes
tell      group, to: a causal message to one member alone
barrier   group
leave     group
crash     –
accident  –: a crash, unless a group would lose its majority by it
start     –: a new life begins, unless there is one
ambush    group, packet, countdown, both, and no `who`: see churn_world.py; `packet` is a name of coverage.py
sleep     until_ns: the whole process stands still
stop      group, until_ns: the application takes no deliveries

A script of policy `static` has one group, whose members all found it and stay: it knows say, sleep and stop only.
All names are in full, so that taking one out moves no other.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final, final

from antiphon.faults import Fault
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import UsageError
from antiphon.kernel.levels import LEVELS
from antiphon.kernel.options import Options
from antiphon.kernel.policies import POLICIES, PRIMARY, STATIC
from antiphon.simulator.coverage import MEMBERSHIP_PACKETS
from antiphon.simulator.layers import layer_document, layer_of
from antiphon.stacks.registry import DEFAULT, offer

FORMAT: Final = 1

SAY: Final = "say"
TELL: Final = "tell"
BARRIER: Final = "barrier"
LEAVE: Final = "leave"
CRASH: Final = "crash"
ACCIDENT: Final = "accident"
START: Final = "start"
AMBUSH: Final = "ambush"
SLEEP: Final = "sleep"
STOP: Final = "stop"

DEED_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    SAY: ("who", "group", "level", "sizes"),
    TELL: ("who", "group", "to"),
    BARRIER: ("who", "group"),
    LEAVE: ("who", "group"),
    CRASH: ("who",),
    ACCIDENT: ("who",),
    START: ("who",),
    AMBUSH: ("group", "packet", "countdown", "both"),
    SLEEP: ("who", "until_ns"),
    STOP: ("who", "group", "until_ns"),
}
STATIC_DEEDS: Final = (SAY, SLEEP, STOP)
PACKETS: Final = {name: kind for kind, name in MEMBERSHIP_PACKETS.items()}


@final
class Deed:
    """One thing that is done or befalls somebody; fields that its `what` has no use for are empty."""

    __slots__ = ("at_ns", "both", "countdown", "group", "level", "packet", "sizes", "to", "until_ns", "what", "who")

    def __init__(
        self,
        what: str,
        at_ns: int,
        who: str = "",
        group: str = "",
        level: str = "",
        sizes: Sequence[int] = (),
        to: str = "",
        until_ns: int = 0,
        packet: str = "",
        countdown: int = 0,
        both: bool = False,
    ) -> None:
        self.what = what
        self.at_ns = at_ns
        self.who = who
        self.group = group
        self.level = level
        self.sizes = tuple(sizes)
        self.to = to
        self.until_ns = until_ns
        self.packet = packet
        self.countdown = countdown
        self.both = both

    def document(self) -> dict[str, Any]:
        result: dict[str, Any] = {"what": self.what, "at_ns": self.at_ns}
        for name in DEED_FIELDS[self.what]:
            value = getattr(self, name)
            result[name] = list(value) if name == "sizes" else value
        return result


@final
class Gathering:
    """One group of a script: its name, who belongs to it, and who of them founds it."""

    __slots__ = ("founders", "name", "places")

    def __init__(self, name: str, places: Sequence[str], founders: Sequence[str]) -> None:
        self.name = name
        self.places = list(places)
        self.founders = list(founders)

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "places": self.places, "founders": self.founders}


@final
class Script:
    """A whole run. `calm_ns`: when the last deed and all bad weather are over."""

    def __init__(
        self,
        *,
        run: str,
        seed: int,
        policy: str,
        names: Sequence[str],
        groups: Sequence[Gathering],
        layers: Sequence[Fault],
        options: Options,
        domain: CausalityDomain,
        calm_ns: int = 0,
        stack: str = DEFAULT,
    ) -> None:
        self.run = run
        self.stack = stack
        self.seed = seed
        self.policy = policy
        self.names = list(names)
        self.groups = list(groups)
        self.layers = [layer_document(layer) for layer in layers]
        self.options = options
        self.domain = domain
        self.deeds: list[Deed] = []
        self.calm_ns = calm_ns

    def add(self, deed: Deed) -> None:
        self.deeds.append(deed)

    def faults(self) -> list[Fault]:
        """The layers of the network, as new: some have a memory."""
        return [layer_of(document) for document in self.layers]

    def document(self) -> dict[str, Any]:
        """Plain values, ready for `json.dumps`; `script_of` is the way back."""
        return {
            "format": FORMAT,
            "run": self.run,
            "seed": self.seed,
            **({} if self.stack == DEFAULT else {"stack": self.stack}),
            "policy": self.policy,
            "names": self.names,
            "groups": [group.document() for group in self.groups],
            "options": _differences(self.options, Options()),
            "domain": _differences(self.domain, CausalityDomain()),
            "layers": self.layers,
            "calm_ns": self.calm_ns,
            "deeds": [deed.document() for deed in self.deeds],
        }


def _differences(chosen: Any, usual: Any) -> dict[str, Any]:
    names = [field.name for field in fields(chosen)]
    return {name: getattr(chosen, name) for name in names if getattr(chosen, name) != getattr(usual, name)}


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
    groups = [Gathering(group["name"], group["places"], group["founders"]) for group in document["groups"]]
    domain = dict(document["domain"])
    if "overlaps" in domain:
        domain["overlaps"] = tuple((one, other) for one, other in domain["overlaps"])
    if "excluded" in domain:
        domain["excluded"] = tuple(domain["excluded"])
    script = Script(
        run=document["run"],
        seed=document["seed"],
        policy=document["policy"],
        names=document["names"],
        groups=groups,
        layers=[layer_of(layer) for layer in document["layers"]],
        options=Options(**document["options"]),
        domain=CausalityDomain(**domain),
        calm_ns=document["calm_ns"],
        stack=document.get("stack", DEFAULT),
    )
    for deed in document["deeds"]:
        script.add(Deed(**deed))
    check(script)
    return script


def check(script: Script) -> None:
    """Raise UsageError for what cannot be run."""
    offered = offer(script.stack)
    if len(script.groups) > 1 and not offered.crosses_groups:
        raise UsageError(f"stack {script.stack!r} keeps no order between groups; its scripts have one group")
    if script.policy not in POLICIES:
        raise UsageError(f"the script's policy {script.policy!r} is none of: {', '.join(POLICIES)}")
    if not script.groups or not all(group.founders for group in script.groups):
        raise UsageError("a script needs a group, and each group somebody who founds it")
    if script.policy == STATIC and len(script.groups) != 1:
        raise UsageError("a script of policy `static` has one group")
    groups = {group.name for group in script.groups}
    for group in script.groups:
        strangers = sorted(set(group.places) - set(script.names)) + sorted(set(group.founders) - set(group.places))
        if strangers:
            raise UsageError(f"group {group.name!r} of the script names {strangers[0]!r}, who does not belong there")
    allowed = tuple(DEED_FIELDS) if script.policy == PRIMARY else STATIC_DEEDS
    for number, deed in enumerate(script.deeds):
        problem = _problem(deed, allowed, script.names, groups)
        if problem:
            raise UsageError(f"deed {number} of the script makes no sense: {problem}")


def _problem(deed: Deed, allowed: Sequence[str], names: Sequence[str], groups: set[str]) -> str:
    if deed.what not in allowed:
        return f"there is no {deed.what!r} in it; there is {', '.join(allowed)}"
    used = DEED_FIELDS[deed.what]
    if deed.at_ns < 0 or ("until_ns" in used and deed.until_ns < deed.at_ns):
        return "its times run backwards"
    for name, value in (("who", deed.who), ("to", deed.to)):
        if name in used and value not in names:
            return f"{value!r} is not among the names"
    if "group" in used and deed.group not in groups:
        return f"there is no group {deed.group!r}"
    if "level" in used and (deed.level not in LEVELS or not deed.sizes):
        return f"a message needs a size and one of the levels {', '.join(LEVELS)}"
    if "packet" in used and deed.packet not in PACKETS:
        return f"there is no membership packet {deed.packet!r}"
    return ""
