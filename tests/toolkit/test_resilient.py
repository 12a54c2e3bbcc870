"""Resilient objects on a group that does what the test says."""

import asyncio
from dataclasses import dataclass, field

import msgspec
import pytest

from antiphon import ClosedError, MessageTooLargeError, UsageError
from antiphon.toolkit import Tools, WorkError, make_resilient, operation, resilient
from antiphon.toolkit.resilient import component_of
from tests.toolkit.hub import Hub
from tests.toolkit.tool_sites import ToolSite, join, on_sites, pause


@dataclass
class Line:
    text: str
    amount: int


class Pair:
    """An account and its journal, at one member; the account's operations write to the journal."""

    def __init__(self, tools: Tools) -> None:
        self.gate = gate = asyncio.Event()
        self.gate.set()
        self.runs = runs = list[str]()

        @resilient
        class Journal:
            lines: list[Line]

            def __init__(self) -> None:
                self.lines = []

            @operation
            async def write(self, line: Line) -> int:
                self.lines.append(line)
                return len(self.lines)

            @operation
            async def echo(self, amount: int) -> int:
                return await account.add(amount)

        @resilient
        class Account:
            tags: set[str]

            def __init__(self) -> None:
                self.balance = 0
                self.tags = set()

            @operation
            async def add(self, amount: int) -> int:
                runs.append(f"add {amount}")
                self.balance += amount
                if amount > 0:
                    await gate.wait()
                return self.balance

            @operation
            async def withdraw(self, amount: int, tag: str = "") -> bool:
                self.balance -= amount
                self.tags.add(tag)
                if self.balance < 0:
                    raise ValueError("not so much")
                return True

            @operation
            async def pay(self, amount: int) -> int:
                runs.append(f"pay {amount}")
                await self.add(-amount)
                number = await journal.write(Line("paid", amount))
                await gate.wait()
                return number

            @operation
            async def circle(self) -> int:
                return await journal.echo(1)

            @operation
            async def whim(self) -> int:
                await journal.write(Line("whim", len(runs)))
                runs.append("whim")
                await gate.wait()
                return 0

            @operation
            async def wrong(self) -> None:
                self.balance = object()  # type: ignore[assignment]

        self.account = account = make_resilient(tools, Account)
        self.journal = journal = make_resilient(tools, Journal)


Site = ToolSite[Pair]


@dataclass
class _Nothing:
    empty: list[int] = field(default_factory=list)


@on_sites("abc", Pair)
async def test_an_operation_is_executed_once_and_has_effect_everywhere(hub: Hub, a: Site, b: Site, c: Site) -> None:
    assert await a.tool.account.add(5) == 5
    assert await c.tool.account.add(2) == 7
    await pause()
    assert [site.tool.account.balance for site in (a, b, c)] == [7, 7, 7]
    assert [site.tool.runs for site in (a, b, c)] == [["add 5"], [], ["add 2"]], "at the caller's own component"


@on_sites("ab", Pair)
async def test_concurrent_operations_follow_one_another(hub: Hub, a: Site, b: Site) -> None:
    results = await asyncio.gather(*(site.tool.account.add(1) for site in (a, b) * 10))
    assert sorted(results) == list(range(1, 21))


@on_sites("ab", Pair)
async def test_an_exception_undoes_the_operation_and_is_told(hub: Hub, a: Site, b: Site) -> None:
    await a.tool.account.add(5)
    with pytest.raises(WorkError, match="ValueError: not so much"):
        await b.tool.account.withdraw(7, tag="rent")
    assert await b.tool.account.withdraw(3, tag="food") is True
    await pause()
    assert (a.tool.account.balance, a.tool.account.tags) == (2, {"food"})
    with pytest.raises(WorkError, match="TypeError"):
        await a.tool.account.wrong()
    assert b.tool.account.balance == 2


@on_sites("abc", Pair)
async def test_a_cohort_goes_on_when_the_coordinator_fails(hub: Hub, a: Site, b: Site, c: Site) -> None:
    await b.tool.account.add(1)
    b.tool.gate.clear()
    calling = asyncio.create_task(b.tool.account.add(5))
    await pause()
    hub.fail("b")
    await pause()
    assert (a.tool.account.balance, c.tool.account.balance) == (6, 6)
    assert component_of(c.tool.account).executed == 1, "the nearest of the others"
    with pytest.raises(ClosedError):
        await calling
    assert await a.tool.account.add(1) == 7


