"""Section 5 of isis-1987: what the primitives are for, on groups of the stack `label` in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import antiphon
from antiphon.faults import Delay
from antiphon.testing import FaultPlan, Host, KillProgram, Result, simulate
from antiphon.toolkit import (
    BulletinBoard,
    CausalDictionary,
    Cohorts,
    Directory,
    Locks,
    Properties,
    Tool,
    Tools,
    WorkError,
    make_resilient,
    operation,
    resilient,
)

NAMES = ("a", "b", "c")
SECOND_NS = 1_000_000_000
SPEED = Delay(5_000_000, 10_000_000)
"""A trip takes 5 to 10 ms."""
KILL_B = FaultPlan(SPEED, [KillProgram("b", at_ns=3 * SECOND_NS)], heal_ns=4 * SECOND_NS)
QUIET = FaultPlan(SPEED, [], heal_ns=SECOND_NS)

Scene = Callable[[Host, Tools, Any], Awaitable[Any]]


async def play(host: Host, make: Callable[[Tools], Any], scene: Scene) -> Any:
    async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
        group = await node.join("tools", members=host.members(), policy="primary", stack="label")
        tools = Tools(group)
        tool = make(tools)
        async with tools:
            await tools.live()
            result = await scene(host, tools, tool)
            await host.ending.wait()
            return result() if callable(result) else result


def stage(make: Callable[[Tools], Any], scene: Scene, plan: FaultPlan = QUIET) -> dict[str, Any]:
    """What the scene returned at each host."""
    result: Result = simulate(
        dict.fromkeys(NAMES, partial(play, make=make, scene=scene)), seed=1, faults=plan, may_stall=True
    )
    assert not result.problems, result.problems
    return dict(result.returned)


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Server(Tool):
    """Section 2: of all members that get a request, the one that is ranked first serves it."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools, "server")
        self.properties = Properties(tools)
        self.served: dict[str, str] = {}

    def take(self, event: antiphon.Message, payload: bytes) -> None:
        self.served[payload.decode()] = self.properties.ranking[0].name


def test_3_1_a_ranking_changes_at_one_place_among_all_requests() -> None:
    """Requests of three members, while two of them change the ranking and one fails: for each request, all take the
    same member to be the first."""

    async def scene(host: Host, tools: Tools, server: Server) -> Callable[[], object]:
        for number in range(12):
            tools.post(server, f"{host.name}{number}".encode(), order=("causal", "agreed", "fifo")[number % 3])
            await asyncio.sleep(0.02)
            if host.name != "c" and number % 4 == (host.name == "a"):
                await server.properties.rank(server.properties.ranking[::-1])
        await asyncio.sleep(5)
        return lambda: server.served

    returned = stage(Server, scene, KILL_B)
    assert returned["a"] == returned["c"]
    assert len(returned["a"]) > 24
    assert len(set(returned["a"].values())) > 1


