"""Style as a test: the direction of imports, the bans of the core, and a few habits, over every file of the project.

Each rule is a function from a source to complaints, and each is shown to complain about a bad snippet before it is let
loose on the tree. The longer rules stand in tests/tidy/.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.tidy.files import FILES, MODULE_NAMES, MODULES, ROOT, lies_in, nodes_of, project_files, tree_of
from tests.tidy.inheritance import all_sources, compiled_modules, inheritance_complaints
from tests.tidy.pointers import pointer_complaints
from tests.tidy.stack_names import stack_name_complaints, stack_names

FILE_LINES_MAX: Final = 600

CORE: Final = ("kernel", "parts", "stacks", "engine")
"""Where rule 1 holds: no input or output, no clock, no threads, no environment, no chance of its own."""

MAY_IMPORT: Final = {
    "kernel": ("kernel",),
    "parts": ("kernel", "parts"),
    "stacks": ("kernel", "parts", "stacks"),
    "engine": ("kernel", "parts", "stacks"),
    "faults": ("kernel",),
    "recording": ("kernel", "stacks", "history"),
    "runtime": ("kernel", "parts", "stacks", "engine", "faults", "history", "recording", "runtime"),
    "simulator": ("kernel", "parts", "stacks", "engine", "faults", "history", "recording", "simulator"),
    "history": ("kernel.identity", "kernel.errors", "history"),  # all errors share one root, see kernel/errors.py
    "pipeline": ("kernel.errors", "kernel.labels", "history", "pipeline"),  # comparisons are the same everywhere
    "report": ("kernel.errors", "history", "pipeline", "report"),
    "conversation": ("_build", "kernel", "parts", "stacks", "runtime", "conversation"),
    "domain": ("_build", "kernel", "parts", "stacks", "runtime", "domain"),
    "observe": ("", "_build", "kernel", "parts.member", "parts.suspicion", "runtime", "observe"),
    "toolkit": ("", "conversation", "toolkit"),
    "streams": ("", "history", "toolkit", "streams"),
    "testing": ("kernel.errors", "faults", "simulator.fault_schedule", "runtime", "history", "pipeline", "testing"),
    "sync": ("runtime.sync",),
    "_build": (),
}
"""Which parts of the package each part may import; "" is the public API. `cli` and `antiphon` may import all."""

BANNED_MODULES: Final = frozenset(
    [
        *("asyncio", "select", "selectors", "socket", "ssl", "urllib"),  # the network
        *("datetime", "time"),  # a clock
        *("concurrent", "multiprocessing", "signal", "subprocess", "threading"),  # others at the same time
        *("io", "logging", "os", "pathlib", "shutil", "sys", "tempfile"),  # the machine
        *("random", "secrets", "uuid"),  # chance
    ]
)
BANNED_CALLS: Final = frozenset(("breakpoint", "eval", "exec", "input", "open", "print"))
MACHINE_PATH: Final = re.compile(r"(?<![\w.~$}/-])/(?:home|root|Users|work|tmp)/\w")
LEADING_COMMENTS: Final = re.compile(r"\A(?:\s|#.*\n)*")
LEFT_UNDONE: Final = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")


def imported_names(tree: ast.Module, is_module: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import; `from a import b` counts as `a.b` where that is a module, else as `a`."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "ruff bans relative imports"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield node.lineno, full if full in is_module else str(node.module)


def import_complaints(module: str, source: str, is_module: frozenset[str]) -> list[str]:
    """Imports against the direction kernel ← parts ← stacks ← engine ← {runtime, simulator} and its neighbours."""
    layer = module.split(".")[1] if "." in module else ""
    if layer in ("", "cli"):
        return []
    if layer not in MAY_IMPORT:
        return [f"{module}: a new part of the package; give it a place in MAY_IMPORT"]
    complaints = []
    for line, name in imported_names(tree_of(source), is_module):
        if name.split(".")[0] != "antiphon":
            continue
        target = name.removeprefix("antiphon").removeprefix(".")
        if not any(lies_in(target, allowed) for allowed in MAY_IMPORT[layer]):
            complaints.append(f"{module}:{line}: {layer} may not import {name}")
        elif layer == "stacks" and another_stack(module, target, is_module):
            complaints.append(f"{module}:{line}: one stack may not import another ({name})")
    return complaints


def another_stack(module: str, target: str, is_module: frozenset[str]) -> bool:
    """Whether `target` lies in the package of a stack other than the one `module` belongs to. The registry belongs to
    none, and names them all."""
    if module == "antiphon.stacks.registry":
        return False
    stack = target.split(".")[1] if target.startswith("stacks.") else ""
    is_package = any(name.startswith(f"antiphon.stacks.{stack}.") for name in is_module)
    return bool(stack) and is_package and module.split(".")[2:3] != [stack]


def core_complaints(module: str, source: str) -> list[str]:
    """What rule 1 bans from the core. Chance comes in as a seeded `Random`, whose type alone may be imported."""
    if "." not in module or module.split(".")[1] not in CORE:
        return []
    names = [name for node in nodes_of(tree_of(source)) for name in banned_names(node)]
    return [f"{module}: the core may not use {name}" for name in names]


def banned_names(node: ast.AST) -> list[str]:
    """What of rule 1's bans one piece of syntax uses."""
    match node:
        case ast.Call(func=ast.Name(id=function)) if function in BANNED_CALLS:
            return [f"{function}()"]
        case ast.Import(names=names):
            return [alias.name for alias in names if alias.name.split(".")[0] in BANNED_MODULES]
        case ast.ImportFrom(module="random", names=names):
            return [f"random.{alias.name}" for alias in names if alias.name != "Random"]
        case ast.ImportFrom(module=str(name)) if name.split(".")[0] in BANNED_MODULES:
            return [name]
        case _:
            return []


