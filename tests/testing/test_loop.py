"""The loop in virtual time does what asyncio promises, and time passes only in it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import antiphon
from antiphon.testing import Host, Result, simulate


def run(main: Callable[[Host], Awaitable[object]]) -> Result:
    result = simulate({"a": main}, seed=1, faults="none", active_s=1)
    assert result.kept, result.report("")
    return result


def test_an_hour_passes_in_no_time() -> None:
    async def main(host: Host) -> float:
        await asyncio.sleep(20)
        return asyncio.get_running_loop().time()

    before_s = time.perf_counter()
    assert 20 <= run(main).returned["a"] < 20.01
    assert time.perf_counter() - before_s < 2


def test_callbacks_run_in_order_and_timers_by_time() -> None:
    async def main(host: Host) -> list[int]:
        seen: list[int] = []
        loop = asyncio.get_running_loop()
        loop.call_later(0.2, seen.append, 4)
        loop.call_later(0.1, seen.append, 3)
        loop.call_soon(seen.append, 1)
        loop.call_soon(seen.append, 2)
        loop.call_later(0.05, seen.append, 9).cancel()
        await asyncio.sleep(1)
        return seen

    assert run(main).returned["a"] == [1, 2, 3, 4]


def test_timeouts_cancellation_groups_and_threads() -> None:
    async def main(host: Host) -> list[str]:
        seen: list[str] = []
        try:
            async with asyncio.timeout(0.5):
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append("timeout")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(0.1))
            seen.append(await tasks.create_task(asyncio.to_thread(str.upper, "thread")))
        done, _ = await asyncio.wait([asyncio.create_task(asyncio.sleep(0))])
        seen.append(str(len(done)))
        return seen

    assert run(main).returned["a"] == ["timeout", "THREAD", "1"]


def test_spinning_does_not_stop_time() -> None:
    async def main(host: Host) -> bool:
        spinning = asyncio.create_task(spin())
        await asyncio.sleep(0.01)
        return spinning.cancel()

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    assert run(main).returned["a"] is True


def test_what_a_callback_raises_is_a_problem() -> None:
    async def main(host: Host) -> None:
        asyncio.get_running_loop().call_soon(int, "x")
        await asyncio.sleep(1)

    result = simulate({"a": main}, seed=1, faults="none", active_s=1)
    assert "ValueError" in result.problems[0]


def test_clock_and_entropy_are_the_simulations() -> None:
    async def main(host: Host) -> tuple[int, bytes, int]:
        machine = antiphon.current_environment()
        return machine.time_ns(), machine.token_bytes(8), machine.monotonic_ns()

    assert run(main).returned == run(main).returned
