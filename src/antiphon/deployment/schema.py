"""What a file for `antiphon node` may say: every table and every key, in one place.

The checks (config.py), the overrides by environment variables and docs/configuration.md are made from this table.
"""

from dataclasses import MISSING, dataclass, fields
from typing import Final

from antiphon.kernel.causality_domain import RULES
from antiphon.kernel.options import Options
from antiphon.stacks.registry import DEFAULT, OFFERS

TEXT: Final = "text"
ADDRESS: Final = "address"
WHOLE: Final = "whole number"
SECONDS: Final = "seconds"
FLAG: Final = "true or false"
TEXTS: Final = "list of texts"
ADDRESSES: Final = "list of addresses"
PAIRS: Final = "list of pairs of texts"
NAMED_ADDRESSES: Final = "table of names and addresses"
NAMED_NUMBERS: Final = "table of names and whole numbers"

PROFILES: Final = ("default", "local", "fast")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")


@dataclass(frozen=True, kw_only=True)
class ConfigKey:
    """One key of one table."""

    name: str
    kind: str
    meaning: str
    default: str = ""
    """As the documentation shows it."""
    required: bool = False
    choices: tuple[str, ...] = ()
    least: int = 0
    """The least number that makes sense."""


@dataclass(frozen=True)
class ConfigTable:
    """One table, or one array of tables."""

    name: str
    meaning: str
    keys: tuple[ConfigKey, ...]
    is_array: bool = False

    def key(self, name: str) -> ConfigKey | None:
        return next((key for key in self.keys if key.name == name), None)


def _option_keys() -> tuple[ConfigKey, ...]:
    """The fields of Options, as keys."""
    keys: list[ConfigKey] = []
    for field in fields(Options):
        if field.default is MISSING:
            continue  # of_stacks, which has a key of its own
        kind = FLAG if isinstance(field.default, bool) else WHOLE
        shown = str(field.default).lower() if kind == FLAG else f"{field.default:,}"
        keys.append(ConfigKey(name=field.name, kind=kind, default=shown, meaning=f"`Options.{field.name}`"))
    return tuple(keys)


NODE: Final = ConfigTable(
    "node",
    "The process.",
    (
        ConfigKey(name="name", kind=TEXT, default="the host's name", meaning="Its name, unique in each of its groups."),
        ConfigKey(
            name="listen",
            kind=ADDRESS,
            required=True,
            meaning="Where it receives, as `10.0.0.1:7400`; `0.0.0.0:7400` for all addresses of the host.",
        ),
        ConfigKey(
            name="service",
            kind=TEXT,
            default="none",
            meaning="What it does, as `package.module:function`: `async def function(node, groups)`. Without one it is "
            "a plain member: it reads and drops what is delivered, records, and keeps the groups alive.",
        ),
        ConfigKey(
            name="history", kind=TEXT, default="none", meaning="A directory to record into, for `antiphon audit`."
        ),
        ConfigKey(name="run", kind=TEXT, default="`run`", meaning="The name of the run in the history."),
        ConfigKey(name="storage", kind=TEXT, default="none", meaning="A directory for what stacks keep on disk."),
        ConfigKey(
            name="rejoin",
            kind=FLAG,
            default="true without a service, else false",
            meaning="Come back as the next incarnation when the others went on without this process. If false, the "
            "program ends then, with exit code 6.",
        ),
        ConfigKey(
            name="linger_s",
            kind=SECONDS,
            default="5",
            meaning="How long each step of leaving waits for the others: that they have all of mine, then that they "
            "agree on a view without me. SIGTERM ends the program after four times this at most.",
        ),
        ConfigKey(
            name="multicast",
            kind=ADDRESS,
            default="none",
            meaning="An IPv4 multicast address for what goes to all, alike at all members.",
        ),
        ConfigKey(
            name="queue_messages_max",
            kind=WHOLE,
            default="65,536",
            least=1,
            meaning="Messages that may wait for the service to read them; then senders wait.",
        ),
        ConfigKey(
            name="queue_bytes_max", kind=WHOLE, default="33,554,432", least=1, meaning="The same in bytes of payload."
        ),
    ),
)

