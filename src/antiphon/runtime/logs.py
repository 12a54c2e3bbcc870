"""What a process logs: one line for each event, on the logger `antiphon`, with a name that stays the same.

    event=view_installed process=alice~mh2 group=quotes view=3 members=alice~mh2,bob~mh4 joined=bob~mh4

A line is `event=` with the name, then fields as `name=value`, of which empty ones are left out, then, where a sentence
helps, `text="…"`. Values with spaces, quotes or `=` stand in double quotes, as in JSON. The record has the same as
attributes: `record.event`, `record.fields` and `record.text`; a formatter that wants JSON takes those, as that of
`antiphon node` does. `EVENTS` names every event with its fields; a test compares docs/logging.md with it.

No payload is logged, nor anything made of one: sizes and counts at most. Errors that a program of the user's raises are
logged with what they say.
"""

import json
import logging
import re
from typing import Final, NamedTuple

from antiphon.kernel.identity import ProcessId

log: Final = logging.getLogger("antiphon")

_PLAIN: Final = re.compile(r"[^\s\"=\\]+")
_VALUE_CHARACTERS_MAX: Final = 2000


class LogEvent(NamedTuple):
    """One kind of line."""

    level: int
    fields: tuple[str, ...]
    meaning: str


_I, _W, _E, _D = logging.INFO, logging.WARNING, logging.ERROR, logging.DEBUG

EVENTS: Final[dict[str, LogEvent]] = {
    # membership
    "view_installed": LogEvent(
        _I,
        ("process", "group", "view", "members", "joined", "left", "failed"),
        "A view began. At level debug if nobody joined, left or failed.",
    ),
    "member_suspected": LogEvent(_I, ("process", "group", "member", "view"), "A member is taken to have failed."),
    "group_stalled": LogEvent(_W, ("process", "group"), "No majority can be reached: the group stands still here."),
    "group_left": LogEvent(_I, ("process", "group"), "This process left the group."),
    "group_excluded": LogEvent(_W, ("process", "group"), "The other members went on without this process."),
    "group_refused": LogEvent(_W, ("process", "group"), "This process declared the group differently from the others."),
    "group_recovered": LogEvent(_W, ("process", "group"), "An operator has the group go on without a majority."),
    "member_declared_differently": LogEvent(
        _W, ("process", "group", "member"), "The group goes on without a process that declared it differently."
    ),
    "announced": LogEvent(
        _I, ("process", "role", "name"), "A role of the process tells something, as `peer-caught-up`."
    ),
    "leave_unconfirmed": LogEvent(
        _W, ("group", "linger_s"), "The others did not agree in time on a view without this process."
    ),
    "messages_unsettled": LogEvent(
        _W, ("group", "linger_s", "outstanding"), "Not every member is known to have all that was sent here."
    ),
    "message_refused": LogEvent(_E, ("process", "group"), "The engine refused a message that the program sent."),
    "node_failed": LogEvent(_E, ("process",), "The node stopped because of a defect or of its surroundings."),
    # discovery and keys
    "contact_unusable": LogEvent(_W, ("file",), "A line of a contacts file is no address."),
    "contacts_not_found": LogEvent(_W, ("error",), "A discovery raised; it is asked again."),
    "node_insecure": LogEvent(_W, ("what", "address"), "What leaves is neither encrypted nor authenticated."),
    "keyring_unusable": LogEvent(_E, (), "The keyring's file cannot be used; the keys stay as they are."),
    "keyring_changed": LogEvent(_I, ("keys",), "The keyring's file has changed and is used."),
    "answer_failed": LogEvent(_E, ("path",), "The observer could not make the answer to a request over HTTP."),
    "identity_unusable": LogEvent(_E, (), "The identity's file cannot be used; the identity stays as it is."),
    "identity_changed": LogEvent(_I, ("identity",), "The identity's file has changed and is used."),
    "revocations_changed": LogEvent(_I, ("version",), "The list of revoked certificates has changed and is used."),
    # antiphon node
    "node_started": LogEvent(_I, ("process", "address", "sealed"), "The node is bound and begins to join."),
    "group_joined": LogEvent(_I, ("process", "group", "stack", "policy", "view"), "A group of the file was joined."),
    "join_waiting": LogEvent(_W, ("process", "group"), "Nobody let this process in yet; it goes on asking."),
    "join_failed": LogEvent(_E, ("process",), "A group could not be joined; the node leaves, and exits with 6."),
    "node_observed": LogEvent(_I, ("process", "address"), "Health, metrics and status are served there."),
    "service_started": LogEvent(_I, ("process", "service"), "The service of the file runs."),
    "service_ended": LogEvent(_I, ("process", "service"), "The service returned; the node leaves."),
    "service_failed": LogEvent(_E, ("process", "service"), "The service raised; the node leaves, and exits with 6."),
    "keyring_reloaded": LogEvent(_I, ("process",), "SIGHUP: the keyring was read again."),
    "node_stopping": LogEvent(_I, ("process", "reason"), "The node begins to leave its groups."),
    "node_stopped": LogEvent(_I, ("process", "settled"), "The node left and closed its history."),
    # toolkit
    "object_waiting": LogEvent(_W, ("object", "group"), "A replicated object waits, and says for what."),
    "object_disk_failed": LogEvent(_E, ("object", "file"), "A replicated object cannot write: this member leaves."),
    "object_file_cut": LogEvent(_W, ("file", "bytes"), "A half-written record at the end of a file was cut off."),
    "operation_failed": LogEvent(_D, ("member",), "An operation of another member raised here, as it did there."),
    "copy_failed": LogEvent(_E, ("group",), "A copy of the state has failed, so this member leaves."),
    "already_left": LogEvent(_D, ("group",), "The group was over already."),
    "leaf_failed": LogEvent(_E, ("leaf",), "The leaf of a hierarchy ended."),
    "leader_failed": LogEvent(_E, ("process",), "A member cannot represent its leaf, and leaves it."),
    "leaders_not_reached": LogEvent(_W, ("process",), "A representative goes on asking the leaders."),
    "message_not_sent": LogEvent(_D, ("to",), "A message of the toolkit was not sent: its receiver is gone."),
    "request_handler_failed": LogEvent(_E, ("group",), "The handler of requests raised; the sender is told."),
    "gateway_changed": LogEvent(_I, ("group", "gateway"), "A client leaves its gateway."),
    "inbox_full": LogEvent(_W, ("dropped",), "Messages to a member without its state yet were dropped."),
    "snapshot_failed": LogEvent(_E, ("joiner",), "The snapshot for a joiner could not be made."),
    "snapshot_not_offered": LogEvent(_E, ("joiner", "host"), "The snapshot for a joiner cannot be offered."),
    "snapshot_abandoned": LogEvent(_I, (), "A joiner closed the connection before it had the whole snapshot."),
    "state_not_fetched": LogEvent(_W, (), "Fetching the state failed and is tried again."),
    "work_failed": LogEvent(_D, ("caller",), "A cohort's work raised; the caller is told."),
    "cache_failed": LogEvent(_E, ("cache",), "A shared cache keeps nothing from here on."),
    "clients_not_told": LogEvent(_I, (), "Clients are not told which of their messages are at all members."),
    "tools_closed_early": LogEvent(_D, ("group",), "Tools were closed with messages unsent."),
}
"""Every event that Antiphon logs, with its usual level and its fields."""

