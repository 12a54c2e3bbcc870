"""The service levels, weakest first. Each level keeps the promises of those before it.

reliable  every member delivers it, once, in whatever order it arrives
fifo      after everything that its sender sent before it
causal    after everything that happened before it, at any sender
agreed    causal, and in one order at all members
safe      agreed, and only when every member holds it

One level more, which few stacks have, stands between causal and agreed:
causal-total  causal over all groups, and in one order at all members of each group (kindberg-1995, 3.1)
And one, on stacks that order by labels, beside them all:
abcast    reliable, and in one order at all its destinations with the others of the same label (isis-1987, 3.2); in no
          order with messages of other labels or levels
"""

from typing import Final, Literal

RELIABLE: Final = 0
FIFO: Final = 1
CAUSAL: Final = 2
AGREED: Final = 3
SAFE: Final = 4
CAUSAL_TOTAL: Final = 5
ABCAST: Final = 6

COMMON_LEVELS: Final = ("reliable", "fifo", "causal", "agreed", "safe")
"""Those that most stacks offer, weakest first."""
LEVEL_NAMES: Final = ("reliable", "fifo", "causal", "agreed", "safe", "causal-total", "abcast")
LEVELS: Final = {
    "reliable": RELIABLE,
    "fifo": FIFO,
    "causal": CAUSAL,
    "agreed": AGREED,
    "safe": SAFE,
    "causal-total": CAUSAL_TOTAL,
    "abcast": ABCAST,
}
Order = Literal["reliable", "fifo", "causal", "agreed", "safe", "causal-total", "abcast"]
"""The names of the levels, as a type."""