def length_complaints(name: str, source: str) -> list[str]:
    lines = source.count("\n")
    return [f"{name}: {lines} lines; a file near {FILE_LINES_MAX} wants splitting"] if lines >= FILE_LINES_MAX else []


def docstring_complaints(name: str, source: str) -> list[str]:
    """Every file that holds anything opens with a docstring that says what its rule is."""
    code = LEADING_COMMENTS.sub("", source)
    return [f"{name}: the file does not open with a docstring"] if code and not code.startswith('"""') else []


def text_complaints(name: str, text: str) -> list[str]:
    """Paths of one machine, and work left undone."""
    complaints = []
    for number, line in enumerate(text.splitlines(), start=1):
        if MACHINE_PATH.search(line):
            complaints.append(f"{name}:{number}: a path of one particular machine: {line.strip()}")
        if LEFT_UNDONE.search(line):
            complaints.append(f"{name}:{number}: work left undone: {line.strip()}")
    return complaints


CROSS_CUTTING: Final = frozenset(
    [
        *("contracts", "fuzz", "mutants", "networks", "papers", "programs", "simulation", "toy_stack", "transcripts"),
        *("test_examples.py", "test_newcomer.py", "test_readme.py", "test_tidy.py"),
        "streams/test_streams.py",  # listener and feeder only make sense together
        "toolkit/test_real.py",  # the whole toolkit, on real sockets
    ]
)
"""Tests that are about no single source: whole folders of tests, and files."""

SAME_NAME: Final = frozenset(("Connection", "Group", "Node"))
"""Classes with a synchronous twin of the same name, in runtime/sync.py. All other names of classes are unique."""


def mirror_complaints(tests: list[str], sources: frozenset[str]) -> list[str]:
    """Test files without a source of their name. `a/test_b.py` and `a/test_b_more.py` belong to `a/b.py` or `a/b/`."""
    complaints = []
    for test in tests:
        folder, _, file = test.rpartition("/")
        if test in CROSS_CUTTING or test.split("/")[0] in CROSS_CUTTING:
            continue
        words = file.removeprefix("test_").removesuffix(".py").split("_")
        names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
        wanted = [f"{folder}/{name}".removeprefix("/") for name in names]
        if not sources.intersection(wanted):
            complaints.append(f"tests/{test}: there is no source {wanted[-1]}.py; name the test after what it tests")
    return complaints


def mirrored_names() -> frozenset[str]:
    """What tests are named after: sources and folders of src/antiphon and of bench, and helpers beside the tests."""
    names: set[str] = set()
    for path in project_files("*.py"):
        if path.name.startswith("test_"):
            continue
        relative = path.relative_to(ROOT).with_suffix("").as_posix()
        name = relative.removeprefix("src/antiphon/").removeprefix("tests/")
        names.update(name.rsplit("/", depth)[0] for depth in range(name.count("/") + 1))
        names.add(name.replace("_build", "build"))
    return frozenset(names)


def class_complaints(classes: list[tuple[str, str]]) -> list[str]:
    """Names of classes, given with their modules, that mean two things."""
    where: dict[str, list[str]] = {}
    for module, name in classes:
        where.setdefault(name, []).append(module)
    return [
        f"class {name} is defined in {' and in '.join(modules)}; give one of them a name of its own"
        for name, modules in sorted(where.items())
        if len(modules) > 1 and name not in SAME_NAME
    ]


