"""The data pipeline. `antiphon.pipeline.History` is its API for notebooks; it is loaded when it is asked for, since
Spark is an extra, and slow to import."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "History":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from antiphon.pipeline.notebook import History

    return History
