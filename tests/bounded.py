"""Seeds that are run until time is over: campaigns that fit into whatever time there is, and tell how far they came."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TypeVar

Outcome = TypeVar("Outcome")


def run_seeds(
    function: Callable[[int], Outcome], first: int, last: int, jobs: int, seconds: float | None
) -> Iterator[Outcome]:
    """What `function` says of each seed from `first` on, in their order, by `jobs` processes; after `seconds` no other
    seed is begun."""
    until_s = None if seconds is None else time.monotonic() + seconds
    with ProcessPoolExecutor(jobs) as pool:
        waiting: list[Future[Outcome]] = []
        for seed in range(first, last):
            if until_s is not None and time.monotonic() >= until_s:
                break
            waiting.append(pool.submit(function, seed))
            if len(waiting) >= 2 * jobs:
                yield waiting.pop(0).result()
        for each in waiting:
            yield each.result()
