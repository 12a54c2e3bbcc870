"""The settings of a node, as a type: for those who pass them on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Required, TypedDict

from antiphon.faults import Fault
from antiphon.kernel.options import Options
from antiphon.runtime.identity import IdentitySource
from antiphon.runtime.keyring import KeySource


class NodeSettings(TypedDict, total=False):
    """The keyword arguments of `Node`, for those who pass them on."""

    address: Required[str]
    incarnation: int | None
    multicast: str | None
    options: Options | None
    linger_s: float
    queue_messages_max: int
    queue_bytes_max: int
    history: str | Path | None
    run: str
    rejoin: bool
    faults: Sequence[Fault]
    seed: int | None
    storage: str | Path | None
    keyring: KeySource | None
    identity: IdentitySource | None
    insecure: bool
    poll_s: float
