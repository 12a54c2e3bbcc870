"""Memory that comes and goes stays with the process.

A busy node takes and lets go of megabytes of packets many times a second. The C library (glibc) gives what is free at
the end of its heap back to the kernel as soon as it is more than 128 KiB, and has to ask for it again at once: each
page of it then costs a fault, more than all else that is done with its bytes. So the first node of a process has it
keep up to KEPT_BYTES. Whoever has set one of the library's variables (MALLOC_TRIM_THRESHOLD_ and the like,
GLIBC_TUNABLES) has chosen, and is left alone; so are other C libraries.
"""

import ctypes
import os
import sys
from typing import Final

KEPT_BYTES: Final = 32 * 1024 * 1024
"""Free memory at the end of the heap that is not given back."""
MAPPED_BYTES: Final = 4 * 1024 * 1024
"""What is asked for at once, and longer than this, comes from the kernel and goes back to it by itself."""
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_CHOICES: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_memory() -> bool:
    """Have the C library keep what is let go; whether it will."""
    if sys.platform != "linux" or any(choice in os.environ for choice in _CHOICES):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  (others have `mallopt` too, with other numbers)
        mallopt = library.mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(_MMAP_THRESHOLD, MAPPED_BYTES))
