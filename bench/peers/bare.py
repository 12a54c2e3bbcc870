"""The bare loop: what a group could move if it did nothing but move messages. A limit, not a system.

Messages share packets of at most 1,400 bytes under one header; packets leave 40 and more at a time, by one system call
per destination (UDP_SEGMENT), and come the same way (UDP_GRO). A sender may be WINDOW packets ahead of the slowest
receiver; receivers acknowledge every ACK_EVERY packets. Every message becomes an object of its own again. There is no
order, no recovery and no membership: what is lost makes the run fail.

This file is compiled by mypyc. A packet: 4 bytes number, 1 byte rank of the sender, 1 byte kind, then for each message
2 bytes length and the message. An acknowledgement has as its number the packets that came so far.
"""

import select
import socket
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
HEADER_BYTES: Final = 6
PACKET_BYTES_MAX: Final = 1400
BURST_BYTES_MAX: Final = 64_000
BURST_PACKETS_MAX: Final = 64
WINDOW: Final = 512
ACK_EVERY: Final = 128
RECEIVE_BYTES: Final = 65_536
SOCKET_BYTES: Final = 4 * 1024 * 1024
READS_IN_A_ROW: Final = 8
WAIT_S: Final = 10.0
DATA: Final = 0
ACK: Final = 1
LENGTHS: Final = [length.to_bytes(2, "big") for length in range(PACKET_BYTES_MAX)]


def header(number: int, rank: int, kind: int) -> bytes:
    return number.to_bytes(4, "big") + bytes((rank, kind))


def split(data: bytes, at: i64, end: i64, messages: list[bytes]) -> None:
    """Cut one packet into its messages."""
    while at < end:
        length: i64 = (data[at] << 8) | data[at + 1]
        at += 2
        messages.append(data[at : at + length])
        at += length


class BareLoop:
    """One member's socket and its windows."""

    def __init__(self, rank: int, ports: list[int], size: int) -> None:
        self._rank = rank
        self._addresses: dict[int, tuple[str, int]] = {
            other: ("127.0.0.1", port) for other, port in enumerate(ports) if other != rank
        }
        self._per_packet: int = (PACKET_BYTES_MAX - HEADER_BYTES) // (size + 2)
        self._packet_bytes: int = HEADER_BYTES + self._per_packet * (size + 2)
        self._burst: int = min(BURST_PACKETS_MAX, BURST_BYTES_MAX // self._packet_bytes)
        self._sent = 0
        self._sent_to: dict[int, int] = dict.fromkeys(self._addresses, 0)
        self._came_from: dict[int, int] = dict.fromkeys(self._addresses, 0)
        self._told: dict[int, int] = dict.fromkeys(self._addresses, 0)
        self._segment = [(socket.SOL_UDP, UDP_SEGMENT, self._packet_bytes.to_bytes(2, "little"))]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        self._socket.setsockopt(socket.SOL_UDP, UDP_GRO, 1)
        self._socket.bind(("127.0.0.1", ports[rank]))
        self._socket.setblocking(False)

    def move(self, payloads: list[bytes], count: int, take: Callable[[list[bytes], int], None], total: int) -> None:
        """Send `count` messages, `payloads` over and over, while receiving `total`."""
        position = 0
        came = 0
        while position < count or came < total:
            did = False
            if position < count and self._sent + self._burst - min(self._sent_to.values()) <= WINDOW:
                position = self._send_burst(payloads, position, count)
                did = True
            for _ in range(READS_IN_A_ROW):
                got = self._receive(take)
                if got < 0:
                    break
                came += got
                did = True
            if not did and not select.select([self._socket], [], [], WAIT_S)[0]:
                raise TimeoutError(f"nothing came for {WAIT_S} s: packets were lost, and the bare loop recovers none")

    def _send_burst(self, payloads: list[bytes], position: int, count: int) -> int:
        repeat = len(payloads)
        parts: list[bytes] = []
        packets = 0
        while packets < self._burst and position < count:
            parts.append(header(self._sent + packets, self._rank, DATA))
            end = min(position + self._per_packet, count)
            while position < end:
                payload = payloads[position % repeat]
                parts.append(LENGTHS[len(payload)])
                parts.append(payload)
                position += 1
            packets += 1
        burst = [b"".join(parts)]
        for address in self._addresses.values():
            self._socket.sendmsg(burst, self._segment, 0, address)
        self._sent += packets
        return position

    def _receive(self, take: Callable[[list[bytes], int], None]) -> int:
        """How many messages came with the next datagrams, or -1 if there are none."""
        try:
            data, extra, _, _ = self._socket.recvmsg(RECEIVE_BYTES, 64)
        except BlockingIOError:
            return -1
        rank: int = data[4]
        if data[5] == ACK:
            self._sent_to[rank] = max(self._sent_to[rank], int.from_bytes(data[:4], "big"))
            return 0
        length = len(data)
        segment = int.from_bytes(extra[0][2][:4], "little") if extra else length
        messages: list[bytes] = []
        packets = 0
        at = 0
        while at < length:
            split(data, at + HEADER_BYTES, min(at + segment, length), messages)
            packets += 1
            at += segment
        came = self._came_from[rank]
        if int.from_bytes(data[:4], "big") != came:
            raise ConnectionError("packets were lost, and the bare loop recovers none")
        self._came_from[rank] = came + packets
        if came + packets - self._told[rank] >= ACK_EVERY:
            self._told[rank] = came + packets
            self._socket.sendto(header(came + packets, self._rank, ACK), self._addresses[rank])
        take(messages, rank)
        return len(messages)
