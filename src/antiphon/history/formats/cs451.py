"""Import of `cs451` logs: a folder of files `N.output` or `procN.output`, as a course has them written.

    b SEQ           the process broadcasts its message SEQ; SEQ counts 1, 2, 3…
    d SENDER SEQ    the process delivers message SEQ of process SENDER

One group; its members are the processes that have a file. The format has no times: every row is of time 0, so latencies
mean nothing, and runs of consecutive messages become single rows.

Such programs end by a signal, and the format has no mark for the end. So a file proves nothing beyond its last line:
what a process may have done behind it, and lost in a buffer, is unknown, and its log is left open. Whoever knows that
the processes wrote all that they did says so (`ImportOptions.complete`); then each log ends with a `stop` row. It does
not say that the run had gone quiet, so `settled` stays unknown. A last line without an end may be half a number: it is
left out, and the log is left open in any case.

Memory: one line, and what a Recorder holds.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from antiphon.history.formats.errors import MalformedLogError
from antiphon.history.formats.importing import ENDED, PROMISES, Imported, ImportOptions, begin
from antiphon.history.log import Log
from antiphon.history.recorder import Recorder

LEVEL: Final = "fifo"
GROUP: Final = "broadcast"
STACK: Final = "cs451"
FILE_NAME: Final = re.compile(r"(?:proc)?0{0,8}([1-9][0-9]{0,8})\.output")
NUMBER: Final = re.compile(rb"[1-9][0-9]{0,17}")
LINE_BYTES_MAX: Final = 100
PROCESSES_MAX: Final = 10_000


def import_cs451(source: Path, directory: Path, options: ImportOptions) -> Imported:
    """Write the history of the logs in folder `source` into `directory`."""
    files = _files(source)
    level = options.level or LEVEL
    members = [f"{process}/1" for process in files]
    events = 0
    cut_short = []
    for process, file in files.items():
        with Recorder(directory, run=options.run, process=str(process)) as log:
            begin(log, GROUP, STACK, level, members)
            whole, lines = _record(file, log, level, files)
            if whole and options.complete:
                log.stop(0, ENDED)
            elif not whole:
                cut_short.append(file.name)
            events += lines
    remarks = []
    if options.level is None:
        told = f"no level was named, so the history is held to level {level} ({', '.join(PROMISES[level])})"
        remarks.append(f"{told}; --level names another")
    if not options.complete:
        remarks.append(
            "the format has no mark for the end of a log, so what lies behind its last line is unknown; --complete "
            "says that the processes wrote all that they did"
        )
    remarks += [f"{name} ends in the middle of a line: its log counts as cut short" for name in cut_short]
    return Imported(runs=1, logs=len(files), events=events, remarks=tuple(remarks))


def _files(source: Path) -> dict[int, Path]:
    if not source.is_dir():
        raise MalformedLogError(source, 0, "a cs451 log is a folder of files N.output, and this is no folder")
    files: dict[int, Path] = {}
    for file in sorted(source.iterdir()):
        match = FILE_NAME.fullmatch(file.name)
        if match is None or not file.is_file():
            continue
        other = files.setdefault(int(match[1]), file)
        if other is not file:
            raise MalformedLogError(file, 0, f"{other.name} is a log of process {int(match[1])} already")
    if not files:
        raise MalformedLogError(source, 0, "the folder holds no file N.output, nor procN.output")
    if len(files) > PROCESSES_MAX:
        raise MalformedLogError(source, 0, f"it holds {len(files)} logs, but at most {PROCESSES_MAX} can be imported")
    return dict(sorted(files.items()))


def _record(file: Path, log: Log, level: str, files: dict[int, Path]) -> tuple[bool, int]:
    """Record the lines of a file; whether it is whole, and how many there are."""
    sent = events = 0
    for line, words in _lines(file):
        if words is None:
            return False, events
        match words:
            case [b"b", number]:
                value = _number(file, line, number)
                if value != sent + 1:
                    raise MalformedLogError(file, line, f"broadcast {value} follows {sent}; SEQ must count 1, 2, 3…")
                sent = value
                log.send(0, GROUP, 1, value, 1, level, 0)
            case [b"d", sender, number]:
                process = _number(file, line, sender)
                if process not in files:
                    raise MalformedLogError(file, line, f"sender {process} is unknown: there is no {process}.output")
                log.deliver(0, GROUP, 1, str(process), 1, _number(file, line, number), 1, level, 0)
            case _:
                told = b" ".join(words).decode(errors="replace")
                raise MalformedLogError(file, line, f"expected 'b SEQ' or 'd SENDER SEQ', not {told!r}")
        events += 1
    return True, events


def _lines(file: Path) -> Iterator[tuple[int, list[bytes] | None]]:
    """Each line, from 1 on, as words; None for a last line that has no end."""
    with file.open("rb") as stream:
        line = 0
        while text := stream.readline(LINE_BYTES_MAX):
            line += 1
            if text.endswith(b"\n"):
                yield line, text.split()
            elif len(text) == LINE_BYTES_MAX:
                raise MalformedLogError(file, line, f"the line is longer than {LINE_BYTES_MAX} bytes")
            else:
                yield line, None


def _number(file: Path, line: int, text: bytes) -> int:
    if NUMBER.fullmatch(text) is None:
        told = text.decode(errors="replace")
        raise MalformedLogError(file, line, f"{told!r} is no positive whole number of at most 18 digits")
    return int(text)