DISCOVERY: Final = ConfigTable(
    "discovery",
    "How members are found, in groups that do not say otherwise. Exactly one key.",
    (
        ConfigKey(
            name="contacts",
            kind=ADDRESSES,
            meaning="Addresses of members, this one among them. The first founds the group if nobody is there.",
        ),
        ConfigKey(name="file", kind=TEXT, meaning="A file with one address per line, read again and again."),
        ConfigKey(
            name="dns",
            kind=ADDRESS,
            meaning="A host name with a port: all its addresses, resolved again and again. For headless services.",
        ),
        ConfigKey(
            name="beacon",
            kind=ADDRESS,
            meaning="A multicast address by which members announce themselves, as `239.255.74.0:7400`.",
        ),
    ),
)

KEYS: Final = ConfigTable(
    "keys",
    "Whom this process trusts. Off loopback a node without keys does not start.",
    (
        ConfigKey(name="keyring", kind=TEXT, default="none", meaning="The file that `antiphon key new` made."),
        ConfigKey(
            name="identity", kind=TEXT, default="none", meaning="Instead: the file that `antiphon ca issue` made."
        ),
        ConfigKey(
            name="insecure",
            kind=FLAG,
            default="false",
            meaning="Do without keys, on a network where everybody is trusted.",
        ),
    ),
)

OBSERVE: Final = ConfigTable(
    "observe",
    "Health, metrics and status over HTTP.",
    (
        ConfigKey(
            name="listen",
            kind=ADDRESS,
            default="none",
            meaning="Where `/live`, `/ready`, `/metrics` and `/status` are served, as `127.0.0.1:9400`.",
        ),
        ConfigKey(name="page", kind=FLAG, default="false", meaning="Serve a live page for people at `/`, too."),
    ),
)

LOG: Final = ConfigTable(
    "log",
    "What is logged on standard error (logging.md).",
    (
        ConfigKey(name="level", kind=TEXT, default="`info`", choices=LOG_LEVELS, meaning="The least level."),
        ConfigKey(
            name="format",
            kind=TEXT,
            default="`text`",
            choices=LOG_FORMATS,
            meaning="`text`: time, level and `event=name field=value …`. `json`: one object per line.",
        ),
    ),
)

OPTIONS: Final = ConfigTable(
    "options",
    "Limits and rhythms, alike at all members of a group: the fields of `antiphon.Options`.",
    (
        ConfigKey(
            name="profile",
            kind=TEXT,
            default="`local` on loopback, else `default`",
            choices=PROFILES,
            meaning="Where the other values start from: `Options()`, `Options.local()`, `Options.fast()`.",
        ),
        ConfigKey(
            name="stacks",
            kind=NAMED_NUMBERS,
            default="none",
            meaning='Options of single stacks, as `{ "stack.option" = 1 }`.',
        ),
        *_option_keys(),
    ),
)

SERVE: Final = ConfigTable(
    "serve",
    "Hold groups for others, on a stack whose groups live at a service or at sites (stacks.md).",
    (
        ConfigKey(name="stack", kind=TEXT, required=True, choices=tuple(OFFERS), meaning="The stack."),
        ConfigKey(name="peers", kind=ADDRESSES, default="none", meaning="Addresses, in figures, of all other peers."),
    ),
)

