"""Audit a history on a cluster, by spark-submit; docs/cluster.md says how to pack what it needs.

    spark-submit --py-files antiphon.zip submit_audit.py HISTORY

Prints one JSON document, which names where Antiphon was found, here and on the workers. The exit code is that of
`antiphon audit`.
"""

import json
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

import antiphon
from antiphon.pipeline import History
from antiphon.pipeline.document import audit_document


def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where a worker finds Antiphon."""
    import antiphon

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"place": [antiphon.__file__]})


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    places = spark.range(1).mapInArrow(where, "place STRING").toArrow()["place"].to_pylist()
    found = audit_document(History(sys.argv[1], spark).audit())
    print(json.dumps({"driver": antiphon.__file__, "workers": places, "audit": found}))
    spark.stop()
    sys.exit({"kept": 0, "broken": 1}.get(found["verdict"], 3))


main()
