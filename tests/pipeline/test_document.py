"""The JSON document, word for word."""

import json

from antiphon.pipeline import reference
from antiphon.pipeline.document import audit_document
from tests.pipeline.script import make_logs


def test_the_words_that_scripts_depend_on() -> None:
    audit = reference.audit(make_logs(promises="creation duplication", p="s1 d:p1 d:p1", q="d:p1 quiet"))
    text = json.dumps(audit_document(audit))
    assert json.loads(text) == {
        "verdict": "broken",
        "events": 9,
        "guarantees": {
            "creation": {
                "verdict": "unknown",
                "violations": 0,
                "roots": 0,
                "unknown": 1,
                "checked": 3,
                "example": None,
                "reason": "1 check is undecided: the log of p/1 is cut short after 5 rows",
            },
            "duplication": {
                "verdict": "broken",
                "violations": 1,
                "roots": 1,
                "unknown": 1,
                "checked": 3,
                "example": "p delivered p#1 twice",
                "reason": "1 check is undecided: the log of p/1 is cut short after 5 rows",
            },
        },
    }
