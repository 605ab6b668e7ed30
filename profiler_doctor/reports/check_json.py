"""A check as JSON, with what the other reports leave out: every counter of every workload."""

from __future__ import annotations

import json
from dataclasses import asdict

from profiler_doctor.analyzer.gate import Check


def document(check: Check) -> dict[str, object]:
    """`schema_version`, `verdict{sentence, exit_code}`, `environment`, `workloads[…]` with the fields of `Checked`."""
    workloads = [
        {
            **asdict(workload),
            "exit_code": int(workload.exit_code),
            "regressions": list(workload.regressions),
            "doubts": list(workload.doubts),
        }
        for workload in check.workloads
    ]
    return {
        "schema_version": check.schema_version,
        "verdict": {"sentence": check.sentence, "exit_code": int(check.exit_code)},
        "strict": check.strict,
        "environment": dict(check.environment),
        "workloads": workloads,
    }


def encoded(check: Check) -> bytes:
    """The document, indented."""
    return f"{json.dumps(document(check), indent=2, default=str)}\n".encode()
