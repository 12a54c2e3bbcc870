"""Who leads which seat, and the ways between seats.

A way stands for a link between two sequencers (mesh.py) whose processes may change: it carries frames in order, and
when it closes, only a suffix is lost. It runs over the links between two processes, or within one, and is closed when
either link breaks, or either end leads its seat no more."""

from typing import final


@final
class SeatWay:
    """One end of a way."""

    __slots__ = ("dialled_id", "id", "is_dialled", "is_used", "other", "process", "seat")

    def __init__(self, id: int, seat: str, other: str, process: str, dialled_id: int, is_dialled: bool) -> None:
        self.id = id
        """By which the sequencer at this end knows it."""
        self.seat = seat
        """The seat at this end."""
        self.other = other
        self.process = process
        """The address of the process at the other end."""
        self.dialled_id = dialled_id
        """Its id at the end that dialled."""
        self.is_dialled = is_dialled
        """Whether that is this end."""
        self.is_used = not is_dialled
        """Whether anything has been sent by it: the first frames open the other end."""


@final
class SeatLeaders:
    """What one process knows of who leads, and whom it reaches."""

    __slots__ = ("_leaders", "_own", "reached")

    def __init__(self, own: str) -> None:
        self._own = own
        self._leaders: dict[str, tuple[int, str]] = {}
        """By seat: term and address."""
        self.reached: set[str] = {own}

    def note(self, address: str, led: dict[str, int]) -> list[str]:
        """A process leads these seats, in these terms, and no others; the seats whose leader has changed."""
        changed: list[str] = []
        for seat in [seat for seat, (_, leader) in self._leaders.items() if leader == address and seat not in led]:
            del self._leaders[seat]
            changed.append(seat)
        for seat, term in led.items():
            former = self._leaders.get(seat, (0, ""))
            if term > former[0]:
                self._leaders[seat] = (term, address)
                if former[1] != address:
                    changed.append(seat)
        return changed

    def leader(self, seat: str) -> str:
        """The process that leads a seat, if it can be reached; else ""."""
        address = self._leaders.get(seat, (0, ""))[1]
        return address if address in self.reached else ""

    def way_to(self, seat: str) -> str:
        """What a client is told to go to a seat: the address of the process, and the seat; "" if nobody leads it."""
        address = self.leader(seat)
        return f"{address}#{seat}" if address else ""

    def any_way(self) -> str:
        """The same for any seat."""
        for seat in self._leaders:
            if self.leader(seat):
                return self.way_to(seat)
        return ""
