"""A configuration whose values are each sound: what it means, and what does not go together."""

import socket
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from antiphon.deployment.locator import Path as KeyPath
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import is_name
from antiphon.kernel.options import Options
from antiphon.kernel.policies import PARTITIONABLE, PRIMARY, SITES
from antiphon.runtime.address import is_loopback, numeric
from antiphon.runtime.discovery import Discovery, FileDiscovery, NameDiscovery
from antiphon.runtime.discovery_beacon import BeaconDiscovery
from antiphon.runtime.node import FOUND_AFTER_S
from antiphon.stacks.registry import DEFAULT, check_options, offer

_KEYS_HOW: Final = (
    "Make one, and give it to all: `antiphon key new cluster.key`, `scp -p cluster.key HOST:`; then name the file as "
    "`keyring` in [keys]. On a network that you trust, `insecure = true` there does without"
)
Wrong = list[tuple[KeyPath, str]]


@dataclass(frozen=True, kw_only=True)
class GroupConfig:
    """One group to be in."""

    name: str
    stack: str
    policy: str
    domain: CausalityDomain
    members: dict[str, str] | None
    contacts: tuple[str, ...]
    """Empty: what the discovery of the whole file finds."""
    found_after_s: float
    join_s: float


@dataclass(frozen=True, kw_only=True)
class MemberConfig:
    """All that `antiphon node` has to know."""

    name: str
    listen: str
    service: str
    history: Path | None
    run: str
    storage: Path | None
    rejoin: bool
    linger_s: float
    multicast: str | None
    queue_messages_max: int
    queue_bytes_max: int
    discovery: dict[str, Any]
    keyring: Path | None
    identity: Path | None
    insecure: bool
    observe: str
    page: bool
    log_level: str
    log_format: str
    options: Options | None
    serve_stack: str
    serve_peers: tuple[str, ...]
    groups: tuple[GroupConfig, ...]

    def with_page(self) -> "MemberConfig":
        """The same, with the page for people. Raises UsageError if nothing is served at all."""
        if not self.observe:
            raise UsageError("to serve a page, say where: `listen` in [observe], as in 127.0.0.1:9400")
        return replace(self, page=True)

    def contacts(self, group: GroupConfig) -> list[str] | Discovery:
        """How to find the members of a group."""
        if group.contacts:
            return list(group.contacts)
        ((way, value),) = self.discovery.items()
        if way == "contacts":
            return list(value)
        if way == "file":
            return FileDiscovery(value)
        return NameDiscovery(value) if way == "dns" else BeaconDiscovery(value)


def relations(document: dict[str, Any], base: Path) -> tuple[MemberConfig, Wrong]:
    """What a document means, and what in it does not go together. Values are each sound."""
    wrong: Wrong = []
    node = document["node"]
    name = node.get("name", socket.gethostname())
    if not is_name(name):
        wrong.append((("node", "name"), f'"{name}" cannot be the name of a process: printable, without "/"'))
    service = node.get("service", "")
    module, _, function = service.partition(":")
    if service and not (all(part.isidentifier() for part in module.split(".")) and function.isidentifier()):
        wrong.append((("node", "service"), f'is "package.module:function", not "{service}"'))
    discovery = document.get("discovery", {})
    if len(discovery) > 1:
        wrong.append((("discovery", list(discovery)[1]), f"only one of: {', '.join(discovery)}"))
    _check_trust(node["listen"], document.get("keys", {}), wrong)
    domains = _domains(document, wrong)
    groups = [
        _group(place, group, name, discovery, domains, wrong) for place, group in enumerate(document.get("group", []))
    ]
    for place, group in enumerate(groups):
        if group.name in [other.name for other in groups[:place]]:
            wrong.append((("group", place, "name"), f"group {group.name!r} stands here twice"))
    serve = document.get("serve", {})
    if serve and not (offer(serve["stack"]).service_role or offer(serve["stack"]).site_role):
        wrong.append((("serve", "stack"), f"on stack {serve['stack']!r} members hold their groups themselves"))
    if not groups and not service and not serve:
        wrong.append((("node",), "there is nothing to do: name a [[group]], a `service`, or [serve]"))
    log = document.get("log", {})
    observe = document.get("observe", {})
    config = MemberConfig(
        name=name,
        listen=node["listen"],
        service=service,
        history=_path(base, node.get("history")),
        run=node.get("run", "run"),
        storage=_path(base, node.get("storage")),
        rejoin=node.get("rejoin", not service),
        linger_s=node.get("linger_s", 5.0),
        multicast=node.get("multicast"),
        queue_messages_max=node.get("queue_messages_max", 65_536),
        queue_bytes_max=node.get("queue_bytes_max", 32 * 1024 * 1024),
        discovery={way: str(base / value) if way == "file" else value for way, value in discovery.items()},
        keyring=_path(base, document.get("keys", {}).get("keyring")),
        identity=_path(base, document.get("keys", {}).get("identity")),
        insecure=document.get("keys", {}).get("insecure", False),
        observe=observe.get("listen", ""),
        page=observe.get("page", False),
        log_level=log.get("level", "info"),
        log_format=log.get("format", "text"),
        options=_options(document.get("options", {}), wrong),
        serve_stack=serve.get("stack", ""),
        serve_peers=tuple(serve.get("peers", ())),
        groups=tuple(groups),
    )
    return config, wrong


