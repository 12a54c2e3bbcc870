"""The phases of one process's membership of one group, and the ways from one to the next.

  joining   asks to be let in, and is in no view yet
  normal    in a view, which goes on
  flushing  in a view that is to end: nothing more is sent or taken in
  closing   what comes after the view is decided; its cut is being completed and delivered
  parting   out by agreement, and here until the members of the next view know
  out       no longer a member

TRANSITIONS is the whole of it. To go any other way is our own mistake, and raises.
"""

from typing import Final

JOINING: Final = 0
NORMAL: Final = 1
FLUSHING: Final = 2
CLOSING: Final = 3
PARTING: Final = 4
OUT: Final = 5

PHASE_NAMES: Final = {
    JOINING: "joining",
    NORMAL: "normal",
    FLUSHING: "flushing",
    CLOSING: "closing",
    PARTING: "parting",
    OUT: "out",
}

TRANSITIONS: Final = {
    (JOINING, NORMAL): "let in, or a founder",
    (JOINING, OUT): "refused, or too late to enter",
    (NORMAL, FLUSHING): "a round has begun",
    (NORMAL, CLOSING): "told of the next view without having been asked",
    (NORMAL, PARTING): "told that it has left",
    (NORMAL, OUT): "told that it is out",
    (FLUSHING, FLUSHING): "a later round has begun",
    (FLUSHING, CLOSING): "the next view is decided",
    (FLUSHING, PARTING): "the next view is decided, and it has left by it",
    (FLUSHING, OUT): "the next view is decided, and it is out",
    (CLOSING, NORMAL): "the next view is installed",
    (CLOSING, OUT): "others have gone further without it",
    (PARTING, OUT): "all know, or have had their time",
}
"""From, to: when."""


def step(before: int, after: int) -> int:
    """The phase `after`, if there is a way to it from `before`."""
    assert (before, after) in TRANSITIONS, f"there is no way from {PHASE_NAMES[before]} to {PHASE_NAMES[after]}"
    return after
