"""An audit as the JSON document that scripts depend on."""

from typing import Any

from antiphon.pipeline.result import Audit, Finding


def audit_document(audit: Audit) -> dict[str, Any]:
    """Plain values only: ready for `json.dumps`."""
    return {
        "verdict": audit.verdict,
        "events": audit.events,
        "guarantees": {finding.guarantee: _finding(finding) for finding in audit.findings},
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "verdict": finding.verdict,
        "violations": finding.violations,
        "roots": finding.roots,
        "unknown": finding.unknown,
        "checked": finding.checked,
        "example": None if finding.example is None else finding.example.text,
        "reason": finding.reason,
    }