def _path(base: Path, value: str | None) -> Path | None:
    return None if value is None else base / value


def _check_trust(listen: str, keys: dict[str, Any], wrong: Wrong) -> None:
    where = numeric(listen, socket.AF_UNSPEC)
    named = [name for name in ("keyring", "identity", "insecure") if keys.get(name)]
    if len(named) > 1:
        wrong.append((("keys", named[1]), "a node has a keyring, or an identity, or is insecure; name one of them"))
    elif not named and not (where is not None and is_loopback(where)):
        wrong.append((("node", "listen"), f"{listen} is off loopback, and there are no keys. {_KEYS_HOW}"))


def _options(found: dict[str, Any], wrong: Wrong) -> Options | None:
    """The options, or None for those that suit the address."""
    values = dict(found)
    profile = values.pop("profile", "")
    stacks = values.pop("stacks", {})
    if not values and not stacks and not profile:
        return None
    base = {"": Options, "default": Options, "local": Options.local, "fast": Options.fast}[profile]()
    assert set(values) <= {field.name for field in fields(Options)}
    options = replace(base, **values, of_stacks=stacks)
    try:
        check_options(options)
    except UsageError as error:
        wrong.append((("options", "stacks"), str(error)))
    return options


def _domains(document: dict[str, Any], wrong: Wrong) -> dict[str, CausalityDomain]:
    domains: dict[str, CausalityDomain] = {"main": CausalityDomain()}
    for place, found in enumerate(document.get("domain", [])):
        if found["name"] in domains and place:
            wrong.append((("domain", place, "name"), f"domain {found['name']!r} stands here twice"))
        try:
            domains[found["name"]] = CausalityDomain(
                name=found["name"],
                rule=found.get("rule", "carry"),
                resilience=found.get("resilience", 0),
                groups=tuple(found.get("groups", ())),
                overlaps=tuple((one, other) for one, other in found.get("overlaps", ())),
                excluded=tuple(found.get("excluded", ())),
            )
        except UsageError as error:
            wrong.append((("domain", place), str(error)))
            domains[found["name"]] = CausalityDomain(name=found["name"])
    return domains


def _group(
    place: int,
    found: dict[str, Any],
    name: str,
    discovery: dict[str, Any],
    domains: dict[str, CausalityDomain],
    wrong: Wrong,
) -> GroupConfig:
    at: KeyPath = ("group", place)
    group, stack, policy = found["name"], found.get("stack", DEFAULT), found.get("policy", PRIMARY)
    if not is_name(group):
        wrong.append(((*at, "name"), f'"{group}" cannot be the name of a group: printable, without "/"'))
    policies = offer(stack).policies
    if policy not in policies:
        wrong.append(((*at, "policy"), f"stack {stack!r} has the policies {', '.join(policies)}, not {policy!r}"))
    domain = found.get("domain", "main")
    if domain not in domains:
        wrong.append(((*at, "domain"), f"there is no [[domain]] {domain!r}; there are: {', '.join(domains)}"))
    else:
        try:
            domains[domain].check_groups(group, [])
        except UsageError as error:
            wrong.append(((*at, "domain"), str(error)))
    members, contacts = found.get("members"), tuple(found.get("contacts", ()))
    if members is not None and contacts:
        wrong.append(((*at, "contacts"), "name `members` or `contacts`, not both"))
    if members is None and not contacts and not discovery:
        wrong.append(
            (at, f"nobody can be found: group {group!r} needs `members` or `contacts`, or the file [discovery]")
        )
    if members is not None and name not in members:
        wrong.append(((*at, "members"), f"this process, {name!r}, is not among the founders: {', '.join(members)}"))
    if members is None and policy not in (PRIMARY, PARTITIONABLE, SITES):
        wrong.append(((*at, "policy"), f"under {policy!r} nobody can be let in: name all `members`"))
    return GroupConfig(
        name=group,
        stack=stack,
        policy=policy,
        domain=domains.get(domain, domains["main"]),
        members=members,
        contacts=contacts,
        found_after_s=found.get("found_after_s", FOUND_AFTER_S),
        join_s=found.get("join_s", 0.0),
    )
