"""Where groups are, as the peer knows to whom their names fall; directory.py asks it and keeps it up to date.

Rule. A location counts the moves of its group, and one with fewer moves is not taken. A peer that says which groups it
holds, and does not name one that was believed to be there, may have lost it in a crash. It may also have passed it on
to a third peer, whose word has not come: a link may be slow or down. So such a group is in doubt until some peer says
where it is or all others have said that they neither hold it nor have passed it on. While a group is in doubt nobody
may create another one of its name.

Safe. A group that exists is held by a peer, or on its way from one that knows; each of those says so when it is asked,
and what arrives there later is told by it. Live. Questions are asked again whenever a link opens."""

from typing import final


@final
class LocationTable:
    """The locations of the groups whose names fall to one peer."""

    __slots__ = ("_doubted", "_places")

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, str]] = {}
        """How often each group has moved, and where it is."""
        self._doubted: dict[int, set[str]] = {}
        """By group: the peers that have yet to say that they know nothing of it."""

    def find(self, group: int) -> tuple[int, str] | None:
        """How often a group has moved and where it is, if that is known."""
        return self._places.get(group)

    def is_doubted(self, group: int) -> bool:
        """Whether a group may be somewhere all the same."""
        return group in self._doubted

    def note(self, group: int, moves: int, address: str) -> None:
        if moves >= self._places.get(group, (-1, ""))[0]:
            self._places[group] = (moves, address)
            self._doubted.pop(group, None)

    def forget(self, group: int) -> None:
        self._places.pop(group, None)

    def drop_others(self, address: str, held: dict[int, int], asked: list[str]) -> list[int]:
        """A peer holds these groups and no others; those that were believed to be there, and are in doubt until all of
        `asked` have answered."""
        dropped = [group for group, (_, where) in self._places.items() if where == address and group not in held]
        for group in dropped:
            del self._places[group]
            if asked:
                self._doubted[group] = set(asked)
        return dropped if asked else []

    def unknown_to(self, group: int, address: str) -> None:
        """A peer neither holds a group nor has passed it on."""
        asked = self._doubted.get(group)
        if asked is not None:
            asked.discard(address)
            if not asked:
                del self._doubted[group]

    def questions_for(self, address: str) -> list[int]:
        """The groups of which a peer has yet to say whether it knows them."""
        return [group for group, asked in self._doubted.items() if address in asked]
