"""Connections in virtual time: bytes in order through loss, back-pressure, refusal, and resets of the killed."""

import asyncio

from antiphon.faults import Loss
from antiphon.testing import FaultPlan, Host, KillProgram, simulate
from antiphon.testing.fault_plan import draw_plan

PORT = 9000


async def serve(host: Host) -> int:
    """Counts bytes of one connection, slowly."""
    counted = 0
    done = asyncio.Event()

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal counted
        while data := await reader.read(10_000):
            assert data == bytes((counted + place) % 251 for place in range(len(data)))
            counted += len(data)
            await asyncio.sleep(0.001)
        writer.write(b"done")
        await writer.drain()
        writer.close()
        done.set()

    await asyncio.start_server(count, host.address, PORT)
    await done.wait()
    return counted


async def send(host: Host) -> bytes:
    reader, writer = await asyncio.open_connection(host.addresses["server"], PORT)
    data = bytes(place % 251 for place in range(300_000))
    for start in range(0, len(data), 5000):
        writer.write(data[start : start + 5000])
        await writer.drain()
    writer.close()
    await asyncio.sleep(0)
    return await reader.read()


def test_bytes_arrive_in_order_through_loss() -> None:
    result = simulate({"server": serve, "client": send}, seed=3, faults=[Loss(0.2)], active_s=60)
    assert result.kept, result.report("")
    assert result.returned["server"] == 300_000


async def connect_late(host: Host) -> str:
    try:
        await asyncio.open_connection(host.addresses["server"], PORT + 1)
    except ConnectionRefusedError:
        return "refused"
    return "connected"


def test_a_port_nobody_listens_at_refuses() -> None:
    result = simulate({"server": serve_nobody, "client": connect_late}, seed=1, faults="none", active_s=1)
    assert result.returned["client"] == "refused"


async def serve_nobody(host: Host) -> None:
    await host.ending.wait()


async def hold(host: Host) -> None:
    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    await asyncio.start_server(keep, host.address, PORT)
    await host.ending.wait()


async def wait_for_reset(host: Host) -> str:
    await asyncio.sleep(0.1)
    reader, _ = await asyncio.open_connection(host.addresses["server"], PORT)
    try:
        await reader.read()
    except ConnectionResetError:
        return f"reset at {asyncio.get_running_loop().time():.1f}"
    return "ended"


def test_a_killed_program_resets_its_connections() -> None:
    delay = draw_plan("none", ["server", "client"], 1, 1).delay
    plan = FaultPlan(delay, [KillProgram("server", at_ns=2_000_000_000)], heal_ns=3_000_000_000)
    result = simulate({"server": hold, "client": wait_for_reset}, seed=1, faults=plan)
    assert result.returned == {"client": "reset at 2.0"}
