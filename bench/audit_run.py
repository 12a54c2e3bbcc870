"""Run one audit and print one JSON document about it; `bench.audit_scale` starts it as a child process.

python -m bench.audit_run DIR
python -m bench.audit_run DIR --reference
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from antiphon.pipeline.document import audit_document
from antiphon.pipeline.result import Audit


def by_spark(directory: Path, cores: int) -> tuple[Audit, dict[str, Any]]:
    from antiphon.pipeline.auditor import audit
    from antiphon.pipeline.session import make_session

    started_s = time.perf_counter()
    spark = make_session(f"local[{cores},3]")
    spark.range(1).count()  # the first job starts what Spark starts late
    ready_s = time.perf_counter()
    steps: list[tuple[str, float]] = []
    result = audit(directory, spark, progress=lambda words: steps.append((words, time.perf_counter())))
    done_s = time.perf_counter()
    ends_s = [*(at_s for _, at_s in steps[1:]), done_s]
    times = {words: round(end_s - at_s, 2) for (words, at_s), end_s in zip(steps, ends_s, strict=True)}
    spark.stop()
    return result, {"start_s": round(ready_s - started_s, 2), "audit_s": round(done_s - ready_s, 2), "steps_s": times}


def by_reference(directory: Path) -> tuple[Audit, dict[str, Any]]:
    from antiphon.pipeline.reference import audit

    started_s = time.perf_counter()
    result = audit(directory)
    return result, {"start_s": 0.0, "audit_s": round(time.perf_counter() - started_s, 2), "steps_s": {}}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--reference", action="store_true", help="by the plain-Python auditor instead of Spark")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args(words)
    audited, times = (
        by_reference(options.directory) if options.reference else by_spark(options.directory, options.cores)
    )
    print(json.dumps(audit_document(audited) | {"rows": audited.rows, "runs": audited.runs} | times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
