"""The terminal report: the verdict first, proof before estimate, readable at any width and without colour."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from profiler_doctor.analyzer.model import Diagnosis, Finding, HealthNote, Stake, Trial
from profiler_doctor.reports.text import print_text, render
from tests import documents


def printed(document: Diagnosis, encoding: str = "utf-8", **more: object) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    print_text(document, file, **more)  # type: ignore[arg-type]  # top and page, as below
    file.flush()
    return raw.getvalue().decode(encoding)


def with_findings(count: int) -> Diagnosis:
    """`count` rules found something, each worth one percent less than the one before, none tried."""
    outcomes = tuple(
        documents.found(
            f"TST{n:03}", f"rule-{n}", Finding(message=f"message {n}", stake=Stake(share=(50 - n) / 100, basis="b"))
        )
        for n in range(count)
    )
    return replace(documents.resnet(), outcomes=outcomes, trials=())


def test_the_verdict_is_the_first_sentence() -> None:
    lines = [line for line in printed(documents.resnet()).splitlines() if line]

    assert lines[1].startswith("Verified: channels-last makes a step 1.31 times as fast")


def test_a_verified_gain_goes_before_an_estimate_and_only_the_estimate_says_up_to() -> None:
    text = printed(documents.resnet())

    verified, estimated = text.index("verified: 24 % of the step"), text.index("up to 4.0 % of the step (estimate)")
    assert verified < estimated
    assert "up to 24" not in text
    assert "verified: 4" not in text


def test_a_large_estimate_does_not_overtake_a_small_proof() -> None:
    given = documents.resnet()
    huge = documents.found("AAA001", "huge", Finding(message="m", stake=Stake(share=0.9, basis="b")))

    text = printed(replace(given, outcomes=(huge, *given.outcomes)))

    assert text.index("1. nchw-convolution") < text.index("2. huge")


def test_at_most_five_findings_are_shown_unless_more_are_asked_for() -> None:
    given = with_findings(7)

    five, all_of_them = printed(given), printed(given, top=7)

    assert "5. rule-4" in five
    assert "rule-5" not in five
    assert "2 more: `--top 7` shows them" in five
    assert "7. rule-6" in all_of_them


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    for document in (documents.resnet(), documents.gpu_trace(), documents.hostile("long " + "x" * 10_000)):
        assert max(map(len, printed(document).splitlines())) <= width


def test_a_pipe_gets_no_colour() -> None:
    assert "\x1b" not in printed(documents.resnet())


def test_a_terminal_gets_colour_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = printed(documents.resnet())

    monkeypatch.setenv("NO_COLOR", "1")
    plain = printed(documents.resnet())

    assert "\x1b[1;32m" in coloured
    assert "\x1b[1;32m" not in plain


def test_a_terminal_without_our_signs_gets_them_spelled() -> None:
    text = printed(documents.resnet(), encoding="ascii")

    assert "1.31x as fast" in text
    assert "####" in text


def test_markup_of_our_own_printer_in_a_name_is_text() -> None:
    text = printed(documents.hostile("[bold red]name[/]"))

    assert "[bold red]name[/] is slow" in text


def test_a_rejected_cure_is_told_once_with_what_was_measured() -> None:
    text = printed(documents.resnet())

    told = text[text.index("Tried and rejected") : text.index("Not tried")]
    assert "compile: 0.79× as fast (99 % interval 0.77–0.81, CPU time)" in told


def test_all_verified_cures_together_are_told_once_and_belong_to_no_finding() -> None:
    given = documents.resnet()
    joint = replace(given.trials[0], fix="channels-last + inference-mode", speedup=1.4, cures=("LAY004", "OPT004"))

    text = printed(replace(given, trials=(*given.trials, joint)))

    assert text.count("channels-last + inference-mode") == 1
    assert "All verified cures together (channels-last + inference-mode): 1.40× as fast" in " ".join(text.split())


def test_without_verification_the_next_command_is_to_verify() -> None:
    given = replace(documents.resnet(), trials=(), command=("pd", "run", "--no-verify", "m.py"))

    assert "  profiler-doctor run m.py\n" in printed(given)


def test_a_foreign_trace_says_what_it_is() -> None:
    text = printed(documents.gpu_trace())

    assert "looks like PyTorch 2.0 to 2.3" in text
    assert "busy 24 % of 174 ms, 2,700 kernels" in text


def test_no_rule_asked_is_not_told_as_health() -> None:
    text = render(documents.empty(), None).decode()

    assert "No rule could be asked" in text
    assert "Nothing found" not in text


def with_cures(count: int, trials: bool) -> Diagnosis:
    """One finding with so many cures; with a trial of each that could not be made, or without any."""
    names = tuple(f"cure-{number}" for number in range(count))
    finding = Finding(message="m", stake=Stake(share=0.3, basis="b"), cures=names)
    made = tuple(Trial(fix=name, verdict="not_tried", reason="no script", cures=("LCH001",)) for name in names)
    outcome = documents.found("LCH001", "host-bound-launch", finding)
    return replace(documents.gpu_trace(), outcomes=(outcome,), trials=made if trials else ())


@pytest.mark.parametrize(("trials", "lead"), [(True, ""), (False, "possible cures: ")])
def test_of_many_cures_a_card_names_three_and_says_where_the_others_are(trials: bool, lead: str) -> None:
    few, many = printed(with_cures(4, trials)), " ".join(printed(with_cures(12, trials)).split())

    assert f"{lead}cure-0, cure-1, cure-2, cure-3" in few
    assert f"{lead}cure-0, cure-1, cure-2 and 9 more (`profiler-doctor explain LCH001` names them)" in many


def test_an_illness_without_a_fix_says_where_its_cure_is_told() -> None:
    assert "What to do: `profiler-doctor explain TST000`" in printed(with_findings(1))
    assert "What to do" not in printed(with_cures(1, trials=False))


def test_bars_of_steps_that_vary_much_are_called_rough() -> None:
    noisy = HealthNote(code="MSR007", message="The steps are noisy.")
    quiet = replace(documents.gpu_trace(), health=())

    assert "rough" in " ".join(printed(replace(quiet, health=(noisy,))).split())
    assert "rough" not in printed(quiet)
