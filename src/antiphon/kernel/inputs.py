"""Everything that can happen to an engine. One of these goes into each `Engine.step`."""

from typing import final

from antiphon.kernel.identity import View


@final
class Join:
    """Become a member of `group` on `stack`, in `view` (membership given at start; the caller is one of its
    members)."""

    __slots__ = ("group", "stack", "view")

    def __init__(self, *, group: str, view: View, stack: str = "vector") -> None:
        self.group = group
        self.view = view
        self.stack = stack


@final
class Send:
    """Multicast `payloads`, in this order, at one level.

    The engine takes as many as its pending queue has room for, from the front: the `Sent` event tells how many. The
    caller keeps the rest and offers it again after a `Writable` event.
    """

    __slots__ = ("group", "level", "payloads")

    def __init__(self, *, group: str, payloads: list[bytes], level: int) -> None:
        self.group = group
        self.payloads = payloads
        self.level = level


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


Input = Join | Send | Receive | Tick | Pause | Resume
