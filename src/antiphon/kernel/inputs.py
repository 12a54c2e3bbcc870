"""Everything that can happen to an engine. One of these goes into each `Engine.step`."""

from typing import Final, final

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.outcomes import CallOutcome

MAIN: Final = CausalityDomain()
"""The domain of groups that name none."""


@final
class Join:
    """Become a member of `group` on `stack`, or, where none is named, on the default one.

    With `view`: as one of the founders, which all start in this view. With `contacts`: by asking the members, or
    whoever knows them, at these addresses; `address` is where they can reach this process. With `founders`, names and
    addresses, this process among them: as one of the founders, who learn each other's incarnations first; the one that
    is listed first waits `found_after_ns` for all of them, and then founds the group with a majority. `policy`
    says how the view may change (kernel/policies.py). `domain`: the groups with which it is kept in causal order.
    `stream`: by which its events are read together with those of other groups; "" for a stream of its own. `last_view`:
    if this process, in this life, was a member before and left in good order, the view that it left from; else 0.
    `unsent`: how many messages it had called for then that never came to the engine; their numbers are not used again.
    """

    __slots__ = (
        "address",
        "contacts",
        "domain",
        "found_after_ns",
        "founders",
        "group",
        "last_view",
        "policy",
        "stack",
        "stream",
        "unsent",
        "view",
    )

    def __init__(
        self,
        *,
        group: str,
        stack: str = "",
        view: View | None = None,
        policy: str,
        address: str = "",
        contacts: tuple[str, ...] = (),
        founders: tuple[tuple[str, str], ...] = (),
        found_after_ns: int = 0,
        domain: CausalityDomain = MAIN,
        stream: str = "",
        last_view: int = 0,
        unsent: int = 0,
    ) -> None:
        self.group = group
        self.stream = stream
        self.unsent = unsent
        self.view = view
        self.founders = founders
        self.found_after_ns = found_after_ns
        self.stack = stack
        self.policy = policy
        self.address = address
        self.contacts = contacts
        self.domain = domain
        self.last_view = last_view


@final
class Create:
    """Begin `group` on `stack`, with this process as its only member; others may join it later. `last_view`: as for
    `Join`; the ids of views go on after it."""

    __slots__ = ("address", "domain", "group", "last_view", "policy", "stack", "stream")

    def __init__(
        self,
        *,
        group: str,
        stack: str = "",
        policy: str,
        address: str = "",
        domain: CausalityDomain = MAIN,
        stream: str = "",
        last_view: int = 0,
    ) -> None:
        self.group = group
        self.stack = stack
        self.policy = policy
        self.address = address
        self.domain = domain
        self.stream = stream
        self.last_view = last_view


class RoleSettings:
    """Options that one stack reads, for a role on it: each stack that has any subclasses this."""

    __slots__ = ()


@final
class Open:
    """Take a role on a stack beside being a member of groups: a site, a relay, a peer of a service, a client of one.

    `address`: where others reach this process; `contacts`: where those are that know the role already. `functions`:
    names of pure functions that all of them have to share, such as comparisons of labels (kernel/functions.py).
    `settings`: the stack's own options for the role.
    """

    __slots__ = ("address", "contacts", "functions", "role", "settings", "stack")

    def __init__(
        self,
        *,
        stack: str,
        role: str,
        address: str = "",
        contacts: tuple[str, ...] = (),
        functions: tuple[str, ...] = (),
        settings: RoleSettings | None = None,
    ) -> None:
        self.stack = stack
        self.role = role
        self.address = address
        self.contacts = contacts
        self.functions = functions
        self.settings = settings


@final
class Close:
    """Give up a role."""

    __slots__ = ("role", "stack")

    def __init__(self, *, stack: str, role: str) -> None:
        self.stack = stack
        self.role = role


class StackRequest:
    """Something that only one stack understands, asked of a role that was opened on it: the stack's own subclasses say
    what. The engine hands it to the stack of this name. A stack refuses a request by UsageError, before anything has
    changed; what the caller wants to know at once the step leaves in the request itself."""

    __slots__ = ("stack",)

    def __init__(self, stack: str) -> None:
        self.stack = stack


@final
class TellAgain(StackRequest):
    """Tell again what was multicast in groups before this process joined them: in each from a place in its order on, up
    to its join. `Replayed` events follow, and one `ReplayEnded`. For stacks whose service keeps what was multicast."""

    __slots__ = ("places",)

    def __init__(self, *, stack: str, places: dict[str, int]) -> None:
        super().__init__(stack)
        self.places = places
        """By group, the first place that is wanted; 0 for all that the service has."""


