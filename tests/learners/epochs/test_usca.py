"""USCA: predictions held against the exact enumeration of neighbours."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from discreet.learners.epochs.contribution import ClippedContribution
from discreet.learners.epochs.learner import EpochLearner
from discreet.learners.epochs.sums import contribution_sensitivity
from discreet.learners.epochs.usca import Usca, UscaCalibration
from discreet.learners.saving import load, save
from discreet.people.domain import ArmPoints
from discreet.privacy import Joint, NonPrivate, SecureNoise, SimulatedNoise
from discreet.privacy.accounting import composed_epsilon
from discreet.validation import InvalidInput

from ..source_scene import at_once
from ..spy import Spy, breaking
from .cases import (
    DOSES,
    GRID,
    SMOOTH,
    People,
    every_record,
    learner,
    mean_reward,
    observe,
    sums_of,
)

TWO = ArmPoints.of([0.0, 1.0])


def usca(
    budget: Any = None,
    noise: Any = None,
    horizon: int = 100,
    predictions: int | None = 1,
    **options: Any,
) -> Usca:
    budget = Joint(1.0, 0.0) if budget is None else budget
    made = learner("usca", budget, noise, horizon, predictions=predictions, **options)
    assert isinstance(made, Usca)
    made.policy()
    return made


def taught(**options: Any) -> Usca:
    made = usca(**options)
    people = People(made.horizon or 0, 1)
    made.update(observe(made, people, 0, len(people)))
    return made


def worst_ratio(made: Usca, contexts: np.ndarray = GRID) -> float:
    """The largest |log P(arm)/P'(arm)| over contexts, arms, all single replacements of one record,
    and data sets whose other people are all alike."""
    assert made.horizon is not None
    rows = made.policy().contributions_of(*every_record(made.arms, (0.0, 1.0)))
    worst = 0.0
    for others in range(len(rows)):
        logs = []
        for one in range(len(rows)):
            counts = np.zeros(len(rows), dtype=int)
            counts[others] += made.horizon - 1
            counts[one] += 1
            made._target._sums = sums_of(rows, counts)  # type: ignore[assignment]
            logs.append(np.log(made.secret_probabilities(contexts)))
        worst = max(worst, float((np.max(logs, axis=0) - np.min(logs, axis=0)).max()))
    return worst


def needed(made: Usca) -> np.ndarray:
    """Of every context: the largest range over arms of the change of scores, over all pairs of
    records."""
    contribution = made.policy().contribution
    rows = made.policy().contributions_of(*every_record(made.arms, (0.0, 0.4, 1.0)))
    scores = np.einsum("ckd,rd->rck", made.features.table @ contribution.projection, rows)
    change = contribution.clipping_norm * (scores[:, None] - scores[None])
    return np.asarray(np.ptp(change, axis=3).max(axis=(0, 1)))


class TestPrivacy:
    @pytest.mark.parametrize(
        ("arms", "epsilon"),
        [(2, 0.5), (2, 8.0), (TWO, 8.0), (DOSES, 0.5)],
        ids=["two, 0.5", "two, 8", "two points", "four points"],
    )
    def test_the_worst_ratio_is_epsilon_and_no_more(self, arms: Any, epsilon: float) -> None:
        made = usca(Joint(epsilon, 0.0), horizon=60, arms=arms)
        worst = worst_ratio(made)
        assert 0.95 * epsilon <= worst <= epsilon

    @pytest.mark.parametrize(
        ("epsilon", "least", "options"),
        [
            (1.0, 0.99, {"horizon": 80, "predictions": 3, "design": "optimal"}),
            (1.0, 0.99, {"horizon": 80, "predictions": 3, "design": "uniform"}),
            # Whoever brings a context that has no chance moves scores no further.
            (2.0, 0.0, {"contexts": GRID[:1], "domain": SMOOTH}),
            # On a continuum the bound is from lengths alone, so it is looser, but it holds.
            (2.0, 0.5, {"domain": SMOOTH}),
            (2.0, 0.0, {"arms": 2, "likeness": 1.0 - 1e-12}),
        ],
        ids=["optimal", "uniform", "no chance", "continuum", "alike"],
    )
    def test_with_any_options(self, epsilon: float, least: float, options: dict[str, Any]) -> None:
        share = options.get("predictions", 1)
        made = usca(Joint(share * epsilon, 0.0), **{"arms": TWO, **options})
        contexts = np.linspace(0.0, 1.0, 9)[:, None] if options.keys() == {"domain"} else GRID
        assert least <= worst_ratio(made, contexts) <= epsilon

    @pytest.mark.parametrize("apart", [1e-2, 1e-4, 1e-6, 1e-8])
    def test_with_arms_that_are_nearly_the_same(
        self, apart: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fault once found: distances of arms were differences of squares, which lose their digits:
        R(c) came out 2 10^-4 too small, and as 0."""
        rng = np.random.default_rng(0)
        made = usca(arms=4, domain=SMOOTH, contexts=GRID)
        shape = len(GRID), 4, made.features.features
        table = rng.standard_normal((shape[0], 1, shape[2])) + apart * rng.standard_normal(shape)
        monkeypatch.setattr(type(made.features), "all", lambda self, unit: table / 100.0)
        turned = table / 100.0 @ made.policy().contribution.projection
        exact = np.sqrt(((turned[:, :, None] - turned[:, None]) ** 2).sum(axis=3))
        needed = 2.0 * made.policy().contribution.clipping_norm * exact.max(axis=(1, 2))
        assert np.all(made.ranges(GRID) >= needed)
        assert np.all(made.ranges(GRID) <= needed * (1.0 + 1e-5))

    def test_rounding_of_scores_is_in_the_range(self) -> None:
        made = usca(horizon=10)
        rows = made.policy().contributions_of(*every_record(made.arms, (0.0, 1.0)))
        few = made.ranges(GRID)
        made._target._sums = sums_of(rows, [2**24] * len(rows))  # type: ignore[assignment]
        assert np.all(made.ranges(GRID) > few * (1.0 + 1e-9))

    def test_the_range_by_brute_force(self) -> None:
        made = usca()
        least, given = needed(made), made.ranges(GRID)
        assert np.all(least <= given)
        assert np.all(least >= 0.9 * given)

    def test_one_release_for_any_number_of_predictions(self) -> None:
        spy = Spy(0)
        made = usca(Joint(1.0, 1e-5), spy, predictions=None)
        people = People(100, 1)
        made.update(observe(made, people, 0, 100))
        first = made.predict(GRID)
        for _ in range(5):
            assert np.array_equal(made.predict(GRID), first)
        made.update(observe(made, people, 0, 50))
        made.predict(GRID)
        assert len(spy.given) == 1
        assert made.predictions_left == np.inf
        assert 1.0 - 1e-6 <= made.guarantee().epsilon <= 1.0
        size = made.policy().contribution.size
        assert made.releases[0].sensitivity == contribution_sensitivity(size)