@on_sites("abc", Pair)
async def test_a_nested_call_is_executed_once_though_its_caller_is_executed_twice(
    hub: Hub, a: Site, b: Site, c: Site
) -> None:
    b.tool.gate.clear()
    calling = asyncio.create_task(b.tool.account.pay(3))
    while not a.tool.journal.lines:
        await pause()
    hub.fail("b")
    await pause()
    assert c.tool.runs == ["pay 3", "add -3"]
    assert a.tool.journal.lines == c.tool.journal.lines == [Line("paid", 3)]
    assert a.tool.account.balance == c.tool.account.balance == -3
    with pytest.raises(ClosedError):
        await calling


@on_sites("abc", Pair)
async def test_an_operation_that_is_not_the_same_again_fails(hub: Hub, a: Site, b: Site, c: Site) -> None:
    c.tool.runs.append("something else")
    b.tool.gate.clear()
    calling = asyncio.create_task(b.tool.account.whim())
    while not a.tool.journal.lines:
        await pause()
    hub.fail("b")
    await pause()
    retained = list(component_of(a.tool.account)._retained.values())
    assert "another nested call than the first time" in retained[0].error
    with pytest.raises(ClosedError):
        await calling


@on_sites("ab", Pair)
async def test_a_call_that_leads_back_is_refused(hub: Hub, a: Site, b: Site) -> None:
    with pytest.raises(WorkError, match="would wait for ever"):
        await a.tool.account.circle()
    assert await a.tool.account.add(1) == 1


@on_sites("ab", Pair)
async def test_a_joiner_gets_the_object(hub: Hub, a: Site, b: Site) -> None:
    await a.tool.account.pay(3)
    c = await join(hub, "c", Pair)
    assert (c.tool.account.balance, c.tool.journal.lines) == (-3, [Line("paid", 3)])
    assert await c.tool.account.add(10) == 7
    await pause()
    assert a.tool.account.balance == 7
    await c.close()


@on_sites("a", Pair)
async def test_arguments_are_checked_before_anything_is_sent(hub: Hub, a: Site) -> None:
    sent = len(hub.sent)
    with pytest.raises(msgspec.ValidationError):
        await a.tool.account.add("five")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await a.tool.account.add()  # type: ignore[call-arg]
    assert len(hub.sent) == sent


@on_sites("ab", Pair)
async def test_only_operations_change_an_object(hub: Hub, a: Site, b: Site) -> None:
    with pytest.raises(UsageError, match="only operations change"):
        a.tool.account.balance = 7
    with pytest.raises(AttributeError):
        _ = a.tool.account.nothing  # type: ignore[attr-defined]
    assert a.tool.account.balance == 0


@on_sites("ab", Pair)
async def test_changes_that_are_too_large_are_told_as_an_error(hub: Hub, a: Site, b: Site) -> None:
    a.member.message_bytes_max = b.member.message_bytes_max = 1000  # type: ignore[attr-defined]
    for number in range(4):
        await a.tool.journal.write(Line("x" * 100, number))
    with pytest.raises(WorkError, match="the changes cannot be told"):
        await a.tool.journal.write(Line("x" * 400, 7))
    assert len(a.tool.journal.lines) == 4
    with pytest.raises(MessageTooLargeError):
        await a.tool.journal.write(Line("x" * 900, 7))


def test_mistakes_in_the_class_are_told() -> None:
    with pytest.raises(UsageError, match="make it `async def add`"):

        @operation
        def add() -> None: ...

    with pytest.raises(UsageError, match="_Nothing has no operations"):
        resilient(_Nothing)


@on_sites("a", Pair)
async def test_a_class_without_the_decorator_is_refused(hub: Hub, a: Site) -> None:
    with pytest.raises(UsageError, match="put @resilient before"):
        make_resilient(a.tools, _Nothing)


def test_what_the_class_itself_makes_is_an_ordinary_object() -> None:
    @resilient
    class Plain:
        def __init__(self) -> None:
            self.value = 0

        @operation
        async def add(self, amount: int) -> int:
            self.value += amount
            return self.value

    assert asyncio.run(Plain().add(2)) == 2
