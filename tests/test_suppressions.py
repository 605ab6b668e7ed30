"""Comments that hide findings: where they may stand, whom they hide, and that nothing is hidden silently."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent

import pytest

from profiler_doctor.analyzer.engine import Examination, Selection, examine
from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.suppressions import comments_in
from profiler_doctor.analyzer.trace import Trace
from tests.observed import observed
from tests.trace_builder import TraceBuilder

US = 1000
MODEL = """\
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            scale = x.max().item()  # profiler-doctor: ignore[TST001]
            return x / scale

        def other(self, x):
            return x
    """


def found_at(line: int, file: str = "model.py", code: str = "TST001", name: str = "big-op") -> Rule:
    """A rule that finds the op `big` at a line of the user's."""

    def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
        rows = trace.rows_named(lambda op: op == "big", ("cpu_op",))
        where = Where(file=file, line=line, op="big")
        yield Sighting(message="A big op.", where=where, edit=Edit(keep=dict.fromkeys(rows.tolist(), 0.0)))

    return Rule(code=code, name=name, doc="A rule of the test.", find=find)


def examined(folder: Path, *rules: Rule, source: str = MODEL, **selection: tuple[str, ...]) -> Examination:
    """Three steps of 1000 us, each with a `big` op of 400 us, examined beside this source as model.py."""
    builder = TraceBuilder()
    for start in range(0, 3000 * US, 1000 * US):
        builder.step(start // (1000 * US), start, 1000 * US).op("big", start + 10 * US, 400 * US)
        builder.frame("model.py(4): forward", start + 5 * US, 900 * US)
    (folder / "model.py").write_text(dedent(source), encoding="utf-8")
    return examine(builder.trace(folder), Found(rules), Selection(folders=(folder,), **selection))


def notes(examination: Examination) -> dict[str, str]:
    return {note.code: note.message for note in examination.health if "SUPPRESS" in note.code}


@pytest.mark.parametrize(
    ("line", "hidden"),
    [(5, True), (4, True), (6, False), (8, False)],
    ids=["its own line", "the first line of its function", "another line", "another function"],
)
def test_a_comment_speaks_for_its_line_and_for_the_function_around_it(tmp_path: Path, line: int, hidden: bool) -> None:
    [outcome] = examined(tmp_path, found_at(line)).outcomes

    assert (outcome.status == "clean") is hidden
    assert (outcome.findings == ()) is hidden


def test_a_hidden_finding_is_counted_and_its_time_is_not(tmp_path: Path) -> None:
    examination = examined(tmp_path, found_at(5))

    assert examination.outcomes[0].reason == "1 finding is suppressed"
    assert notes(examination) == {"SUPPRESSED": "1 finding is suppressed: TST001 by the comment at model.py:5."}
    assert examination.joint.share == 0.0


@pytest.mark.parametrize("words", ["", "[TST001]", "[TST]", "[big-op]", "[XYZ001, TST001]", "[all]"])
def test_codes_families_names_or_nothing_may_stand_in_the_comment(tmp_path: Path, words: str) -> None:
    source = f"x.item()  # profiler-doctor: ignore{words}\n"

    assert examined(tmp_path, found_at(1), source=source).outcomes[0].status == "clean"


def test_a_comment_for_another_rule_hides_nothing(tmp_path: Path) -> None:
    source = "x.item()  # profiler-doctor: ignore[TST002, small-op]\n"

    assert examined(tmp_path, found_at(1), source=source).outcomes[0].status == "found"


def test_a_comment_in_a_statement_of_several_lines_speaks_for_all_of_them() -> None:
    text = "y = f(\n    x,\n    z,  # profiler-doctor: ignore\n)\nw = 1\n"

    [comment] = comments_in(text, "m.py")

    assert comment.lines == {1, 2, 3, 4}
    assert comment.line == 3


@pytest.mark.parametrize(
    "head", ["def f(x):", "@g\ndef f(x):", "def f(\n    x,\n):"], ids=["one line", "decorated", "long"]
)
def test_a_comment_in_the_head_of_a_function_speaks_for_all_of_it(head: str) -> None:
    """Findings name the line that calls, wherever in the function it is."""
    text = f"{head}  # profiler-doctor: ignore\n    y = x.item()\n    return y\n\n\ndef h(x):\n    return x\n"
    last = head.count("\n") + 3

    [comment] = comments_in(text, "m.py")

    assert {last - 1, last} <= comment.lines
    assert max(comment.lines) == last


def test_a_text_that_looks_like_a_comment_is_none() -> None:
    assert list(comments_in('s = "# profiler-doctor: ignore"\n', "m.py")) == []


def test_source_that_is_no_python_hides_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    source = "def (:  # profiler-doctor: ignore\n"

    assert examined(tmp_path, found_at(1), source=source).outcomes[0].status == "found"


def test_source_that_is_not_here_hides_nothing(tmp_path: Path) -> None:
    assert examined(tmp_path, found_at(5, file="gone.py")).outcomes[0].status == "found"


def test_the_decorator_is_the_first_line_of_a_function() -> None:
    text = "@torch.no_grad()\ndef f(x):\n    return x.item()  # profiler-doctor: ignore[SYN]\n"

    [comment] = comments_in(text, "m.py")

    assert comment.lines == {1, 3}


def test_a_comment_that_hides_nothing_any_more_is_named(tmp_path: Path) -> None:
    nothing = Rule(code="TST001", name="big-op", doc="Finds nothing.", find=lambda *_: [])

    said = notes(examined(tmp_path, nothing))

    assert said == {"UNUSED-SUPPRESSION": "The comment at model.py:5 (ignore TST001) hid nothing in this recording."}


def test_a_comment_for_a_rule_that_could_not_be_asked_is_not_blamed(tmp_path: Path) -> None:
    unasked = Rule(code="TST001", name="big-op", doc="Needs a GPU.", find=lambda *_: [], needs=(Has.KERNELS,))

    assert notes(examined(tmp_path, unasked)) == {}


def test_what_the_settings_ignore_is_counted_too(tmp_path: Path) -> None:
    examination = examined(tmp_path, found_at(5), found_at(8, code="TST002", name="two"), source="", ignore=("TST002",))

    assert [(outcome.code, outcome.status) for outcome in examination.outcomes] == [
        ("TST001", "found"),
        ("TST002", "skipped"),
    ]
    assert notes(examination) == {"SUPPRESSED": "1 finding is suppressed: TST002 by --ignore or the settings."}
    assert examination.joint.share == pytest.approx(0.4)


def test_a_setting_that_hides_nothing_is_named(tmp_path: Path) -> None:
    quiet = Rule(code="TST002", name="two", doc="Finds nothing.", find=lambda *_: [])

    said = notes(examined(tmp_path, found_at(5), quiet, source="", ignore=("two",)))

    assert said == {"UNUSED-SUPPRESSION": "ignore = two hid nothing in this recording."}


def test_an_ignored_rule_that_breaks_is_left_out_as_asked(tmp_path: Path) -> None:
    def breaks(*_: object) -> list[Sighting]:
        raise ZeroDivisionError

    broken = Rule(code="TST002", name="two", doc="Breaks.", find=breaks)

    [outcome] = examined(tmp_path, broken, source="", ignore=("TST",)).outcomes

    assert (outcome.status, outcome.reason) == ("skipped", "not selected")
    assert notes(examined(tmp_path, broken, source="", ignore=("TST",))) == {}


def test_a_file_beside_the_script_is_found_from_wherever_the_run_was_started(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(dedent(MODEL), encoding="utf-8")
    trace = TraceBuilder().step(0, 0, 1000 * US).op("big", 10 * US, 400 * US).trace(tmp_path)
    elsewhere = Selection(folders=(tmp_path / "elsewhere",))

    alone = examine(trace, Found((found_at(5),)), elsewhere)
    seen = examine(observed(trace, source_folder=str(tmp_path)), Found((found_at(5),)), elsewhere)

    assert [outcome.status for outcome in (*alone.outcomes, *seen.outcomes)] == ["found", "clean"]
