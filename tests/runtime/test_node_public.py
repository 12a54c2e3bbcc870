"""The public surface: what is exported is documented, shows itself, and has no method that is not for callers."""

import dataclasses
import importlib
import inspect

import pytest

import antiphon
import antiphon.conversation
import antiphon.domain
import antiphon.sync
import antiphon.testing
import antiphon.toolkit
from antiphon import CausalityDomain, Group, Message, Node, Options, View

MODULES = (antiphon, antiphon.conversation, antiphon.domain, antiphon.sync, antiphon.testing, antiphon.toolkit)
EXPORTED = [(module, name) for module in MODULES for name in module.__all__]
CLASSES = [(module, name) for module, name in EXPORTED if inspect.isclass(getattr(module, name))]


@pytest.mark.parametrize(("module", "name"), EXPORTED, ids=[name for _, name in EXPORTED])
def test_what_is_exported_is_documented(module: object, name: str) -> None:
    thing = getattr(module, name)
    if inspect.isclass(thing) or inspect.isfunction(thing) or inspect.ismodule(thing):
        assert (thing.__doc__ or "").strip()
        assert not (thing.__doc__ or "").startswith(f"{name}(")  # that a dataclass writes by itself


@pytest.mark.parametrize("option", [option.name for option in dataclasses.fields(Options)])
def test_help_explains_each_option_whether_compiled_or_not(option: str) -> None:
    assert f"\n    {option}\n        " in (Options.__doc__ or "")


@pytest.mark.parametrize(
    ("thing", "method"),
    [
        (Options, "fast"),
        (Options, "local"),
        (View, "rank"),
        (CausalityDomain, "check_groups"),
        (Message, "with_payload"),
    ],
)
def test_help_explains_methods_whether_compiled_or_not(thing: type, method: str) -> None:
    """Compiled methods cannot bear a docstring: it stands in that of their class."""
    assert getattr(thing, method).__doc__ or f"\n    {method}(" in (thing.__doc__ or "")


@pytest.mark.parametrize(("module", "name"), CLASSES, ids=[name for _, name in CLASSES])
def test_what_is_exported_shows_itself(module: object, name: str) -> None:
    assert getattr(module, name).__repr__ is not object.__repr__


def test_conversations_have_a_module_of_their_own() -> None:
    assert not {"Conversation", "Checkpoint", "ordered_broadcast", "send_stable"} & set(antiphon.__all__)
    assert not set(antiphon.conversation.__all__) & set(antiphon.__all__)


def test_the_facade_for_threads_is_a_module() -> None:
    assert importlib.import_module("antiphon.sync").Node is antiphon.sync.Node
    assert antiphon.sync.Node is antiphon.runtime.sync.Node


def test_a_group_has_the_methods_that_callers_need() -> None:
    public = {name for name in dir(Group) if not name.startswith("_")}
    assert public == {
        "barrier", "barrier_bytes_max", "batches", "close", "events", "flush", "is_closed", "is_over", "is_primary",
        "is_private", "is_stalled", "leave", "listen", "message_bytes_max", "outstanding", "process", "recover", "send",
        "send_many", "send_now", "trust", "unread",
    }  # fmt: skip


def test_nodes_and_groups_show_who_they_are() -> None:
    node = Node("a", address="127.0.0.1:0", incarnation=3)
    assert repr(node) == "<Node a/3 at 127.0.0.1:0, not started, groups: none>"


async def types(node: Node, group: Group) -> None:
    """Not run: mypy refuses each of these, and would complain of an `ignore` that it does not need."""
    await group.send(b"x", order="casual")  # type: ignore[arg-type]
    await group.send_many([b"x"], order="total")  # type: ignore[arg-type]
    group.send_now(b"x", order="")  # type: ignore[arg-type]
    await node.join("g", members={}, policy="dynamic")  # type: ignore[arg-type]
    await node.join("g", members={}, stack="gossip")  # type: ignore[arg-type]
    antiphon.sync.Node("a", address="127.0.0.1:0", incarnation=1, incarnations=2)  # type: ignore[call-arg]
    antiphon.sync.Node("a", address=7400, incarnation=1)  # type: ignore[arg-type]
    antiphon.sync.Node("a", address="127.0.0.1:0", incarnation=1).join("g", policy="dynamic")  # type: ignore[arg-type]
    await group.send(b"x", order="agreed")
    await node.join("g", members={}, policy="static", stack="conversation")
