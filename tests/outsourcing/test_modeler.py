"""The modeler: which rows it asks for, and that interruptions and batches do not change that."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.modeler import (
    ACQUISITIONS,
    Acquisition,
    ExpectedImprovement,
    Modeler,
    PublishedUCB,
    UpperConfidence,
)
from discreet.outsourcing.posterior import RowPrior
from discreet.validation import InvalidInput

PRIOR = RowPrior((0.25, 0.4), 1.0, 0.01, mean=0.2)


def grid(side: int = 12) -> np.ndarray:
    line = np.linspace(0.0, 1.0, side)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


def hill(points: np.ndarray) -> np.ndarray:
    """An easy function with its maximum, 1, at (0.6, 0.3) and a lower hill elsewhere."""
    high = np.exp(-8.0 * ((points - [0.6, 0.3]) ** 2).sum(axis=1))
    return high + 0.4 * np.exp(-20.0 * ((points - [0.1, 0.9]) ** 2).sum(axis=1))


POINTS = grid()
OUTCOMES = hill(POINTS)


def beliefs(scale: float = 0.05) -> RowBeliefs:
    rng = np.random.default_rng(77)
    noisy = POINTS + rng.normal(0.0, scale, POINTS.shape)
    return RowBeliefs.within(noisy, scale, np.zeros(2), np.ones(2))


def play(modeler: Modeler, batches: list[int], outcomes: np.ndarray = OUTCOMES) -> list[int]:
    """Ask and answer in batches; the rows in order."""
    asked: list[int] = []
    for size in batches:
        rows = modeler.ask(size)
        asked += rows.tolist()
        modeler.tell(rows, outcomes[rows])
    return asked


def resumed(rows: list[int], waiting: list[int], **settings: object) -> Modeler:
    """A modeler that is told everything at once."""
    again = Modeler(beliefs(), **settings)  # type: ignore[arg-type]
    if rows:
        again.tell(rows, OUTCOMES[rows])
    again.expect(np.array(waiting, dtype=np.int64))
    return again


RULES = [UpperConfidence(), UpperConfidence(1.0), PublishedUCB()]


@pytest.mark.parametrize("rule", RULES, ids=repr)
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


@pytest.mark.parametrize("name", ACQUISITIONS)
@pytest.mark.parametrize("prior", [None, PRIOR], ids=["learnt", "given"])
def test_resumed_is_uninterrupted(name: str, prior: RowPrior | None) -> None:
    settings = {"prior": prior, "acquisition": ACQUISITIONS[name](), "seed": 3}
    whole = Modeler(beliefs(), **settings)  # type: ignore[arg-type]
    rows: list[int] = []
    for size in [4, 1, 3, 5, 1, 1, 6]:
        # Taken up again before every batch, from nothing but rows and answers.
        assert resumed(rows, [], **settings).ask(size).tolist() == whole.ask(size).tolist()
        now = list(whole.waiting)
        # And in the middle of a batch, when some answers are there.
        whole.tell(now[:2], OUTCOMES[now[:2]])
        rows += now[:2]
        again = resumed(rows, now[2:], **settings)
        assert again.waiting == whole.waiting
        np.testing.assert_allclose(again.predict()[0], whole.predict()[0], atol=1e-9)
        np.testing.assert_allclose(again.predict()[1], whole.predict()[1], atol=1e-9)
        assert again.prior == whole.prior
        whole.tell(now[2:], OUTCOMES[now[2:]])
        rows += now[2:]
    assert whole.answered == 21


def test_it_does_not_matter_in_which_batches_answers_come() -> None:
    one, other = (Modeler(beliefs(), seed=1) for _ in range(2))
    rows = play(one, [1] * 14)
    other.tell(rows[:9], OUTCOMES[rows[:9]])
    other.tell(rows[9:], OUTCOMES[rows[9:]])
    assert other.prior == one.prior
    assert other.ask(3).tolist() == one.ask(3).tolist()


def test_answers_in_another_order_teach_the_same() -> None:
    one, other = (Modeler(beliefs(), PRIOR) for _ in range(2))
    rows = one.ask(6)
    assert rows.tolist() == other.ask(6).tolist()
    one.tell(rows[:4], OUTCOMES[rows[:4]])
    for row in rows[[3, 0, 2, 1]]:
        other.tell([row], [OUTCOMES[row]])
    np.testing.assert_allclose(other.predict()[0], one.predict()[0], atol=1e-10)
    np.testing.assert_allclose(other.predict()[1], one.predict()[1], atol=1e-10)
    assert other.waiting == one.waiting == tuple(rows[4:].tolist())


def test_minimizing_is_maximizing_negated_outcomes() -> None:
    for prior, negated in ((None, None), (PRIOR, RowPrior((0.25, 0.4), 1.0, 0.01, mean=-0.2))):
        high = Modeler(beliefs(), prior, seed=5)
        low = Modeler(beliefs(), negated, seed=5, minimize=True)
        assert play(high, [3] * 8) == play(low, [3] * 8, -OUTCOMES)
        assert (low.minimize, high.minimize) == (True, False)
        np.testing.assert_array_equal(low.predict()[0], -high.predict()[0])
        np.testing.assert_array_equal(low.predict()[1], high.predict()[1])
        assert low.prior.mean == -high.prior.mean
        found, mirrored = low.best(), high.best()
        assert found is not None
        assert mirrored is not None
        assert (found.row, found.answer, found.expected) == (
            mirrored.row,
            -mirrored.answer,
            -mirrored.expected,
        )
        assert low.expected_gain() == high.expected_gain()


@pytest.mark.parametrize("repeats", [1, 3])
def test_rows_are_asked_for_as_often_as_is_allowed_and_no_more(repeats: int) -> None:
    few = RowBeliefs.exact(POINTS[:4])
    modeler = Modeler(few, RowPrior(0.3, noise=0.5), repeats=repeats)
    asked = modeler.ask(3).tolist()
    modeler.tell(asked[:1], [0.0])
    asked += modeler.ask(100).tolist()
    assert Counter(asked) == dict.fromkeys(range(4), repeats)
    assert modeler.ask(5).size == 0
    modeler.tell(asked[1:], np.zeros(len(asked) - 1))
    assert modeler.ask(1).size == 0
    assert modeler.expected_gain() == 0.0


def test_rows_that_cannot_be_measured_are_never_asked_for_again() -> None:
    modeler = Modeler(beliefs(), PRIOR, repeats=5)
    rows = modeler.ask(5).tolist()
    modeler.close(rows[1:3])
    assert modeler.waiting == (rows[0], *rows[3:])
    left = [rows[0], *rows[3:]]
    modeler.tell(left, OUTCOMES[left])
    later = play(modeler, [10] * 4)
    assert not set(later) & set(rows[1:3])
    fresh = Modeler(beliefs(), PRIOR, repeats=5)
    fresh.tell(left, OUTCOMES[left])
    fresh.close(rows[1:3])
    assert play(fresh, [10] * 4) == later


def test_closing_a_row_that_was_not_asked_for() -> None:
    open_, shut = (Modeler(beliefs(), PRIOR) for _ in range(2))
    (first,) = open_.ask(1)
    shut.close([int(first)])
    assert shut.ask(1)[0] != first
    assert shut.waiting != open_.waiting


def test_warm_up_draws_rows_by_the_number_of_the_question() -> None:
    modeler = Modeler(beliefs(), seed=9)
    assert modeler.warm_up == 6
    assert modeler.expected_gain() == math.inf
    assert modeler.best() is None
    first = modeler.ask(6)
    assert len(set(first.tolist())) == 6
    single = Modeler(beliefs(), seed=9)
    assert [int(single.ask(1)[0]) for _ in range(6)] == first.tolist()
    assert Modeler(beliefs(), seed=10).ask(6).tolist() != first.tolist()
    modeler.tell(first[:5], OUTCOMES[first[:5]])
    assert modeler.expected_gain() == math.inf
    before = modeler.prior
    modeler.tell(first[5:], OUTCOMES[first[5:]])
    assert modeler.prior != before
    assert math.isfinite(modeler.expected_gain())
    assert Modeler(beliefs(), PRIOR).warm_up == 0


@pytest.mark.parametrize("name", ACQUISITIONS)
@pytest.mark.parametrize("prior", [None, PRIOR], ids=["learnt", "given"])
@pytest.mark.parametrize("batch", [1, 4])
def test_it_finds_the_top_of_a_hill(name: str, prior: RowPrior | None, batch: int) -> None:
    modeler = Modeler(RowBeliefs.exact(POINTS), prior, ACQUISITIONS[name]())
    play(modeler, [batch] * (32 // batch))
    best = modeler.best()
    assert best is not None
    assert best.answer == OUTCOMES[best.row] == OUTCOMES.max()
    assert best.expected == pytest.approx(best.answer, abs=0.2)


def test_it_finds_the_top_through_noise() -> None:
    """Rows off by a twelfth of the box and noisy answers: better than the same at random."""
    reached = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        noisy = RowBeliefs.within(
            POINTS + rng.normal(0.0, 0.08, POINTS.shape), 0.08, np.zeros(2), np.ones(2)
        )
        modeler = Modeler(noisy, known_noise=0.01, repeats=2, seed=seed)
        for _ in range(15):
            rows = modeler.ask(2)
            modeler.tell(rows, OUTCOMES[rows] + rng.normal(0.0, 0.1, 2))
        best = modeler.best()
        assert best is not None
        reached.append(OUTCOMES[best.row])
    # Of 30 rows drawn at random, the one with the highest answer has .89 on average.
    assert np.mean(reached) > 0.91


def test_rules_are_given_the_deviation_they_ask_for() -> None:
    """All of it, or what rows share with others."""
    seen: dict[bool, np.ndarray] = {}

    class Watching(UpperConfidence):
        def __init__(self, shared: bool) -> None:
            super().__init__()
            object.__setattr__(self, "shared", shared)

        def scores(
            self, mean: np.ndarray, deviation: np.ndarray, best: float, question: int
        ) -> np.ndarray:
            seen[self.shared] = deviation.copy()
            return super().scores(mean, deviation, best, question)

    noisy = beliefs(0.2)
    for shared in (False, True):
        modeler = Modeler(noisy, PRIOR, Watching(shared))
        modeler.tell([3, 70], [0.1, 0.2])
        modeler.ask(1)
    own = PRIOR.own_variance(noisy)
    others = np.setdiff1d(np.arange(noisy.count), [3, 70])
    expected = np.maximum(seen[False] ** 2 - own, 0.0)
    np.testing.assert_allclose(seen[True][others] ** 2, expected[others], rtol=1e-9, atol=1e-12)
    assert (seen[True][others] < seen[False][others]).all()
    # Rows that were asked for keep all of it: their own part is being learnt.
    np.testing.assert_array_equal(seen[True][[3, 70]], seen[False][[3, 70]])


def test_known_noise_enters_the_prior() -> None:
    modeler = Modeler(beliefs(), known_noise=0.5)
    play(modeler, [8])
    assert modeler.prior.noise >= 0.5


def snapshot(modeler: Modeler) -> tuple[object, ...]:
    mean, deviation = modeler.predict()
    return (
        modeler.waiting,
        modeler.answered,
        modeler.best(),
        modeler.prior,
        modeler.expected_gain(),
        mean.tolist(),
        deviation.tolist(),
    )


@pytest.mark.parametrize("prior", [None, PRIOR], ids=["learnt", "given"])
def test_bad_input_changes_nothing(prior: RowPrior | None) -> None:
    modeler = Modeler(beliefs(), prior)
    rows = modeler.ask(9)
    modeler.tell(rows[:7], OUTCOMES[rows[:7]])
    before = snapshot(modeler)
    last = len(POINTS)
    for given, answers in (
        ([last], [0.0]),
        ([-1], [0.0]),
        ([0.5], [0.0]),
        ([int(rows[7])], [math.nan]),
        ([int(rows[7])], [math.inf]),
        ([int(rows[7]), int(rows[8])], [0.0]),
        ([int(rows[7])], ["high"]),
        ([[1]], [0.0]),
    ):
        with pytest.raises(InvalidInput):
            modeler.tell(given, answers)
    for bad in (0, -1, 1.5, True, None):
        with pytest.raises(InvalidInput):
            modeler.ask(bad)  # type: ignore[arg-type]
    for bad_rows in ([last], [-1], [0.0]):
        with pytest.raises(InvalidInput):
            modeler.close(bad_rows)
        with pytest.raises(InvalidInput):
            modeler.expect(bad_rows)
    assert snapshot(modeler) == before


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
def test_bad_settings(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Modeler(beliefs(), **change)  # type: ignore[arg-type]


def test_predictions_cannot_reach_inside() -> None:
    modeler = Modeler(beliefs(), PRIOR, ExpectedImprovement())
    play(modeler, [3])
    mean, deviation = modeler.predict()
    mean[:], deviation[:] = 0.0, 0.0
    assert modeler.predict()[0].any()
    assert modeler.predict()[1].any()
