"""The guard of a resource: which tokens it admits, over threads, processes and restarts."""

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from antiphon import UsageError
from antiphon.toolkit import StaleTokenError, TokenGuard


def admits(guard: TokenGuard, token: int) -> bool:
    try:
        guard.check(token)
    except StaleTokenError:
        return False
    return True


@pytest.mark.parametrize(
    ("admitted", "token", "is_admitted"),
    [
        ([], 2, True),
        ([4], 4, True),
        ([4], 6, True),
        ([4], 2, False),
        ([4], 3, False),
        ([4], 5, True),
        ([5], 4, False),
        ([5], 6, True),
        ([9, 7], 8, False),
        ([9], 7, True),
        ([9, 7], 10, True),
        ([9, 10], 9, False),
        ([9, 10], 11, True),
    ],
)
def test_admission_is_by_the_highest_writer_and_reader(admitted: list[int], token: int, is_admitted: bool) -> None:
    guard = TokenGuard()
    for each in admitted:
        guard.check(each)
    assert admits(guard, token) == is_admitted


def test_it_equals_a_guard_that_remembers_everything() -> None:
    """The slow twin: no conflicting access that came later in the order of tokens has been admitted."""
    chance = random.Random(7)
    for _ in range(200):
        guard, admitted = TokenGuard(), list[int]()
        for _ in range(30):
            token = chance.randrange(1, 20)
            conflicting = [other for other in admitted if other % 2 == 0 or token % 2 == 0]
            expected = all(other <= token for other in conflicting)
            assert admits(guard, token) == expected, (admitted, token)
            if expected:
                admitted.append(token)


def test_what_was_admitted_outlives_the_guard(tmp_path: Path) -> None:
    file = tmp_path / "guard"
    TokenGuard(file).check(10)
    TokenGuard(file).check(13)
    guard = TokenGuard(file)
    assert guard.highest == 13
    assert not admits(guard, 12)
    assert not admits(guard, 9)
    assert admits(TokenGuard(file), 11)
    assert admits(guard, 14)
    assert not admits(TokenGuard(file), 13)


@pytest.mark.parametrize("token", [0, -2, 1 << 62, True, "4", 2.0])
def test_what_is_no_token_is_the_callers_mistake(token: int) -> None:
    with pytest.raises(UsageError, match="a token is a number"):
        TokenGuard().check(token)


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("remember the milk")
    with pytest.raises(UsageError, match="is no file of a TokenGuard"):
        TokenGuard(tmp_path / "notes")


def test_a_refused_token_changes_nothing(tmp_path: Path) -> None:
    guard = TokenGuard(tmp_path / "guard")
    guard.check(10)
    before = (tmp_path / "guard").read_text()
    with pytest.raises(StaleTokenError) as caught:
        guard.check(8)
    assert (caught.value.token, caught.value.highest) == (8, 10)
    assert (tmp_path / "guard").read_text() == before
    assert "above=10" in str(StaleTokenError(8, 10))


def test_threads_are_admitted_one_at_a_time() -> None:
    guard, inside, most = TokenGuard(), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(200):
            with guard.admit(4):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


@pytest.mark.processes
def test_processes_share_a_guard_by_its_file(tmp_path: Path) -> None:
    """Each adds one, 50 times, to a number in a file, inside the guard: nothing is lost."""
    (tmp_path / "count").write_text("0")
    program = (
        "import sys; from pathlib import Path; from antiphon.toolkit import TokenGuard\n"
        "place = Path(sys.argv[1]); guard = TokenGuard(place / 'guard')\n"
        "for _ in range(50):\n"
        "    with guard.admit(4):\n"
        "        value = int((place / 'count').read_text()); (place / 'count').write_text(str(value + 1))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(2)]
    assert [process.wait(30) for process in running] == [0, 0]
    assert (tmp_path / "count").read_text() == "100"
