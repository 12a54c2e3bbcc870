"""A rule of style: no stack is named outside the folder of the stacks."""

import ast
from typing import Final

from tests.tidy.files import ROOT, lies_in, nodes_of, tree_of


def stack_names() -> frozenset[str]:
    """The names of the stacks: those of their folders."""
    return frozenset(path.parent.name for path in (ROOT / "src/antiphon/stacks").glob("*/offers.py"))


FIELD_WORDS: Final = frozenset(("domain", "label"))
"""Names of stacks that are names of fields too: in `__slots__`, and as keys of documents, they mean the field."""


ROW_LAYERS: Final = ("antiphon.history", "antiphon.pipeline", "antiphon.report")
"""Where rows of histories are written, read and shown, in which `label` is a column."""


PLAN_MODULES: Final = frozenset(
    f"antiphon.{name}" for name in ("pipeline.structure.plan", "runtime.plan", "report.structure_table")
)
"""Where plans of groups are written, read and shown, in which a sequencer is a process."""


COMPARISONS: Final = "antiphon.kernel.labels"
"""Where labels are compared, one way of which is called after vectors."""


def field_names(tree: ast.Module) -> set[ast.AST]:
    """The constants that name fields: in `__slots__`, as keys, between brackets and in `get`."""
    found: set[ast.AST] = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Dict):
            found.update(key for key in node.keys if key is not None)
        elif isinstance(node, ast.Subscript):
            found.add(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            found.update(node.args[:1])
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            found.update(ast.walk(node.value))
    return found


def stack_name_complaints(module: str, source: str, stacks: frozenset[str]) -> list[str]:
    """Names of stacks outside `stacks`: whoever needs one asks the registry. Only a stack's own public library, the
    package `antiphon.<stack>`, is about that stack."""
    if module.startswith("antiphon.stacks") or any(lies_in(module, f"antiphon.{stack}") for stack in stacks):
        return []
    complaints = []
    tree = tree_of(source)
    fields = field_names(tree)
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
            named = [stack for stack in stacks if f"stacks/{stack}/" in node.value]
            complaints += [f"{module}:{node.lineno}: points at stacks/{stack}/" for stack in named]
        elif isinstance(node, ast.ImportFrom):
            package = str(node.module).removeprefix("antiphon.stacks.").split(".")[0]
            if str(node.module).startswith("antiphon.stacks.") and package in stacks:
                complaints.append(f"{module}:{node.lineno}: imports {node.module}; ask stacks/registry.py")
    return complaints
