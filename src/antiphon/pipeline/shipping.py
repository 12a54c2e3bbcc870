"""How what all tasks must know gets to the workers.

Where they run on this machine, they map one file. On a cluster it goes as a broadcast, and each worker holds all of it:
a file of this machine need not be there.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark import Broadcast
from pyspark.sql import SparkSession

from antiphon.pipeline.audit.shipment import open_shipment, read_shipment, write_shipment


@contextmanager
def shipped(spark: SparkSession, content: object) -> Iterator[Callable[[], Any]]:
    """A function that gives the content where a task calls it, as long as the context lasts."""
    directory = Path(tempfile.mkdtemp(prefix="antiphon-shipment-"))
    file = directory / "shipment"
    broadcast: Broadcast[bytes] | None = None
    try:
        write_shipment(content, file)
        if (spark.sparkContext.master or "").startswith("local"):
            path = str(file)
            yield lambda: open_shipment(path)
        else:
            broadcast = spark.sparkContext.broadcast(file.read_bytes())
            shared = broadcast
            yield lambda: _open_broadcast(shared)
    finally:
        if broadcast is not None:
            broadcast.destroy()
        shutil.rmtree(directory, ignore_errors=True)


@lru_cache(maxsize=1)
def _open_broadcast(shared: "Broadcast[bytes]") -> Any:
    return read_shipment(memoryview(shared.value))
