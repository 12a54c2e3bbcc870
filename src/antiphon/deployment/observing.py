"""The observer of a node, where the program has one."""

import importlib
from typing import Any

from antiphon.kernel.errors import UsageError
from antiphon.runtime.node import Node


def observe(node: Node, listen: str, page: bool, groups: list[str]) -> Any:
    """An `antiphon.observe.Observer` of this node. Raises UsageError where there is none."""
    try:
        module = importlib.import_module("antiphon.observe")
    except ImportError as error:
        raise UsageError(f"nothing can be served at {listen}: {error}") from error
    return module.Observer(node, listen, page, groups=groups)
