"""Something to look at: health, metrics and a page of a node, over HTTP. See docs/observing.md."""

from antiphon import _build
from antiphon.observe.observer import Observer

__all__ = ["Observer"]

_build.restore_docstrings(globals()[name] for name in __all__)
