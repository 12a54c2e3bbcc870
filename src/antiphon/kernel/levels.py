"""The service levels, weakest first. Each level keeps the promises of those before it.

reliable  every member delivers it, once, in whatever order it arrives
fifo      after everything that its sender sent before it
causal    after everything that happened before it, at any sender
agreed    causal, and in one order at all members
safe      agreed, and only when every member holds it
"""

from typing import Final, Literal

RELIABLE: Final = 0
FIFO: Final = 1
CAUSAL: Final = 2
AGREED: Final = 3
SAFE: Final = 4

LEVEL_NAMES: Final = ("reliable", "fifo", "causal", "agreed", "safe")
LEVELS: Final = {"reliable": RELIABLE, "fifo": FIFO, "causal": CAUSAL, "agreed": AGREED, "safe": SAFE}
Order = Literal["reliable", "fifo", "causal", "agreed", "safe"]
"""The names of the levels, as a type."""
