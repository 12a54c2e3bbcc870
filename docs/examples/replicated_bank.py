"""A bank that all have a copy of. Deposits commute, so nobody waits for them; withdrawals come in one order everywhere.

    python replicated_bank.py bob 127.0.0.1:7401                               # waits for somebody to begin
    python replicated_bank.py alice 127.0.0.1:7400 bob=127.0.0.1:7401          # begins

Type `deposit ACCOUNT AMOUNT`, `withdraw ACCOUNT AMOUNT`, or an empty line to see the balances. The end of the input
leaves, when everybody has what was typed here.
"""

import asyncio
import json
import sys

import antiphon
from antiphon.toolkit import ReplicatedObject, commuting, ordered


class Bank(ReplicatedObject):
    def __init__(self, conversation: antiphon.Conversation) -> None:
        super().__init__(conversation)
        self.balances: dict[str, int] = {}

    @commuting
    def deposit(self, account: str, amount: int) -> None:
        self.balances[account] = self.balances.get(account, 0) + amount

    @ordered
    def withdraw(self, account: str, amount: int) -> bool:
        """Nobody gets more than there is: whether there is enough is the same at all copies."""
        if self.balances.get(account, 0) < amount:
            return False
        self.balances[account] -= amount
        return True


async def serve(bank: Bank) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
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
            conversation = await node.open_conversation(dict(other.split("=") for other in others))
        else:
            conversation = await node.accept_conversation()
        async with Bank(conversation) as bank:
            print("members", *sorted(conversation.participants), flush=True)
            await serve(bank)


asyncio.run(main(*sys.argv[1:]))
