"""`check --base REV`: the same workloads in two checkouts, run side by side on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from profiler_doctor.analyzer import two_revisions
from profiler_doctor.analyzer.gate import Check, Checked
from profiler_doctor.analyzer.revision import Revision, checked_out
from profiler_doctor.analyzer.workloads import Workload

if TYPE_CHECKING:
    from profiler_doctor.verbs.check import Checking


def against_base(run: Checking, wanted: Sequence[Workload]) -> Check:
    """Check every workload against the revision that was named."""
    done, around = list[Checked](), dict[str, object]()
    with checked_out(run.options.base or "", Path.cwd(), run.folder / "base-tree") as revision:
        for workload in wanted:
            checked, circumstances = _one(run, workload, revision)
            done.append(checked)
            around = circumstances
    return Check(workloads=tuple(done), environment=around, strict=run.options.strict)


def _one(run: Checking, workload: Workload, revision: Revision) -> tuple[Checked, dict[str, object]]:
    where, request = Path.cwd(), run.request(workload)
    head = run.measured(two_revisions.of_head(request, where), f"head-{workload.name}")
    base = two_revisions.of_base(request, revision, where)
    checked, both = two_revisions.against_revision(
        workload, head, base, lambda asked: run.measured(asked, f"base-{workload.name}"), revision.words
    )
    around = dict(head.circumstances)
    if both is None or workload.time is None:
        return checked, around
    time = two_revisions.raced(both, workload.time, run.folder / f"race-{workload.name}")
    return replace(checked, time=time), around
