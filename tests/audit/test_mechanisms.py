"""Mechanisms: all of them are audited, and too little noise is noticed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from discreet.audit import mechanisms, outsourced
from discreet.audit.checks import Check
from discreet.audit.mechanisms import drawn_as_said, mechanism_checks
from discreet.audit.outsourced import outsourced_checks
from discreet.audit.replay import Claim, Promise
from discreet.audit.runner import all_checks, checks_named
from discreet.outsourcing.mechanisms import AnswerNoise
from discreet.privacy import SimulatedNoise, guarantee
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response
from discreet.privacy.prefix_sums import MECHANISMS, BinaryTree, SeparateEpochs
from discreet.privacy.selection import ExponentialMechanism
from discreet.privacy.vectors import VectorReport
from discreet.validation import InvalidInput
from tests.chance import RARE

from .broken import finding

HONEST = [*mechanism_checks(), *outsourced_checks()]
# What takes seconds. CI replays all of them: discreet audit all --trials 0.
_LONG = ("outsourced, two releases", "outsourced, answers twice", "noise, secure")
_LONG += ("outsourced, secure", "signed_subset_selection, 2 of 4", "exponential, integers")
_LONG += ("shuffled, two of three bins", "randomness, library", "reports, independent")


def named(name: str) -> Check:
    (check,) = [check for check in HONEST if check.name == name]
    return check


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Sources are tested at 10^-9 or so; what is played back does not depend on what they draw."""
    chance = RARE if name == "noise, secure" else 0.0
    return [pytest.mark.slow] * (name in _LONG) + [pytest.mark.chance(chance)] * ("secure" in name)


@pytest.mark.parametrize(
    "check", [pytest.param(one, id=one.name, marks=marks(one.name)) for one in HONEST]
)
def test_exact_replay_reaches_the_certificate_and_not_more(check: Check) -> None:
    if "secure" in check.name:
        pytest.importorskip("opendp")
    found = finding(check)
    assert found.verdict == "holds", found.fault
    if check.name.startswith("composition"):  # certificates of mixed events are upper bounds
        assert found.exact > 0.85 * found.epsilon
    elif check.name.startswith("shuffled"):  # the bound is for all mechanisms
        assert found.exact > 0.8 * found.epsilon
    elif check.name != "outsourced, projected":  # the longest direction leaves the box
        assert found.exact == pytest.approx(found.epsilon, abs=1e-6)


def test_every_mechanism_is_audited() -> None:
    names = {check.name for check in HONEST}
    assert {f"prefix_sums, {name}" for name in MECHANISMS} <= names
    kinds = [k for k in VectorReport.__subclasses__() if k.__module__ == VectorReport.__module__]
    assert len(kinds) == 2  # PrivUnit (with l2_ball) and GaussianVector
    assert {"privunit", "l2_ball", "gaussian_vector"} <= names


def test_a_forgotten_level_of_a_tree_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    norm = BinaryTree(12).column_norm
    smaller = np.sqrt(norm**2 - 1.0)
    monkeypatch.setattr(BinaryTree, "column_norm", property(lambda self: smaller))
    found = mechanisms.stream_design(BinaryTree(12), BinaryTree(50)).exact()
    assert found.broken


def test_a_stream_that_shows_its_sums_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = mechanisms.PrivateStream.release

    def leaking(self: Any, row: Any, people: int = 1) -> Any:
        estimate = take(self, row, people)
        return replace(estimate, values=estimate.values + 1e-12 * np.asarray(row))

    monkeypatch.setattr(mechanisms.PrivateStream, "release", leaking)
    assert "depends on the data" in finding(named("prefix_sums, independent")).fault


def test_too_large_an_epsilon_is_noticed_in_finite_mechanisms() -> None:
    exact = mechanisms.enumerated(k_ary_response(3, 1.1))
    assert exact.epsilon == pytest.approx(1.1)
    check = Check("tampered", "mechanism", "local", lambda: replace(exact, claim=Claim(1.0)))
    assert finding(check).verdict == "BROKEN"
    wrong, claim = SignedSubsetSelection(16, 3, 1.2), Claim(1.0)
    ends = [("one", mechanisms._held(wrong, 0, 1)), ("other", mechanisms._held(wrong, 1, -1))]
    design = replace(mechanisms.subset_design([ends]), promise=lambda *data: Promise(claim, claim))
    assert finding(design.check).verdict == "BROKEN"


