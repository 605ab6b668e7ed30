"""What `profiler-doctor analyze` does before it shows anything: read, measure, ask every rule, write the document."""

from pathlib import Path

from profiler_doctor.analyzer import plugins
from profiler_doctor.analyzer.diagnosis import Subject, diagnosis
from profiler_doctor.analyzer.document import encode
from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.kinds import Format
from profiler_doctor.analyzer.reading import FORMATS, read
from profiler_doctor.verbs.choice import every_rule

plugins.find(FORMATS, Format)
RULES = every_rule()


def run(path: Path) -> int:
    trace = read(path)
    document = diagnosis(Subject(name=path.name, command=()), trace, examine(trace, RULES))
    return len(encode(document)) and len(trace.events)
