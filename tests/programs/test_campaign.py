"""A bounded sample of the programs' seeds; `make programs` runs 20,000."""

import os
import subprocess
import sys

import pytest

from tests.programs.campaign import PROGRAMS, run_program, run_seed

REPEATED = ("clients", "rejoin", "replicated_bank")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_seed_of_each_program_is_kept(program: str) -> None:
    outcome = run_seed(3, program)
    assert outcome.problems == ()
    assert outcome.events > 0


FAILED_BEFORE = (
    ("conversations", 367, "an acknowledgement that was lost with a life is sent again, whatever was said before it"),
    (
        "clients",
        73,
        "the only member with the state fails before it has handed it on; the rest is recovered",
    ),
    ("leavers", 94, "a process that leaves, and one that is in the next view already, answer each other only once"),
    ("leavers", 798, "a process that leaves a group without a majority is not left standing still"),
    ("locks", 119, "a member that is excluded, without knowing it yet, takes a lock that another has in the next view"),
    ("node_reader", 94, "two groups stand still, and what was overtaken in one overtakes what waits in the other"),
    ("node_reader", 1, "who retires may be the only one in a view, of which its application is not told"),
    ("one_group", 1872, "a reliable message outlives what its sender, which failed, had sent before it"),
    ("one_group", 699, "an operator has one go on, and the others, who had gone on as well, are lost"),
    ("recorded", 699, "the same, and what was read below causal told of something that is lost with the others"),
    ("rejoin", 1727, "two of a majority of three fail at once, and an operator has the third go on"),
    (
        "replicated_bank",
        93,
        "a participant that hears nobody votes to remove nobody, or the others would join it",
    ),
    ("replicated_bank", 122, "a commuting call of a participant that is removed before it has told the others"),
    ("replicated_bank", 1470, "nothing is withdrawn from an account that does not exist"),
    ("sites", 71, "sites that found their group anew, beside one that holds its last view, use none of its view ids"),
    ("replicated_counter", 1183, "the only member with the state is cut off before it has handed it on"),
)


@pytest.mark.parametrize(("program", "seed", "what"), FAILED_BEFORE)
def test_a_seed_that_failed_once_is_kept(program: str, seed: int, what: str) -> None:
    assert run_seed(seed, program).problems == ()


@pytest.mark.parametrize("program", ["counter", "clients", "sequencing"])
def test_programs_keep_their_promises_with_seals(program: str) -> None:
    """State transfer, gateways and links of a service, over sealed connections."""
    assert run_seed(2, program, sealed=True).problems == ()


@pytest.mark.processes
def test_programs_leave_one_trace_whatever_the_hash_seed() -> None:
    """In a process of its own, after other seeds, with other hashes."""
    text = (
        "from tests.programs.test_campaign import *; run_seed(1, 'one_group');"
        "print(*(run_program(5, program).digest for program in REPEATED))"
    )
    command = [sys.executable, "-c", text]
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    other = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert other == [run_program(5, program).digest for program in REPEATED]
