"""Processes of a history as people are shown them: "alice/1794926400123" as "alice~mi2v9q0r" (kernel/identity.py)."""

from antiphon.kernel.identity import ProcessId


def shown_process(process: str) -> str:
    """A process that is on record as name/incarnation, in its short form."""
    name, _, incarnation = process.rpartition("/")
    if not name or not (incarnation.isascii() and incarnation.isdecimal()):
        return process
    return repr(ProcessId(name, int(incarnation)))