class TestBudget:
    @pytest.mark.parametrize(
        "budget", [Joint(1.0, 0.0), Joint(0.1, 0.0), Joint(7.0, 1e-6)], ids=str
    )
    @pytest.mark.parametrize("predictions", [1, 3, 7, 10])
    def test_predictions_share_it(self, budget: Joint, predictions: int) -> None:
        made = taught(budget=budget, predictions=predictions)
        assert made.guarantee().epsilon == 0.0
        for spent in range(predictions):
            made.predict(GRID[:1])
            held = budget.epsilon * (spent + 1) / predictions
            # At a delta the composition of several is a little less than their sum.
            less = 1e-9 if budget.delta == 0.0 else 1e-4
            assert held * (1.0 - less) <= made.guarantee().epsilon <= held * (1.0 + 1e-12)
        assert made.guarantee().epsilon <= budget.epsilon
        assert composed_epsilon([each.event for each in made.releases], 0.0) <= budget.epsilon
        assert made.predictions_left == 0.0
        with pytest.raises(InvalidInput, match="spent"):
            made.predict(GRID[:1])

    def test_a_batch_spends_as_many_as_it_has(self) -> None:
        made = taught(predictions=4)
        made.predict(GRID[:3])
        assert made.predictions_left == 1.0
        with pytest.raises(InvalidInput, match="asked for 2"):
            made.predict(GRID[:2])
        assert made.predictions_left == 1.0
        made.predict(GRID[:1])
        assert len(made.releases) == 4

    def test_threads_cannot_spend_it_twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Fault once found: between the look at what is left and the taking, others took it too."""
        made = taught(predictions=2)
        barrier, works = threading.Barrier(8, timeout=5.0), Usca._scores
        drawn: list[Any] = []

        def together(self: Usca, unit: np.ndarray) -> np.ndarray:
            found = works(self, unit)
            # Without a lock everybody who asked stands here.
            with suppress(threading.BrokenBarrierError):
                barrier.wait(0.2)
            return found

        monkeypatch.setattr(Usca, "_scores", together)

        def ask() -> None:
            with suppress(InvalidInput):
                drawn.append(made.predict(GRID[:1]))

        at_once([ask] * 8)
        assert len(drawn) == 2
        assert made.guarantee().epsilon <= 1.0

    def test_a_prediction_that_failed_is_spent(self) -> None:
        noise = SimulatedNoise(0)
        made = taught(noise=noise, predictions=2)
        with breaking(noise, "below", OSError("no entropy")):
            made.predict(GRID[:1])
        assert made.predictions_left == 1.0

    def test_it_is_saved(self, tmp_path: Path) -> None:
        made = taught(predictions=3)
        made.predict(GRID[:2])
        save(made, tmp_path / "learner")
        again = load(tmp_path / "learner", SimulatedNoise(1))
        assert isinstance(again, Usca)
        assert again.predictions_left == 1.0
        assert again.releases == made.releases
        assert np.array_equal(again.secret_probabilities(GRID), made.secret_probabilities(GRID))
        for bad in (4, -1):
            saved = made.secret_fields()
            saved["own"]["drawn_by"] = [[SimulatedNoise.name, bad]]
            with pytest.raises(InvalidInput, match=r"spent|drawn_by"):
                taught(predictions=3).restore_fields(saved)

    def test_what_was_simulated_stays_simulated(self, tmp_path: Path) -> None:
        pytest.importorskip("opendp")
        made = taught(predictions=3)
        made.predict(GRID[:1])
        save(made, tmp_path / "learner")
        again = load(tmp_path / "learner", SecureNoise())
        assert isinstance(again, Usca)
        again.predict(GRID[:1])
        assert again.guarantee().noise == (SimulatedNoise.name, SecureNoise.name)
        assert "simulated" in again.guarantee().sentence

    def test_secure_noise(self) -> None:
        pytest.importorskip("opendp")
        made = taught(noise=SecureNoise(), predictions=200)
        chosen = made.predict(np.repeat(GRID, 20, axis=0))
        assert set(chosen.tolist()) <= set(range(made.arms))
        assert made.guarantee().noise == (SecureNoise.name,)


def test_predictions_follow_the_probabilities() -> None:
    made = taught(budget=Joint(4000.0, 0.0), predictions=4000, noise=SimulatedNoise(2))
    probabilities = made.secret_probabilities(GRID[2:3])[0]
    drawn = np.bincount(made.predict(np.repeat(GRID[2:3], 4000, axis=0)), minlength=made.arms)
    error = np.sqrt(probabilities * (1.0 - probabilities) / 4000)
    assert (np.abs(drawn / 4000 - probabilities) <= 4.0 * error + 1e-9).all()
    assert np.ptp(probabilities) > 0.02


@pytest.mark.parametrize("predictions", [1, None])
@pytest.mark.parametrize("budget", [Joint(5.0, 1e-5), NonPrivate()], ids=["joint", "none"])
def test_predictions_are_good(predictions: int | None, budget: Any) -> None:
    made = taught(budget=budget, horizon=3000, predictions=predictions and 5, noise=None)
    chosen = made.predict(GRID)
    best = np.array([mean_reward(np.repeat(c[None], 4, axis=0), np.arange(4)).max() for c in GRID])
    assert (best - mean_reward(GRID, chosen)).mean() < 0.08


@dataclass(frozen=True)
class Loud(UscaCalibration):
    """Rows with a control variate, as a calibration may have; scores divided by half of R(c)."""

    name: ClassVar[str] = "loud"
    divisor: float = 1.0

    def contribution(self, learner: Usca, probabilities: np.ndarray) -> ClippedContribution:
        size = learner.features.features
        mean = np.linspace(-1.0, 1.0, size)
        return ClippedContribution(mean, np.eye(size), np.eye(size), 3.0, 0.5)

    def score_range(self, learner: Usca, contribution: ClippedContribution) -> float:
        return self.divisor


@pytest.mark.parametrize("divisor", [1.0, 4.0])
def test_a_calibration_costs_what_it_costs(divisor: float) -> None:
    """Fault once found: R(c) took it that nothing is believed beforehand."""
    made = usca(Joint(2.0, 0.0), arms=TWO, calibration=Loud(divisor))
    assert np.all(needed(made) <= made.ranges(GRID))
    worst = worst_ratio(made)
    assert worst <= made.cost_of_one
    assert worst >= 0.5 * made.cost_of_one


class TestRefused:
    def test_before_everybody_has_come(self) -> None:
        made: EpochLearner = usca()
        made.update(observe(made, People(99, 1), 0, 99))
        assert isinstance(made, Usca)
        with pytest.raises(InvalidInput, match="horizon"):
            made.predict(GRID)
        assert made.predictions_left == 1.0

    def test_contexts(self) -> None:
        made = taught(predictions=9)
        for contexts in ([[2.0]], [[0.1]], [[np.nan]], [0.5], np.empty((0, 1))):
            with pytest.raises(InvalidInput, match="contexts"):
                made.predict(contexts)
        assert made.predictions_left == 9.0
