"""The tables of docs/papers are true: they name every test of a claim, and every test, file and function they name is
there."""

import ast
import functools
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import get_args

import pytest

from antiphon.stacks.registry import StackName

TESTS = Path(__file__).resolve().parent.parent
CLAIM = re.compile(r"test_\d_\d|test_\d_|test_table|test_footnote")


@functools.cache
def names_in(path: Path) -> tuple[str, ...]:
    """The tests of one file."""
    functions = [
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return tuple(name for name in functions if name.startswith("test_"))


def names_of(paths: list[Path]) -> set[str]:
    return {name for path in paths for name in names_in(path)}


def code_complaints(stack: str, document: str) -> list[str]:
    """What the column "code" names and the sources do not have. A name in brackets has to occur in the file before it;
    files without a folder are the stack's own."""
    sources = TESTS.parent / "src" / "antiphon"
    complaints = []
    for line in document.splitlines():
        cells = line.split(" | ")
        if not line.startswith("| ") or len(cells) < 4:
            continue
        for file, names in re.findall(r"`([\w/]+\.py)`(?: \(([^)]*)\))?", cells[2]):
            own = sources / "stacks" / stack
            found = [own / file, sources / file, sources.parents[1] / file] if "/" in file else list(own.rglob(file))
            found = [each for each in found if each.exists()]
            if not found:
                complaints.append(f"there is no {file}: {line[:60]}")
                continue
            text = "".join(each.read_text() for each in found)
            missing = [name for name in re.findall(r"`(\w+)`", names) if not re.search(rf"\b{name}\b", text)]
            complaints += [f"{file} has no {name}: {line[:60]}" for name in missing]
    return complaints


@pytest.mark.parametrize("stack", get_args(StackName))
def test_the_files_and_functions_that_the_document_names_are_there(stack: str) -> None:
    assert code_complaints(stack, (TESTS.parent / "docs" / "papers" / f"{stack}.md").read_text()) == []
    planted = "| 5.1 | a claim | `nowhere.py`, `parts/exchange.py` (`is_stable`, `is_nothing`) | `test_x` |"
    assert len(code_complaints(stack, planted)) == 2


@pytest.mark.parametrize(
    ("stack", "paper", "claims_min"),
    [
        ("vector", "isis_1991", 60),
        ("conversation", "psync_1989", 100),
        ("domain", "transis_1992", 28),
        ("sequencer", "kindberg_1995", 40),
        ("label", "isis_1987", 100),
    ],
)
def test_the_document_and_the_tests_name_each_other(stack: str, paper: str, claims_min: int) -> None:
    document = (TESTS.parent / "docs" / "papers" / f"{stack}.md").read_text()
    patterns = set(re.findall(r"`(test_[a-z0-9_]+\*?)`", document))
    claims = names_of(list((TESTS / "papers").glob(f"test_{paper}*.py")))
    everything = names_of(list(TESTS.rglob("test_*.py")))
    assert [name for name in sorted(claims) if not any(fnmatchcase(name, pattern) for pattern in patterns)] == []
    assert [one for one in sorted(patterns) if not any(fnmatchcase(name, one) for name in everything)] == []
    assert len([name for name in claims if CLAIM.match(name)]) >= claims_min
