"""A replicated ledger in memory, on every stack that has the levels, under all faults: operations are linearizable, and
members of one view have the same lines in the end."""

from antiphon.testing import Host, Result
from tests.programs.common import Play, enter, names, node_at, until_ending
from tests.programs.ledgers import Ledger, LedgerJudge, keep_books

STACKS = ("vector", "label", "domain", "conversation")
Returned = tuple[int, list[str]]


async def main(host: Host, judge: LedgerJudge, stack: str) -> Returned:
    async with node_at(host) as node:
        group = await enter(node, host, "ledger", stack=stack)
        async with Ledger(group) as ledger:
            await until_ending(host, keep_books(host, ledger, judge), watch(ledger))
            return group.view.id, list(ledger.lines)


async def watch(ledger: Ledger) -> None:
    """End the program with its membership: it is started again."""
    raise await ledger._copy.tools.ended()  # type: ignore[union-attr]


def check(result: Result, judge: LedgerJudge) -> None:
    by_view: dict[int, list[str]] = {}
    for name, (view_id, lines) in result.returned.items():
        assert by_view.setdefault(view_id, lines) == lines, f"{name} has other lines than the others of its view"
        assert any(line.endswith("*") for line in lines), f"{name} has no line from when all was well again"
    judge.check(lines for _, lines in result.returned.values())


def play(seed: int) -> Play:
    judge = LedgerJudge()
    stack = STACKS[seed // 3 % len(STACKS)]

    async def start(host: Host) -> Returned:
        return await main(host, judge, stack)

    return Play(dict.fromkeys(names(seed), start), lambda result: check(result, judge))
