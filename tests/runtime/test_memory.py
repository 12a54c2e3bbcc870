"""What the C library keeps: seen from outside, by the heap of a process of its own."""

import ctypes
import os
import subprocess
import sys

import pytest

from antiphon.runtime import memory

pytestmark = pytest.mark.processes

HEAP = """
import ctypes, sys
from antiphon.runtime.memory import keep_memory
kept = keep_memory() if sys.argv[1] == "keep" else False
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
blocks = [libc.malloc(60_000) for _ in range(200)]
high = libc.sbrk(0)
for block in reversed(blocks):
    libc.free(block)
print(kept, high - libc.sbrk(0) < 1_000_000)
"""


def heap(way: str, **variables: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name not in memory._CHOICES}
    command = [sys.executable, "-c", HEAP, way]
    done = subprocess.run(command, capture_output=True, check=True, text=True, env={**inherited, **variables})
    return done.stdout.strip()


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="needs glibc"
)
def test_what_is_let_go_stays_with_the_process_unless_its_environment_says_otherwise() -> None:
    assert heap("leave") == "False False"
    assert heap("keep") == "True True"
    assert heap("keep", MALLOC_TRIM_THRESHOLD_="131072") == "False False"
