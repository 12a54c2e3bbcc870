"""Sealed connections: what `asyncio.start_server` and `asyncio.open_connection` offer, between holders of a key.

    hello of the one that dials     version u8 | keys u8 | tag of each key, 4 bytes | 32 random bytes
    hello of the one that accepts   version u8 | tag of the newest key that both have | 32 random bytes
    then records, both ways         length u32 | AES-256-GCM of up to RECORD_BYTES_MAX bytes | tag

The keys of both directions are HKDF(secret, both hellos), so they are new for each connection, and whoever changes a
hello on the way ends the connection. The nonce is the number of the record, its length the associated data. The first
record of each side says nothing but that it has the key; only when it has come, the program hears of the connection: to
programs, strangers do not exist. An empty record is the end of the stream: a connection that ends without one was cut
off, and is reported as lost. Records that do not open end the connection.

Bounds: a hello has HELLO_S to come and be answered; of connections that have not come so far, STRANGERS_MAX are kept,
and a further one ends the oldest. When a key is taken out of the keyring, connections under it end with their next
record.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from struct import Struct
from typing import Any, Final, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon.runtime.address import SocketAddress, join_address, numeric, resolve
from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import AddressError, KeyringError
from antiphon.runtime.keyring import KEYS_MAX, TAG_BYTES, KeySupply, SharedKey, expand
from antiphon.runtime.trust import Trust

VERSION: Final = 1
RANDOM_BYTES: Final = 32
RECORD_BYTES_MAX: Final = 64 * 1024
SEAL_BYTES: Final = 16
HELLO_S: Final = 5.0
STRANGERS_MAX: Final = 256
_LENGTH: Final = Struct("<I")
_PROOF: Final = b"antiphon"

AnyProtocol = asyncio.Protocol | asyncio.BufferedProtocol


class UnsealedError(Exception):
    """What came over a connection was not sealed by a key of this keyring."""


class RecordKeys:
    """The two ciphers of a connection, and the numbers of their next records."""

    def __init__(self, secret: bytes, dialler: bytes, acceptor: bytes, dials: bool) -> None:
        hellos = len(dialler).to_bytes(2, "little") + dialler + acceptor
        ways = [AESGCM(expand(secret, b"stream " + way + hellos)) for way in (b"out ", b"in  ")]
        self._sealing, self._opening = ways if dials else reversed(ways)
        self._sealed = 0
        self._opened = 0

    def seal(self, data: bytes) -> bytes:
        """One record."""
        length = _LENGTH.pack(len(data) + SEAL_BYTES)
        number, self._sealed = self._sealed, self._sealed + 1
        return length + self._sealing.encrypt(number.to_bytes(12, "little"), data, length)

    def open(self, record: bytes) -> bytes:
        """What is in a record, without its length. Raises InvalidTag."""
        number, self._opened = self._opened, self._opened + 1
        return self._opening.decrypt(number.to_bytes(12, "little"), record, _LENGTH.pack(len(record)))


class Strangers:
    """Connections whose other end has not shown a key, the oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[SealedConnection, None] = {}

    def add(self, connection: "SealedConnection") -> None:
        self._waiting[connection] = None
        if len(self._waiting) > STRANGERS_MAX:
            next(iter(self._waiting)).refuse("there are too many strangers")

    def discard(self, connection: "SealedConnection") -> None:
        self._waiting.pop(connection, None)

    def __len__(self) -> int:
        return len(self._waiting)


