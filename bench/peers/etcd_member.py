"""A client of etcd: messages are keys, put 128 in a transaction, and read by a watch, over its HTTP gateway. Extra
arguments: the address, the window, `load` or `latency`. Nothing but the standard library."""

import base64
import http.client
import json
import queue
import sys
import threading
from typing import Any, Final

from bench.peers.member import Seat, take_seat, wait_for_end, wait_for_go
from bench.peers.ordered import LatencyPhase, OrderedPhase

PUTS_MAX: Final = 128
"""The most that a transaction takes, as the server comes."""
KEYS: Final = 4096


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


class WatchingClient:
    """One connection to put, and one that watches all keys."""

    def __init__(self, seat: Seat, address: str) -> None:
        self._rank = seat.rank
        self._puts = http.client.HTTPConnection(address)
        self._watch = http.client.HTTPConnection(address)
        self._number = 0
        self._came: queue.SimpleQueue[list[bytes]] = queue.SimpleQueue()
        wanted = {"create_request": {"key": text(b"m"), "range_end": text(b"n")}}
        self._watch.request("POST", "/v3/watch", json.dumps(wanted))
        self._response = self._watch.getresponse()
        assert json.loads(self._response.readline())["result"]["created"]
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while line := self._response.readline():
            events: list[dict[str, Any]] = json.loads(line)["result"].get("events", [])
            self._came.put([base64.b64decode(event["kv"]["value"]) for event in events])

    def send(self, payloads: list[bytes]) -> None:
        puts = []
        for payload in payloads:
            self._number += 1
            key = f"m{self._rank}/{self._number % KEYS}".encode()
            puts.append({"requestPut": {"key": text(key), "value": text(payload)}})
        self._puts.request("POST", "/v3/kv/txn", json.dumps({"success": puts}))
        response = self._puts.getresponse()
        assert response.status == 200, response.read()
        response.read()

    def run(self, phase: OrderedPhase) -> None:
        while not phase.is_done:
            payloads = phase.next_payloads(PUTS_MAX)
            if payloads:
                self.send(payloads)
            if phase.room() <= 0 and not phase.is_done:
                phase.take(self._came.get())
            while not self._came.empty():
                phase.take(self._came.get())

    def ping(self, count: int, size: int) -> LatencyPhase:
        phase = LatencyPhase(count)
        while phase.begin():
            self.send([b"." * size])
            self._came.get()
            phase.end()
        return phase


def work(seat: Seat) -> None:
    address, window, mode = seat.extra
    client = WatchingClient(seat, address)
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
