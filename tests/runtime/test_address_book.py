"""Addresses that come over the network: taken if they are written in figures, passed over if not, never looked up."""

import socket

import pytest

from antiphon.kernel.identity import ProcessId, View
from antiphon.runtime.address import SocketAddress, numeric
from antiphon.runtime.address_book import CONTACTS, CONTACTS_MAX, AddressBook

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


def test_the_table_follows_the_views_one_view_behind() -> None:
    book = AddressBook(A, socket.AF_INET, {A: at(1), B: at(2)})
    assert book.find(None, None) == [at(2)]
    book.install(View(1, (A, B)))  # it names no addresses: those known from the start stay
    assert book.find(B, None) == [at(2)]
    book.install(View(2, (A, C), ("127.0.0.1:1", "127.0.0.1:3")))
    assert book.find(None, None) == [at(3)]
    assert book.find(C, None) == [at(3)]
    assert book.find(B, None) == [at(2)]  # gone, but it may still have to be answered
    book.install(View(3, (A, C), ("127.0.0.1:1", "127.0.0.1:4")))
    assert book.find(C, None) == [at(4)]
    assert book.find(B, None) == []


def test_an_address_that_is_given_goes_before_the_table() -> None:
    book = AddressBook(A, socket.AF_INET, {A: at(1), B: at(2)})
    assert book.find(B, "127.0.0.1:5") == [at(5)]
    assert book.find(None, "127.0.0.1:5") == [at(5)]
    assert book.find(B, "somewhere:5") == []


def test_a_member_without_a_usable_address_is_left_out() -> None:
    book = AddressBook(A, socket.AF_INET, {})
    book.install(View(2, (A, B, C), ("127.0.0.1:1", "nonsense", "127.0.0.1:3")))
    assert book.find(None, None) == [at(3)]
    assert book.find(B, None) == []


def test_contacts_are_all_asked_at_one_address() -> None:
    book = AddressBook(A, socket.AF_INET, {}, [at(1), at(2), at(1)])
    assert book.find(None, CONTACTS) == [at(1), at(2)]
    assert book.find(B, CONTACTS) == []  # a stranger that names this as its address is not answered everywhere
    book.meet([at(2), at(3)])
    assert book.find(None, CONTACTS) == [at(1), at(2), at(3)]
    book.meet([("127.0.0.2", port) for port in range(1, CONTACTS_MAX)])
    assert book.find(None, CONTACTS) == [at(3), *(("127.0.0.2", port) for port in range(1, CONTACTS_MAX))]
