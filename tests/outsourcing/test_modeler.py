"""The modeler: which rows it asks for, and that interruptions and batches do not change that."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.modeler import (
    ACQUISITIONS,
    Acquisition,
    AcquisitionName,
    Modeler,
    Portfolio,
    PublishedUCB,
    UpperConfidence,
)
from discreet.outsourcing.posterior import RowPrior
from discreet.validation import InvalidInput

PRIOR = RowPrior((0.25, 0.4), 1.0, 0.01, mean=0.2)
LINE = np.linspace(0.0, 1.0, 12)
POINTS = np.stack(np.meshgrid(LINE, LINE), axis=-1).reshape(-1, 2)


def distance(x: float, y: float) -> np.ndarray:
    """(n,) squared distances of all rows from a place."""
    return ((POINTS - [x, y]) ** 2).sum(axis=1)


# An easy function with its maximum, 1, at (0.6, 0.3) and a lower hill elsewhere.
OUTCOMES = np.exp(-8.0 * distance(0.6, 0.3)) + 0.4 * np.exp(-20.0 * distance(0.1, 0.9))

priors = pytest.mark.parametrize("prior", [None, PRIOR], ids=["learnt", "given"])
rules = pytest.mark.parametrize("name", ACQUISITIONS)


def beliefs(scale: float = 0.05, seed: int = 77) -> RowBeliefs:
    noisy = POINTS + np.random.default_rng(seed).normal(0.0, scale, POINTS.shape)
    return RowBeliefs.within(noisy, scale, np.zeros(2), np.ones(2))


def play(modeler: Modeler, batches: list[int], outcomes: np.ndarray = OUTCOMES) -> list[int]:
    """Ask and answer in batches; the rows in order."""
    asked: list[int] = []
    for size in batches:
        rows = modeler.ask(size)
        asked += rows.tolist()
        modeler.tell(rows, outcomes[rows])
    return asked


def assert_alike(modeler: Modeler, other: Modeler) -> None:
    """Both believe the same, and wait for the same rows."""
    assert modeler.waiting == other.waiting
    assert modeler.prior == other.prior
    for mine, theirs in zip(modeler.predict(), other.predict(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


@pytest.mark.parametrize(
    "rule", [UpperConfidence(), UpperConfidence(1.0), PublishedUCB()], ids=repr
)
@pytest.mark.parametrize("size", [2, 7, 40])
def test_a_batch_is_a_sequence_with_believed_answers(rule: Acquisition, size: int) -> None:
    together, single = (Modeler(beliefs(), PRIOR, rule) for _ in range(2))
    for modeler in (together, single):
        play(modeler, [1] * 5)
    batch = together.ask(size)
    alone = []
    for _ in range(size):
        (row,) = single.ask(1)
        alone.append(int(row))
        mean, _ = single.predict()
        single.tell([row], [mean[row]])
    assert batch.tolist() == alone
    assert len(set(alone)) == size
    np.testing.assert_allclose(together.predict()[1], single.predict()[1], rtol=1e-9)


@rules
@priors
def test_resumed_is_uninterrupted(name: AcquisitionName, prior: RowPrior | None) -> None:
    def resumed(rows: list[int], waiting: list[int]) -> Modeler:
        """A modeler that is told everything at once."""
        again = Modeler(beliefs(), prior, ACQUISITIONS[name](), seed=3)
        if rows:
            again.tell(rows, OUTCOMES[rows])
        again.expect(np.array(waiting, dtype=np.int64))
        return again

    whole, rows = resumed([], []), []
    for size in [4, 1, 3, 5]:
        # Taken up again before every batch, from nothing but rows and answers.
        assert resumed(rows, []).ask(size).tolist() == whole.ask(size).tolist()
        asked = list(whole.waiting)
        # And in the middle of a batch, when some answers are there.
        whole.tell(asked[:2], OUTCOMES[asked[:2]])
        assert_alike(resumed(rows + asked[:2], asked[2:]), whole)
        whole.tell(asked[2:], OUTCOMES[asked[2:]])
        rows += asked
    assert whole.answered == 13


def test_it_does_not_matter_in_which_batches_and_order_answers_come() -> None:
    for prior in (None, PRIOR):
        one, other = (Modeler(beliefs(), prior, seed=1) for _ in range(2))
        rows = play(one, [1] * 14)
        other.tell(rows[:9], OUTCOMES[rows[:9]])
        other.tell(rows[9:], OUTCOMES[rows[9:]])
        assert other.prior == one.prior
        batch = one.ask(6)
        assert other.ask(6).tolist() == batch.tolist()
    # Where nothing is learnt anew, not even the order of answers matters.
    one.tell(batch[:4], OUTCOMES[batch[:4]])
    for row in batch[[3, 0, 2, 1]]:
        other.tell([row], [OUTCOMES[row]])
    assert_alike(one, other)


def test_minimizing_is_maximizing_negated_outcomes() -> None:
    for prior, negated in ((None, None), (PRIOR, RowPrior((0.25, 0.4), 1.0, 0.01, mean=-0.2))):
        high = Modeler(beliefs(), prior, seed=5)
        low = Modeler(beliefs(), negated, seed=5, minimize=True)
        assert play(high, [3] * 8) == play(low, [3] * 8, -OUTCOMES)
        np.testing.assert_array_equal(low.predict()[0], -high.predict()[0])
        np.testing.assert_array_equal(low.predict()[1], high.predict()[1])
        assert low.prior.mean == -high.prior.mean
        best, mirrored = high.best(), low.best()
        assert best is not None
        assert mirrored is not None
        assert best.row == mirrored.row
        assert (best.answer, best.expected) == (-mirrored.answer, -mirrored.expected)
        assert low.expected_gain() == high.expected_gain()


@pytest.mark.parametrize("repeats", [1, 3])
def test_rows_are_asked_for_as_often_as_is_allowed_and_no_more(repeats: int) -> None:
    modeler = Modeler(RowBeliefs.exact(POINTS[:4]), RowPrior(0.3, noise=0.5), repeats=repeats)
    asked = modeler.ask(3).tolist()
    modeler.tell(asked[:1], [0.0])
    asked += modeler.ask(100).tolist()
    assert Counter(asked) == dict.fromkeys(range(4), repeats)
    assert modeler.ask(5).size == 0
    modeler.tell(asked[1:], np.zeros(len(asked) - 1))
    assert modeler.ask(1).size == 0
    assert modeler.expected_gain() == 0.0


def test_rows_that_cannot_be_measured_are_never_asked_for_again() -> None:
    modeler, fresh = (Modeler(beliefs(), PRIOR, repeats=5) for _ in range(2))
    rows = modeler.ask(5).tolist()
    left = [rows[0], *rows[3:]]
    modeler.close(rows[1:3])
    assert modeler.waiting == tuple(left)
    for each in (modeler, fresh):
        each.tell(left, OUTCOMES[left])
    # Closed before or after: the same.
    fresh.close(rows[1:3])
    later = play(modeler, [10] * 4)
    assert not set(later) & set(rows[1:3])
    assert play(fresh, [10] * 4) == later


def test_warm_up_draws_rows_by_the_number_of_the_question() -> None:
    modeler, single = (Modeler(beliefs(), seed=9) for _ in range(2))
    assert modeler.warm_up == 6
    assert modeler.best() is None
    first = modeler.ask(6)
    assert len(set(first.tolist())) == 6
    assert [int(single.ask(1)[0]) for _ in range(6)] == first.tolist()
    assert Modeler(beliefs(), seed=10).ask(6).tolist() != first.tolist()
    modeler.tell(first[:5], OUTCOMES[first[:5]])
    assert modeler.expected_gain() == math.inf
    before = modeler.prior
    modeler.tell(first[5:], OUTCOMES[first[5:]])
    assert modeler.prior != before
    assert math.isfinite(modeler.expected_gain())
    assert Modeler(beliefs(), PRIOR).warm_up == 0


@rules
@priors
@pytest.mark.parametrize("batch", [1, 4])
def test_it_finds_the_top_of_a_hill(
    name: AcquisitionName, prior: RowPrior | None, batch: int
) -> None:
    modeler = Modeler(RowBeliefs.exact(POINTS), prior, ACQUISITIONS[name]())
    play(modeler, [batch] * (32 // batch))
    best = modeler.best()
    assert best is not None
    assert best.answer == OUTCOMES[best.row] == OUTCOMES.max()
    assert best.expected == pytest.approx(best.answer, abs=0.2)


@pytest.mark.slow
def test_it_finds_the_top_through_noise() -> None:
    """Rows off by a twelfth of the box and noisy answers: better than the same at random."""
    reached = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        noisy = RowBeliefs.within(
            POINTS + rng.normal(0.0, 0.08, POINTS.shape), 0.08, np.zeros(2), np.ones(2)
        )
        modeler = Modeler(noisy, known_noise=0.01, repeats=2, seed=seed)
        for _ in range(15):
            rows = modeler.ask(2)
            modeler.tell(rows, OUTCOMES[rows] + rng.normal(0.0, 0.1, 2))
        assert modeler.prior.noise >= 0.01
        best = modeler.best()
        assert best is not None
        reached.append(OUTCOMES[best.row])
    # Of 30 rows drawn at random, the one with the highest answer has .89 on average.
    assert np.mean(reached) > 0.91


def test_rules_are_given_the_deviation_they_ask_for() -> None:
    """All of it, or what rows share with others."""
    seen: dict[bool, np.ndarray] = {}

    class Watching(UpperConfidence):
        def scores(
            self, mean: np.ndarray, deviation: np.ndarray, best: float, question: int
        ) -> np.ndarray:
            seen[self.shared(question)] = deviation.copy()
            return super().scores(mean, deviation, best, question)

    class Sharing(Watching):
        def shared(self, question: int) -> bool:
            return True

    class Whole(Watching):
        def shared(self, question: int) -> bool:
            return False

    noisy = beliefs(0.2)
    for rule in (Whole(), Sharing()):
        modeler = Modeler(noisy, PRIOR, rule)
        modeler.tell([3, 70], [0.1, 0.2])
        modeler.ask(1)
    own = PRIOR.own_variance(noisy)
    others = np.setdiff1d(np.arange(noisy.count), [3, 70])
    expected = np.maximum(seen[False] ** 2 - own, 0.0)
    np.testing.assert_allclose(seen[True][others] ** 2, expected[others], rtol=1e-9, atol=1e-12)
    # Rows that were asked for keep all of it: their own part is being learnt.
    np.testing.assert_array_equal(seen[True][[3, 70]], seen[False][[3, 70]])


@priors
def test_bad_input_changes_nothing(prior: RowPrior | None) -> None:
    modeler = Modeler(beliefs(), prior)
    rows = modeler.ask(9).tolist()
    modeler.tell(rows[:7], OUTCOMES[rows[:7]])

    def state() -> tuple[object, ...]:
        mean, deviation = modeler.predict()
        facts = modeler.waiting, modeler.answered, modeler.best(), modeler.prior
        return *facts, modeler.expected_gain(), mean.tolist(), deviation.tolist()

    before, last = state(), len(POINTS)
    bad: list[tuple[Any, tuple[Any, ...]]] = [
        (modeler.tell, ([last], [0.0])),
        (modeler.tell, ([-1], [0.0])),
        (modeler.tell, ([0.5], [0.0])),
        (modeler.tell, ([rows[7]], [math.nan])),
        (modeler.tell, ([rows[7]], [1e200])),
        (modeler.tell, (rows[7:9], [0.0])),
        (modeler.tell, ([rows[7]], ["high"])),
        (modeler.tell, ([[1]], [0.0])),
        *((modeler.ask, (count,)) for count in (0, -1, 1.5, True, None)),
        *((act, ([row],)) for act in (modeler.close, modeler.expect) for row in (last, -1, 0.0)),
    ]
    for act, arguments in bad:
        with pytest.raises(InvalidInput):
            act(*arguments)
    # Nor can what is predicted be changed from outside.
    for array in modeler.predict():
        array[:] = 0.0
    assert state() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repeats": 0}, "repeats was 0"),
        ({"family": "cubic"}, "kernel family was 'cubic'"),
        ({"known_noise": -0.1}, "known_noise was -0.1"),
        ({"known_noise": math.nan}, "known_noise was nan"),
        ({"seed": -1}, "seed was -1"),
        ({"prior": RowPrior((1.0, 1.0, 1.0))}, "3 length scales for 2 columns"),
    ],
)
def test_bad_settings(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Modeler(beliefs(), **change)


def long_tailed(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """500 rows on a square, and outcomes of which the highest are many deviations away."""
    rng = np.random.default_rng(seed)
    rows = 6.0 * rng.random((500, 2))
    waves, phases = rng.standard_normal((2, 40)), 2.0 * np.pi * rng.random(40)
    smooth = np.cos(rows @ waves + phases) @ rng.standard_normal(40) / math.sqrt(20.0)
    outcomes = np.exp(1.2 * smooth + 0.2 * rng.standard_normal(500))
    return rows, (outcomes - outcomes.mean()) / outcomes.std()


def left_undiscovered(rule: Acquisition, scale: float) -> float:
    """How far the best of 40 answers is from the highest outcome: the median of 8 tables."""
    regrets = []
    for seed in range(8):
        rows, outcomes = long_tailed(seed)
        noise = scale * np.random.default_rng([seed, 1]).standard_normal(rows.shape)
        exact = RowBeliefs.exact(rows)
        noisy = RowBeliefs.within(rows + noise, max(scale, 1e-9), np.zeros(2), np.full(2, 6.0))
        modeler = Modeler(noisy if scale else exact, None, rule, seed=seed)
        for _ in range(8):
            asked = modeler.ask(5)
            modeler.tell(asked, outcomes[asked])
        best = modeler.best()
        assert best is not None
        regrets.append(float(outcomes.max()) - best.answer)
    return float(np.median(regrets))


@pytest.mark.slow
def test_noise_on_rows_does_not_make_a_search_better() -> None:
    """The highest outcome lies 3 to 10 deviations above the mean."""
    noisy, exact = (left_undiscovered(Portfolio(), scale) for scale in (0.5, 0.0))
    assert exact < 0.1
    assert exact < noisy
