"""Who a packet is of, and what shows that a view was agreed on: the core with names that the runtime knows.

Proofs are of a kind that only tests believe: the name of whoever says it, and what it says."""

from random import Random

import pytest

from antiphon.engine import Engine
from antiphon.kernel.codec import seal, view_tag
from antiphon.kernel.credentials import Credentials
from antiphon.kernel.declaration import Declaration, declare
from antiphon.kernel.effects import Effects, Installed
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import MAIN, Join, Receive
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import STATUS
from antiphon.parts.membership import messages
from antiphon.parts.membership.messages import MembershipMessage, Proposal
from antiphon.parts.membership.proofs import accepted_statement, decode_proofs, encode_proofs
from antiphon.parts.ranges import Ranges

GROUP = "g"
OPTIONS = Options()
MEMBERS = tuple(ProcessId(name, 1) for name in "abc")
VIEW = View(1, MEMBERS, tuple("abc"))
DECLARED = Declaration(declare("vector", "primary", MAIN, OPTIONS)).id


def attest(name: str, statement: bytes) -> bytes:
    return (name.encode() + b" says " + statement)[:64]


def credentials(own: str, leaders: str = "abc") -> Credentials:
    return Credentials(
        lambda statement: attest(own, statement),
        lambda name, statement, proof: proof == attest(name, statement),
        lambda name: name in leaders,
    )


def engine(name: str = "b") -> Engine:
    made = Engine(ProcessId(name, 1), Random(1), OPTIONS, credentials(name))
    made.step(Join(group=GROUP, stack="vector", view=VIEW, policy="primary", address=name), 0)
    return made


def proposal(view_id: int = 2, members: str = "ab") -> Proposal:
    view = View(view_id, tuple(ProcessId(name, 1) for name in members), tuple(members))
    failed = [rank for rank, member in enumerate(MEMBERS) if view.rank(member) < 0]
    return Proposal(view, [], failed, [Ranges([]) for _ in MEMBERS], [0], [], b"")


def say(kind: int, sender: str, author: str, to: Engine, now_ns: int = 1000, **more: object) -> Effects:
    message = MembershipMessage(kind, ProcessId(sender, 1), sender, 1)
    for name, value in more.items():
        setattr(message, name, value)
    packets = message.encode(1, wire_id(GROUP), DECLARED, OPTIONS.packet_bytes_max)
    return to.step(Receive(packets, [author] * len(packets)), now_ns)


def proven(what: Proposal, *names: str, view: View = VIEW) -> bytes:
    statement = accepted_statement(GROUP, view, what)
    return encode_proofs({"abc".index(name): attest(name, statement) for name in names})


def installs(effects: Effects) -> bool:
    return any(isinstance(event, Installed) for event in effects.events)


def test_an_install_with_the_word_of_a_majority_is_believed() -> None:
    b, p = engine(), proposal()
    assert installs(say(messages.INSTALL, "a", "a", b, accepted=p, annex=proven(p, "a", "c")))


def test_an_install_without_the_word_of_a_majority_is_refused() -> None:
    """As an excluded member would send it to one that stood still: it has its own word, and no other."""
    for names in ("", "a", "c"):
        b, p = engine(), proposal()
        assert not installs(say(messages.INSTALL, "a", "a", b, accepted=p, annex=proven(p, *names)))
        assert b.statistics()["dropped_proof"] == 1
    b, p = engine(), proposal()
    stolen = encode_proofs(dict.fromkeys((0, 1, 2, 9), attest("a", accepted_statement(GROUP, VIEW, p))))
    assert not installs(say(messages.INSTALL, "a", "a", b, accepted=p, annex=stolen))


def test_a_proof_is_for_its_proposal_and_its_view_alone() -> None:
    p, other = proposal(), proposal(members="abc")
    later = View(2, MEMBERS, VIEW.addresses)
    for annex in (proven(other, "a", "c"), proven(p, "a", "c", view=later)):
        b = engine()
        assert not installs(say(messages.INSTALL, "a", "a", b, accepted=p, annex=annex))
        assert b.statistics()["dropped_proof"] == 1


def test_where_no_names_are_known_no_proof_is_asked_for() -> None:
    b, p = Engine(ProcessId("b", 1), Random(1), OPTIONS), proposal()
    b.step(Join(group=GROUP, stack="vector", view=VIEW, policy="primary", address="b"), 0)
    message = MembershipMessage(messages.INSTALL, ProcessId("a", 1), "a", 1, accepted=p)
    packets = message.encode(1, wire_id(GROUP), DECLARED, OPTIONS.packet_bytes_max)
    assert installs(b.step(Receive(packets), 1000))


def test_words_in_the_name_of_another_are_refused() -> None:
    for kind in messages.MESSAGE_NAMES:
        if kind in (messages.CHUNK, messages.RECOVERY):
            continue
        b = engine()
        effects = say(kind, "c", "a", b, accepted=proposal(), annex=proven(proposal(), "a", "c"))
        assert not effects.events, messages.MESSAGE_NAMES[kind]
        assert b.statistics().get("dropped_author", 0) == 1, messages.MESSAGE_NAMES[kind]


def test_a_request_is_passed_on_in_the_own_name() -> None:
    """A member that passes on a JOIN says so; but nobody makes another leave."""
    b = engine()
    say(messages.JOIN, "d", "a", b, about=ProcessId("a", 1))
    assert "dropped_author" not in b.statistics()
    say(messages.LEAVE, "c", "a", b, about=ProcessId("a", 1))
    assert b.statistics().get("dropped_author", 0) == 1


def test_packets_in_the_name_of_another_are_refused() -> None:
    tag = view_tag(VIEW, OPTIONS, DECLARED)
    for rank, author in ((2, "a"), (7, "a"), (0, "c")):
        b = engine()
        packet = seal(1, STATUS, wire_id(GROUP), tag, rank, 0, 0, [bytes(8), b"\0\0\0\0"])
        b.step(Receive([packet], [author]), 1000)
        assert b.statistics().get("dropped_author", 0) == 1


def test_proofs_of_any_kind_raise_nothing_but_that() -> None:
    for encoded in (b"x", b"\x91", b"\x91\x92\x00\xc4\x02ab" * 3, encode_proofs({1: bytes(65)})):
        with pytest.raises(MalformedError):
            decode_proofs(encoded)
    assert decode_proofs(b"") == []
    assert decode_proofs(encode_proofs({3: b"c", 1: b"", 2: b"b"})) == [(2, b"b"), (3, b"c")]
