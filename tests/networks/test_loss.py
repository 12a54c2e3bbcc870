"""A loopback that loses packets: as many as were asked for, and only in there."""

import os
import socket
import subprocess

import pytest

from bench.loss import losing
from tests.networks.network import missing

REASON = missing()
pytestmark = [pytest.mark.networks, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

DATAGRAMS = 3000


def arrived() -> int:
    """How many of DATAGRAMS to itself this process gets."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        count = 0
        for _ in range(DATAGRAMS):
            receiver.sendto(b"?", receiver.getsockname())
            try:
                receiver.recv(1)
                count += 1
            except BlockingIOError:
                pass
        return count


def own_namespace() -> int:
    return os.stat("/proc/thread-self/ns/net").st_ino


@pytest.mark.parametrize(("every", "least", "most"), [(0, DATAGRAMS, DATAGRAMS), (10, 2500, 2900)])
def test_one_packet_in_so_many_is_lost(every: int, least: int, most: int) -> None:
    before = own_namespace()
    with losing(every):
        assert own_namespace() != before
        assert least <= arrived() <= most
    assert own_namespace() == before
    assert arrived() == DATAGRAMS
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"antiphon-{os.getpid()}-loss" not in listed


def test_also_what_fails_comes_back() -> None:
    before = own_namespace()
    with pytest.raises(ValueError, match="no"), losing(2):
        raise ValueError("no")
    assert own_namespace() == before
