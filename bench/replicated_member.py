"""A process of `bench.replicated`: keeps calls under way on a replicated dictionary of one system.

    python -m bench.replicated_member antiphon|pysyncobj|etcd NAME ADDRESS OTHERS [DIRECTORY]

Prints a line when it is ready. For each line that it reads, with `clients` and `seconds`, it runs and prints the calls
that returned, the seconds, and the median time of a call.
"""

import asyncio
import base64
import json
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

KEYS: Final = 1000
VALUE: Final = "x" * 64
LIMIT_S: Final = 60.0
Call = Callable[[str], Awaitable[object]]


def tell(**answer: object) -> None:
    print(json.dumps(answer), flush=True)


async def run(call: Call, name: str, clients: int, seconds: float) -> None:
    """Keep so many calls under way for so long."""
    times_s: list[float] = []
    begun_s = time.perf_counter()

    async def client(number: int) -> None:
        count = 0
        while (now_s := time.perf_counter()) < begun_s + seconds:
            count += 1
            await call(f"{name}-{(number * 7919 + count) % KEYS}")
            times_s.append(time.perf_counter() - now_s)

    await asyncio.gather(*(client(number) for number in range(clients)))
    tell(
        calls=len(times_s), seconds=time.perf_counter() - begun_s, median_ms=1000 * statistics.median(times_s or [0.0])
    )


async def serve(call: Call, name: str) -> None:
    """Do as the lines of standard input say."""
    tell(ready=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        await run(call, name, order["clients"], order["seconds"])


async def antiphon_main(name: str, address: str, others: list[str], directory: str) -> None:
    import antiphon
    from antiphon.toolkit import ReplicatedDict

    port = lambda text: int(text.rsplit(":", 1)[1])  # noqa: E731
    contacts = sorted([address, *others], key=port)
    async with antiphon.Node(name, address=address) as node:
        group = await node.join("dictionary", contacts=contacts, found_after_s=0.5)
        options: dict[str, Any] = {}
        if directory:
            options = {"path": f"{directory}/{name}", "founders": ["m0", "m1", "m2"]}
        async with ReplicatedDict(group, **options) as dictionary:
            while len(group.view.members) <= len(others):
                await asyncio.sleep(0.01)
            await serve(lambda key: dictionary.set(key, VALUE), name)


async def etcd_main(name: str, address: str) -> None:
    host, port = address.split(":")
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    value = base64.b64encode(VALUE.encode()).decode()

    async def call(key: str) -> None:
        reader, writer = idle.pop() if idle else await asyncio.open_connection(host, int(port))
        body = json.dumps({"key": base64.b64encode(key.encode()).decode(), "value": value}).encode()
        head = f"POST /v3/kv/put HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        writer.write(head + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise OSError(answer.decode())
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.split(b":")[1]))
        idle.append((reader, writer))

    until_s = time.monotonic() + LIMIT_S
    while True:
        try:
            await call("ready")
            break
        except (OSError, asyncio.IncompleteReadError):
            if time.monotonic() > until_s:
                raise
            await asyncio.sleep(0.1)
    await serve(call, name)


def pysyncobj_main(name: str, address: str, others: list[str]) -> None:
    """By callbacks, which are its fast way: each issues the next call."""
    from pysyncobj import SyncObj  # type: ignore[import-not-found]
    from pysyncobj.batteries import ReplDict  # type: ignore[import-not-found]

    dictionary = ReplDict()
    node = SyncObj(address, others, consumers=[dictionary])
    while not node.isReady():
        time.sleep(0.05)
    tell(ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        times_s: list[float] = []
        failed: list[object] = []
        done = threading.Semaphore(0)
        begun_s = time.perf_counter()

        def issue(number: int, count: int) -> None:
            now_s = time.perf_counter()
            if now_s >= begun_s + order["seconds"]:  # noqa: B023
                done.release()  # noqa: B023
                return

            def returned(result: object, error: Any) -> None:
                if error:
                    failed.append(error)  # noqa: B023
                times_s.append(time.perf_counter() - now_s)  # noqa: B023
                issue(number, count + 1)

            key = f"{name}-{(number * 7919 + count) % KEYS}"
            dictionary.set(key, VALUE, callback=returned)

        for number in range(order["clients"]):
            issue(number, 0)
        for _ in range(order["clients"]):
            done.acquire()
        if failed:
            raise SystemExit(f"{len(failed)} calls failed: {failed[0]}")
        median_ms = 1000 * statistics.median(times_s or [0.0])
        tell(calls=len(times_s), seconds=time.perf_counter() - begun_s, median_ms=median_ms)


def main() -> None:
    system, name, address, others = sys.argv[1:5]
    if system == "antiphon":
        asyncio.run(antiphon_main(name, address, others.split(","), "".join(sys.argv[5:])))
    elif system == "etcd":
        asyncio.run(etcd_main(name, address))
    else:
        pysyncobj_main(name, address, others.split(","))


if __name__ == "__main__":
    main()