def classes_of(module: str, source: str) -> list[tuple[str, str]]:
    return [(module, node.name) for node in nodes_of(tree_of(source)) if isinstance(node, ast.ClassDef)]


SOME_MODULES: Final = frozenset(
    ("antiphon", "antiphon.kernel", "antiphon.kernel.identity", "antiphon.engine", "antiphon.stacks.registry")
) | {f"antiphon.stacks.{stack}.stack" for stack in ("vector", "label")}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("antiphon.kernel.codec", "from antiphon.parts import stream"),
        ("antiphon.parts.stream", "import antiphon.engine"),
        ("antiphon.parts.stream", "from antiphon import engine"),
        ("antiphon.kernel.codec", "import antiphon"),
        ("antiphon.stacks.vector.member", "from antiphon.stacks.label.stack import Stack"),
        ("antiphon.engine", "from antiphon.runtime.node import Node"),
        ("antiphon.simulator.world", "from antiphon.runtime.node import Node"),
        ("antiphon.runtime.node", "def f() -> None:\n    from antiphon.simulator import world"),
        ("antiphon.history.reader", "from antiphon.kernel.effects import Sent"),
        ("antiphon.history.reader", "from antiphon import kernel"),
        ("antiphon.pipeline.auditor", "from antiphon.kernel.identity import ProcessId"),
        ("antiphon.report.html", "from antiphon.runtime import Node"),
        ("antiphon.toolkit.lock", "from antiphon.runtime.node import Node"),
        ("antiphon.faults", "from antiphon.parts.stream import Stream"),
        ("antiphon.novelty", "import json"),
    ],
)
def test_imports_against_the_direction_are_found(module: str, source: str) -> None:
    assert len(import_complaints(module, source, SOME_MODULES)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("antiphon.parts.stream", "from antiphon.kernel.identity import ProcessId"),
        ("antiphon.stacks.vector.rules", "from antiphon.stacks.vector.member import Stack"),
        ("antiphon.stacks.vector.member", "from antiphon.stacks.registry import OFFERED"),
        ("antiphon.engine", "from antiphon.stacks.label.stack import Stack"),
        ("antiphon.history.reader", "from antiphon.kernel.identity import ProcessId"),
        ("antiphon.toolkit.lock", "import antiphon\nfrom antiphon import Node"),
        ("antiphon.cli.demo", "from antiphon.runtime.demo import run_demo"),
    ],
)
def test_imports_along_the_direction_pass(module: str, source: str) -> None:
    assert import_complaints(module, source, SOME_MODULES) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os.path",
        "from socket import socket",
        "import random",
        "from random import Random, choice",
        "def f() -> None:\n    from asyncio import sleep",
        "print(1)",
        "with open('x') as file:\n    pass",
    ],
)
def test_banned_things_are_found_in_the_core(source: str) -> None:
    assert len(core_complaints("antiphon.engine", source)) == 1
    assert len(core_complaints("antiphon.stacks.vector.member", source)) == 1
    assert core_complaints("antiphon.runtime.node", source) == []


def test_the_type_of_a_seeded_generator_may_be_imported() -> None:
    assert core_complaints("antiphon.kernel.codec", "from random import Random") == []


def test_a_long_file_is_found() -> None:
    assert length_complaints("x.py", "\n" * FILE_LINES_MAX)
    assert not length_complaints("x.py", "\n" * (FILE_LINES_MAX - 1))


def test_a_missing_docstring_is_found() -> None:
    assert docstring_complaints("x.py", "# a comment\nimport json\n")
    assert not docstring_complaints("x.py", '"""Says what."""\n')
    assert not docstring_complaints("x.py", "")


def test_machine_paths_and_undone_work_are_found() -> None:
    assert text_complaints("x.py", "open('" + "/ho" + "me/someone/file')")
    assert text_complaints("x.py", "directory = '" + "/t" + "mp/run'")
    assert text_complaints("x.py", "# TO" + "DO: later")
    assert not text_complaints("x.py", "see docs/work/plan and https://example.org/home/page")


def test_a_test_without_a_source_is_found() -> None:
    sources = frozenset(("runtime/node", "stacks", "build"))
    assert mirror_complaints(["runtime/test_nod.py"], sources)
    assert mirror_complaints(["test_node.py"], sources)
    fine = ["runtime/test_node.py", "runtime/test_node_views.py", "test_build.py", "papers/test_old.py"]
    assert not mirror_complaints(fine, sources)


