"""creation: every delivered message was sent.

Violated by a number beyond what the sender's complete log sent; unknown beyond the record of an open log.
"""

import numpy as np

from antiphon.pipeline.audit.case import Case, RowCounts, Witness


def count(case: Case) -> RowCounts:
    rows = case.rows
    beyond = np.maximum(rows.end - np.maximum(rows.start, case.sent + 1), 0)
    return RowCounts(np.where(case.open, 0, beyond), np.where(case.open, beyond, 0), rows.end - rows.start)


def witness(case: Case, row: int) -> Witness:
    return Witness(max(int(case.rows.start[row]), int(case.sent[row]) + 1), [])
