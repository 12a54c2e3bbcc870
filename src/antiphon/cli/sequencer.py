"""`antiphon sequencer`: hold groups for others, as a peer of the sequencing service."""

import asyncio
import gc
import importlib
import logging
import socket
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, final

import typer
from rich.text import Text

from antiphon import Node, Options, Trust, load_plan
from antiphon.cli.console import errors
from antiphon.cli.key import InsecureOption, KeyringOption
from antiphon.cli.streaming import run_until_stopped
from antiphon.kernel.errors import UsageError
from antiphon.runtime.address import is_loopback, numeric
from antiphon.stacks.registry import service_stack
from antiphon.stacks.sequencer.plan import PlaceGroups

LOOK_S: Final = 0.2
"""How often to look whether the node has failed."""
PLACE_S: Final = 1.0
"""How often to look whether a group is here that a plan has elsewhere."""


@final
class ServingPeer:
    """A node that serves until it is stopped."""

    def __init__(
        self,
        name: str,
        address: str,
        peers: list[str],
        options: Options,
        storage: str | None,
        trust: Trust,
        placed: list[PlaceGroups],
    ) -> None:
        self._node = Node(name, address=address, incarnation=None, options=options, storage=storage)
        self._node.trust = trust
        self._peers = peers
        self._placed = placed
        """Which groups are to be at which peer."""
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Serve until `stop`. Raises what the node fails by."""
        async with self._node as node:
            node.serve(service_stack(), peers=self._peers)
            stopping = asyncio.create_task(self._stopped.wait())
            place_at_s = 0.0
            while not stopping.done():
                await asyncio.wait((stopping,), timeout=LOOK_S)
                driver = node._running()  # raises if the node has failed
                if time.monotonic() >= place_at_s:
                    place_at_s = time.monotonic() + PLACE_S
                    for place in self._placed:
                        driver.ask(place)

    def stop(self) -> None:
        self._stopped.set()


@final
class LogLines(logging.Handler):
    """Prints what the node logs, a line each, on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        errors.print(Text(record.getMessage()))


def _options(address: str, settings: dict[str, int]) -> Options:
    where = numeric(address, socket.AF_UNSPEC)
    base = Options.local() if where is not None and is_loopback(where) else Options()
    stack = service_stack()
    return replace(base, of_stacks={f"{stack}.{name}": value for name, value in settings.items()})


def _others(address: str, peers: str) -> list[str]:
    """The addresses of the other peers. Raises UsageError for a list that cannot be meant."""
    others = [text.strip() for text in peers.split(",")] if peers.strip() else []
    for other in others:
        if not other:
            raise UsageError(f"--peers {peers!r} has an empty address; put one comma between two addresses")
        if other == address:
            raise UsageError(f"--peers names the other peers; leave out {address}, which is the address of this one")
        if others.count(other) > 1:
            raise UsageError(f"--peers names {other} twice; name each of the other peers once")
    return others


def _placed(plan: Path | None, address: str, others: list[str]) -> list[PlaceGroups]:
    """Where a plan has groups: its sequencers, one after the other, stand for the peers by their addresses.
    Raises PlanError, and UsageError for one that needs more peers than there are."""
    if plan is None:
        return []
    sequencers, peers = load_plan(plan).sequencers, sorted([address, *others])
    if len(sequencers) > len(peers):
        raise UsageError(
            f"the plan {plan} has {len(sequencers)} sequencers, and there are {len(peers)} peers; make it with "
            f"`antiphon structure --sequencers {len(peers)}`"
        )
    placed = zip(sequencers, peers, strict=False)
    return [PlaceGroups(sequencer.groups, peer) for sequencer, peer in placed if others]


def sequencer(
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where clients and other peers reach it.")],
    peers: Annotated[str, typer.Option(metavar="A,B", help="Addresses, in figures, of all other peers.")] = "",
    name: Annotated[str, typer.Option(metavar="NAME", help="Its name.")] = "peer",
    replicas: Annotated[
        int, typer.Option(metavar="K", min=0, help="Other peers that hold what it tells; needs 2K + 1 peers.")
    ] = 0,
    storage: Annotated[
        str | None, typer.Option(metavar="DIR", help="Keep its log there, and go on with it when started again.")
    ] = None,
    retain: Annotated[
        int, typer.Option(metavar="KIB", min=0, help="So much of each group is kept for those that come later.")
    ] = 0,
    balance: Annotated[
        int, typer.Option(metavar="MS", min=0, help="So often peers compare their load, and move groups; 0: never.")
    ] = 0,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Move groups to where a plan of `antiphon structure` has them."),
    ] = None,
    keyring: KeyringOption = None,
    insecure: InsecureOption = False,
) -> None:
    """Hold groups for others, as a peer of the sequencing service, until Ctrl-C.

    Members join such a group by naming the address of a peer:
    node.join("quotes", stack="sequencer", contacts=["10.0.0.1:7400"]). All members see the messages and the changes of
    members of all their groups in one order. Several peers share the groups: each names all the others. With --replicas
    1, three peers or more, alike at all of them, nothing is lost and no member falls out when one peer fails. A peer
    says on standard error when it has caught up after a start ("peer-caught-up"): then another may be stopped. With
    --storage as well, nothing is lost even if all are killed at once. With --balance, or by --plan, alike at all peers,
    groups move to where there is room for them; clients notice nothing. The sequencers of a plan stand for the peers in
    the order of their addresses.

    \b
      antiphon sequencer --address 10.0.0.1:7400 --keyring antiphon.key
      antiphon sequencer --address 10.0.0.2:7400 --peers 10.0.0.1:7400 --name second --keyring antiphon.key
    """
    if address.endswith(":0"):
        raise UsageError("clients have to know where a sequencer is; give it a port, as in --address 127.0.0.1:7400")
    others = _others(address, peers)
    if plan is not None and balance:
        raise UsageError("--plan says where groups are, and --balance would move them elsewhere; give one of the two")
    placed = _placed(plan, address, others)

    def make() -> ServingPeer:
        is_durable = int(storage is not None)
        settings = {"replicas": replicas, "durable": is_durable, "retained_kib": retain, "balance_ms": balance}
        options = _options(address, settings)
        return ServingPeer(name, address, others, options, storage, Trust(keyring, insecure), placed)

    log = logging.getLogger("antiphon")
    log.setLevel(logging.INFO)
    log.addHandler(LogLines())
    # What was loaded until now stays: the garbage collector shall not look at it again and again.
    gc.freeze()
    factory = importlib.import_module("uvloop").new_event_loop if find_spec("uvloop") else None
    run_until_stopped(make, f"sequencing at {address}", lambda: "serving", factory)