def test_a_name_for_two_classes_is_found() -> None:
    assert class_complaints([("a", "Message"), ("b", "Message")])
    assert not class_complaints([("a", "Message"), ("b", "Letter"), ("a", "Node"), ("b", "Node")])
    assert classes_of("a", "class Out:\n    class In: ...") == [("a", "Out"), ("a", "In")]


def test_tests_are_named_after_sources() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in project_files("*.py")]
    tests = [file.removeprefix("tests/") for file in files if file.startswith("tests/") and "/test_" in file]
    assert len(tests) > 150
    assert mirror_complaints(tests, mirrored_names()) == []


def test_classes_have_names_of_their_own() -> None:
    assert (
        class_complaints([found for name, path in MODULES.items() for found in classes_of(name, path.read_text())])
        == []
    )


@pytest.mark.parametrize(
    "snippet",
    [
        'stack = "vector"',
        "def join(stack: str = 'conversation'): ...",
        "from antiphon.stacks.vector.offers import NUMBER, OFFERS",
        "from antiphon.stacks import vector",
        "from antiphon.stacks import registry, label as other",
        "import antiphon.stacks.vector.stack",
        '"""See stacks/conversation/free/host.py."""',
        "x = 'only the stack vector reads this'",
        '"""On the stack\n    `conversation` members do not tell."""',
        "raise ValueError(f'as in stack=\"sequencer\", not {stack!r}')",
        "d.get('label')",
        "{'domain': 1}",
    ],
)
def test_a_name_of_a_stack_is_noticed_outside_its_folder(snippet: str) -> None:
    assert {"vector", "conversation", "domain"} <= stack_names()
    for module in ("antiphon.engine", "antiphon.kernel.options", "antiphon.simulator.world", "antiphon.cli.sim"):
        assert len(stack_name_complaints(module, snippet, stack_names())) == 1
    assert stack_name_complaints("antiphon.stacks.registry", snippet, stack_names()) == []


def test_a_field_is_not_taken_for_a_stack() -> None:
    assert stack_name_complaints("antiphon.simulator.script", "d['domain'] = {'domain': 1}", stack_names()) == []
    for snippet in (
        "class A:\n    __slots__ = ('domain', 'label')",
        "'one causality domain, a label, a stack of vectors'",
    ):
        assert stack_name_complaints("antiphon.engine", snippet, stack_names()) == []
    assert len(stack_name_complaints("antiphon.engine", "join(stack='domain')", stack_names())) == 1
    assert len(stack_name_complaints("antiphon.runtime.node", "f('sequencer')", stack_names())) == 1
    assert stack_name_complaints("antiphon.runtime.plan", "f('sequencer')", stack_names()) == []
    assert len(stack_name_complaints("antiphon.engine", "join(stack='label')", stack_names())) == 1
    assert stack_name_complaints("antiphon.history.schema", "field('label')", stack_names()) == []
    assert len(stack_name_complaints("antiphon.engine", "d['vector'] = {'vector': 1}", stack_names())) == 2


def test_no_stack_is_named_outside_the_stacks() -> None:
    complaints = [
        c for name, path in MODULES.items() for c in stack_name_complaints(name, path.read_text(), stack_names())
    ]
    assert complaints == []


SOME_SOURCES: Final = {
    "antiphon": "from antiphon.core import Core as Heart",
    "antiphon.core": "import enum\nclass Core: ...\nclass Wrong(LookupError): ...\nclass Kind(enum.Enum): ...",
    "antiphon.shell": "class Shell: ...",
}
"""A package of which `antiphon.core` is compiled."""


def heirs_found(snippet: str, **others: str) -> list[str]:
    """The complaints about a module of tests with this source, beside others."""
    sources = SOME_SOURCES | {"tests.heirs": snippet} | {f"tests.{name}": source for name, source in others.items()}
    return inheritance_complaints(sources, frozenset(["antiphon.core"]))


ASKS: Final = "from antiphon import _build\nif _build.is_compiled():\n    skip()\n"


@pytest.mark.parametrize(
    "snippet",
    [
        "from antiphon.core import Core\nclass Heir(Core): ...",
        "from antiphon.core import Core as Base\nclass Heir(Base[int]): ...",
        "from antiphon import core\nclass Heir(core.Core): ...",
        "import antiphon\nclass Heir(antiphon.Heart): ...",
        "def test() -> None:\n    from antiphon.core import Core\n    class Heir(object, Core): ...",
        "from antiphon import _build\nfrom antiphon.core import Core\nclass Heir(Core):\n    x = _build.is_compiled()",
    ],
)
def test_a_class_that_inherits_from_a_compiled_one_is_found(snippet: str) -> None:
    assert len(heirs_found(snippet)) == 1
    assert len(heirs_found(snippet, test_a="import tests.heirs", test_b=f"{ASKS}import tests.heirs")) == 1


