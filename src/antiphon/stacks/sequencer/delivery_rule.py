"""When a process may deliver a message that a sequencer has accepted: conditions T1 and T2 of kindberg-1995, 4.1.

Promise. Messages that one sequencer accepts are delivered by every process in the order in which they were accepted,
over all groups that the process is in.

Rule. The sequencer counts the accepts of each group. An accept of group G carries the sequencer's context,
restricted to the groups that share a member with G, after G's own number was raised. Process p keeps a delivery
context D: for each of its groups, the number of the last accept it has delivered. An accept with context C is
delivered to p when
  T1  C.G = D.G + 1, and
  T2  C.H <= D.H for every other group H that p is in and that has an entry in C;
then D.G becomes C.G. A process that joins G starts with D.G = the number of its join.

Safe. Let m (group H) be accepted before m' (group G) and let p receive both. If H = G, T1 orders them. Otherwise p
is in both groups when m' is accepted, so the groups share a member, the context of m' has an entry for H that is at
least the number of m, and T2 holds m' back until m is delivered.

Live. Of the accepts that p still lacks, let m be the one that was accepted first. All accepts of its own group with
lower numbers were accepted earlier, so T1 holds; each entry of its context counts accepts that came earlier, so T2
holds. When m has arrived, it is delivered. If it was lost, any later accept names it as missing, and p fetches it.

Deviation. The paper's T2 has "=". At one sequencer the order is the same: an accept that is first among those p
lacks has "=" anyway. But "=" deadlocks when a group moves to another sequencer while the rest of a weakly
overlapping set stays: accepts of the rest no longer carry the moved group's number and may overtake an accept made
before the move, which then finds D beyond its own context for good (tests/stacks/sequencer/test_delivery_rule.py
shows it)."""

from antiphon.stacks.sequencer.context import BOTTOM, Context


def is_deliverable(context: Context, group: int, delivered: Context) -> bool:
    """Whether an accept of `group` may be delivered now. `delivered` has an entry for each group that the process is
    in, and for no others."""
    if context.get(group, BOTTOM) != delivered.get(group, BOTTOM) + 1:
        return False
    for other, number in context.items():
        if other != group and other in delivered and number > delivered[other]:
            return False
    return True


def missing(context: Context, group: int, delivered: Context) -> list[tuple[int, int, int]]:
    """What a process has to deliver before this accept: group, first number and last number of each run."""
    runs: list[tuple[int, int, int]] = []
    for other, number in context.items():
        last = number - 1 if other == group else number
        if other in delivered and last > delivered[other]:
            runs.append((other, delivered[other] + 1, last))
    return runs
