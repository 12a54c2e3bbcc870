"""The files that the rules of style are about, and their syntax trees, parsed once for all rules."""

import ast
import functools
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@functools.cache
def tree_of(source: str) -> ast.Module:
    """The syntax tree of a source; each is parsed once for all rules."""
    return ast.parse(source)


@functools.cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a syntax tree, found once for all rules."""
    return tuple(ast.walk(tree))


def list_files() -> list[str]:
    """What git tracks or would track, or everything where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        listed = [str(p.relative_to(ROOT)) for top in ("src", "tests", "bench") for p in (ROOT / top).rglob("*.*")]
    return sorted(set(listed))


FILES: Final = list_files()


def project_files(pattern: str) -> list[Path]:
    """The project's own files whose path matches; `*` matches across folders."""
    return [ROOT / name for name in FILES if fnmatch(name, pattern) and (ROOT / name).is_file()]


def module_name(path: Path) -> str:
    """The dotted name of a file under src."""
    parts = list(path.relative_to(ROOT / "src").with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def lies_in(target: str, part: str) -> bool:
    return target == part or (part != "" and target.startswith(f"{part}."))


MODULES: Final = {module_name(path): path for path in project_files("*.py") if path.is_relative_to(ROOT / "src")}
MODULE_NAMES: Final = frozenset(MODULES)
