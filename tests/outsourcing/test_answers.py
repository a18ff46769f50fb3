"""Answers: drawn once, capped, cut to public bounds and with noise where that was promised."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from discreet.outsourcing import answers as answering
from discreet.outsourcing.answers import AnswerRules, GivenAnswer, Question, Unmeasured
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.key import read_key
from discreet.privacy import SecureNoise, SimulatedNoise
from discreet.validation import InvalidInput
from tests.chance import RARE, check_law
from tests.learners.spy import Spy
from tests.outsourcing.cases import (
    PROTECTED,
    bounds,
    change,
    contents,
    counted,
    forget_answers,
    release,
    table,
)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "key"


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


def ask(
    key: Path,
    certificate: Certificate,
    *rows: int,
    first: int = 1,
    outcomes: pd.DataFrame | None = None,
) -> list[Question]:
    questions = [Question(first + i, row) for i, row in enumerate(rows)]
    return Curator(key).answer(certificate.release, questions, outcomes)


def values(answers: list[Question]) -> list[float | None]:
    return [one.answer for one in answers]


def people(key: Path, certificate: Certificate) -> np.ndarray:
    """(n,) which of the people, in the order of their ids, each released row is."""
    found = read_key(key)
    assert found is not None
    return found.find(certificate.release).order


def logged(key: Path) -> tuple[GivenAnswer, ...]:
    found = read_key(key)
    assert found is not None
    return found.answers


def measured(*given: tuple[int, float | None]) -> pd.DataFrame:
    ids = [f"Mrs Secret-{number:04d}" for number, _ in given]
    return pd.DataFrame({"citizen": ids, "expense": [value for _, value in given]})


class TestOutcomesAsTheyAre:
    def test_the_right_people_are_looked_up(self, key: Path) -> None:
        made = release(key)
        truth = table()["expense"].to_numpy()[people(key, made)]
        assert values(ask(key, made, *range(12))) == truth.tolist()

    def test_answers_pile_up_in_the_order_of_questions(self, key: Path) -> None:
        made = release(key)
        truth = table()["expense"].to_numpy()[people(key, made)]
        ask(key, made, 5, first=7)
        found = ask(key, made, 2, 9, first=3)
        assert [(one.number, one.row) for one in found] == [
            (3, 2),
            (4, 9),
            (7, 5),
        ]
        assert values(found) == truth[[2, 9, 5]].tolist()
        # Nothing new to ask for gives them all again.
        assert Curator(key).answer(made.release, []) == found

    def test_outcomes_that_are_not_known_yet(self, key: Path) -> None:
        made = release(key, public=bounds(outcome=None))
        order = people(key, made)
        before = contents(key)
        with pytest.raises(Unmeasured) as refusal:
            ask(key, made, 4, 1)
        assert contents(key) == before
        asked_for = tuple(f"Mrs Secret-{order[row]:04d}" for row in (4, 1))
        assert refusal.value.ids == asked_for
        columns = Curator(key).outcome_columns()
        assert columns == ("citizen", "outcome")
        frame = refusal.value.frame(columns)
        assert tuple(frame["citizen"]) == asked_for
        assert frame["outcome"].isna().all()
        frame["outcome"] = [1.5, None]
        found = ask(key, made, 4, 1, outcomes=frame)
        # An outcome that is left empty cannot be measured.
        assert values(found) == [1.5, None]
        assert values(ask(key, made, 4, 1)) == [1.5, None]

    def test_a_batch_is_answered_whole_or_not_at_all(self, key: Path) -> None:
        made = release(key, table().assign(expense=[1.0, *[None] * 11]))
        order = people(key, made).tolist()
        known, unknown = order.index(0), order.index(5)
        with pytest.raises(Unmeasured) as refusal:
            ask(key, made, known, unknown)
        assert refusal.value.ids == ("Mrs Secret-0005",)
        assert logged(key) == ()
        assert values(ask(key, made, known)) == [1.0]

    def test_many_people_are_not_all_listed(self, key: Path) -> None:
        made = release(key, public=bounds(outcome=None))
        with pytest.raises(Unmeasured, match=r"no outcome yet: 12 .*\.\.\.") as refusal:
            ask(key, made, *range(12))
        assert len(refusal.value.ids) == 12
        assert str(refusal.value).count("Secret") == 5

    def test_outcomes_measured_meanwhile_replace_those_of_the_table(self, key: Path) -> None:
        made = release(key)
        row = people(key, made).tolist().index(4)
        assert values(ask(key, made, row, outcomes=measured((4, 99.5)))) == [99.5]

    def test_what_was_answered_stays(self, key: Path) -> None:
        made = release(key)
        first = ask(key, made, 4)
        everybody = measured(*[(number, -1.0) for number in range(12)])
        assert ask(key, made, 4, outcomes=everybody) == first

    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            (measured((77, 1.0)), "not in the released table.*'Mrs Secret-0077'"),
            (measured((1, 1.0), (1, 2.0)), "2 times"),
            (measured((1, math.inf)), "is infinite"),
            (pd.DataFrame({"citizen": ["Mrs Secret-0001"]}), "'expense' is not in the table"),
            (pd.DataFrame({"expense": [1.0]}), "'citizen' is not in the table"),
            (pd.DataFrame({"citizen": [None], "expense": [1.0]}), "is empty in row 0"),
            (
                pd.DataFrame({"citizen": ["Mrs Secret-0001"], "expense": ["dear"]}),
                "held text",
            ),
        ],
    )
    def test_bad_tables_of_outcomes(self, key: Path, frame: pd.DataFrame, message: str) -> None:
        made = release(key)
        before = contents(key)
        with pytest.raises(InvalidInput, match=message):
            ask(key, made, 1, outcomes=frame)
        assert contents(key) == before


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
        before = contents(key)
        with pytest.raises(InvalidInput, match=message):
            Curator(key).answer(made.release, questions)
        assert contents(key) == before

    def test_a_number_stands_for_one_row(self, key: Path) -> None:
        made = release(key, answers=AnswerRules(5))
        ask(key, made, 3)
        with pytest.raises(InvalidInput, match="it asked for row 3 before"):
            ask(key, made, 4)
        assert len(logged(key)) == 1

    @pytest.mark.parametrize("repeats", [1, 3])
    def test_a_row_is_answered_so_often(self, key: Path, repeats: int) -> None:
        made = release(key, answers=AnswerRules(repeats))
        ask(key, made, *[2] * repeats)
        with pytest.raises(InvalidInput, match="for once" if repeats == 1 else "for 3 times"):
            ask(key, made, 2, first=repeats + 1)
        assert len(ask(key, made, 6, first=repeats + 1)) == repeats + 1

    def test_other_releases(self, key: Path, tmp_path: Path) -> None:
        made = release(key)
        stranger = release(tmp_path / "other", table(seed=1))
        with pytest.raises(InvalidInput, match="is not one of the 1"):
            ask(key, stranger, 1)
        with pytest.raises(InvalidInput, match="is not one of the 1"):
            Curator(key).answer("../" + made.release, [Question(1, 0)])


class TestProtectedAnswers:
    rules = AnswerRules(2, 1.5, 1e-6, (-2.0, 5.0))

    def test_clipped_outcomes_get_noise_of_the_promised_scale(
        self, key: Path, watched: list[tuple[float, float]]
    ) -> None:
        frame = table().assign(expense=[-50.0, 80.0, *np.linspace(-2.0, 5.0, 10)])
        made = release(key, frame, answers=self.rules)
        found = values(ask(key, made, *range(12)))
        assert made.answers is not None
        clipped = np.clip(frame["expense"].to_numpy(), -2.0, 5.0)[people(key, made)]
        assert [value for value, _ in watched] == clipped.tolist()
        assert {scale for _, scale in watched} == {made.answers.scale}
        assert not set(found) & set(clipped.tolist())

    def test_whoever_cannot_be_measured_looks_like_anybody(
        self, key: Path, watched: list[tuple[float, float]]
    ) -> None:
        """That a person cannot be measured is a fact about them: an answer is given, as from the
        middle of the bounds."""
        made = release(key, public=bounds(outcome=None), answers=self.rules)
        nobody = pd.DataFrame(
            {"citizen": [f"Mrs Secret-{i:04d}" for i in range(12)], "outcome": [None] * 12}
        )
        found = values(ask(key, made, 3, 4, outcomes=nobody))
        assert [value for value, _ in watched] == [1.5, 1.5]
        assert None not in found

    def test_an_answer_is_drawn_once(self, key: Path, watched: list[tuple[float, float]]) -> None:
        made = release(key, answers=self.rules)
        first = ask(key, made, 3, 3, 5)
        assert len(set(values(first))) == 3
        for _ in range(3):
            assert ask(key, made, 3, 3, 5) == first
        assert ask(key, made, 7, first=4)[:3] == first
        assert len(watched) == 4

    @pytest.mark.chance(RARE)
    @pytest.mark.parametrize("secure", [False, True])
    def test_the_law_of_an_answer(self, tmp_path: Path, secure: bool) -> None:
        if secure:
            pytest.importorskip("opendp")
        count = 300 if secure else 1500
        frame = table(count).assign(expense=4.0)
        made = release(
            tmp_path / "key",
            frame,
            noise=SecureNoise() if secure else SimulatedNoise(5),
            answers=self.rules,
            seed=None if secure else 5,
        )
        assert made.answers is not None
        found = np.array(values(ask(tmp_path / "key", made, *range(count))), dtype=float)
        check_law((found - 4.0) / made.answers.scale, stats.norm.cdf)
        assert len(np.unique(found)) == count
        # Two answers about each person cost what was promised for both.
        assert made.answers.scale == pytest.approx(
            math.sqrt(2.0)
            * AnswerRules(1, 1.5, 1e-6, (-2.0, 5.0))
            .calibrated(SecureNoise() if secure else SimulatedNoise(0))
            .scale  # type: ignore[union-attr]
        )

    def test_neighbours_differ_in_one_answer_by_the_width_of_the_bounds(
        self, tmp_path: Path, watched: list[tuple[float, float]]
    ) -> None:
        handed = []
        for place, cost in enumerate((-1e9, 1e9)):
            frame = table()
            frame.loc[6, "expense"] = cost
            made = release(tmp_path / f"key{place}", frame, answers=self.rules)
            rows = np.argsort(people(tmp_path / f"key{place}", made)).tolist()
            watched.clear()
            ask(tmp_path / f"key{place}", made, *rows)
            handed.append([value for value, _ in watched])
        assert made.answers is not None
        gaps = np.abs(np.subtract(*handed))
        assert np.flatnonzero(gaps).tolist() == [6]
        assert gaps[6] == made.answers.sensitivity == 7.0

    def test_simulated_answers_are_repeatable(self, tmp_path: Path) -> None:
        """Simulated noise comes from the seed, the release, the person and the place."""
        made = release(tmp_path / "key", answers=self.rules)
        one = values(ask(tmp_path / "key", made, 3, 3))
        forget_answers(tmp_path / "key")
        assert values(ask(tmp_path / "key", made, 3, 3)) == one

    @pytest.mark.chance(0)
    def test_a_key_cannot_make_secure_answers_simulated(self, tmp_path: Path) -> None:
        """What the certificate says decides where noise comes from, not a seed in the key."""
        pytest.importorskip("opendp")
        key = tmp_path / "key"
        made = release(key, noise=SecureNoise(), seed=None, answers=self.rules)
        change(key, "UPDATE releases SET seed = '5'")
        found = set()
        for _ in range(2):
            found.add(ask(key, made, 3)[0].answer)
            forget_answers(key)
        assert len(found) == 2


class TestSeveralReleases:
    def test_a_person_answers_so_often_for_all_releases_together(
        self, key: Path, watched: list[tuple[float, float]]
    ) -> None:
        rules = AnswerRules(2, 1.0, 1e-6, (0.0, 10.0))
        first = release(key, answers=rules)
        one = ask(key, first, *range(12))
        second = release(key, noise=Spy(3), seed=3, answers=rules, again=True)
        to_second = np.argsort(people(key, second))[people(key, first)]
        # Once more for everybody, and then the same again.
        two = ask(key, second, *to_second.tolist())
        assert len(watched) == 24
        assert not set(values(one)) & set(values(two))
        three = ask(key, second, *to_second.tolist(), first=13)
        assert values(three)[12:] == values(two)
        assert len(watched) == 24
        assert [given.turn for given in logged(key)] == [0] * 12 + [1] * 24
        assert counted(key, "draws") == 24

    def test_answers_of_one_release_hold_for_the_next(self, key: Path) -> None:
        first = release(key, answers=PROTECTED)
        one = ask(key, first, *range(12))
        second = release(key, noise=Spy(3), seed=3, answers=PROTECTED, again=True)
        to_second = np.argsort(people(key, second))[people(key, first)]
        assert values(ask(key, second, *to_second.tolist())) == values(one)

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
            with pytest.raises(InvalidInput, match="other rules for answers"):
                release(folder, answers=after, again=True)
            assert len(read_key(folder).drawn) == 1  # type: ignore[union-attr]

    def test_unprotected_answers_may_be_asked_for_more_often_later(self, key: Path) -> None:
        release(key)
        made = release(key, answers=AnswerRules(3), again=True)
        found = values(ask(key, made, 4, 4, 4))
        assert found[0] == found[1] == found[2]

    def test_numbers_of_questions_belong_to_their_release(self, key: Path) -> None:
        first = release(key)
        second = release(key, noise=Spy(3), seed=3, again=True)
        ask(key, first, 3)
        found = ask(key, second, 5)
        assert [one.row for one in found] == [5]