class SealedConnection(asyncio.Protocol):
    """Between a connection and the protocol of a program, which sees plain bytes."""

    def __init__(self, supply: KeySupply, make: Callable[[], AnyProtocol], dials: bool, strangers: Strangers) -> None:
        self._supply = supply
        self._make = make
        self._dials = dials
        self._strangers = strangers
        self.inner: AnyProtocol | None = None
        self.transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._own_hello = b""
        self._key: SharedKey | None = None
        self.keys: RecordKeys | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._has_ended = False
        self._error: Exception | None = None
        self._end: SealedEnd | None = None
        self.ready: asyncio.Future[SealedEnd] = asyncio.get_running_loop().create_future()
        """Done when the other end has shown that it has a key."""

    # ---- what the connection tells ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._strangers.add(self)
        self._patience = asyncio.get_running_loop().call_later(HELLO_S, self.refuse, "no key was shown in time")
        if self._dials:
            keyring = self._supply.keyring
            random = current_environment().life_bytes(RANDOM_BYTES)
            tags = b"".join(key.tag for key in keyring.keys)
            self._own_hello = bytes((VERSION, len(keyring.keys))) + tags + random
            self.transport.write(self._own_hello)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            if self.keys is None and not self._take_hello():
                return
            self._take_records()
        except (UnsealedError, InvalidTag) as error:
            self.refuse(f"what came was not sealed by a key of this keyring ({str(error) or 'forged'})")

    def _take_hello(self) -> bool:
        """Whether the other hello is there."""
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        tags = 1 if self._dials else buffer[1]
        if buffer[0] != VERSION or not 0 < tags <= KEYS_MAX:
            raise UnsealedError("no hello")
        start = 1 if self._dials else 2
        size = start + TAG_BYTES * tags + RANDOM_BYTES
        if len(buffer) < size:
            return False
        hello = bytes(buffer[:size])
        del buffer[:size]
        named = [hello[at : at + TAG_BYTES] for at in range(start, size - RANDOM_BYTES, TAG_BYTES)]
        common = [key for key in self._supply.keyring.keys if key.tag in named]
        if not common:
            raise UnsealedError("no common key")
        key = self._key = common[-1]
        assert self.transport is not None
        if not self._dials:
            random = current_environment().life_bytes(RANDOM_BYTES)
            self._own_hello = bytes((VERSION,)) + key.tag + random
            self.transport.write(self._own_hello)
        both = (self._own_hello, hello) if self._dials else (hello, self._own_hello)
        self.keys = RecordKeys(key.secret, *both, self._dials)
        self.transport.write(self.keys.seal(_PROOF))
        return True

    def _take_records(self) -> None:
        assert self.keys is not None
        assert self.transport is not None
        buffer = self._buffer
        start = 0
        while len(buffer) - start >= _LENGTH.size and not self._has_ended and not self.transport.is_closing():
            length = _LENGTH.unpack_from(buffer, start)[0]
            if not SEAL_BYTES <= length <= RECORD_BYTES_MAX + SEAL_BYTES:
                raise UnsealedError("no record")
            end = start + _LENGTH.size + length
            if len(buffer) < end:
                break
            data = self.keys.open(bytes(memoryview(buffer)[start + _LENGTH.size : end]))
            start = end
            if self._key is None or self._key.tag not in self._supply.keyring.by_tag:
                raise UnsealedError("the key is no longer listed")
            if self.inner is None:
                self._begin(data)
            elif data:
                self._give(self.inner, data)
            else:
                self._has_ended = True
                if not self.inner.eof_received():
                    self.transport.close()
        del buffer[:start]

    def _begin(self, data: bytes) -> None:
        """The other end has shown that it has the key."""
        if data != _PROOF:
            raise UnsealedError("no proof")
        self._end_patience()
        self.inner = self._make()
        self._end = SealedEnd(self)
        if not self.ready.done():
            self.ready.set_result(self._end)
        self.inner.connection_made(self._end)

    def _give(self, inner: AnyProtocol, data: bytes) -> None:
        if isinstance(inner, asyncio.BufferedProtocol):
            while data:
                space = memoryview(inner.get_buffer(len(data)))
                size = min(len(space), len(data))
                space[:size] = data[:size]
                inner.buffer_updated(size)
                data = data[size:]
        else:
            inner.data_received(data)

    def _end_patience(self) -> None:
        self._strangers.discard(self)
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def refuse(self, why: str) -> None:
        """End the connection, because of the other end."""
        self._error = ConnectionRefusedError(why)
        self._end_patience()
        if self.transport is not None:
            self.transport.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_patience()
        error = self._error or exc
        if error is None and not self._has_ended and not (self._end is not None and self._end.was_closed):
            error = ConnectionResetError("the connection was cut off")
        if not self.ready.done():
            self.ready.set_exception(error or ConnectionResetError("the other end hung up"))
            self.ready.exception()  # whoever waits for it is told; if nobody does, nothing is wrong
        if self.inner is not None:
            self.inner.connection_lost(error)

    def pause_writing(self) -> None:
        if self.inner is not None:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        if self.inner is not None:
            self.inner.resume_writing()


class SealedEnd(asyncio.Transport):
    """The transport that the program has."""

    def __init__(self, connection: SealedConnection) -> None:
        super().__init__()
        assert connection.transport is not None
        assert connection.keys is not None
        self._connection = connection
        self._below = connection.transport
        self._keys = connection.keys
        self.was_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        whole = bytes(data)
        if self.was_closed or not whole:
            return
        for start in range(0, len(whole), RECORD_BYTES_MAX):
            self._below.write(self._keys.seal(whole[start : start + RECORD_BYTES_MAX]))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self.was_closed:
            self.was_closed = True
            self._below.write(self._keys.seal(b""))
            self._below.close()

    def abort(self) -> None:
        self.was_closed = True
        self._below.abort()

    def is_closing(self) -> bool:
        return self.was_closed or self._below.is_closing()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def is_reading(self) -> bool:
        return self._below.is_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._connection.inner is not None
        return self._connection.inner

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._connection.inner = cast("AnyProtocol", protocol)


# ---- as asyncio has them --------------------------------------------------------------------------------------------


async def create_server(
    make: Callable[[], AnyProtocol], host: str, port: int, keys: KeySupply | None
) -> asyncio.Server:
    """Accept connections, sealed by `keys` if there are any."""
    loop = asyncio.get_running_loop()
    if keys is None:
        return await loop.create_server(make, host, port)
    strangers = Strangers()
    return await loop.create_server(lambda: SealedConnection(keys, make, False, strangers), host, port)


async def create_connection(
    make: Callable[[], AnyProtocol], host: str, port: int, keys: KeySupply | None
) -> asyncio.Transport:
    """Dial. Raises OSError, also if the other end has none of the keys."""
    loop = asyncio.get_running_loop()
    if keys is None:
        transport, _ = await loop.create_connection(make, host, port)
        return transport
    with suppress(KeyringError):  # the former keys stay
        keys.look()
    _, connection = await loop.create_connection(lambda: SealedConnection(keys, make, True, Strangers()), host, port)
    try:
        return await connection.ready
    except BaseException:
        if connection.transport is not None:
            connection.transport.abort()
        raise


StreamHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _find(host: str, port: int) -> SocketAddress:
    address = join_address((host, port))
    return numeric(address, 0) or (await resolve(address, 0))[1]


async def start_server(serve: StreamHandler, host: str, port: int, *, trust: Trust) -> asyncio.Server:
    """`asyncio.start_server` for those that `trust` lets in."""
    loop = asyncio.get_running_loop()
    keys = trust.keys("a server", await _find(host, port))

    def make() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), serve, loop=loop)

    return await create_server(make, host, port, keys)


async def open_connection(host: str, port: int, *, trust: Trust) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """`asyncio.open_connection` to somebody whom `trust` trusts. Raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        address = await _find(host, port)
    except AddressError as error:
        raise OSError(str(error)) from error
    keys = trust.keys("what is dialled", address)
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport = await create_connection(lambda: protocol, host, port, keys)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
