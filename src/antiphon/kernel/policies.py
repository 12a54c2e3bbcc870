"""What becomes of a group's view: `static`, it is given at the start and stays for good; `primary`, it changes by
agreement of a majority of its members; `partitionable`, every set of members that hear each other goes on in views of
its own, which merge when they meet; `sites`, members are attached to sites, and the view changes by agreement of a
majority of the sites."""

from typing import Final, Literal

STATIC: Final = "static"
PRIMARY: Final = "primary"
POLICIES: Final = (STATIC, PRIMARY)
PARTITIONABLE: Final = "partitionable"
SITES: Final = "sites"
"""These two are offered by few stacks, so not among those above, which every stack with views offers."""
Policy = Literal["primary", "static", "partitionable", "sites"]
"""Their names, as a type."""
