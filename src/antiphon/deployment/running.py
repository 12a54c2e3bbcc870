"""One member, run from its configuration until a signal, the end of its service, or a failure.

Start: bind, serve health and metrics, join all groups at once, then run the service. A group that nobody lets this
process into is asked for again and again, and the node is not ready meanwhile.

SIGTERM, SIGINT: the service is cancelled and given `linger_s` to end; then every group is left in good order (all
members have what was sent here, and agree on a view without this process), and the history is closed. Each step waits
for `linger_s` at most, so the whole takes four times that at most. A second signal ends the waiting.
SIGHUP: the keyring is read again at once; without it, within a second.
"""

import asyncio
import importlib
import inspect
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, final

from antiphon.deployment.member_config import GroupConfig, MemberConfig
from antiphon.kernel.errors import AntiphonError, UsageError
from antiphon.observe import Observer
from antiphon.runtime.errors import JoinError, KeyringError
from antiphon.runtime.group import Group
from antiphon.runtime.logs import log_event
from antiphon.runtime.node import Node

EXIT_LEFT: Final = 0
EXIT_UNSETTLED: Final = 5
EXIT_FAILED: Final = 6
LOOK_S: Final = 0.2
"""How often to look whether the node has failed, or was excluded for good."""
ASK_S: Final = 30.0
"""How long one try to be let in takes; then it is logged, and tried again."""

Service = Callable[[Node, dict[str, Group]], Awaitable[object]]


def find_service(name: str, directory: Path) -> Service:
    """The function that `module:function` names, looked for in `directory`, too. Raises UsageError."""
    module_name, _, function_name = name.partition(":")
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(f"the service {name!r} cannot be loaded: {error}") from error
    function = getattr(module, function_name, None)
    if not inspect.iscoroutinefunction(function):
        raise UsageError(f"the service {name!r} is no coroutine: write `async def {function_name}(node, groups)` there")
    service: Service = function
    return service


