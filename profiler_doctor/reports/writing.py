"""The reports as files in a folder: each whole or not there, and one that breaks does not take the others with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.files import written_to
from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis


def write_all(
    diagnosis: Diagnosis,
    folder: Path,
    trace_file: Path | None,
    reports: Iterable[Report],
    complain: Callable[[str], object] = lambda sentence: sys.stderr.write(f"{sentence}\n"),
) -> list[Path]:
    """Write every report that has a file of its own, and return what was written, in that order.

    A report that needs the trace is passed over where there is none. One that fails is named to `complain` in a
    sentence, and the others are still written. What has to be known of a file is told there too. Raises CannotWrite
    where the folder takes no files.
    """
    written = []
    for report in reports:
        if report.filename is None or (report.needs_trace and trace_file is None):
            continue
        try:
            content = report.render(diagnosis, trace_file)
        except UserError as reason:
            complain(f"No {report.filename}: {reason}")
        except Exception as error:  # one report's bug must not cost the user the others
            complain(f"The {report.name} report broke and was not written ({type(error).__name__}: {error}).")
        else:
            written.append(written_to(folder / report.filename, content))
            if remark := report.remark(written[-1]):
                complain(remark)
    return written