class LoggedProperties(Properties):
    """Properties that keep what they have been."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.log: list[bytes | None] = []

    def reach(self, event: antiphon.Barrier, payload: bytes) -> None:
        super().reach(event, payload)
        self.log.append(self.get("mode"))


def test_3_1_properties_of_a_group_go_through_the_same_values_everywhere() -> None:
    async def scene(host: Host, tools: Tools, properties: LoggedProperties) -> Callable[[], object]:
        for number in range(6):
            if host.name != "c":
                await properties.set("mode", f"{host.name}{number}".encode())
        await asyncio.sleep(2)
        return lambda: properties.log

    returned = stage(LoggedProperties, scene)
    assert returned["a"] == returned["b"] == returned["c"]
    for name in "ab":
        own = [value for value in returned["c"] if value is not None and value.startswith(name.encode())]
        assert own == [f"{name}{number}".encode() for number in range(6)]


def test_5_1_copies_are_updated_by_one_asynchronous_message_each() -> None:
    async def scene(host: Host, tools: Tools, data: CausalDictionary) -> Callable[[], object]:
        begun_s = now_s()
        if host.name == "a":
            for number in range(20):
                await data.set("x", b"%d" % number)
                assert data.get("x") == b"%d" % number, "complete here at once"
        waited_s = now_s() - begun_s
        return lambda: (waited_s, data.get("x"))

    returned = stage(CausalDictionary, scene)
    assert {value for _, value in returned.values()} == {b"19"}
    assert returned["a"][0] < 0.001, "less than a trip"


class Worker:
    """Work that takes its time, at one host."""

    def __init__(self, tools: Tools) -> None:
        self.done: list[bytes] = []
        self.cohorts = Cohorts(tools, self.work)

    async def work(self, payload: bytes) -> bytes:
        await asyncio.sleep(5.0 if payload == b"long" else 0.0)
        self.done.append(payload)
        return payload


def test_5_2_components_choose_one_coordinator_the_nearest_without_agreement() -> None:
    async def scene(host: Host, tools: Tools, worker: Worker) -> Callable[[], object]:
        await worker.cohorts.ask(host.name.encode())
        return lambda: (worker.done, len(worker.cohorts.open))

    returned = stage(Worker, scene)
    assert returned == {name: ([name.encode()], 0) for name in NAMES}


def test_5_2_a_cohort_takes_over_and_restarts_the_request() -> None:
    async def scene(host: Host, tools: Tools, worker: Worker) -> Callable[[], object]:
        if host.name == "b":
            await worker.cohorts.ask(b"long")
        return lambda: (worker.done, worker.cohorts.taken_over)

    returned = stage(Worker, scene, KILL_B)
    assert sorted(returned.values()) == [([], 0), ([b"long"], 1)]


def test_5_3_a_read_lock_is_local_and_its_registration_asynchronous() -> None:
    async def scene(host: Host, tools: Tools, locks: Locks) -> object:
        if host.name == "a":
            await asyncio.sleep(1.0)
            begun_s = now_s()
            claim = await locks.read("x").acquire()
            return now_s() - begun_s, claim.token % 2
        await asyncio.sleep(2.0)
        return [process.name for process in locks.readers("x")], 1

    returned = stage(Locks, scene)
    assert returned == {"a": (0.0, 1), "b": (["a"], 1), "c": (["a"], 1)}


def test_5_3_a_registration_comes_before_the_failure_of_the_reader() -> None:
    """Whoever has received anything that was sent after it knows of the read lock when the reader fails."""
    seen: dict[str, list[list[str]]] = {"a": [], "c": []}

    class Watching(Locks):
        def install(self, view: antiphon.View, gone: tuple[antiphon.ProcessId, ...]) -> None:
            if gone and self.tools.process.name in seen:
                seen[self.tools.process.name].append([process.name for process in self.readers("x")])
            super().install(view, gone)

    async def scene(host: Host, tools: Tools, locks: Locks) -> Callable[[], object]:
        if host.name == "b":
            await asyncio.sleep(2.9)
            await locks.read("x").acquire()
            async with locks.write("y"):  # later messages
                await asyncio.sleep(60)
        return lambda: locks.readers("x")

    returned = stage(Watching, scene, KILL_B)
    assert seen == {"a": [["b"]], "c": [["b"]]}
    assert returned == {"a": [], "c": []}, "freed by the failure"


def test_5_3_a_write_lock_is_granted_by_all_in_one_order() -> None:
    held: list[tuple[str, int]] = []

    async def scene(host: Host, tools: Tools, locks: Locks) -> object:
        for _ in range(4):
            async with locks.write("x") as claim:
                held.append((host.name, claim.token))
                await asyncio.sleep(0.01)
                assert held[-1] == (host.name, claim.token), "nobody came between"
        return None

    stage(Locks, scene)
    assert len(held) == 12
    assert [token for _, token in held] == sorted(token for _, token in held)


class Account:
    """A resilient account at one host."""

    def __init__(self, tools: Tools) -> None:
        @resilient
        class Number:
            def __init__(self) -> None:
                self.value = 0

            @operation
            async def add(self, amount: int, pause_s: float) -> int:
                await asyncio.sleep(pause_s)
                self.value += amount
                return self.value

        self.number = make_resilient(tools, Number)


def test_5_an_operation_at_a_failed_component_is_continued_by_another() -> None:
    async def scene(host: Host, tools: Tools, account: Account) -> Callable[[], object]:
        if host.name == "b":
            await asyncio.sleep(2.5)
            await account.number.add(100, 5.0)  # it is killed meanwhile
        else:
            await account.number.add(1, 0.0)
        return lambda: account.number.value

    assert stage(Account, scene, KILL_B) == {"a": 102, "c": 102}


def test_5_an_object_accepts_operations_while_one_component_of_a_majority_lives() -> None:
    async def scene(host: Host, tools: Tools, account: Account) -> Callable[[], object]:
        results = [await account.number.add(1, 0.5) for _ in range(4)] if host.name != "b" else []
        assert results == sorted(results)
        return lambda: account.number.value

    assert stage(Account, scene, KILL_B) == {"a": 8, "c": 8}


def test_5_an_operation_that_fails_has_no_effect() -> None:
    class Careful:
        def __init__(self, tools: Tools) -> None:
            @resilient
            class Number:
                def __init__(self) -> None:
                    self.value = 0

                @operation
                async def fail(self) -> None:
                    self.value = 7
                    raise ValueError("no")

            self.number = make_resilient(tools, Number)

    async def scene(host: Host, tools: Tools, careful: Careful) -> Callable[[], object]:
        try:
            await careful.number.fail()
        except WorkError as error:
            said = str(error)
        return lambda: (said, careful.number.value)

    assert set(stage(Careful, scene).values()) == {("ValueError: no", 0)}


def test_5_boards_are_asynchronous_with_levels_of_consistency() -> None:
    async def scene(host: Host, tools: Tools, board: BulletinBoard) -> Callable[[], object]:
        begun_s = now_s()
        for number in range(5):
            await board.post("agreed", f"{host.name}{number}".encode(), consistency="agreed")
            await board.post("causal", f"{host.name}{number}".encode())
        assert now_s() - begun_s < 0.005, "nobody waits for the network"
        own = [post.payload for post in await board.read_latest("agreed") if post.author == tools.process]
        assert own == [f"{host.name}{number}".encode() for number in range(5)]
        return lambda: [[post.payload for post in board.read(subject)] for subject in ("agreed", "causal")]

    returned = stage(BulletinBoard, scene)
    assert len({tuple(agreed) for agreed, _ in returned.values()}) == 1
    assert len({tuple(sorted(causal)) for _, causal in returned.values()}) == 1
    for _, causal in returned.values():
        for name in NAMES:
            assert [post for post in causal if post.startswith(name.encode())] == [
                f"{name}{number}".encode() for number in range(5)
            ]


def test_5_a_group_is_found_by_its_name() -> None:
    async def scene(host: Host, tools: Tools, directory: Directory) -> Callable[[], object]:
        if host.name == "b":
            directory.offer("prices", "10.0.0.2:7400", "label")
        entry = await directory.wait("prices")
        return lambda: (entry.contacts, directory.groups)

    assert stage(Directory, scene, KILL_B) == {"a": (("10.0.0.2:7400",), []), "c": (("10.0.0.2:7400",), [])}