@final
class RunningMember:
    """One process that is, or tries to be, in the groups of its configuration."""

    def __init__(self, config: MemberConfig, service: Service | None) -> None:
        self._config = config
        self._service = service
        self._node = Node(
            config.name,
            address=config.listen,
            options=config.options,
            linger_s=config.linger_s,
            queue_messages_max=config.queue_messages_max,
            queue_bytes_max=config.queue_bytes_max,
            multicast=config.multicast,
            history=config.history,
            run=config.run,
            rejoin=config.rejoin,
            storage=config.storage,
            keyring=config.keyring,
            insecure=config.insecure,
            identity=config.identity,
        )
        self._groups: dict[str, Group] = {}
        self._stopping = asyncio.Event()
        self._reason = ""
        self._closing: asyncio.Task[bool] | None = None

    async def run(self) -> int:
        """Run until the end; the exit code. Raises what keeps the node from starting."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, signal.Signals(number).name)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        async with AsyncExitStack() as stack:
            await self._node.start()
            stack.push_async_callback(self._node.close)
            self._tell_start()
            if self._config.observe:
                expected = [group.name for group in self._config.groups]
                observer = Observer(self._node, self._config.observe, self._config.page, groups=expected)
                await stack.enter_async_context(observer)
                log_event(logging.INFO, "node_observed", process=self._node.process, address=observer.address)
            if self._config.serve_stack:
                self._node.serve(self._config.serve_stack, peers=self._config.serve_peers)  # type: ignore[arg-type]
            is_well = await self._work()
            settled = await self._leave()
        return EXIT_FAILED if not is_well else EXIT_LEFT if settled else EXIT_UNSETTLED

    def _tell_start(self) -> None:
        node = self._node
        sealed = "no" if self._config.keyring is None and self._config.identity is None else "yes"
        log_event(logging.INFO, "node_started", process=node.process, address=node.address, sealed=sealed)

    def stop(self, reason: str) -> None:
        """Begin to leave; a second time: do not wait any more."""
        if self._stopping.is_set() and self._closing is not None:
            self._closing.cancel()
        self._reason = self._reason or reason
        self._stopping.set()

    def _reload(self) -> None:
        try:
            self._node.trust.reload()
        except KeyringError as error:
            log_event(logging.ERROR, "keyring_unusable", f"the keys stay as they are: {error}")
        else:
            log_event(logging.INFO, "keyring_reloaded", process=self._node.process)

    # ---- at work ---------------------------------------------------------------------------------------------------

    async def _work(self) -> bool:
        """Join and do what there is to do, until something ends it; whether that was no failure."""
        work = asyncio.create_task(self._join_and_serve())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            while not work.done() and not stopping.done():
                await asyncio.wait((work, stopping), timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                if not self._is_well():
                    return False
        finally:
            stopping.cancel()
            work.cancel()
            await asyncio.wait((work,), timeout=self._config.linger_s)
        if not work.done():
            text = f"it did not end within {self._config.linger_s} s of being cancelled"
            log_event(logging.ERROR, "service_failed", text, process=self._node.process, service=self._config.service)
            return False
        error = None if work.cancelled() else work.exception()
        if error is None:
            return True
        what = "service_failed" if self._service is not None else "join_failed"
        self._tell_failure(what, error)
        return False

    def _tell_failure(self, event: str, error: BaseException) -> None:
        trace = None if isinstance(error, AntiphonError) else error
        text = str(error) or type(error).__name__
        if event == "service_failed":
            log_event(
                logging.ERROR,
                "service_failed",
                text,
                process=self._node.process,
                service=self._config.service,
                exc_info=trace or False,
            )
        else:
            log_event(logging.ERROR, "join_failed", text, process=self._node.process, exc_info=trace or False)

    def _is_well(self) -> bool:
        """Whether the node goes on, and no group of the file has gone on without it for good."""
        try:
            self._node._running()
        except AntiphonError:
            return False  # the driver has logged it
        return self._config.rejoin or not any(group.is_over for group in self._groups.values())

    async def _join_and_serve(self) -> None:
        reading = None if self._service is not None else asyncio.create_task(self._read())
        try:
            async with asyncio.TaskGroup() as tasks:
                for group in self._config.groups:
                    tasks.create_task(self._join(group))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        if self._service is None:
            assert reading is not None
            await reading
            return
        name = self._config.service
        log_event(logging.INFO, "service_started", process=self._node.process, service=name)
        await self._service(self._node, self._groups)
        log_event(logging.INFO, "service_ended", process=self._node.process, service=name)
        self._reason = "the service ended"

    async def _read(self) -> None:
        """Read and drop what is delivered: what nobody reads holds up all senders."""
        async for _ in self._node.batches():
            pass
        await asyncio.Event().wait()

    async def _join(self, wanted: GroupConfig) -> None:
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + wanted.join_s
        while True:
            left_s = ASK_S if not wanted.join_s else max(0.0, min(ASK_S, give_up_s - loop.time()))
            try:
                group = await self._ask(wanted, left_s)
                break
            except JoinError as error:
                if wanted.join_s and loop.time() >= give_up_s:
                    raise
                log_event(logging.WARNING, "join_waiting", str(error), process=self._node.process, group=wanted.name)
        self._groups[wanted.name] = group
        log_event(
            logging.INFO,
            "group_joined",
            process=self._node.process,
            group=wanted.name,
            stack=wanted.stack,
            policy=wanted.policy,
            view=group.view.id,
        )

    async def _ask(self, wanted: GroupConfig, timeout_s: float) -> Group:
        settings: dict[str, Any] = {"stack": wanted.stack, "policy": wanted.policy, "domain": wanted.domain}
        if wanted.members is not None:
            settings["members"] = wanted.members
        else:
            settings["contacts"] = self._config.contacts(wanted)
        return await self._node.join(wanted.name, timeout_s=timeout_s, found_after_s=wanted.found_after_s, **settings)

    # ---- the end ---------------------------------------------------------------------------------------------------

    async def _leave(self) -> bool:
        log_event(logging.INFO, "node_stopping", process=self._node.process, reason=self._reason or "failure")
        self._closing = asyncio.create_task(self._node.close())
        try:
            settled = await self._closing
        except asyncio.CancelledError:  # by a second signal
            settled = False
        log_event(logging.INFO, "node_stopped", process=self._node.process, settled="yes" if settled else "no")
        return settled
