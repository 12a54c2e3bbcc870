"""transis-1992, section 4: export, import and order across domains, claim by claim, on machines on a table."""

from antiphon.stacks.domain.export import (
    AGREED_EXPORT,
    CAUSAL_EXPORT,
    MESSAGE,
    SAFE_EXPORT,
    DomainExports,
)
from tests.stacks.domain.test_export import play

ALL = ("A", "B", "C")


def new_domains() -> dict[str, DomainExports]:
    return {name: DomainExports(name, ALL) for name in ALL}


def carry(domains: dict[str, DomainExports], origin: str, destination: str) -> bool:
    """The next frame of a link arrives; whether it was imported."""
    count = domains[destination].counters.get((origin, destination), 0)
    frame = next(frame for frame in domains[origin].outbox[destination] if frame.number() == count + 1)
    return domains[destination].import_frame(frame)


def payloads(domain: DomainExports) -> list[bytes]:
    return [message.payload for message in domain.delivered]


def links(domains: dict[str, DomainExports]) -> dict[tuple[str, str], int]:
    return {
        (origin, other): len(frames)
        for origin, own in domains.items()
        for other, frames in own.outbox.items()
        if frames
    }


def test_4_only_messages_for_several_domains_leave_theirs() -> None:
    domains = new_domains()
    domains["A"].submit("a", 1, CAUSAL_EXPORT, ("A", "B"), b"")
    assert links(domains) == {("A", "B"): 1}


def test_4_a_domain_exports_only_what_it_initiated() -> None:
    domains = new_domains()
    domains["A"].submit("a", 1, CAUSAL_EXPORT, ALL, b"")
    assert carry(domains, "A", "B")
    assert links(domains) == {("A", "B"): 1, ("A", "C"): 1}


def test_4_a_frame_holds_the_message_and_counters_and_no_acknowledgements() -> None:
    domains = new_domains()
    domains["A"].submit("a", 1, CAUSAL_EXPORT, ("A", "B"), b"text")
    (frame,) = domains["A"].outbox["B"]
    fields = {name for name in dir(frame) if not name.startswith("_") and not callable(getattr(frame, name))}
    assert fields == {"counters", "destination", "id", "kind", "message", "origin"}
    assert frame.message is not None
    assert (frame.kind, frame.message.payload, frame.counters) == (MESSAGE, b"text", {("A", "B"): 1})


def test_4_one_counter_for_each_ordered_pair_counted_up_at_once() -> None:
    domains = new_domains()
    domains["A"].submit("a", 1, CAUSAL_EXPORT, ALL, b"")
    domains["A"].submit("a", 1, CAUSAL_EXPORT, ("A", "C"), b"")
    stamps = [frame.counters for frame in domains["A"].outbox["C"]]
    assert stamps == [{("A", "B"): 1, ("A", "C"): 1}, {("A", "B"): 1, ("A", "C"): 2}]


def test_4_import_waits_for_all_prior_messages_on_incoming_links() -> None:
    domains = new_domains()
    domains["A"].submit("a", 1, CAUSAL_EXPORT, ALL, b"m1")
    assert carry(domains, "A", "B")
    domains["B"].submit("b", 1, CAUSAL_EXPORT, ("B", "C"), b"m2")
    assert not carry(domains, "B", "C")
    assert carry(domains, "A", "C")
    assert carry(domains, "B", "C")
    assert payloads(domains["C"]) == [b"m1", b"m2"]


def test_4_import_takes_the_maximum_of_the_counters() -> None:
    domains = new_domains()
    domains["A"].submit("a", 1, CAUSAL_EXPORT, ALL, b"")
    assert carry(domains, "A", "B")
    assert domains["B"].counters == {("A", "B"): 1, ("A", "C"): 1}


def test_4_domains_that_a_message_is_not_for_are_not_concerned() -> None:
    domains = new_domains()
    domains["A"].submit("a", 1, CAUSAL_EXPORT, ("A", "B"), b"m1")
    assert carry(domains, "A", "B")
    domains["B"].submit("b", 1, CAUSAL_EXPORT, ("B", "C"), b"m2")
    assert carry(domains, "B", "C")
    assert payloads(domains["C"]) == [b"m2"]


def test_4_agreed_messages_have_one_order_in_all_domains() -> None:
    domains = new_domains()
    domains["B"].submit("b", 1, AGREED_EXPORT, ("B", "C"), b"one")
    domains["C"].submit("c", 1, AGREED_EXPORT, ("B", "C"), b"two")
    assert carry(domains, "C", "B")
    assert carry(domains, "B", "C")
    assert payloads(domains["B"]) == payloads(domains["C"]) == []
    assert carry(domains, "C", "A")
    assert carry(domains, "B", "A")
    for destination in ("B", "C", "B", "C"):
        assert carry(domains, "A", destination)
    assert payloads(domains["B"]) == payloads(domains["C"]) == [b"two", b"one"]


def test_4_safe_messages_wait_until_each_domain_tells_that_it_has_them() -> None:
    domains = new_domains()
    domains["A"].submit("a", 1, SAFE_EXPORT, ("A", "B"), b"x")
    assert payloads(domains["A"]) == []
    assert carry(domains, "A", "B")
    assert carry(domains, "A", "B")
    assert payloads(domains["B"]) == [b"x"]
    assert carry(domains, "B", "A")
    assert payloads(domains["A"]) == [b"x"]


def test_4_footnote_5_what_follows_a_pending_global_message_can_tell_when_it_is_delivered() -> None:
    domains = new_domains()
    domains["B"].submit("b", 1, AGREED_EXPORT, ("B", "C"), b"x")
    assert domains["B"].delivered_of == {}
    assert carry(domains, "B", "A")
    assert carry(domains, "A", "B")
    assert domains["B"].delivered_of == {"b": 1}


def test_4_the_protocols_extend_causal_and_agreed_order_across_domains() -> None:
    for seed in (101, 102, 103):
        play(seed)


def test_4_counters_are_put_right_after_a_link_was_cut() -> None:
    domains = new_domains()
    for number in range(4):
        domains["A"].submit("a", 1, CAUSAL_EXPORT, ("A", "B"), b"%d" % number)
    assert carry(domains, "A", "B")
    domains["A"].acknowledge("B", domains["B"].counters["A", "B"])
    for frame in list(domains["A"].outbox["B"]):
        assert domains["B"].import_frame(frame)
        assert not domains["B"].import_frame(frame)
    assert payloads(domains["B"]) == [b"0", b"1", b"2", b"3"]
