"""A client of one Redis stream: XADD in pipelines, XREAD, by redis-py with hiredis. Extra arguments: the address, the
window, `load` or `latency`."""

import json
import sys
from typing import Any, Final

import redis

from bench.peers.member import Seat, take_seat, wait_for_end, wait_for_go
from bench.peers.ordered import GROUP, LatencyPhase, OrderedPhase

READ_MAX: Final = 4000
PIPELINE_MAX: Final = 512


class StreamClient:
    """One client, with one connection for each direction."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._out: Any = redis.Redis(host, int(port))
        self._in: Any = redis.Redis(host, int(port))
        self._last: bytes = b"0"

    def send(self, payloads: list[bytes]) -> None:
        pipeline = self._out.pipeline(transaction=False)
        for payload in payloads:
            pipeline.xadd(GROUP, {b"m": payload})
        pipeline.execute()

    def read(self, is_waiting: bool) -> list[bytes]:
        """What has come; waits for something if asked to."""
        found = self._in.xread({GROUP: self._last}, count=READ_MAX, block=2000 if is_waiting else None)
        if not found:
            return []
        entries = found[GROUP.encode()][0] if isinstance(found, dict) else found[0][1]
        self._last = entries[-1][0]
        return [fields[b"m"] for _, fields in entries]

    def run(self, phase: OrderedPhase) -> None:
        while not phase.is_done:
            payloads = phase.next_payloads(PIPELINE_MAX)
            if payloads:
                self.send(payloads)
            phase.take(self.read(is_waiting=phase.room() <= 0))

    def ping(self, count: int, size: int) -> LatencyPhase:
        phase = LatencyPhase(count)
        payload = b"." * size
        while phase.begin():
            self._out.xadd(GROUP, {b"m": payload})
            while not self.read(is_waiting=True):
                pass
            phase.end()
        return phase


def work(seat: Seat) -> None:
    address, window, mode = seat.extra
    client = StreamClient(address)
    wait_for_go()
    if mode == "latency":
        client.ping(seat.warmup, seat.size)
        wait_for_go()
        print(json.dumps(client.ping(seat.count, seat.size).report()), flush=True)
    else:
        warmup = OrderedPhase(seat, seat.warmup, int(window))
        client.run(warmup)
        wait_for_go(warmup.tally)
        phase = OrderedPhase(seat, seat.count, int(window))
        client.run(phase)
        phase.report()
    wait_for_end()


if __name__ == "__main__":
    work(take_seat(sys.argv[1:]))
