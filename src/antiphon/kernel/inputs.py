"""Everything that can happen to an engine. One of these goes into each `Engine.step`."""

from typing import Final, final

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.identity import ProcessId, View

MAIN: Final = CausalityDomain()
"""The domain of groups that name none."""


@final
class Join:
    """Become a member of `group` on `stack`, or, where none is named, on the default one.

    With `view`: as one of the founders, which all start in this view. With `contacts`: by asking the members, or
    whoever knows them, at these addresses; `address` is where they can reach this process. `policy` is `static` (the
    view never changes) or `primary`. `domain`: the groups with which it is kept in causal order.
    """

    __slots__ = ("address", "contacts", "domain", "group", "policy", "stack", "view")

    def __init__(
        self,
        *,
        group: str,
        stack: str = "",
        view: View | None = None,
        policy: str = "static",
        address: str = "",
        contacts: tuple[str, ...] = (),
        domain: CausalityDomain = MAIN,
    ) -> None:
        self.group = group
        self.view = view
        self.stack = stack
        self.policy = policy
        self.address = address
        self.contacts = contacts
        self.domain = domain


@final
class Leave:
    """Leave `group` in good order: take part until the others have a view without this process."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


@final
class Send:
    """Multicast `payloads`, in this order, at one level; or, with a `destination`, send them to one member only, in
    causal order with everything else.

    The engine takes as many as its pending queue has room for, from the front: `Effects.accepted` tells how many. The
    caller keeps the rest and offers it again after a `Writable` event.
    """

    __slots__ = ("destination", "group", "level", "payloads")

    def __init__(self, *, group: str, payloads: list[bytes], level: int, destination: ProcessId | None = None) -> None:
        self.group = group
        self.payloads = payloads
        self.level = level
        self.destination = destination


@final
class SendBarrier:
    """Have `payload` delivered at the same place among all deliveries, at all members."""

    __slots__ = ("group", "payload")

    def __init__(self, *, group: str, payload: bytes) -> None:
        self.group = group
        self.payload = payload


@final
class Receive:
    """Datagrams from the network, in order of arrival. They may come from anyone and hold anything."""

    __slots__ = ("datagrams",)

    def __init__(self, datagrams: list[bytes]) -> None:
        self.datagrams = datagrams


@final
class Tick:
    """The deadline named by the last effects has passed."""

    __slots__ = ()


@final
class Pause:
    """The application of `group` cannot take more now: deliver nothing until `Resume`. Peers will wait in turn."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


@final
class Resume:
    """The application of `group` takes deliveries again."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


Input = Join | Leave | Send | SendBarrier | Receive | Tick | Pause | Resume
