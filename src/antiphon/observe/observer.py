"""Something to look at: one node's health, counts and groups over HTTP.

    async with antiphon.Node("alice", address=…) as node, Observer(node, listen="127.0.0.1:9400"):
        …

/live      200 while the node runs, else 503; JSON with the reason (health.py)
/ready     200 while all its groups go on, else 503; JSON with the reasons
/metrics   the same for Prometheus (metrics.py)
/status    JSON: groups, views, members, queues, counts, latencies, the last events (status.py)
/history   JSON: totals of the last minutes, one sample per second (sampler.py)
/          a page that shows all of it, if `page` is true (page.html)

The observer asks the node when somebody asks it; beside that it counts batches (meter.py) and looks at the clock now
and then, to know whether the event loop lags. It only reads, has no secret and asks for none: whoever reaches its
address learns who is in which group and how much is sent, and no payload. So it listens on loopback unless told
otherwise, and then belongs on a network that may know as much.
"""

import asyncio
import json
from collections.abc import Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self, final

from antiphon.kernel.errors import UsageError
from antiphon.observe.families import MetricSamples
from antiphon.observe.health import dead_because, not_ready_because
from antiphon.observe.http_server import HttpAnswer, HttpServer
from antiphon.observe.meter import LatencyHistogram, Meter
from antiphon.observe.metrics import CONTENT_TYPE, MetricsTable, add_group, add_node, exposition
from antiphon.observe.page import HTML, PAGE_HEADERS, page_bytes
from antiphon.observe.sampler import Sampler
from antiphon.observe.status import describe
from antiphon.runtime.environment import current_environment
from antiphon.runtime.inspection import NodeInspection
from antiphon.runtime.node import Node

LISTEN: Final = "127.0.0.1:9400"
LOOK_S: Final = 0.25
"""How often to look whether the loop lags."""
JSON: Final = "application/json"


@final
class Observer:
    """Serves what can be seen of one node, from `async with` to its end. Start it after the node."""

    def __init__(self, node: Node, listen: str = LISTEN, page: bool = False, *, groups: Sequence[str] = ()) -> None:
        """
        listen   "host:port" to answer at; port 0 takes any free one
        page     whether to serve a page for people at /, too
        groups   the groups that this node is expected to be in: without one of them it is not ready
        """
        self.node = NodeInspection(node)
        self.meter = Meter(current_environment().time_ns)
        self.loop_lag = LatencyHistogram()
        self.loop_lag_s = 0.0
        """How late the event loop was when it was last looked at."""
        self._expected = tuple(groups)
        self._sampler = Sampler(self.node, self.meter)
        paths = {
            "/live": self._answer_live,
            "/ready": self._answer_ready,
            "/status": self._answer_status,
            "/metrics": self._answer_metrics,
            "/history": self._answer_history,
        }
        if page:
            paths["/"] = self._answer_page
        self._server = HttpServer(listen, paths)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def address(self) -> str:
        """Where this answers; with the port that it was given, if it asked for any."""
        return self._server.address

    async def start(self) -> None:
        """Begin; `async with` does this."""
        driver = self.node.driver
        if driver is None:
            raise UsageError(f"node {self.node.process.name!r} has not been started; start it before its observer")
        if driver.meter is not None:
            raise UsageError(f"node {self.node.process.name!r} has an observer already")
        await self._server.start()
        driver.meter = self.meter
        self._tasks = [asyncio.create_task(self._look()), asyncio.create_task(self._sampler.run())]

    async def close(self) -> None:
        """HttpAnswer no more."""
        driver = self.node.driver
        if driver is not None and driver.meter is self.meter:
            driver.meter = None
        tasks = [*self._tasks, *self._sampler.probes.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _look(self) -> None:
        """Look at the clock now and then."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.loop_lag_s = max(0.0, loop.time() - due_s)
            self.loop_lag.add(self.loop_lag_s)

    def live(self) -> dict[str, Any]:
        """Whether the node runs, and why not."""
        dead = dead_because(self.node)
        return {"live": not dead, "reason": dead}

    def ready(self) -> dict[str, Any]:
        """Whether all groups go on, and which do not, and why."""
        reasons = not_ready_because(self.node, self.meter, self._expected)
        return {"ready": not reasons, "reasons": [reason.as_json() for reason in reasons]}

    def status(self) -> dict[str, Any]:
        """Everything that can be seen, as JSON has it."""
        health = self.live() | self.ready()
        return health | describe(self.node, self.meter, self.loop_lag_s)

    def metrics(self) -> list[MetricSamples]:
        """All metrics that have samples now."""
        table = MetricsTable()
        add_node(table, self.node, self.loop_lag, self.live()["live"], self.ready()["ready"])
        for name, group in sorted(self.node.groups.items()):
            add_group(table, self.node, group, self.meter.counts(name))
        return table.filled()

    async def _answer_live(self) -> HttpAnswer:
        return as_json(self.live(), "live")

    async def _answer_ready(self) -> HttpAnswer:
        return as_json(self.ready(), "ready")

    async def _answer_status(self) -> HttpAnswer:
        return as_json(self.status())

    async def _answer_metrics(self) -> HttpAnswer:
        return HttpAnswer(exposition(self.metrics()).encode(), CONTENT_TYPE)

    async def _answer_history(self) -> HttpAnswer:
        return as_json({"samples": list(self._sampler.samples)})

    async def _answer_page(self) -> HttpAnswer:
        return HttpAnswer(page_bytes(), HTML, headers=PAGE_HEADERS)


def as_json(document: dict[str, Any], verdict: str = "") -> HttpAnswer:
    """An answer with this document; 503 if its `verdict` is false."""
    is_well = not verdict or document[verdict]
    status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return HttpAnswer(json.dumps(document, ensure_ascii=False).encode() + b"\n", JSON, status)
