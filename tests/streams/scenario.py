"""The whole of it with real processes and real kills: `python -m tests.streams.scenario`, some minutes.

Five members send from when two listeners, which keep journals, are in the group, until all has been killed. One process
runs two queries: one collects the messages of the first journal into Parquet, the other watches both journals; it is
killed (kill -9, Java and workers with it) and started again twice. Another process forwards the messages through a
spool and a feeder back to the group; it is killed between the sink's commit and Spark's checkpoint, and the feeder is
killed when members have rows that it has not settled. Then: every message is in the Parquet output once, every member
has seen every forwarded row once and in order, and there are no findings.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq

from antiphon.history.journal import MESSAGE, JournalReader
from antiphon.history.spool import Spool

NAMES = ("anna", "bert", "carl", "dora", "emil")
PATIENCE_S = 900.0
"""Two Sparks and eight processes start here, on whatever else the machine does."""

Process = subprocess.Popen[bytes]


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def free_addresses(count: int) -> list[str]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for own in sockets:
        own.bind(("127.0.0.1", 0))
    addresses = ["{}:{}".format(*own.getsockname()) for own in sockets]
    for own in sockets:
        own.close()
    return addresses


@contextmanager
def started(place: Path, *arguments: str) -> Iterator[Process]:
    """A process of ours, in a log of its own; killed at the end with all that it started."""
    with (place / "processes.log").open("ab") as log:
        process = subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        yield process
    finally:
        kill(process)


def kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        if process.poll() is None and os.getpgid(process.pid) == process.pid:  # a query leads a group of its own
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    process.wait()


def payloads(directory: Path) -> list[bytes]:
    """What is in a Parquet sink, as Spark would read it: the files that its own log of batches names."""
    found: list[bytes] = []
    for file in _committed(directory):
        found += pq.read_table(file, columns=["payload"])["payload"].to_pylist()
    return found


def rows_in(directory: Path) -> int:
    """How many rows there are in a Parquet sink."""
    return sum(pq.read_metadata(file).num_rows for file in _committed(directory))


def _committed(directory: Path) -> list[Path]:
    metadata = directory / "_spark_metadata"
    names: set[str] = set()
    for log in metadata.iterdir() if metadata.exists() else ():
        if log.name.partition(".")[0].isdecimal():
            names |= {json.loads(line)["path"] for line in log.read_text().splitlines()[1:]}
    return [directory / Path(name).name for name in names]


class Scenario:
    """Where everything lies, and what is running."""

    def __init__(self, place: Path, stack: ExitStack, rate: float) -> None:
        self.place = place
        self._stack = stack
        self.queries: dict[str, tuple[Process, tuple[str, ...]]] = {}
        self.addresses = dict(zip(NAMES, free_addresses(len(NAMES)), strict=True))
        self.members = [
            self.start("-m", "tests.streams.member", json.dumps(self._settings(name, rate))) for name in NAMES
        ]
        self.spool = Spool(place / "spool")

    def _settings(self, name: str, rate: float) -> dict[str, object]:
        seen, sent = (str(self.place / f"{name}.{what}") for what in ("seen", "sent"))
        return {"name": name, "members": self.addresses, "rate": rate, "seen": seen, "sent": sent}

    def tell_members(self) -> None:
        """First that they shall send, then that it is enough."""
        for member in self.members:
            assert member.stdin is not None
            member.stdin.write(b"\n")
            member.stdin.flush()

    def start(self, *arguments: str) -> Process:
        return self._stack.enter_context(started(self.place, *arguments))

    def antiphon(self, command: str, *arguments: str) -> Process:
        contacts = ",".join(self.addresses.values())
        run = "from antiphon.cli.main import main; main()"
        return self.start("-c", run, command, "--group", "quotes", "--contacts", contacts, *arguments)

    def query(self, kind: str, journals: str, to: str, *more: str) -> None:
        """Have a query run from now on: whenever it has ended, it is started again."""
        checkpoint = str(self.place / f"{to}-checkpoint")
        arguments = ("-m", "tests.streams.query", kind, journals, str(self.place / to), checkpoint, *more)
        self.queries[kind] = (self.start(*arguments), arguments)

    def wait(self, what: str, condition: Callable[[], bool], look_s: float = 0.2) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > until_s:
                raise SystemExit(f"after {PATIENCE_S:.0f} s there is still no {what}")
            self._tend()
            time.sleep(look_s)

    def _tend(self) -> None:
        """As an operator does. Spark gives up by itself, too, on a machine that is too busy to start its workers."""
        for kind, (process, arguments) in self.queries.items():
            if process.poll() is not None:
                say(f"the process of query {kind!r} is gone (status {process.returncode}) and is started again")
                self.queries[kind] = (self.start(*arguments), arguments)

    def journaled(self, name: str) -> int:
        directory = self.place / name
        return JournalReader(directory).end() if (directory / "journal.json").exists() else 0

    def sent(self, name: str) -> int:
        """How many messages a member has sent in all; -1 while it has not stopped."""
        path = self.place / f"{name}.sent"
        return int(path.read_text()) if path.exists() else -1

    def lines_seen(self, name: str) -> int:
        """Rows that a member has seen, repeated ones too."""
        path = self.place / f"{name}.seen"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def seen(self, name: str) -> list[str | None]:
        path = self.place / f"{name}.seen"
        return [json.loads(line)["row"] for line in path.read_text().splitlines()] if path.exists() else []

    def rows_seen(self, name: str) -> list[str]:
        return [row for row in self.seen(name) if row is not None]


def play(scenario: Scenario) -> None:
    place = scenario.place
    journals = [place / "journal-1", place / "journal-2"]
    listeners = [
        scenario.antiphon("listen", "--name", f"ear-{number}", "--log", str(journal))
        for number, journal in enumerate(journals, 1)
    ]
    wait = scenario.wait
    wait("journal", lambda: all(scenario.journaled(journal.name) > 0 for journal in journals))
    scenario.tell_members()
    say("both listeners are in, and the members begin to send")
    both = ",".join(map(str, journals))
    scenario.query("collect", both, "collected")
    wait("output", lambda: rows_in(place / "collected") > 0)
    die = place / "died"
    scenario.query("forward", str(journals[0]), "spool", str(die))
    for number in (1, 2):
        before = rows_in(place / "collected")
        wait("new output", lambda before=before: rows_in(place / "collected") > before)  # type: ignore[misc]
        kill(scenario.queries["collect"][0])
        say(f"collecting query killed, time {number}: {rows_in(place / 'collected'):,} messages in its output")
    wait("kill after a commit", die.exists)
    say(f"forwarding query killed between commit and checkpoint of batch {die.read_text()}")
    feeder = _kill_feeder(scenario)
    scenario.tell_members()
    wait("end of the sending", lambda: all(scenario.sent(name) >= 0 for name in NAMES))
    total = sum(scenario.sent(name) for name in NAMES)
    say(f"the members have sent {total:,} messages, and stop")
    wait("end of the forwarding", lambda: all(len(scenario.rows_seen(name)) >= total for name in NAMES), look_s=1.0)
    time.sleep(3)  # whatever comes too often would come by now
    ends = [scenario.journaled(journal.name) for journal in journals]
    wait("end of the collecting", lambda: _done(place / "collected-checkpoint") >= ends[0])
    wait("findings", lambda: _done(place / "collected-checkpoint-findings") >= min(ends))
    for process in (*(query for query, _ in scenario.queries.values()), feeder, *listeners, *scenario.members):
        kill(process)


def _kill_feeder(scenario: Scenario) -> Process:
    """Kill it when members have rows that it has not settled; the next one."""
    arguments = ("feed", "--spool", str(scenario.spool.directory))
    feeder = scenario.antiphon(*arguments)
    spool = scenario.spool
    scenario.wait("row that is not settled", lambda: scenario.lines_seen("anna") >= spool.position().next, look_s=0.001)
    kill(feeder)
    say(f"feeder killed: {scenario.lines_seen('anna'):,} rows at a member, {spool.position().next - 1:,} settled")
    return scenario.antiphon(*arguments)


def _done(checkpoint: Path) -> int:
    """How far a query has come in the journal where it is least far."""
    commits = checkpoint / "commits"
    done = max((int(file.name) for file in commits.glob("[0-9]*")), default=-1) if commits.exists() else -1
    if done < 0:
        return 0
    lines = (checkpoint / "offsets" / str(done)).read_text().splitlines()[2:]
    return min(int(json.loads(line)["offset"]) for line in lines)


def judge(scenario: Scenario) -> list[str]:
    """What is wrong, in sentences; empty if all is well."""
    wrong = []
    place = scenario.place
    own = [f"{name} {number}".encode() for name in NAMES for number in range(scenario.sent(name))]
    reader = JournalReader(place / "journal-1")
    rows = [row for batch in reader.read(0, reader.end()) for row in batch.to_pylist() if row["kind"] == MESSAGE]
    collected = Counter(payloads(place / "collected"))
    if collected != Counter(row["payload"] for row in rows):
        wrong.append("the collected messages are not those of the journal, each once")
    if Counter(row["payload"] for row in rows if row["feed"] is None) != Counter(own):
        wrong.append("the journal does not hold each message of the members once")
    order = [row["payload"].decode() for row in rows if row["feed"] is None]
    repeated = 0
    for name in NAMES:
        repeated += len(scenario.seen(name)) - len(scenario.rows_seen(name))
        if Counter(scenario.rows_seen(name)) != Counter(order):
            wrong.append(f"{name} has not seen each forwarded row once")
    if len({tuple(scenario.rows_seen(name)) for name in NAMES}) != 1:
        wrong.append("the members have seen the rows in different orders")
    findings = [row for file in _committed(place / "collected-findings") for row in pq.read_table(file).to_pylist()]
    wrong += [f"{finding['guarantee']} {finding['verdict']}: {finding['text']}" for finding in findings]
    say(
        f"{len(own):,} messages of {len(NAMES)} members, {sum(collected.values()):,} collected, "
        f"{len(order):,} forwarded; "
        f"the feeder repeated {repeated // len(NAMES):,} rows, which nobody saw; {len(findings)} findings"
    )
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=50.0, help="messages per second of each member")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    with tempfile.TemporaryDirectory(prefix="antiphon-streams-") as directory, ExitStack() as stack:
        scenario = Scenario(Path(directory), stack, arguments.rate)
        try:
            play(scenario)
            wrong = judge(scenario)
        except SystemExit:
            sys.stderr.write((scenario.place / "processes.log").read_text()[-5000:])
            raise
    for sentence in wrong:
        say(f"WRONG: {sentence}")
    say("broken" if wrong else "all is well")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
