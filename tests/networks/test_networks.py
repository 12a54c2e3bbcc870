"""Real processes on a real and bad network, in small; `make networks` runs the same at full size."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antiphon.history.reader import HistoryFiles
from antiphon.pipeline import reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.session import make_session
from tests.networks.journal import Journal, to_history
from tests.networks.network import Network, missing
from tests.networks.scenario import BOUNDED, play

REASON = missing()
needs_namespaces = pytest.mark.skipif(REASON is not None, reason=str(REASON))
pytestmark = pytest.mark.networks

RECEIVE = """
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
sock.bind(("0.0.0.0", 7400))
print("bound", flush=True)
count = 0
while sock.recv(100) != b"end":
    count += 1
print(count)
"""
SEND = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[2])):
    sock.sendto(sys.argv[3].encode(), (sys.argv[1], 7400))
"""


@pytest.mark.slow
@pytest.mark.spark
@needs_namespaces
def test_members_in_namespaces_keep_their_promises(tmp_path: Path) -> None:
    figures, history = play(BOUNDED, tmp_path / "trial", print)
    result = audit(history, make_session())
    assert result.verdict == "kept", (result.findings, figures)
    assert {finding.guarantee for finding in result.findings if not finding.checked} <= {"group_broadcast"}
    slow = reference.audit(history)
    assert {finding.guarantee: finding.checked for finding in result.findings} == {
        finding.guarantee: finding.checked for finding in slow.findings
    }


@contextmanager
def receiver(network: Network) -> Iterator[subprocess.Popen[str]]:
    """Counts what comes to host 2, and prints the count when it gets "end"."""
    command = network.command(2, [sys.executable, "-c", RECEIVE])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "bound\n"
            yield process
        finally:
            process.kill()


def send(network: Network, count: int, text: str) -> None:
    """From host 1 to host 2."""
    program = [sys.executable, "-c", SEND, network.address(2), str(count), text]
    subprocess.run(network.command(1, program), check=True, timeout=30.0)


def arriving(network: Network) -> int:
    """How many of 1,000 datagrams arrive, if any do."""
    with receiver(network) as process:
        send(network, 1000, "datagram")
        send(network, 100, "end")
        return int(process.communicate(timeout=30.0)[0])


@needs_namespaces
def test_a_network_loses_what_it_is_told_to_lose() -> None:
    with Network(2) as network:
        assert arriving(network) == 1000
        network.lose(50)
        assert 300 < arriving(network) < 700  # further off than chance goes in the age of the universe
        network.lose(0)
        assert arriving(network) == 1000


@needs_namespaces
def test_what_is_sent_into_a_parted_network_is_lost() -> None:
    with Network(2) as network, receiver(network) as process:
        send(network, 10, "before")
        network.part([2])
        send(network, 1000, "during")
        network.heal()
        send(network, 10, "after")
        send(network, 1, "end")
        assert int(process.communicate(timeout=30.0)[0]) == 20


@needs_namespaces
def test_a_link_can_be_cut_in_one_direction() -> None:
    with Network(2) as network:
        network.drop(2, 1)
        assert arriving(network) == 1000
        network.drop(1, 2)
        with receiver(network) as process:
            send(network, 1000, "during")
            network.heal()
            send(network, 10, "after")
            send(network, 1, "end")
            assert int(process.communicate(timeout=30.0)[0]) == 10


def namespaces() -> str:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout


@needs_namespaces
def test_a_network_is_taken_away_when_its_test_fails() -> None:
    network = Network(1)

    def fail() -> None:
        with network:
            assert network.namespace(1) in namespaces()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert network.namespace(1) not in namespaces()


def test_a_journal_becomes_a_log_that_ends_with_the_crash(tmp_path: Path) -> None:
    journals = tmp_path / "journals"
    journals.mkdir()
    for incarnation in (1, 2):
        journal = Journal(journals, run="r", process="p", incarnation=incarnation)
        journal.start(1, "g", "vector", "primary", ("causal",), ("fifo",))
        journal.view(2, "g", 1, ["p/1"])
        journal.send(3, "g", 1, 1, 1, "causal", 10)
        journal.send(4, "g", 1, 2, 1, "causal", 10)
        if incarnation == 2:
            journal.stop(5)
        journal.close()
    with (journals / "p-1.journal").open("ab") as file:
        file.write(b'[5,"del')  # torn by the kill
    to_history(journals, tmp_path / "history", "r", {("p", 1): 9})
    rows = list(HistoryFiles.open(tmp_path / "history").read_rows())
    kinds = [(row.incarnation, row.kind, row.number, row.label) for row in rows if row.kind not in ("start", "view")]
    assert kinds == [
        (1, "send", 1, None),
        (1, "send", 2, None),
        (1, "crash", None, "killed"),
        (2, "send", 1, None),
        (2, "send", 2, None),
        (2, "stop", None, "quiet"),
    ]
