"""Names as people write them: what may be a name, and "name/incarnation" for one life of a process."""

import re
from typing import Final

from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import NAME_BYTES_MAX, ProcessId

_SHORT: Final = re.compile("(.+)~([0-9a-z]{8})")
"""How a process is shown whose incarnation came from the clock."""


def check_name(what: str, name: object) -> None:
    """Refuse what cannot name a process or a group. `what` says which, for the message."""
    if not isinstance(name, str) or not name or not name.isprintable() or "/" in name:
        raise UsageError(f"{name!r} cannot be the name of a {what}: use printable characters other than '/'")
    size = len(name.encode())
    if size > NAME_BYTES_MAX:
        raise UsageError(f"the name of a {what} has {size} bytes, but at most {NAME_BYTES_MAX} are allowed; shorten it")


def parse_process(text: str) -> ProcessId:
    """ "alice" is the first incarnation of alice, "alice/2" the second, "alice~mi3k9q1x" one from the clock."""
    short = _SHORT.fullmatch(text)
    if short is not None:
        check_name("process", short[1])
        return ProcessId(short[1], int(short[2], 36))
    name, slash, incarnation = text.partition("/")
    check_name("process", name)
    if not slash:
        return ProcessId(name)
    if not (incarnation.isascii() and incarnation.isdecimal()) or int(incarnation) < 1:
        raise UsageError(f'{text!r} does not name a process: write "name", or "name/2" for its second incarnation')
    return ProcessId(name, int(incarnation))
