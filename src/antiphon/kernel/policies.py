"""What becomes of a group's view: `static`, it is given at the start and stays for good; `primary`, it changes by
agreement of a majority of its members; `partitionable`, every set of members that hear each other goes on in views of
its own, which merge when they meet."""

from typing import Final, Literal

STATIC: Final = "static"
PRIMARY: Final = "primary"
POLICIES: Final = (STATIC, PRIMARY)
PARTITIONABLE: Final = "partitionable"
"""Offered by few stacks, so not among those above, which every stack with views offers."""
Policy = Literal["primary", "static", "partitionable"]
"""Their names, as a type."""