Field = str | int | float | ProcessId | tuple[ProcessId, ...]


def log_event(
    level: int, event: str, text: str = "", *, exc_info: BaseException | bool = False, **fields: Field
) -> None:
    """Log one event: a name that stays the same, fields, and perhaps a sentence. Programs may use it for their own."""
    if log.isEnabledFor(level):
        values = {name: _shown(value) for name, value in fields.items() if value not in ("", ())}
        extra = {"event": event, "fields": values, "text": text}
        log.log(level, "%s", line_of(event, values, text), exc_info=exc_info or None, extra=extra, stacklevel=2)


def line_of(event: str, fields: dict[str, str | int | float], text: str) -> str:
    """The line for an event."""
    parts = [f"event={event}", *[f"{name}={_quoted(value)}" for name, value in fields.items()]]
    if text:
        parts.append(f"text={json.dumps(text, ensure_ascii=False)}")
    return " ".join(parts)


def _shown(value: Field) -> str | int | float:
    if isinstance(value, tuple):
        value = ",".join(repr(process) for process in value)
    elif isinstance(value, ProcessId):
        value = repr(value)
    return value[:_VALUE_CHARACTERS_MAX] if isinstance(value, str) else value


def _quoted(value: str | int | float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def as_markdown() -> str:
    """The table of docs/logging.md."""
    lines = ["| event | level | fields | meaning |", "| --- | --- | --- | --- |"]
    for name, event in EVENTS.items():
        fields = " ".join(f"`{field}`" for field in event.fields)
        lines.append(f"| `{name}` | {logging.getLevelName(event.level).lower()} | {fields} | {event.meaning} |")
    return "\n".join(lines) + "\n"
