"""Entering a network namespace that another process has made. Needs root, and Linux."""

import ctypes
import os
from typing import Final

CLONE_NEWNET: Final = 0x4000_0000
NAMESPACES: Final = "/var/run/netns"


def enter(path: str) -> None:
    """From here on the calling thread, and what it starts, is in this network namespace."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if library.setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    finally:
        os.close(descriptor)
