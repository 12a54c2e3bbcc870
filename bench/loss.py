"""A loopback that loses packets: a network namespace that this process, and its children, enter for a while.

One arriving packet in `every` is dropped, at random. Needs root, `ip` and `nft`, and Linux. The machine's own network
is not changed; the namespace is deleted at the end.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bench.namespaces import NAMESPACES, enter
from tests.networks.network import call


@contextmanager
def losing(every: int) -> Iterator[None]:
    """Lose one packet in `every`; 0: none, on the same kind of loopback."""
    name = f"antiphon-{os.getpid()}-loss"
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    rule = f"numgen random mod {every} == 0 drop;" if every else ""
    table = f"table inet loss {{ chain input {{ type filter hook input priority 0; {rule} }}; }}"
    call("ip", "netns", "add", name)
    try:
        call("ip", "-n", name, "link", "set", "lo", "up")
        call("ip", "netns", "exec", name, "nft", "-f", "-", text=table)
        enter(f"{NAMESPACES}/{name}")
        try:
            yield
        finally:
            enter(f"/proc/self/fd/{own}")
    finally:
        os.close(own)
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False, timeout=30)
