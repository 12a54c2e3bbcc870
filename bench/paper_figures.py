"""The figures of isis-1991, section 8, by SUN 4/60s on a 10 Mbit Ethernet: Tables II to V, and plain remote calls.

Columns of Tables II and III are destinations: oneself, then 1 to 7. The fifth figure for null ABCASTs, 352 a second, is
out of line and equals that of Table II; it is kept as it is printed.
"""

from typing import Final

DESTINATIONS: Final = (0, 1, 2, 3, 4, 5, 6, 7)
"""0: oneself."""
SIZES: Final = {"null": 1, "1K": 1024, "7K": 7 * 1024}
"""Payload bytes; our null message holds the one byte that tells a request from an answer."""

Rows = dict[str, dict[str, tuple[float, ...]]]
"""By level and size."""

REPLIES_MS: Final[Rows] = {
    "causal": {
        "null": (1.51, 6.51, 8.67, 10.7, 12.9, 16.3, 19.6, 22.9),
        "1K": (1.52, 7.86, 10.1, 12.2, 15.2, 18.8, 21.9, 25.7),
        "7K": (1.51, 17.0, 23.4, 34.9, 43.4, 54.1, 64.6, 75.7),
    },
    "agreed": {
        "null": (1.52, 12.7, 18.5, 24.6, 31.4, 38.1, 44.3, 55.2),
        "1K": (1.56, 14.0, 19.7, 25.6, 32.5, 39.2, 42.1, 48.3),
        "7K": (1.55, 25.5, 30.7, 42.6, 53.5, 70.3, 77.5, 97.0),
    },
}
STREAMS: Final[Rows] = {
    "causal": {
        "null": (4240, 1019, 572, 567, 447, 352, 305, 253),
        "7K": (16706, 550, 361, 249, 180, 143, 118, 101),
    },
    "agreed": {
        "null": (3300, 341, 273, 207, 197, 352, 133, 97),
        "7K": (20000, 560, 317, 175, 152, 115, 98.9, 79.7),
    },
}
"""Asynchronous: messages a second of null ones, kilobytes a second of 7K ones."""
TABLES: Final = {"causal": "II", "agreed": "III"}

CALL_MS: Final = {"null": 3.5, "1K": 4.5}
"""SUN RPC over TCP, to one process."""
SEVEN_CALLS_MS: Final = 24.5
"""Seven null calls one after the other; a null multicast to seven that all reply took 22.9."""

LOCAL_US: Final = {"send": (406, 86), "receive": (394, 31), "reply": (406, 86), "receive the reply": (224, 31)}
"""Table IV: total, and of it for causality."""
LAYERS_MS: Final = {
    "causality": 0.23,
    "the rest of the toolkit": 1.21 + 3.6,
    "event loop": 0.0,
    "system calls and wire": 1.59 + 1.5,
}
"""Table V, in the layers that can be told apart here: its transport, which resends and keeps order, is part of ours."""
