"""A rule of style: no class of a test or a benchmark inherits from a class that is compiled.

Plain Python may define a subclass of a class that mypyc compiled, but cannot make an object of it: "interpreted classes
cannot inherit from compiled". What works in plain Python then fails where the core is compiled. A test gives functions
to a compiled object instead (`RoleHooks`, `Observation`), or holds one.

The rule reads sources only, so it complains in plain Python too. It follows imports and re-exports to the class that is
inherited from. Excused are classes that mypyc leaves to the interpreter or gives a builtin base (exceptions, named
tuples, enums, typed dictionaries), classes that allow it by `mypyc_attr`, and modules that are not used beside a
compiled core: those that ask `_build.is_compiled()` when they are imported, and those that only such modules import.
"""

import ast
import builtins
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Final

from antiphon import _build
from tests.tidy.files import ROOT, nodes_of, project_files, tree_of

MAY_BE_INHERITED: Final = frozenset(
    f"{module}.{name}"
    for module, names in {
        "enum": ("Enum", "Flag", "IntEnum", "IntFlag", "StrEnum"),
        "typing": ("NamedTuple", "TypedDict"),
    }.items()
    for name in names
) | {name for name, thing in vars(builtins).items() if isinstance(thing, type) and issubclass(thing, BaseException)}
"""Whoever inherits from these can be inherited from, compiled or not."""


def all_sources() -> dict[str, str]:
    """The sources of package, tests and benchmarks, by the dotted names of their modules."""
    sources = {}
    for path in project_files("*.py"):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        parts = parts[1:] if parts[0] == "src" else parts
        sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return sources


def compiled_modules() -> frozenset[str]:
    """The dotted names of the modules that a compiled build compiles."""
    paths = [source.relative_to(_build.PACKAGE.parent).with_suffix("") for source in _build.compiled_sources()]
    return frozenset(".".join(path.parts) for path in paths)


@functools.cache
def bindings(tree: ast.Module) -> dict[str, str]:
    """What the imports of a module bind: names, and the dotted names that they stand for."""
    bound = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.ImportFrom):
            bound.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Import):
            for alias in node.names:
                bound[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
    return bound


@functools.cache
def class_definitions(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in nodes_of(tree) if isinstance(node, ast.ClassDef)}


def origin(name: str, sources: Mapping[str, str], steps: int = 10) -> str:
    """Return where the thing of this dotted name is defined, through modules that only import it."""
    module, _, rest = name.rpartition(".")
    if steps == 0 or module not in sources:
        return name
    tree = tree_of(sources[module])
    bound = bindings(tree)
    if rest in class_definitions(tree) or rest not in bound:
        return name
    return origin(bound[rest], sources, steps - 1)


def bases(module: str, node: ast.ClassDef, sources: Mapping[str, str]) -> Iterator[str]:
    """The dotted names of the classes that a class inherits from; a name of its own module is given with it."""
    tree = tree_of(sources[module])
    bound, own = bindings(tree), class_definitions(tree)
    for base in node.bases:
        text = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        first, dot, rest = text.partition(".")
        if first in bound:
            yield origin(f"{bound[first]}{dot}{rest}", sources)
        else:
            yield f"{module}.{text}" if first in own else text


def may_be_inherited(name: str, sources: Mapping[str, str]) -> bool:
    """Whether plain Python can inherit from the class of this name, compiled or not."""
    if name in MAY_BE_INHERITED:
        return True
    module, _, own = name.rpartition(".")
    definition = class_definitions(tree_of(sources[module])).get(own) if module in sources else None
    if definition is None:
        return False
    allowed = ("allow_interpreted_subclasses=True", "native_class=False")
    if any(word in ast.unparse(decorator) for decorator in definition.decorator_list for word in allowed):
        return True
    return any(may_be_inherited(base, sources) for base in bases(module, definition, sources))


def asks_for_the_build(tree: ast.Module) -> bool:
    """Whether a module asks, when it is imported, if the core is compiled."""
    outer = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    return any(isinstance(n, ast.Attribute) and n.attr == "is_compiled" for node in outer for n in ast.walk(node))


def importers(module: str, sources: Mapping[str, str]) -> list[str]:
    """The modules that import this one, or something from it."""
    last = module.rpartition(".")[2]
    return [
        other
        for other, source in sources.items()
        if last in source  # most need not be parsed
        and any(name in (module, f"{module}.{name.rpartition('.')[2]}") for name in bindings(tree_of(source)).values())
    ]


def is_excused(module: str, sources: Mapping[str, str], seen: frozenset[str] = frozenset()) -> bool:
    """Whether a module is not used beside a compiled core: it asks for the build, or only such modules import it."""
    if asks_for_the_build(tree_of(sources[module])):
        return True
    others = [other for other in importers(module, sources) if other not in seen and other != module]
    return bool(others) and all(is_excused(other, sources, seen | {module}) for other in others)


def inheritance_complaints(sources: Mapping[str, str], compiled: frozenset[str]) -> list[str]:
    """Classes of tests and benchmarks that cannot be used where the core is compiled."""
    inherits = re.compile(r"\bclass \w+\(")
    return [
        f"{module}:{node.lineno}: {node.name} inherits from {base}, which is compiled; give an object of it functions"
        for module, source in sources.items()
        if module.split(".")[0] in ("tests", "bench") and inherits.search(source)
        for node in nodes_of(tree_of(source))
        if isinstance(node, ast.ClassDef)
        for base in bases(module, node, sources)
        if base.rpartition(".")[0] in compiled and not may_be_inherited(base, sources)
        if not is_excused(module, sources)
    ]
