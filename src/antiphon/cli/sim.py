"""`antiphon sim`: simulate one run and record its history."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from antiphon.cli.console import show, show_json, steps
from antiphon.history.manifest import close_history
from antiphon.history.recorder import Recorder
from antiphon.simulator.run import SimulationOptions, SimulationResult, simulate
from antiphon.stacks.registry import DEFAULT


def sim(
    history: Annotated[Path, typer.Option(metavar="DIR", help="The history; created if missing.")],
    stack: Annotated[str, typer.Option(metavar="S", help="The stack that the group runs on.")] = DEFAULT,
    policy: Annotated[
        str, typer.Option(metavar="P", help="`static`, or `partitionable` or `sites` on stacks that offer it.")
    ] = "static",
    members: Annotated[int, typer.Option(metavar="N", help="How many members the group has.")] = 5,
    messages: Annotated[int, typer.Option(metavar="M", help="How many messages each member sends.")] = 100,
    seed: Annotated[int, typer.Option(metavar="K", help="The same seed gives the same run, byte for byte.")] = 0,
    faults: Annotated[
        str, typer.Option(metavar="none/loss/all", help="Which faults the network and the scheduler have.")
    ] = "none",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Simulate one run of a group in virtual time, and record it.

    The engines are those of real processes; clock and network are simulated. Faults: `loss` loses packets; `all` also
    duplicates, reorders, delays and damages them, partitions the network and pauses members. In the end the network
    heals and the run becomes quiet, so that an audit can also check that everything arrived.

    \b
      antiphon sim --history run1
      antiphon sim --members 9 --messages 1000 --seed 7 --faults all --history run7
      antiphon audit run7
    """
    options = SimulationOptions(
        stack=stack, policy=policy, members=members, messages=messages, seed=seed, faults=faults
    )
    run = f"sim-{stack}-{policy}-{members}-{messages}-{faults}-{seed}"
    with steps(f"simulating {members} members, {messages} messages each"), ExitStack() as open_logs:
        names = options.process_names()
        logs = [open_logs.enter_context(Recorder(history, run=run, process=name)) for name in names]
        result = simulate(options, logs)
    close_history(history)
    if json:
        show_json(_document(run, history, options, result))
    else:
        show(Text(_sentence(history, options, result)))


def _document(run: str, history: Path, options: SimulationOptions, result: SimulationResult) -> dict[str, Any]:
    return {
        "run": run,
        "history": str(history),
        "stack": options.stack,
        "members": options.members,
        "messages": options.messages,
        "seed": options.seed,
        "faults": options.faults,
        "sent": result.sent,
        "delivered": result.delivered,
        "datagrams": result.datagrams,
        "datagram_bytes": result.datagram_bytes,
        "time_ns": result.time_ns,
        "quiet": result.quiet,
    }


def _sentence(history: Path, options: SimulationOptions, result: SimulationResult) -> str:
    ending = "and became quiet" if result.quiet else "and did not become quiet: some messages are still missing"
    return (
        f"{options.members} members sent {result.sent:,} messages and delivered {result.delivered:,} "
        f"in {result.time_ns / 1e9:.1f} s of virtual time, {ending}.\n"
        f"The history is in {history}; next: antiphon audit {history}"
    )