def test_a_sentence_that_says_less_than_its_numbers_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guarantee, "rounded_up", lambda value: f"{0.9 * value:.4g}")
    assert "sentence says less" in finding(named("composition, rounds")).fault


def test_an_option_that_is_drawn_too_often_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.array([[1.0, 0.0, -1.0]])
    assert drawn_as_said(ExponentialMechanism(1.0), scores) == ""
    select = ExponentialMechanism.select
    monkeypatch.setattr(
        ExponentialMechanism,
        "select",
        lambda self, scores, ranges, noise: select(self, 1.01 * scores, ranges, noise),
    )
    assert "are drawn with" in drawn_as_said(ExponentialMechanism(1.0), scores)


def test_selections_that_draw_nothing_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.array([[0.3, 0.0, -1.0]])
    best: Any = lambda self, scores, ranges, noise: scores.argmax(axis=1)  # noqa: E731
    monkeypatch.setattr(ExponentialMechanism, "select", best)
    assert "are drawn with" in drawn_as_said(ExponentialMechanism(1.0), scores)


@pytest.mark.parametrize("change", ["unclipped", "plain"])
def test_answers_that_leave_as_they_are_are_noticed(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = AnswerNoise.draw

    def tampered(noise: AnswerNoise, outcome: float, words: str) -> float:
        if change == "plain":
            return outcome
        return draw(replace(noise, lower=-1e3, upper=1e3), outcome, words)

    monkeypatch.setattr(AnswerNoise, "draw", tampered)
    assert finding(named("outsourced, answers")).verdict == "BROKEN"


def test_outcomes_below_their_bounds_that_are_not_cut_are_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cut_above(answer: AnswerNoise, outcome: float, words: str) -> float:
        wide = replace(answer, lower=-1e3)
        return draw(wide if outcome < answer.lower else answer, outcome, words)

    draw = AnswerNoise.draw
    monkeypatch.setattr(AnswerNoise, "draw", cut_above)
    assert finding(named("outsourced, one row")).verdict == "BROKEN"


def test_a_row_that_is_released_alone_without_noise_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = SimulatedNoise.add_gaussian

    def plain_alone(noise: SimulatedNoise, values: Any, scale: float) -> Any:
        return values if values.shape[0] == 1 and values.ndim == 2 else add(noise, values, scale)

    monkeypatch.setattr(SimulatedNoise, "add_gaussian", plain_alone)
    assert finding(named("outsourced, one row")).verdict == "BROKEN"
    assert finding(named("outsourced, rows")).verdict == "holds"


def test_neighbouring_rows_lie_in_the_box_and_as_far_apart_as_they_may() -> None:
    for radius in (0.5, None):
        wish = outsourced.TableSetup(radius)
        reach = float(np.linalg.norm(outsourced._EXTENT)) if radius is None else radius
        pairs = outsourced.neighbours(wish)
        for one, two in pairs:
            for row in (one, two):
                assert ((row >= 0.0) & (row <= outsourced._EXTENT)).all()
            assert np.linalg.norm(one - two) <= reach
        far = max(np.linalg.norm(one - two) for one, two in pairs)
        assert far == pytest.approx(reach, abs=1e-5)


def test_names() -> None:
    everything = [check.name for check in all_checks()]
    assert len(set(everything)) == len(everything)
    assert [check.name for check in checks_named("all")] == everything
    kinds = ("mechanisms", "learners", "surfaces", "known-broken")
    assert sum(len(checks_named(kind)) for kind in kinds) == len(everything)
    assert {check.name for check in checks_named("prefix_sums")} == {
        f"prefix_sums, {name}" for name in (*MECHANISMS, SeparateEpochs.name)
    }
    assert [check.name for check in checks_named("usca, joint")] == ["usca, joint"]
    with pytest.raises(InvalidInput, match=r"'nobody'.*study file.*gp_ucb"):
        checks_named("nobody")
