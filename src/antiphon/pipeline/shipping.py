"""How what all tasks must know gets to the workers.

Where they run on this machine, they map one file. On a cluster it goes as a broadcast, and each worker holds all of it:
a file of this machine need not be there. Spark Connect has no broadcasts: there it travels inside the function, within
the limits that Connect sets to one request (128 MiB unless the server says otherwise).
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
from antiphon.pipeline.passes import is_connected


@contextmanager
def shipped(spark: SparkSession, content: object) -> Iterator[Callable[[], Any]]:
    """A function that gives the content where a task calls it, as long as the context lasts."""
    directory = Path(tempfile.mkdtemp(prefix="antiphon-shipment-"))
    file = directory / "shipment"
    broadcast: Broadcast[bytes] | None = None
    try:
        write_shipment(content, file)
        if is_connected(spark):
            carried = file.read_bytes()
            yield lambda: read_shipment(memoryview(carried))
        elif (spark.sparkContext.master or "").startswith("local"):
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
