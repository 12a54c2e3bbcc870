"""The map from claims to tests is true: every test of a claim stands in docs/papers, and all that stands there is."""

import ast
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
CLAIM = re.compile(r"test_\d_\d|test_\d_|test_table|test_footnote")


def names_of(paths: list[Path]) -> set[str]:
    trees = [ast.parse(path.read_text()) for path in paths]
    functions = [node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {name for name in functions if name.startswith("test_")}


@pytest.mark.parametrize(
    ("stack", "paper", "claims_min"), [("vector", "isis_1991", 60), ("conversation", "psync_1989", 100)]
)
def test_the_document_and_the_tests_name_each_other(stack: str, paper: str, claims_min: int) -> None:
    document = (TESTS.parent / "docs" / "papers" / f"{stack}.md").read_text()
    patterns = set(re.findall(r"`(test_[a-z0-9_]+\*?)`", document))
    claims = names_of(list((TESTS / "papers").glob(f"test_{paper}*.py")))
    everything = names_of(list(TESTS.rglob("test_*.py")))
    assert [name for name in sorted(claims) if not any(fnmatchcase(name, pattern) for pattern in patterns)] == []
    assert [one for one in sorted(patterns) if not any(fnmatchcase(name, one) for name in everything)] == []
    assert len([name for name in claims if CLAIM.match(name)]) >= claims_min
