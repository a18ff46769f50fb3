"""Answers: drawn once, capped, cut to public bounds and with noise where that was promised."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from discreet.outsourcing import mechanisms as answering
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.mechanisms import AnswerRules, Question, Unmeasured
from discreet.privacy import SecureNoise, SimulatedNoise
from discreet.validation import InvalidInput
from tests.chance import RARE, check_law
from tests.outsourcing.cases import (
    PROTECTED,
    answers_to,
    ask,
    bounds,
    change,
    contents,
    counted,
    forget_answers,
    kept,
    order_of,
    refused,
    release,
    table,
)


class Watched(SimulatedNoise):
    """Noise that differs each time it is drawn, as secure noise does, and is watched."""

    drawn: list[tuple[float, float]]

    def __init__(self, seed: object = None) -> None:
        super().__init__(None)

    def add_gaussian(self, values: np.ndarray, scale: float) -> np.ndarray:
        Watched.drawn.append((float(values[0]), scale))
        return super().add_gaussian(values, scale)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """What the noise source is handed: the values and the scales."""
    Watched.drawn = []
    monkeypatch.setattr(answering, "SimulatedNoise", Watched)
    return Watched.drawn


def measured(*given: tuple[int, float | None]) -> pd.DataFrame:
    ids = [f"Mrs Secret-{number:04d}" for number, _ in given]
    return pd.DataFrame({"citizen": ids, "expense": [value for _, value in given]})


class TestOutcomesAsTheyAre:
    def test_answers_pile_up_in_the_order_of_questions(self, key: Path) -> None:
        made = release(key)
        truth = table()["expense"].to_numpy()[order_of(key, made)]
        ask(key, made, 5, first=7)
        answers = ask(key, made, 2, 9, first=3)
        assert [(each.number, each.row) for each in answers] == [(3, 2), (4, 9), (7, 5)]
        assert [each.answer for each in answers] == truth[[2, 9, 5]].tolist()
        # Nothing new to ask for gives them all again.
        assert Curator(key).answer(made.release, []) == answers

    def test_outcomes_that_are_not_known_yet(self, key: Path) -> None:
        made = release(key, public=bounds(outcome=None))
        asked_for = tuple(f"Mrs Secret-{person:04d}" for person in order_of(key, made)[[4, 1]])
        before = contents(key)
        with pytest.raises(Unmeasured) as refusal:
            ask(key, made, 4, 1)
        assert contents(key) == before
        assert refusal.value.ids == asked_for
        columns = Curator(key).outcome_columns()
        assert columns == ("citizen", "outcome")
        frame = refusal.value.frame(columns)
        assert tuple(frame["citizen"]) == asked_for
        assert frame["outcome"].isna().all()
        frame["outcome"] = [1.5, None]
        # An outcome that is left empty cannot be measured.
        assert answers_to(key, made, 4, 1, outcomes=frame) == [1.5, None]
        assert answers_to(key, made, 4, 1) == [1.5, None]

    def test_a_batch_is_answered_whole_or_not_at_all(self, key: Path) -> None:
        made = release(key, table().assign(expense=[1.0, *[None] * 11]))
        order = order_of(key, made).tolist()
        with pytest.raises(Unmeasured, match=r"no outcome yet: 11 .*\.\.\.") as refusal:
            ask(key, made, *range(12))
        # Many people are not all listed.
        assert len(refusal.value.ids) == 11
        assert str(refusal.value).count("Secret") == 5
        assert kept(key).answers == ()
        assert answers_to(key, made, order.index(0)) == [1.0]

    def test_people_with_an_answer_are_not_measured_again(self, key: Path, tmp_path: Path) -> None:
        first = release(key, public=bounds(outcome=None))
        row = order_of(key, first).tolist().index(4)
        found = measured((4, 1.5)).rename(columns={"expense": "outcome"})
        assert answers_to(key, first, row, outcomes=found) == [1.5]
        Curator(key).publish(first.release, tmp_path / "first")
        second = release(key, public=bounds(outcome=None), again=True)
        assert second.release != first.release
        row, other = (order_of(key, second).tolist().index(person) for person in (4, 5))
        assert answers_to(key, second, row) == [1.5]
        with pytest.raises(Unmeasured) as refusal:
            ask(key, second, other, first=2)
        assert refusal.value.ids == ("Mrs Secret-0005",)

    def test_outcomes_measured_meanwhile_replace_those_of_the_table(self, key: Path) -> None:
        made = release(key)
        row = order_of(key, made).tolist().index(4)
        assert answers_to(key, made, row, outcomes=measured((4, 99.5))) == [99.5]
        # What was answered stays.
        assert answers_to(key, made, row, outcomes=measured((4, -1.0))) == [99.5]

    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            (measured((77, 1.0)), "not in the released table.*'Mrs Secret-0077'"),
            (measured((1, 1.0), (1, 2.0)), "2 times"),
            (measured((1, math.inf)), "is infinite"),
            (measured((1, 1.0))[["citizen"]], "'expense' is not in the table"),
            (measured((1, 1.0))[["expense"]], "'citizen' is not in the table"),
            (measured((1, 1.0)).assign(citizen=None), "is empty in row 2"),
            (measured((1, 1.0)).assign(expense="dear"), "held text"),
        ],
    )
    def test_bad_tables_of_outcomes(self, key: Path, frame: pd.DataFrame, message: str) -> None:
        made = release(key)
        with refused(message, key):
            ask(key, made, 1, outcomes=frame)


class TestQuestions:
    @pytest.mark.parametrize(
        ("questions", "message"),
        [
            ([Question(1, 12)], "has rows 0 to 11"),
            ([Question(1, -1)], "has rows 0 to 11"),
            ([Question(1, 3), Question(2, 3)], "asked for once"),
            ([Question(1, 3), Question(1, 4)], "it asked for row 3 before"),
            ([Question(1, 0), Question(2, 99)], "has rows"),
        ],
    )
    def test_bad_questions(self, key: Path, questions: list[Question], message: str) -> None:
        made = release(key)
        with refused(message, key):
            Curator(key).answer(made.release, questions)

    @pytest.mark.parametrize("repeats", [1, 3])
    def test_a_row_is_answered_so_often(self, key: Path, repeats: int) -> None:
        made = release(key, answers=AnswerRules(repeats))
        ask(key, made, *[2] * repeats)
        with refused("it asked for row 2 before", key):
            ask(key, made, 4)
        with refused("for once" if repeats == 1 else "for 3 times", key):
            ask(key, made, 2, first=repeats + 1)
        assert len(ask(key, made, 6, first=repeats + 1)) == repeats + 1

    def test_other_releases(self, key: Path, tmp_path: Path) -> None:
        made = release(key)
        stranger = release(tmp_path / "other", table(seed=1))
        for name in (stranger.release, "../" + made.release):
            with refused("is not one of the 1"):
                Curator(key).answer(name, [Question(1, 0)])


class TestProtectedAnswers:
    rules = AnswerRules(2, 1.5, 1e-6, (-2.0, 5.0))

    def test_clipped_outcomes_get_noise_of_the_promised_scale(
        self, key: Path, watched: list[tuple[float, float]]
    ) -> None:
        frame = table().assign(expense=[-50.0, 80.0, *np.linspace(-2.0, 5.0, 10)])
        made = release(key, frame, answers=self.rules)
        answers = answers_to(key, made, *range(12))
        assert made.answers is not None
        clipped = np.clip(frame["expense"].to_numpy(), -2.0, 5.0)[order_of(key, made)]
        assert watched == [(value, made.answers.scale) for value in clipped.tolist()]
        assert not set(answers) & set(clipped.tolist())

    def test_whoever_cannot_be_measured_looks_like_anybody(
        self, key: Path, watched: list[tuple[float, float]]
    ) -> None:
        """That a person cannot be measured is a fact about them: an answer is given, as from the
        middle of the bounds."""
        made = release(key, answers=self.rules)
        nobody = measured(*[(number, None) for number in range(12)])
        answers = answers_to(key, made, 3, 4, outcomes=nobody)
        assert [value for value, _ in watched] == [1.5, 1.5]
        assert None not in answers

    @pytest.mark.chance(RARE)
    @pytest.mark.parametrize("secure", [False, True])
    def test_the_law_of_an_answer(self, key: Path, secure: bool) -> None:
        if secure:
            pytest.importorskip("opendp")
        count, seed = (300, None) if secure else (1500, 5)
        noise = SecureNoise() if secure else SimulatedNoise(5)
        frame = table(count).assign(expense=4.0)
        made = release(key, frame, noise=noise, seed=seed, answers=self.rules)
        once = AnswerRules(1, 1.5, 1e-6, (-2.0, 5.0)).calibrated(noise)
        assert made.answers is not None
        assert once is not None
        answers = np.array(answers_to(key, made, *range(count)))
        check_law((answers - 4.0) / made.answers.scale, stats.norm.cdf)
        assert len(np.unique(answers)) == count
        # Two answers about each person cost what was promised for both.
        assert made.answers.scale == pytest.approx(math.sqrt(2.0) * once.scale)

    def test_neighbours_differ_in_one_answer_by_the_width_of_the_bounds(
        self, tmp_path: Path, watched: list[tuple[float, float]]
    ) -> None:
        handed = []
        for place, cost in enumerate((-1e9, 1e9)):
            key, frame = tmp_path / f"key{place}", table()
            frame.loc[6, "expense"] = cost
            made = release(key, frame, answers=self.rules)
            watched.clear()
            ask(key, made, *np.argsort(order_of(key, made)).tolist())
            handed.append([value for value, _ in watched])
        assert made.answers is not None
        gaps = np.abs(np.subtract(*handed))
        assert np.flatnonzero(gaps).tolist() == [6]
        assert gaps[6] == made.answers.sensitivity == 7.0

    def test_simulated_answers_are_repeatable(self, key: Path) -> None:
        """Simulated noise comes from the seed, the release, the person and the place."""
        made = release(key, answers=self.rules)
        first = answers_to(key, made, 3, 3)
        forget_answers(key)
        assert answers_to(key, made, 3, 3) == first

    @pytest.mark.chance(0)
    def test_a_key_cannot_make_secure_answers_simulated(self, key: Path) -> None:
        """What the certificate says decides where noise comes from, not a seed in the key."""
        pytest.importorskip("opendp")
        made = release(key, noise=SecureNoise(), seed=None, answers=self.rules)
        change(key, "UPDATE releases SET seed = '5'")
        first = answers_to(key, made, 3)
        forget_answers(key)
        assert answers_to(key, made, 3) != first

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"repeats": 0}, "repeats was 0"),
            ({"repeats": 1.5}, "repeats was 1.5"),
            ({"epsilon": 0.0}, "epsilon of answers was 0"),
            ({"delta": 1.0}, "delta of answers was 1"),
            ({"bounds": (1.0, 1.0)}, "lower must be below"),
            ({"bounds": (2.0, 1.0)}, "lower must be below"),
            ({"bounds": (0.0, math.nan)}, "a bound of answers was nan"),
            ({"bounds": (-1e308, 1e308)}, "lower must be below"),
            ({"bounds": None}, "bounds = None; protected answers need all three"),
            ({"delta": None, "bounds": None}, "protected answers need all three"),
            ({"epsilon": None, "delta": None}, "protected answers need all three"),
        ],
    )
    def test_bad_rules(self, change: dict[str, Any], message: str) -> None:
        rules = {"epsilon": 1.0, "delta": 1e-6, "bounds": (0.0, 1.0), "repeats": 1, **change}
        with pytest.raises(InvalidInput, match=message):
            AnswerRules(**rules).calibrated(SimulatedNoise(0))


class TestSeveralReleases:
    def test_a_person_answers_so_often_for_all_releases_together(
        self, key: Path, watched: list[tuple[float, float]]
    ) -> None:
        rules = AnswerRules(2, 1.0, 1e-6, (0.0, 10.0))
        first = release(key, answers=rules)
        one = answers_to(key, first, *range(12))
        second = release(key, seed=3, answers=rules, again=True)
        to_second = np.argsort(order_of(key, second))[order_of(key, first)].tolist()
        # Once more for everybody, and then the same again.
        two = answers_to(key, second, *to_second)
        assert len(watched) == 24
        assert not set(one) & set(two)
        assert answers_to(key, second, *to_second, first=13)[12:] == two
        assert len(watched) == 24
        assert [given.turn for given in kept(key).answers] == [0] * 12 + [1] * 24
        assert counted(key, "draws") == 24

    @pytest.mark.parametrize(
        "rules",
        [
            None,
            AnswerRules(2, 1.0, 1e-6, (0.0, 10.0)),
            AnswerRules(1, 0.5, 1e-6, (0.0, 10.0)),
            AnswerRules(1, 1.0, 1e-7, (0.0, 10.0)),
            AnswerRules(1, 1.0, 1e-6, (0.0, 11.0)),
        ],
    )
    def test_rules_stay_those_of_the_first_release(
        self, key: Path, rules: AnswerRules | None
    ) -> None:
        """Or the promise about row and outcome would leave earlier answers out."""
        for before, after in ((PROTECTED, rules), (rules, PROTECTED)):
            folder = key.with_name(f"key {before is PROTECTED}")
            release(folder, answers=before)
            with refused("other rules for answers", folder):
                release(folder, answers=after, again=True)

    def test_unprotected_answers_may_be_asked_for_more_often_later(self, key: Path) -> None:
        """And the numbers of questions belong to their release."""
        ask(key, release(key), 3)
        answers = ask(key, release(key, answers=AnswerRules(3), again=True), 4, 4, 4)
        assert [each.row for each in answers] == [4, 4, 4]
        assert len({each.answer for each in answers}) == 1
