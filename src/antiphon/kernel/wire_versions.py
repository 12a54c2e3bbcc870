"""Versions of packets. This program reads VERSION_MIN to VERSION, and drops others, counted as `dropped_version`.

Every view has a version, which all its members read, and packets of the view bear it at most; its coordinator chooses
it (parts/membership/rounds.py). Packets that belong to no view, or to one whose members could not be asked, bear
VERSION_MIN: among them all about membership, so that strangers of either release understand each other. So members of
this release and of the one before can be in one group, and the last of the old ones to go takes the old version along.

  2  the first that is told apart
  3  the checksum is 0, and is not looked at, where packets are sealed (runtime/seal.py): the seal covers them

When VERSION rises by one, so does VERSION_MIN, and what only the former lowest version needed goes.
"""

from typing import Final

VERSION: Final = 3
VERSION_MIN: Final = 2
UNSUMMED_SINCE: Final = 3
