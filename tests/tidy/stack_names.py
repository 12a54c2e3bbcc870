"""A rule of style: no stack is named outside the folder of the stacks."""

import ast
import re
from typing import Final

from tests.tidy.files import ROOT, lies_in, nodes_of, tree_of


def stack_names() -> frozenset[str]:
    """The names of the stacks: those of their folders."""
    return frozenset(path.parent.name for path in (ROOT / "src/antiphon/stacks").glob("*/offers.py"))


FIELD_WORDS: Final = frozenset(("domain", "label"))
"""Names of stacks that are names of fields too: in `__slots__`, and as keys of documents, they mean the field."""


DOCUMENT_MODULES: Final = ("antiphon.simulator.actions", "antiphon.simulator.script")
"""Where scripts of runs are written and read, which have fields of those names."""


STACKS: Final = "antiphon.stacks"
ROW_LAYERS: Final = ("antiphon.history", "antiphon.pipeline", "antiphon.report")
"""Where rows of histories are written, read and shown, in which `label` is a column."""


PLAN_MODULES: Final = frozenset(
    f"antiphon.{name}" for name in ("pipeline.structure.plan", "runtime.plan", "report.structure_table")
)
"""Where plans of groups are written, read and shown, in which a sequencer is a process."""


CONFIGURATION: Final = "antiphon.deployment"
"""Where `domain` is a table, and a key, of a configuration."""


COMPARISONS: Final = "antiphon.kernel.labels"
"""Where labels are compared, one way of which is called after vectors."""


def field_names(module: str, tree: ast.Module) -> set[ast.AST]:
    """The constants that name fields: in `__slots__`, and where documents and rows are, as keys, between brackets and
    in `get`."""
    found: set[ast.AST] = set()
    has_keys = any(lies_in(module, it) for it in (*ROW_LAYERS, *DOCUMENT_MODULES))
    is_configuration = lies_in(module, CONFIGURATION)
    for node in nodes_of(tree):
        if is_configuration and isinstance(node, ast.Constant) and node.value in FIELD_WORDS:
            found.add(node)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            found.update(ast.walk(node.value))
        elif not has_keys:
            continue
        elif isinstance(node, ast.Dict):
            found.update(key for key in node.keys if key is not None)
        elif isinstance(node, ast.Subscript):
            found.add(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            found.update(node.args[:1])
    return found


def imported_stacks(node: ast.AST, stacks: frozenset[str]) -> list[str]:
    """The stacks that a statement imports from, in whatever form."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names[: None if node.module == STACKS else 1]]
    packages = [name.removeprefix(f"{STACKS}.").split(".")[0] for name in names if name.startswith(f"{STACKS}.")]
    return [package for package in packages if package in stacks]


def stacks_told_of(text: str, stacks: frozenset[str]) -> list[str]:
    """The stacks that a text names: by their folder, or after the word stack."""
    found = re.findall(r"\bstacks?(?:\s+|\s*=\s*)[`'\"]?(\w+)|\bstacks[/.](\w+)", text)
    return [name for pair in found for name in pair if name in stacks]


def stack_name_complaints(module: str, source: str, stacks: frozenset[str]) -> list[str]:
    """Names of stacks outside `stacks`: whoever needs one asks the registry. Only a stack's own public library, the
    package `antiphon.<stack>`, and its own command, `antiphon.cli.<stack>`, are about that stack."""
    if lies_in(module, STACKS) or any(lies_in(module, f"antiphon{own}.{it}") for it in stacks for own in ("", ".cli")):
        return []
    complaints = []
    tree = tree_of(source)
    fields = field_names(module, tree)
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and node.value in FIELD_WORDS and node in fields:
            continue
        if isinstance(node, ast.Constant) and node.value == "vector" and module == COMPARISONS:
            continue
        if isinstance(node, ast.Constant) and node.value == "sequencer" and module in PLAN_MODULES:
            continue
        if isinstance(node, ast.Constant) and node.value == "label" and any(lies_in(module, it) for it in ROW_LAYERS):
            continue
        if isinstance(node, ast.Constant) and node.value in stacks:
            complaints.append(f"{module}:{node.lineno}: names the stack {node.value!r}; ask stacks/registry.py")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = stacks_told_of(node.value, stacks)
            complaints += [f"{module}:{node.lineno}: tells of the stack {stack!r}" for stack in named]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imported = imported_stacks(node, stacks)
            complaints += [f"{module}:{node.lineno}: imports stacks.{it}; ask stacks/registry.py" for it in imported]
    return complaints
