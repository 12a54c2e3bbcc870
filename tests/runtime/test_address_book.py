"""Addresses that come over the network: taken if they are written in figures, passed over if not, never looked up."""

import socket

import pytest

from antiphon.kernel.effects import Route
from antiphon.kernel.identity import ProcessId, View
from antiphon.runtime.address import SocketAddress, numeric
from antiphon.runtime.address_book import CONTACTS_MAX, AddressBook, contacts_of

A, B, C = ProcessId("a"), ProcessId("b"), ProcessId("c")


def at(port: int) -> SocketAddress:
    return ("127.0.0.1", port)


@pytest.mark.parametrize(
    ("text", "family", "expected"),
    [
        ("127.0.0.1:7400", socket.AF_INET, ("127.0.0.1", 7400)),
        ("[::1]:7400", socket.AF_INET6, ("::1", 7400, 0, 0)),
        ("[::1]:7400", socket.AF_INET, None),
        ("127.0.0.1:7400", socket.AF_INET6, None),
        ("localhost:7400", socket.AF_INET, None),
        ("127.0.0.1", socket.AF_INET, None),
        ("127.0.0.1:99999", socket.AF_INET, None),
        ("", socket.AF_INET, None),
        ("\0:7400", socket.AF_INET, None),
        ("\ud800:7400", socket.AF_INET, None),
        ("x" * 1000 + ":7400", socket.AF_INET, None),
    ],
)
def test_only_figures_count(text: str, family: int, expected: SocketAddress | None) -> None:
    assert numeric(text, family) == expected


def test_a_route_is_found_by_its_addresses_and_looked_up_once() -> None:
    book = AddressBook(socket.AF_INET)
    route = Route((B, C), ("127.0.0.1:2", "127.0.0.1:3"), is_multicast=True)
    assert book.find(route) == [at(2), at(3)]
    assert book.find(route) is book.find(route)
    assert book.find(Route((), ("127.0.0.1:5",))) == [at(5)]


def test_a_member_without_a_usable_address_is_left_out() -> None:
    book = AddressBook(socket.AF_INET)
    assert book.find(Route((B, C), ("nonsense", "127.0.0.1:3"))) == [at(3)]
    assert book.find(Route((B,), ("somewhere:5",))) == []
    assert book.find(Route((B,))) == []


def test_those_of_the_last_view_can_be_asked_again() -> None:
    book = AddressBook(socket.AF_INET)
    assert book.others("g", A) == []
    book.install("g", View(2, (A, B, C), ("127.0.0.1:1", "nonsense", "127.0.0.1:3")))
    assert book.others("g", A) == [at(3)]
    book.forget("g")
    assert book.others("g", A) == []


def test_contacts_are_all_asked_at_one_address() -> None:
    book = AddressBook(socket.AF_INET)
    book.join("g", [at(1), at(2), at(1)])
    book.join("h", [at(9)])
    ask = Route((), (contacts_of("g"),))
    assert book.find(ask) == [at(1), at(2)]
    stranger = Route((B,), (contacts_of("g"),))
    assert book.find(stranger) == []  # who names this as its address is not answered everywhere
    book.meet("g", [at(2), at(3)])
    assert book.find(ask) == [at(1), at(2), at(3)]
    book.meet("g", [("127.0.0.2", port) for port in range(1, CONTACTS_MAX)])
    assert book.find(ask) == [at(3), *(("127.0.0.2", port) for port in range(1, CONTACTS_MAX))]
