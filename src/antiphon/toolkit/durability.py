"""When an operation of a replicated object is on enough disks, and which disk wins when all members were gone.

The sequence. Operations are `safe` messages of a `primary` group, so all members that ever execute anything execute
prefixes of one sequence, whoever fails. Each member writes that sequence to its own file: packs of operations, and the
views of the group by the names of their members, with indices that all members count alike. So of two files of one
*epoch* the one with the higher index contains the other. An epoch begins when a group comes back from disk.

Quorum of a view: more than half of its members, or exactly half with the oldest: the rule by which a `primary` view
follows another. Two quorums of one view have a member in common.

Bases. Each copy knows the views that a restart has to ask: the *bases*, in the file as well. A view is appended to the
bases when it is installed. Once every base, the last view included, has a quorum of members whose files contain the
last view, that view alone is the base.

The rule of acknowledgement. A call returns when, for every base, a quorum of its members has the operation on disk.
Members report how far their files are synced.

The rule of restart. All that are present tell what their files hold. Of the *longest* one (highest epoch, then highest
index) the bases are taken; when each has a quorum among those present, the longest file wins: its state is the state
of all, in a new epoch. Until then nothing is executed. A group that an operator had go on without a quorum of its last
view (`Group.recover`) restarts in the same way: what it executed is in its members' files, and theirs is not the last
word.

Why no acknowledged operation is lost. Let L be the longest file of those present, W its last view, and m acknowledged,
in the same epoch, and not in L.
  - If W was among the bases when m was acknowledged, a quorum of W had m on disk. W is the last base of L, so a quorum
    of W is present, and one of these has m: its file is longer than L, which is a contradiction.
  - Otherwise the bases had been reduced to a view behind W. Bases are a run of consecutive views, so W was among them
    at the first such reduction, to a view Y behind W; then a quorum of W had Y on disk. One of it is present, and its
    file contains Y, so it is longer than L: again a contradiction.
Files never get shorter: a joiner's is replaced by the state that it was given, which contains all that was executed.

Why epochs do not mix. Before anything is executed in a new epoch, for each base a quorum has *promised* it, on disk.
The number is one above all promises of those present; so a later restart, which meets one that has promised, takes a
higher one, and of two restarts from the same files only one can get its quorum. What was executed in the former epoch
and not acknowledged may be missing in the new one; files that hold it are of a lower epoch, and lose.

The first start. `founders` names the first base. Files that do not exist yet count as empty ones, as long as no file
that is present contains an operation. A founder that lost its disk is taken for one that starts for the first time; so
a member that lost its disk joins while the others run, or it counts for nothing.

Live: when the members of a quorum of each base of the longest file are present, and stay, the object comes back. If
disks are lost for good, `go_on_without` takes what is there, by explicit word.
"""

from collections.abc import Collection, Sequence

import msgspec


class FileContent(msgspec.Struct, array_like=True, frozen=True):
    """What one member's file holds."""

    epoch: int
    index: int
    promised: int
    operations: int
    bases: list[list[str]]
    """Of a new file, the founders."""
    is_new: bool
    """There is no such file yet."""


def is_quorum(present: Collection[object], view: Sequence[object]) -> bool:
    """Return whether these are enough of the members of a view, the oldest of which comes first."""
    count = sum(name in present for name in view)
    return 2 * count > len(view) or (2 * count == len(view) and bool(view) and view[0] in present)


def have_quorums(present: Collection[object], bases: Sequence[Sequence[str]]) -> bool:
    """Return whether these are enough of each base."""
    return all(is_quorum(present, base) for base in bases)


def index_on_disks(reports: dict[str, int], bases: Sequence[Sequence[str]]) -> int:
    """Return the highest index that, by these reports, a quorum of each base has on disk."""
    for index in sorted(set(reports.values()), reverse=True):
        if have_quorums({name for name, reported in reports.items() if reported >= index}, bases):
            return index
    return 0


class RestartDecision(msgspec.Struct, array_like=True, frozen=True):
    """The outcome of a restart: whose file wins, and the epoch that begins."""

    winner: str
    epoch: int
    bases: list[list[str]]


def longest(known: dict[str, FileContent], ranks: Sequence[str]) -> str:
    """Return whose file is the longest; of equal ones, the one of the oldest member."""
    return max(
        known,
        key=lambda name: (not known[name].is_new, known[name].epoch, known[name].index, -ranks.index(name)),
    )


def decide(known: dict[str, FileContent], ranks: Sequence[str], forced: bool) -> RestartDecision | None:
    """Return whose file wins, or None if disks are missing. `ranks`: the members of the view, the oldest first."""
    winner = longest(known, ranks)
    content = known[winner]
    if not forced and not have_quorums(counted(known, content), content.bases):
        return None
    epoch = 1 + max(max(each.promised, each.epoch) for each in known.values())
    return RestartDecision(winner, epoch, [] if forced else content.bases)


def counted(known: dict[str, FileContent], winner: FileContent) -> set[str]:
    """Return the members whose files count: new ones only while there is nothing that they could have lost."""
    return {name for name, content in known.items() if not content.is_new or winner.operations == 0}


def missing(known: dict[str, FileContent], bases: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of members whose disks could help; `bases`: those to go by while no file is known."""
    present: set[str] = set()
    if known:
        winner = known[longest(known, sorted(known))]
        bases, present = winner.bases, counted(known, winner)
    return sorted({name for base in bases if not is_quorum(present, base) for name in base} - present)