GROUP: Final = ConfigTable(
    "group",
    "One group to be in. Repeat the table for each.",
    (
        ConfigKey(name="name", kind=TEXT, required=True, meaning="Its name."),
        ConfigKey(
            name="stack", kind=TEXT, default=f"`{DEFAULT}`", choices=tuple(OFFERS), meaning="Its stack (stacks.md)."
        ),
        ConfigKey(
            name="policy",
            kind=TEXT,
            default="`primary`",
            meaning="Its policy: `primary`, `static`, or one that the stack has beside these.",
        ),
        ConfigKey(name="domain", kind=TEXT, default="`main`", meaning="Its causality domain, by name."),
        ConfigKey(
            name="members",
            kind=NAMED_ADDRESSES,
            default="none",
            meaning="The founders by name, alike at all of them; instead of discovery.",
        ),
        ConfigKey(name="contacts", kind=ADDRESSES, default="those of `discovery`", meaning="Whom to ask."),
        ConfigKey(
            name="found_after_s",
            kind=SECONDS,
            default="5",
            meaning="When the first contact founds the group if nobody lets it in; longer than any change of view.",
        ),
        ConfigKey(
            name="join_s",
            kind=SECONDS,
            default="0",
            meaning="Give up, with exit code 6, if not let in after so long; 0: go on asking, not ready meanwhile.",
        ),
    ),
    is_array=True,
)

DOMAIN: Final = ConfigTable(
    "domain",
    "One causality domain that is not as by default. Alike at all processes in it.",
    (
        ConfigKey(name="name", kind=TEXT, required=True, meaning="Its name, by which groups refer to it."),
        ConfigKey(
            name="rule", kind=TEXT, default="`carry`", choices=RULES, meaning="How order between groups is kept."
        ),
        ConfigKey(name="resilience", kind=WHOLE, default="0", meaning="k of `antiphon.CausalityDomain`."),
        ConfigKey(name="groups", kind=TEXTS, default="any", meaning="The names of all its groups."),
        ConfigKey(name="overlaps", kind=PAIRS, default="any", meaning="All pairs of groups that share members."),
        ConfigKey(name="excluded", kind=TEXTS, default="all", meaning="Groups without which there is no cycle."),
    ),
    is_array=True,
)

TABLES: Final = (NODE, DISCOVERY, KEYS, OBSERVE, LOG, OPTIONS, SERVE, GROUP, DOMAIN)

PREFIX: Final = "ANTIPHON_"


def variable_of(table: ConfigTable, key: ConfigKey) -> str:
    """The environment variable that overrides a key."""
    return f"{PREFIX}{table.name}_{key.name}".upper()


def overridable() -> dict[str, tuple[ConfigTable, ConfigKey]]:
    """The keys that environment variables can override: those of single tables, but for tables within them."""
    named = (NAMED_ADDRESSES, NAMED_NUMBERS, PAIRS)
    found = [(table, key) for table in TABLES if not table.is_array for key in table.keys if key.kind not in named]
    return {variable_of(table, key): (table, key) for table, key in found}


def as_markdown() -> str:
    """The tables of docs/configuration.md."""
    lines: list[str] = []
    for table in TABLES:
        title = f"[[{table.name}]]" if table.is_array else f"[{table.name}]"
        lines += [
            f"## `{title}`",
            "",
            table.meaning,
            "",
            "| key | value | default | meaning |",
            "| --- | --- | --- | --- |",
        ]
        for key in table.keys:
            value = " / ".join(f"`{choice}`" for choice in key.choices) if key.choices else key.kind
            default = "required" if key.required else key.default or "none"
            lines.append(f"| `{key.name}` | {value} | {default} | {key.meaning} |")
        lines.append("")
    return "\n".join(lines)


def as_text() -> str:
    """The same for a terminal."""
    lines: list[str] = []
    variables = {(table.name, key.name): variable for variable, (table, key) in overridable().items()}
    for table in TABLES:
        title = f"[[{table.name}]]" if table.is_array else f"[{table.name}]"
        lines += [f"{title}  {table.meaning}", ""]
        for key in table.keys:
            value = " / ".join(key.choices) or key.kind
            default = "required" if key.required else f"default: {key.default}" if key.default else ""
            variable = variables.get((table.name, key.name), "")
            lines.append(f"  {key.name}  ({'; '.join(part for part in (value, default, variable) if part)})")
            lines.append(f"      {key.meaning}")
        lines.append("")
    return "\n".join(lines).replace("`", "")
