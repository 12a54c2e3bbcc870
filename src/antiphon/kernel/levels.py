"""The service levels, weakest first. Each level keeps the promises of those before it.

reliable  every member delivers it, once, in whatever order it arrives
fifo      after everything that its sender sent before it
causal    after everything that happened before it, at any sender
agreed    causal, and in one order at all members
safe      agreed, and only when every member holds it

One level more, on the stack `sequencer`, stands between causal and agreed:
causal-total  causal over all groups, and in one order at all members of each group (kindberg-1995, 3.1)
"""

from typing import Final, Literal

RELIABLE: Final = 0
FIFO: Final = 1
CAUSAL: Final = 2
AGREED: Final = 3
SAFE: Final = 4
CAUSAL_TOTAL: Final = 5

COMMON_LEVELS: Final = ("reliable", "fifo", "causal", "agreed", "safe")
"""Those that most stacks offer, weakest first."""
LEVEL_NAMES: Final = ("reliable", "fifo", "causal", "agreed", "safe", "causal-total")
LEVELS: Final = {
    "reliable": RELIABLE,
    "fifo": FIFO,
    "causal": CAUSAL,
    "agreed": AGREED,
    "safe": SAFE,
    "causal-total": CAUSAL_TOTAL,
}
Order = Literal["reliable", "fifo", "causal", "agreed", "safe", "causal-total"]
"""The names of the levels, as a type."""