@final
class Reach(StackRequest):
    """Learn who the members of `group` are, by way of the addresses `contacts`, so as to send to it from outside.
    `address` is where this process receives. `Reached` follows when they are known, and when they change. For stacks
    that say so (`Capabilities.open_groups`)."""

    __slots__ = ("address", "contacts", "group")

    def __init__(self, *, stack: str, group: str, address: str, contacts: tuple[str, ...]) -> None:
        super().__init__(stack)
        self.group = group
        self.address = address
        self.contacts = contacts


@final
class Unreach(StackRequest):
    """Send no more to `group` from outside, and keep nothing of it."""

    __slots__ = ("group",)

    def __init__(self, *, stack: str, group: str) -> None:
        super().__init__(stack)
        self.group = group


@final
class Forget:
    """Take no more part in `group`, and keep nothing of it. The others are not told: to them this process has crashed
    there. Without effect for a group that this process is not in."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


@final
class Leave:
    """Leave `group` in good order: take part until the others have a view without this process."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


@final
class Recover:
    """Form the next view of `group` with those that can be reached, though they are no majority. Others may have gone
    on without this process meanwhile: then there are two groups of that name from here on."""

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


@final
class Send:
    """Multicast `payloads`, in this order, at one level; or, with `destinations`, send them to these processes only.

    A stack says which destinations it takes: none but all members, single members, any subset, any processes. Whoever
    is not a member of `group`, or names none (""), sends as a client of `stack`, if that takes messages from outside.
    `label` is a short text that goes with the messages on stacks that order by labels. `request`: an id by which a
    refusal that comes later is known (`RequestRefused`).

    The engine takes as many as its pending queue has room for, from the front: `Effects.accepted` tells how many. The
    caller keeps the rest and offers it again after a `Writable` event.
    """

    __slots__ = ("destinations", "group", "label", "level", "payloads", "request", "stack")

    def __init__(
        self,
        *,
        group: str,
        payloads: list[bytes],
        level: int,
        destinations: tuple[ProcessId, ...] = (),
        label: str = "",
        request: int = 0,
        stack: str = "",
    ) -> None:
        self.group = group
        self.payloads = payloads
        self.level = level
        self.destinations = destinations
        self.label = label
        self.request = request
        self.stack = stack


@final
class SendBarrier:
    """Have `payload` delivered at the same place among all deliveries, at all members."""

    __slots__ = ("group", "payload")

    def __init__(self, *, group: str, payload: bytes) -> None:
        self.group = group
        self.payload = payload


@final
class Receive:
    """Datagrams from the network, in order of arrival. They may come from anyone and hold anything.

    `authors`: by datagram, the name of the process that made it, where the runtime knows that (kernel/credentials.py):
    what speaks in another name is refused. None: nobody's is known."""

    __slots__ = ("authors", "datagrams")

    def __init__(self, datagrams: list[bytes], authors: list[str] | None = None) -> None:
        self.datagrams = datagrams
        self.authors = authors


@final
class Tick:
    """The deadline named by the last effects has passed."""

    __slots__ = ()


@final
class Pause:
    """The application cannot take more from `stream` now: deliver nothing in its groups until `Resume`. Peers will wait
    in turn. A stream holds the groups that were joined with its name; a group that names none has a stream of its
    own, by the group's name."""

    __slots__ = ("stream",)

    def __init__(self, stream: str) -> None:
        self.stream = stream


@final
class Resume:
    """The application takes deliveries of `stream` again."""

    __slots__ = ("stream",)

    def __init__(self, stream: str) -> None:
        self.stream = stream


@final
class Flush:
    """Tell by `Flushed` when all that was sent or delivered in these groups until now is stable at all members or, with
    `copies`, held by so many members beside its sender. A group that is over is not waited for."""

    __slots__ = ("copies", "groups", "request")

    def __init__(self, *, request: int, groups: tuple[str, ...], copies: int = 0) -> None:
        self.request = request
        self.groups = groups
        self.copies = copies


Input = (
    Join
    | Create
    | Leave
    | Forget
    | Recover
    | Open
    | Close
    | Send
    | SendBarrier
    | Receive
    | Tick
    | Pause
    | Resume
    | Flush
    | StackRequest
    | CallOutcome
)
