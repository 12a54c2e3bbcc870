"""A member of the bare loop. Its first extra argument is the directory with the compiled loop, or `pure`."""

import importlib
import sys

from bench.peers.member import Tally, take_seat, wait_for_end, wait_for_go


def main() -> None:
    seat = take_seat(sys.argv[1:])
    name = "bench.peers.bare"
    if seat.extra[0] != "pure":
        sys.path.insert(0, seat.extra[0])
        name = "bare"
    loop = importlib.import_module(name).BareLoop(seat.rank, seat.ports, seat.size)
    payloads = seat.payloads()
    wait_for_go()
    warmup = Tally(seat, seat.warmup)
    loop.move(payloads, seat.warmup, warmup.take, seat.warmup * (seat.members - 1))
    wait_for_go(warmup)
    tally = Tally(seat, seat.count)
    loop.move(payloads, seat.count, tally.take, seat.count * (seat.members - 1))
    tally.report()
    wait_for_end()


if __name__ == "__main__":
    main()
