"""A bank with a copy at each participant. Deposits commute and are done at once; withdrawals are totally ordered.

    python replicated_bank.py bob 127.0.0.1:7401                               # waits for a conversation
    python replicated_bank.py alice 127.0.0.1:7400 bob=127.0.0.1:7401          # opens it

Type `deposit ACCOUNT AMOUNT`, `withdraw ACCOUNT AMOUNT`, or an empty line for the balances; Ctrl-C or Ctrl-D ends it.
"""

import asyncio
import contextlib
import json
import sys

import antiphon
from antiphon.conversation import accept_conversation, open_conversation
from antiphon.toolkit import ReplicatedObject, commuting, input_lines, ordered


class Bank(ReplicatedObject):
    def __init__(self, conversation: antiphon.conversation.Conversation) -> None:
        super().__init__(conversation, remove_silent=True)  # whoever is killed does not hold up the others for long
        self.balances: dict[str, int] = {}

    @commuting
    def deposit(self, account: str, amount: int) -> None:
        self.balances[account] = self.balances.get(account, 0) + amount

    @ordered
    def withdraw(self, account: str, amount: int) -> bool:
        balance = self.balances.get(account, 0)
        if balance >= amount:  # the same at all copies: each executes it in the same state
            self.balances[account] = balance - amount
        return balance >= amount


async def serve(bank: Bank) -> None:
    async for line in input_lines():
        match line.split():
            case ["deposit", account, amount]:
                await bank.deposit(account, int(amount))
            case ["withdraw", account, amount]:
                print("withdrawn" if await bank.withdraw(account, int(amount)) else "refused", flush=True)
            case _:
                print("balances", json.dumps(bank.balances, sort_keys=True), flush=True)
    await bank.settled()


async def main(name: str, address: str, *others: str) -> None:
    async with antiphon.Node(name, address=address) as node:
        if others:
            conversation = await open_conversation(node, dict(other.split("=") for other in others))
        else:
            conversation = await accept_conversation(node)
        async with Bank(conversation) as bank:
            print("members", *sorted(conversation.participants), flush=True)
            await serve(bank)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(*sys.argv[1:]))
