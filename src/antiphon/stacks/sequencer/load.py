"""Which groups a sequencer should give to another, by what it measures: kindberg-1995 leaves the metric open (4.2).

Metric. The load of a group is what it costs its sequencer a second: the bytes that it accepts and sends to members, and
MESSAGE_BYTES for each message that it accepts and for each copy that it sends. Half of it is that of the last
interval, half that of all before.

Rule. Once an interval a sequencer looks at its groups, and at the loads that the others have told.
  Sender. A group of which one process sends more than SENDER_SHARE moves to that process, if a sequencer runs there
  (section 7), unless that one has LOADED times the load of this one, or the group did so in the last RESTS intervals.
  Balance. Otherwise, of the groups here, the one with the largest load moves to the least loaded sequencer, among those
  groups whose load is at most half of the difference between the two, and at least WORTH of this one's.
At most one group moves in an interval, and none while another is on its way.

No oscillation. A group that moves for balance leaves the sequencer that it came to with no more than the one that it
left: with loads a > b and l <= (a - b) / 2, b + l <= a - l. So the same group does not move back for balance while
loads stay as they are, and the sum of the squares of all loads falls with each move by 2l(a - b - l) >= 2l² > 0; as l
is not small, moves come to an end. A group that a sender has drawn to itself rests there."""

from typing import Final

MESSAGE_BYTES: Final = 500
"""What a message costs beside its bytes, in bytes."""
SENDER_SHARE: Final = 0.5
LOADED: Final = 4.0
WORTH: Final = 0.02
RESTS: Final = 10


def cost(messages: int, size: int, members: int) -> int:
    """What messages of this size in all cost the sequencer of a group."""
    return (size + messages * MESSAGE_BYTES) * (1 + members)


def choose_for_balance(loads: dict[int, float], others: dict[str, float]) -> tuple[int, str] | None:
    """The group to move, and where to, or None. `loads`: of the groups here that may move; `others`: the whole loads of
    the other sequencers, which are known and can be reached."""
    if not others:
        return None
    own = sum(loads.values())
    address = min(others, key=others.__getitem__)
    room = (own - others[address]) / 2
    best, best_load = 0, 0.0
    for group, load in loads.items():
        if best_load < load <= room:
            best, best_load = group, load
    if best_load <= own * WORTH:
        return None
    return best, address


def choose_for_sender(sent: dict[str, int], own: float, others: dict[str, float], addresses: dict[str, str]) -> str:
    """Where the sequencer is that runs at the process which sends most of a group, or "". `sent`: messages by process;
    `addresses`: of sequencers, by the name of their process."""
    total = sum(sent.values())
    for process, messages in sent.items():
        address = addresses.get(process, "")
        if messages > total * SENDER_SHARE and address and others.get(address, 0.0) <= own * LOADED:
            return address
    return ""
