"""`antiphon chat` in pseudo-terminals and pipes."""

import subprocess

import pytest

from tests.cli.terminal import COMMAND, terminal

pytestmark = pytest.mark.processes


def test_three_talk_and_two_go_on_when_one_is_killed() -> None:
    with terminal("chat", "alice") as alice:
        contact = alice.wait_for(r"--contact (127\.0\.0\.1:\d+)")[1]
        with (
            terminal("chat", "bob", "--contact", contact) as bob,
            terminal("chat", "carol", "--contact", contact) as carol,
        ):
            members = [alice, bob, carol]
            for member in members:
                member.wait_for(r"view \d+: alice, (bob, carol|carol, bob)")
            assert "; alice" not in bob.text + carol.text, "alice was there before"
            bob.type("hello everybodx\x7fy\n")
            for member in members:
                member.wait_for(r"bob: hello everybody  agreed #1")
            carol.process.kill()
            for member in (alice, bob):
                member.wait_for(r"view \d+: alice, bob; carol failed")
            alice.type("/order safe\n")
            alice.wait_for(r"goes safe from here on")
            alice.type("still here\n")
            for member in (alice, bob):
                member.wait_for(r"alice: still here  safe #1")
            alice.type("/order best\n")
            alice.wait_for(r"has no level 'best'")
            bob.type("/quit\n")
            alice.wait_for(r"view \d+: alice; bob left")
            assert bob.process.wait(30) == 0
            alice.type("\x04")
            assert alice.process.wait(30) == 0


def test_lines_from_a_pipe_are_sent_and_the_end_of_the_input_ends_it() -> None:
    done = subprocess.run(
        [*COMMAND, "chat", "alice", "--order", "causal"],
        input=b"one\n\x1b[2Jtwo\nthree", capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    shown = done.stdout.decode()
    assert "view 1: alice" in shown
    assert "alice: one  causal #1" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("a", "--order", "nothing"), "has no level 'nothing'"),
        (("a", "--stack", "nothing"), "nothing"),
        (("a", "--address", "203.0.113.1:7400"), "203.0.113.1"),
        (("a/b",), "a/b"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments: tuple[str, ...], complaint: str) -> None:
    done = subprocess.run([*COMMAND, "chat", *arguments], input=b"", capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"antiphon: ")
    assert complaint in done.stderr.decode()
