"""What becomes of a group's view: `static`, it is given at the start and stays for good; `primary`, it changes by
agreement of a majority of its members."""

from typing import Final, Literal

STATIC: Final = "static"
PRIMARY: Final = "primary"
POLICIES: Final = (STATIC, PRIMARY)
Policy = Literal["primary", "static"]
"""Their names, as a type."""
