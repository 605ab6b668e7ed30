"""What stands first in a report: proof before estimate, one gain counted once, settled things out of the way."""

from __future__ import annotations

from dataclasses import replace

from profiler_doctor.analyzer.kinds import Machine
from profiler_doctor.analyzer.model import Diagnosis, Finding, RuleOutcome, Stake, Trial
from profiler_doctor.fixes import torchscript_script
from profiler_doctor.reports.ranking import open_cards, ranked
from tests import documents


def found(code: str, share: float | None, *cures: str) -> RuleOutcome:
    return documents.found(code, code.lower(), Finding(message=code, stake=Stake(share=share), cures=cures))


def document(*outcomes: RuleOutcome, trials: tuple[Trial, ...] = ()) -> Diagnosis:
    return replace(documents.healthy(), outcomes=outcomes, trials=trials)


def test_estimates_are_ranked_by_share_and_the_unknown_come_last() -> None:
    given = document(found("A", None), found("B", 0.02), found("C", 0.3))

    assert [card.code for card in ranked(given)] == ["C", "B", "A"]


def test_verified_gains_come_before_all_estimates_the_larger_first() -> None:
    trials = (Trial(fix="x", verdict="verified", speedup=1.1), Trial(fix="y", verdict="verified", speedup=1.5))
    given = document(found("A", 0.9), found("B", 0.01, "x"), found("C", None, "y"), trials=trials)

    assert [card.code for card in ranked(given)] == ["C", "B", "A"]


def test_one_cure_that_answers_two_illnesses_is_one_card() -> None:
    trials = (Trial(fix="x", verdict="verified", speedup=1.4, cures=("A", "B")),)
    given = document(found("A", 0.05), found("B", 0.3), trials=trials)

    (card,) = ranked(given)

    assert card.code == "B"
    assert [other.code for other in card.alongside] == ["A"]


def test_the_joint_trial_belongs_to_no_card() -> None:
    trials = (Trial(fix="x + y", verdict="verified", speedup=2.0, cures=("A",)),)

    (card,) = ranked(document(found("A", 0.05), trials=trials))

    assert card.verified is None


def test_what_only_a_trial_can_tell_is_settled_when_every_trial_says_no() -> None:
    trials = (Trial(fix="x", verdict="rejected", speedup=0.9),)
    given = document(found("A", None, "x"), found("B", 0.2, "x"), trials=trials)

    assert [card.code for card in ranked(given) if card.settled] == ["A"]
    assert [card.code for card in open_cards(given)] == ["B"]


def test_places_too_small_to_matter_are_not_listed() -> None:
    shares = (0.2, 0.004, 0.03)
    findings = [Finding(message=str(share), stake=Stake(share=share)) for share in shares]

    (card,) = ranked(document(documents.found("A", "a", *findings)))

    assert card.finding.message == "0.2"
    assert [place.message for place in card.places] == ["0.03"]


def test_a_program_that_trains_is_offered_no_snippet_for_inference() -> None:
    trains = Machine(device="cpu", torch="2.13", cpu_flags=frozenset(), cpus=2, threads=2, has_root=True, training=True)
    trials = (
        Trial(fix="x", verdict="not_tried", reason=torchscript_script.FIX.applies(trains) or "", snippet="frozen"),
        Trial(fix="y", verdict="not_tried", reason="--no-verify asked for a diagnosis only", snippet="compiled"),
    )

    (card,) = ranked(document(found("A", 0.2, "x", "y"), trials=trials))

    assert [trial.snippet for trial in card.snippets] == ["compiled"]


def test_a_turned_down_cure_offers_no_snippet() -> None:
    trials = (
        Trial(fix="x", verdict="rejected", snippet="no"),
        Trial(fix="y", verdict="inconclusive", snippet="perhaps"),
        Trial(fix="z", verdict="not_tried", snippet="try"),
    )

    (card,) = ranked(document(found("A", 0.2, "x", "y", "z"), trials=trials))

    assert [trial.snippet for trial in card.snippets] == ["try"]


def test_a_snippet_has_the_optimizer_that_was_seen() -> None:
    pasted = "optimizer = torch.optim.AdamW(model.parameters(), fused=True)"
    trial = Trial(fix="x", verdict="verified", speedup=2.0, snippet=pasted, cures=("A",))

    def snippet(**evidence: object) -> str:
        finding = Finding(message="m", stake=Stake(share=0.1), evidence=evidence, cures=("x",))
        (card,) = ranked(document(documents.found("A", "a", finding), trials=(trial,)))
        return card.snippets[0].snippet

    assert snippet(optimizer="SGD") == "optimizer = torch.optim.SGD(model.parameters(), fused=True)"
    assert snippet() == pasted
    assert snippet(optimizer="no name()") == pasted
