"""Replicated objects over real conversations on loopback: copies become equal, callers get results, bad calls fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

import antiphon
from antiphon.conversation import accept_conversation, open_conversation
from antiphon.toolkit import ReplicatedObject, commuting, ordered
from antiphon.toolkit.conversation_copy import ConversationCopy
from bench.peers.driver import free_ports

LIMIT_S = 30.0


class Bank(ReplicatedObject):
    def __init__(self, conversation: antiphon.conversation.Conversation) -> None:
        super().__init__(conversation)
        self.balances: dict[str, int] = {}
        self.journal: list[tuple[str, int]] = []

    @commuting
    def deposit(self, account: str, amount: int = 1) -> None:
        self.balances[account] = self.balances.get(account, 0) + amount

    @ordered
    def withdraw(self, account: str, amount: int) -> bool:
        enough = self.balances.get(account, 0) >= amount
        if enough:
            self.balances[account] -= amount
        self.journal.append((account, amount if enough else 0))
        return enough

    @ordered
    def close_account(self, account: str) -> int:
        """Raises KeyError where there is none."""
        return self.balances.pop(account)


@asynccontextmanager
async def banks(count: int) -> AsyncIterator[list[Bank]]:
    """One bank in so many copies, each on a node of its own."""
    ports = free_ports(count)
    addresses = {f"p{rank}": f"127.0.0.1:{port}" for rank, port in enumerate(ports)}
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(antiphon.Node(name, address=address, incarnation=1))
            for name, address in addresses.items()
        ]
        others = {name: address for name, address in addresses.items() if name != "p0"}
        accepting = [asyncio.create_task(accept_conversation(node, timeout_s=LIMIT_S)) for node in nodes[1:]]
        first = Bank(await open_conversation(nodes[0], others))
        await stack.enter_async_context(first)
        made = [first]
        for conversation in await asyncio.gather(*accepting):
            made.append(await stack.enter_async_context(Bank(conversation)))
        yield made


def filter_of(bank: Bank) -> Any:
    copy = bank._copy
    assert isinstance(copy, ConversationCopy)
    return copy.filter


async def settled(copies: list[Bank]) -> None:
    """All have everything, and have executed it."""
    async with asyncio.timeout(LIMIT_S):
        for copy in copies:
            await copy.settled()
        for copy in copies:
            while filter_of(copy).machine.waiting():
                await filter_of(copy).changed()


def run_banks(count: int, seed: int) -> list[Bank]:
    async def client(bank: Bank, random: Random, commuting_share: float) -> None:
        for _ in range(60):
            account = random.choice("ab")
            if random.random() < commuting_share:
                await bank.deposit(account, random.randrange(10))
            else:
                await bank.withdraw(account, random.randrange(30))

    async def main() -> list[Bank]:
        async with asyncio.timeout(LIMIT_S * 2), banks(count) as copies:
            share = Random(seed).choice([0.2, 0.9])
            clients = [client(bank, Random(seed * 10 + rank), share) for rank, bank in enumerate(copies * 2)]
            await asyncio.gather(*clients)
            await settled(copies)
            return copies

    return asyncio.run(main())


@pytest.mark.parametrize("seed", range(4))
def test_copies_become_equal(seed: int) -> None:
    copies = run_banks(2 + seed % 3, seed)
    assert all(copy.balances == copies[0].balances and copy.journal == copies[0].journal for copy in copies)
    assert len(copies[0].journal) > 10
    assert all(copy.strays == 0 for copy in copies)


def test_results_and_exceptions_go_to_the_caller() -> None:
    async def main() -> None:
        async with asyncio.timeout(LIMIT_S), banks(2) as (one, other):
            await one.deposit("a", 5)
            assert one.balances == {"a": 5}  # executed where it was issued
            assert await one.withdraw("a", 3)
            assert not await other.withdraw("a", 3)
            with pytest.raises(KeyError):
                await one.close_account("nobody's")
            assert await other.close_account("a") == 2
            await settled([one, other])
            assert one.balances == other.balances == {}
            assert one.journal == other.journal == [("a", 3), ("a", 0)]

    asyncio.run(main())


def test_arguments_are_checked_before_anything_is_sent() -> None:
    async def main() -> None:
        async with asyncio.timeout(LIMIT_S), banks(2) as (one, other):
            with pytest.raises(TypeError):
                await one.deposit()  # type: ignore[call-arg]
            with pytest.raises(msgspec.ValidationError):
                await one.deposit("a", "many")  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                await one.deposit("a", object())  # type: ignore[arg-type]
            await one.deposit(account="a")  # by name, and with a default
            await one.withdraw("a", 0)
            await settled([one, other])
            assert one.balances == other.balances == {"a": 1}

    asyncio.run(main())


def test_what_is_no_operation_is_counted_and_dropped() -> None:
    async def main() -> None:
        async with asyncio.timeout(LIMIT_S), banks(2) as (one, other):
            for payload in (
                b"\xff",
                msgspec.msgpack.encode(("steal", [])),
                msgspec.msgpack.encode(("deposit", ["a", "x"])),
            ):
                assert filter_of(one).machine.offer(payload, True)  # executed here at once, by nobody
            await one.deposit("a")
            await settled([one, other])
            assert one.balances == other.balances == {"a": 1}
            assert other.strays == 3

    asyncio.run(main())


def test_an_operation_is_a_plain_function() -> None:
    with pytest.raises(antiphon.UsageError):

        class Late(ReplicatedObject):
            @commuting
            async def wait(self) -> None:
                """Would not be executed at once."""


def test_who_is_gone_can_be_removed() -> None:
    async def main() -> None:
        async with asyncio.timeout(LIMIT_S), banks(3) as (one, other, gone):
            await settled([one, other, gone])
            await filter_of(gone).close()
            await gone.conversation.close()
            calling = asyncio.create_task(one.withdraw("a", 1))
            while not one.laggards() or not other.laggards():
                await filter_of(other if one.laggards() else one).changed()
            assert one.laggards() == other.laggards() == ["p2"]
            one.conversation.remove("p2")
            assert not await calling
            await settled([one, other])
            assert one.journal == other.journal == [("a", 0)]

    asyncio.run(main())
