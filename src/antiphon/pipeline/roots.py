"""Root causes: what the violations of a guarantee come down to, counted beside them.

One message that comes late can break a hundred deliveries, and one process that hangs can lack a thousand messages. So
each violation is put down to a cause, and the causes are counted, each once:

guarantee                                  a violation is put down to
creation, duplication, content,            the message that was delivered
view_sending
fifo, causal, label_order                  the first message, by group, sender and number, that the process should have
                                           delivered before and had not; of a message in its own past, that message
silence                                    the sender that should have been silent, in the group
settled, safe, view_synchrony              the message, or the process that lacks it
transitional                               the message, or the step of which rows differ, or the process
merged                                     the process that is elsewhere, or the view that it is in
group_broadcast                            the barrier, or the message on different sides of it
view_agreement                             the view, or the process that differs
total, total_global                        the set of messages that are in no order, as it is counted
total_pairwise                             the set of messages in no order that a pair of messages is in
primary                                    a series of views with consecutive ids that violate it

Causes are counted run by run; a message, a sender, a process or a view has one name throughout a run. Where a violation
has two sides ("or"), the side with fewer distinct names counts, group by group: four processes that lack one message
are one cause, and so is one process that lacks a thousand messages. There are never more causes than violations, and
where there are violations there is at least one cause.

Both auditors count these, each in its own way; only the last two rules are shared.
"""

from collections.abc import Collection, Iterable


def fewer_names(one: Collection[object], other: Collection[object]) -> int:
    """The number of causes of violations that have two sides: the distinct names on either side."""
    return min(len(one), len(other))


def series(views: Iterable[int]) -> int:
    """The number of series of consecutive ids among the ids of views."""
    ids = set(views)
    return sum(view - 1 not in ids for view in ids)
