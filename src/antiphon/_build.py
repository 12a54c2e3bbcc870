"""Which build is running: the compiled core, or the same core as plain Python.

The core is ordinary Python that mypyc also compiles. Where compiled files lie beside the sources, Python prefers them,
whatever their age. Two things keep that honest:

- `ANTIPHON_PURE=1` in the environment makes every import of this package take the Python source.
- Each build leaves a stamp with a digest of every source it compiled. Sources that no longer match it are *stale*: the
  tests refuse to run, and the next build starts afresh.

`setup.py` runs this file by its path, so it imports nothing but the standard library.
"""

import ast
import json
import os
import sys
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Final, TypedDict

PURE_VARIABLE: Final = "ANTIPHON_PURE"
PACKAGE: Final = Path(__file__).parent
STAMP: Final = PACKAGE / "_build_stamp.json"
GROUP: Final = "antiphon"
"""mypyc puts the whole core into one library, `antiphon__mypyc`, beside the package."""

COMPILED_PACKAGES: Final = ("kernel", "parts", "stacks", "simulator")
COMPILED_MODULES: Final = (
    "engine.py",
    "faults.py",
    "history/rows.py",
    "recording.py",
    "runtime/events.py",
    "runtime/outbox.py",
    "runtime/stream.py",
)
PLAIN: Final = ("kernel/errors.py",)
"""Compiled exceptions could not also be built-in ones, as that of a time-out is."""


class Stamp(TypedDict, total=False):
    """What a build leaves behind."""

    sources: dict[str, str]
    """The digest of each source that was compiled, by its path in the package."""
    pure_reason: str | None
    """Why nothing was compiled, if so."""


def pure_forced() -> bool:
    """Whether the environment asks for plain Python."""
    return os.environ.get(PURE_VARIABLE, "") not in ("", "0")


def compiled_sources() -> list[Path]:
    """The sources that a compiled build compiles, in a fixed order. Package markers stay Python."""
    sources = [source for package in COMPILED_PACKAGES for source in (PACKAGE / package).rglob("*.py")]
    sources += [PACKAGE / module for module in COMPILED_MODULES]
    sources = [source for source in sources if source.relative_to(PACKAGE).as_posix() not in PLAIN]
    return sorted(source for source in sources if source.name != "__init__.py" and source.is_file())


def extension_files() -> list[Path]:
    """The compiled files that this interpreter would import."""
    suffix = EXTENSION_SUFFIXES[0]
    return sorted([*PACKAGE.rglob(f"*{suffix}"), *PACKAGE.parent.glob(f"{GROUP}__mypyc{suffix}")])


def source_digests() -> dict[str, str]:
    """A digest of each source that a compiled build compiles, by its path in the package."""
    return {
        source.relative_to(PACKAGE).as_posix(): blake2b(source.read_bytes(), digest_size=16).hexdigest()
        for source in compiled_sources()
    }


def write_stamp(directory: Path, digests: dict[str, str], pure_reason: str | None) -> None:
    """Leave word of a build in the package directory: what was compiled or, if nothing was, why not."""
    stamp = Stamp(sources=digests, pure_reason=pure_reason)
    (directory / STAMP.name).write_text(json.dumps(stamp, indent=1, sort_keys=True) + "\n")


def stale_sources() -> list[str]:
    """The sources that changed, came or went since the compiled files were made; none where nothing is compiled."""
    if not extension_files():
        return []
    built = _read_stamp().get("sources", {})
    current = source_digests()
    return sorted(path for path in built.keys() | current.keys() if built.get(path) != current.get(path))


def is_compiled() -> bool:
    """Whether the compiled core is what imports take."""
    return not pure_forced() and bool(extension_files())


def describe() -> str:
    """The running build in words: `compiled`, or `pure Python` and why."""
    if pure_forced():
        return f"pure Python ({PURE_VARIABLE} is set)"
    if not extension_files():
        return f"pure Python ({_read_stamp().get('pure_reason') or 'never compiled: `make compile` does'})"
    stale = stale_sources()
    return f"compiled, but stale: {', '.join(stale)} changed since; run `make compile`" if stale else "compiled"


def _read_stamp() -> Stamp:
    try:
        stamp: Stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return Stamp()
    return stamp


class SourceFinder(MetaPathFinder):
    """Finds this package's modules as source files only, so that compiled files beside them are passed over."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("antiphon.") or path is None:
            return None
        for directory in path:
            spec = FileFinder(directory, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname, target)
            if spec is not None and spec.loader is not None:
                return spec
        return None


def restore_docstrings(exported: Iterable[object]) -> None:
    """Give compiled classes the docstrings of their sources, which the compiler leaves out, and explain the fields of
    dataclasses, so that `help` tells what they are."""
    parsed: dict[str, dict[str, ast.ClassDef]] = {}
    for thing in exported:
        if not isinstance(thing, type) or (thing.__doc__ and "__dataclass_fields__" not in vars(thing)):
            continue
        module = thing.__module__
        if module not in parsed:
            source = PACKAGE.parent / f"{module.replace('.', '/')}.py"
            body = ast.parse(source.read_text()).body if source.is_file() else []
            parsed[module] = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
        node = parsed[module].get(thing.__qualname__)
        if node is not None and cleandoc(thing.__doc__ or "") in ("", ast.get_docstring(node)):
            thing.__doc__ = explain_class(thing, node)


def explain_class(thing: type, node: ast.ClassDef) -> str:
    """The docstring of a class with its fields, and with those methods whose docstrings the compiler has left out: they
    cannot be set."""
    fields, methods = [], []
    for each, after in pairwise([*node.body, ast.Pass()]):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                fields.append(f"{each.target.id}\n{cleandoc(str(after.value.value))}")
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and not each.name.startswith("_"):
            text = ast.get_docstring(each)
            if text and not getattr(getattr(thing, each.name, None), "__doc__", None):
                methods.append(f"{each.name}({', '.join(arg.arg for arg in each.args.args)})\n{text}")
    return "\n\n".join([ast.get_docstring(node) or "", *_list("Fields", fields), *_list("Methods", methods)]).strip()


def _list(title: str, entries: list[str]) -> list[str]:
    """A part of a docstring, if there is anything to stand in it."""
    return [title + ":\n" + "\n".join(indent(entry, "        ")[4:] for entry in entries)] if entries else []


def choose_build() -> None:
    """Make the imports that follow obey `ANTIPHON_PURE`."""
    if pure_forced():
        sys.meta_path.insert(0, SourceFinder())
