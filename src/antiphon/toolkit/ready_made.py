"""Replicated objects that are ready to use: a dictionary, a counter, a set and a queue.

    async with ReplicatedDict(await node.join("prices", contacts=…)) as prices:
        await prices.set("IBM", 91)
        await prices.get("IBM", consistency="agreed")

Values are what MessagePack holds. On a `partitionable` group they merge as follows:

    dictionary    the entries of all components; where values differ, the value of the component that wrote last. An
                  entry that was removed in one component and is in another one comes back.
    set           the union, likewise
    counter       the sum of all that was added, in whichever component
    queue         the items of all components, each once, the oldest component first; an item that was taken in one
                  component and not in the other may be taken again
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from antiphon import current_environment
from antiphon.toolkit.group_copy import Consistency
from antiphon.toolkit.merging import ComponentState
from antiphon.toolkit.operations import commuting, ordered
from antiphon.toolkit.replicated import ObjectPlace, ReplicatedObject

NAME_BYTES: Final = 8

Components = Sequence[ComponentState[dict[str, Any]]]


def _by_last_write(components: Components) -> list[ComponentState[dict[str, Any]]]:
    return sorted(components, key=lambda component: (component.last_write, component.lineage))


def _merge_entries(components: Components) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for component in _by_last_write(components):
        entries |= component.state["entries"]
    return {"entries": entries}


class ReplicatedDict(ReplicatedObject):
    """A dictionary with a copy at every member. Keys are texts."""

    entries: dict[str, Any]
    merge_rule = staticmethod(_merge_entries)

    def __init__(self, place: ObjectPlace, **options: Any) -> None:
        super().__init__(place, **options)
        self.entries = {}

    @ordered
    def set(self, key: str, value: Any) -> None:
        """Set a value."""
        self.entries[key] = value

    @ordered
    def set_default(self, key: str, value: Any) -> Any:
        """Set a value if there is none, and return the one that there is then."""
        return self.entries.setdefault(key, value)

    @ordered
    def swap(self, key: str, expected: Any, value: Any) -> bool:
        """Set a value if the present one, None if there is none, is as expected; return whether it was."""
        if self.entries.get(key) != expected:
            return False
        self.entries[key] = value
        return True

    @ordered
    def update(self, entries: dict[str, Any]) -> None:
        """Set several values at once."""
        self.entries.update(entries)

    @ordered
    def pop(self, key: str, default: Any = None) -> Any:
        """Remove a key and return its value, or the default."""
        return self.entries.pop(key, default)

    @ordered
    def clear(self) -> None:
        """Remove all keys."""
        self.entries.clear()

    async def get(self, key: str, default: Any = None, *, consistency: Consistency = "local") -> Any:
        """Return a value; see `catch_up`."""
        await self.catch_up(consistency)
        return self.entries.get(key, default)

    def __getitem__(self, key: str) -> Any:
        return self.entries[key]

    def __contains__(self, key: object) -> bool:
        return key in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def _merge_amounts(components: Components) -> dict[str, Any]:
    """Of each author the latest account: an author is in one component at a time."""
    amounts: dict[str, tuple[int, int]] = {}
    for component in components:
        for author, account in component.state["amounts"].items():
            amounts[author] = max(account, amounts.get(author, (0, 0)))
    return {"amounts": amounts}


class ReplicatedCounter(ReplicatedObject):
    """A number that members add to. On a `partitionable` group it has an account for each process that ever added."""

    amounts: dict[str, tuple[int, int]]
    """By author, how often it has added and how much in all."""
    merge_rule = staticmethod(_merge_amounts)

    def __init__(self, place: ObjectPlace, **options: Any) -> None:
        super().__init__(place, **options)
        self.amounts = {}

    @commuting
    def add_for(self, author: str, amount: int) -> None:
        """Add to the account of an author, who is in one component at a time."""
        count, total = self.amounts.get(author, (0, 0))
        self.amounts[author] = (count + 1, total + amount)

    async def add(self, amount: int = 1) -> None:
        """Add to the number."""
        place = self._copy.place
        is_apart = getattr(place, "policy", "") == "partitionable"
        await self.add_for(str(getattr(place, "process", "")) if is_apart else "", amount)

    async def get(self, *, consistency: Consistency = "local") -> int:
        """Return the number; see `catch_up`."""
        await self.catch_up(consistency)
        return self.value

    @property
    def value(self) -> int:
        """The number in this copy."""
        return sum(total for _, total in self.amounts.values())


def _merge_members(components: Components) -> dict[str, Any]:
    members: set[Any] = set()
    for component in components:
        members |= component.state["members"]
    return {"members": members}


class ReplicatedSet(ReplicatedObject):
    """A set of texts with a copy at every member."""

    members: set[str]
    merge_rule = staticmethod(_merge_members)

    def __init__(self, place: ObjectPlace, **options: Any) -> None:
        super().__init__(place, **options)
        self.members = set()

    @ordered
    def add(self, member: str) -> bool:
        """Add a member; return whether it is new."""
        is_new = member not in self.members
        self.members.add(member)
        return is_new

    @ordered
    def remove(self, member: str) -> bool:
        """Remove a member; return whether it was there."""
        was_there = member in self.members
        self.members.discard(member)
        return was_there

    async def has(self, member: str, *, consistency: Consistency = "local") -> bool:
        """Return whether it is a member; see `catch_up`."""
        await self.catch_up(consistency)
        return member in self.members

    def __contains__(self, member: object) -> bool:
        return member in self.members

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.members))

    def __len__(self) -> int:
        return len(self.members)


def _merge_items(components: Components) -> dict[str, Any]:
    items: dict[str, Any] = {}
    for component in components:
        items |= dict(component.state["items"])
    return {"items": list(items.items())}


class ReplicatedQueue(ReplicatedObject):
    """A first-in-first-out queue with a copy at every member: each item is taken by one of them."""

    items: list[tuple[str, Any]]
    """Items with a name each, by which a merge tells them apart."""
    merge_rule = staticmethod(_merge_items)

    def __init__(self, place: ObjectPlace, **options: Any) -> None:
        super().__init__(place, **options)
        self.items = []

    @ordered
    def put_named(self, name: str, item: Any) -> int:
        """Append an item under a name of its own; return how many there are."""
        self.items.append((name, item))
        return len(self.items)

    @ordered
    def take(self, default: Any = None) -> Any:
        """Remove and return the first item, or the default if there is none."""
        return self.items.pop(0)[1] if self.items else default

    async def put(self, item: Any) -> int:
        """Append an item; return how many there are."""
        return await self.put_named(current_environment().token_bytes(NAME_BYTES).hex(), item)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter([item for _, item in self.items])
