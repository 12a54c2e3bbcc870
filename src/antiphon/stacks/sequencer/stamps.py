"""One order over all groups, wherever they are: the stamps of sequencers, and how a process merges what they send.

kindberg-1995 keeps groups with two common members at one sequencer (rule S2), which leaves cycles open
(tests/stacks/sequencer/test_placement.py); groups that lie on a common cycle would have to share a sequencer, and
where members leave, whole connected components would have to begin new epochs together (placement.py has rule and
proof). This is the other way, which the service takes: any group may be at any sequencer at any time, and the
order between sequencers is decided by clocks when messages are delivered.

Promise. The delivery orders of all processes, of agreed messages and changes of members, over all groups together, have
no cycle (total_global).

Rule. A sequencer has a clock that only rises. Every place that it gives has a stamp: the clock, raised by one. A
request carries the clock of the client, which is the highest stamp that it has delivered, or was told of for its own
messages; the sequencer first raises its own clock to that. A group takes the clock of its sequencer along when it
moves. Places are ordered by stamp, and by group where stamps are equal. A process delivers an agreed message or a
change x of group G when T1 and T2 (delivery_rule.py) hold, and for each other group H that it is in:
  head   if the next place of H has arrived, it comes after x in the order of stamps;
  clock  if it has not, the sequencer of H has told that its clock is at least the stamp of x, after everything that it
         sent before (TICK, or any place by the same link), and nothing of H is missing;
  join   a join of H that was asked for, and not answered, is waited for.
If a sequencer's clock is lower, it is probed: it raises its clock and says so. That costs a process whose groups are
at several sequencers one round trip, if these have nothing newer for it; a process whose groups are all at one
sequencer waits for nothing. Messages of the levels causal and causal-total wait for T1 and CT2 alone.

Safe. Every process delivers agreed messages and changes in the order of their stamps. For let p deliver x (group G)
and later y (group H) with a lower key. If the next place of H after p's last one had arrived when x was delivered,
it came after x, and so did y, since keys rise along a group: T1. If not, H's sequencer had told a clock of at least
x's stamp, and had sent p everything of H that it had placed until then; so y was placed later, at that sequencer or
at one that H moved to, whose clock was raised to that of the one before, and has a higher stamp. If p was not in H
then, it joined later, by a request that carried a clock of at least x's stamp: the join, and y after it, have higher
stamps. While a group is on its way to another sequencer, the process is told so by the link by which it was told
clocks, before any later clock, and holds that clock for nothing of this group.

Keys are total, so one order contains all delivery orders. It respects causality: a request carries a clock that is at
least that of all it follows; and a request that names a message without a place is accepted after NUMBERED has told
the stamp of that one.

Live. Every wait is for a lower key: T1, T2 and CT2 name places that were given earlier by the same sequencer, or
that the sender had delivered or was told of, with lower stamps; heads are compared by key; clocks are told without
waiting for any process. So the undelivered place with the lowest key is delivered once it has arrived, the clocks have
been probed, and joins are answered. A process that cannot reach one of its sequencers delivers no agreed messages
until it can, or is told that it is excluded.

Deviation from the epochs that placement.py proves: no join waits for others, no group has to move for the order, no
process waits for marks of groups at other sequencers when somebody leaves; in exchange processes in several clusters
wait for clocks. tests/stacks/sequencer/test_stamps.py checks the rule exhaustively on small systems."""


def comes_before(stamp: int, group: int, other_stamp: int, other_group: int) -> bool:
    """Whether a place of one group comes before a place of another in the order of stamps."""
    return stamp < other_stamp or (stamp == other_stamp and group < other_group)