@pytest.mark.parametrize(
    "snippet",
    [
        "from antiphon.core import Wrong\nclass Worse(Wrong): ...",
        "from antiphon.core import Kind\nclass Kinder(Kind): ...",
        "from antiphon.shell import Shell\nclass Heir(Shell): ...",
        "class Core: ...\nclass Heir(Core): ...",
        f"{ASKS}from antiphon.core import Core\nclass Heir(Core): ...",
    ],
)
def test_classes_that_may_inherit_are_not_complained_of(snippet: str) -> None:
    assert heirs_found(snippet) == []


def test_what_only_modules_for_plain_python_import_may_inherit() -> None:
    heir = "from antiphon.core import Core\nclass Heir(Core): ..."
    assert heirs_found(heir, test_a=f"{ASKS}from tests.heirs import Heir") == []
    assert heirs_found(heir, test_a=f"{ASKS}from tests.between import x", between="from tests import heirs") == []


def test_no_class_of_a_test_inherits_from_a_compiled_one() -> None:
    assert len(compiled_modules()) > 150
    assert inheritance_complaints(all_sources(), compiled_modules()) == []


def test_the_imports_of_the_package() -> None:
    complaints = [c for name, path in MODULES.items() for c in import_complaints(name, path.read_text(), MODULE_NAMES)]
    assert complaints == []


def test_the_bans_of_the_core() -> None:
    complaints = [c for name, path in MODULES.items() for c in core_complaints(name, path.read_text())]
    assert complaints == []


def test_the_habits_of_every_python_file() -> None:
    complaints: list[str] = []
    for path in project_files("*.py"):
        name, source = str(path.relative_to(ROOT)), path.read_text()
        complaints += length_complaints(name, source) + docstring_complaints(name, source)
    assert complaints == []


def test_the_text_of_every_file() -> None:
    paths = [path for pattern in ("*.py", "*.md", "*.toml", "Makefile", ".ci/run") for path in project_files(pattern)]
    complaints = [c for path in paths for c in text_complaints(str(path.relative_to(ROOT)), path.read_text())]
    assert complaints == []


@pytest.mark.parametrize(
    "text",
    [
        "see `tests/runtime/test_nod.py`",
        "see `tests/runtime/test_node.py::test_that_is_gone`",
        "see `nod.py`",
        "see `runtim/`, which",
        "| `src/antiphon/runtime/nod.py` |",
        "run `make nothing`",
    ],
)
def test_a_pointer_to_nothing_is_found(text: str) -> None:
    assert len(pointer_complaints("docs/some.md", text, SOME_FILES, frozenset(["check"]))) == 1


def test_pointers_to_what_there_is_pass() -> None:
    text = (
        "`tests/runtime/test_node.py::test_it[a-b]`, `runtime/node.py`, `node.py`, `runtime/`, `src/antiphon/runtime/`,"
        " `src/antiphon/*.py`, `<name>/x.py`, `a/b`, `make check`, `make check SEEDS=0:5`, `async for`"
    )
    assert pointer_complaints("docs/some.md", text, SOME_FILES, frozenset(["check"])) == []


SOME_FILES = {"src/antiphon/runtime/node.py": "", "tests/runtime/test_node.py": "def test_it(): pass"}


def test_what_the_pages_point_at_exists() -> None:
    pages = [path for pattern in ("README.md", "CONTRIBUTING.md", "docs/*.md") for path in project_files(pattern)]
    paths = {name: ROOT / name for name in FILES if (ROOT / name).is_file()}
    files = {name: path.read_text() if name.endswith(".py") else "" for name, path in paths.items()}
    targets = frozenset(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = frozenset(target for line in targets for target in line.split())
    complaints = []
    for path in pages:
        complaints += pointer_complaints(str(path.relative_to(ROOT)), path.read_text(), files, named)
    assert len(pages) > 20
    assert complaints == []


def test_the_rules_see_the_whole_package() -> None:
    seen = {name.split(".")[1] for name in MODULE_NAMES if "." in name}
    assert {"kernel", "parts", "stacks", "history", "pipeline", "cli", "_build"} <= seen
