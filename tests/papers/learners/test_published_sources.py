"""Algorithm 3 against the paper's formulas written out for one leaf and arm at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from discreet.lab.environments.synthetic import (
    SyntheticProblem,
    UniformContexts,
    draw_auxiliary,
    exponential,
)
from discreet.lab.experiments import Source, feed_source, run_learner, run_with_sources
from discreet.learners.partition.tree import Bins
from discreet.papers.ma2025.learners.published_partition import (
    EliminationPolicy,
    PublishedPartition,
    several_sources,
)
from discreet.people.domain import unit_cube
from discreet.privacy import Local, SimulatedNoise
from discreet.privacy.frequency import LaplaceOnCells
from discreet.validation import InvalidInput

PROBLEM = exponential()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class TestFormulas:
    """(26), (27) and (28), one pair at a time."""

    @pytest.mark.parametrize("seed", range(5))
    def test_they_are_those_of_the_paper(self, seed: int) -> None:
        """With few people and negative U too."""
        draw, n, c, epsilons = rng(seed), 3000, 0.7, (1.0, 0.5, 8.0)
        times = draw.choice([0.0, 40.0, 500.0, 3000.0], (3, 4))
        chosen = draw.normal(0.2, 0.2, (3, 4, 3)) * times[:, :, None]
        rewards = chosen * draw.random((3, 4, 3))
        estimate, radius = several_sources(
            np.array(epsilons), times, chosen, rewards, math.log(n), c * math.log(n)
        )
        for leaf, arm in np.ndindex(4, 3):
            above = below = spread = 0.0
            for m, epsilon in enumerate(epsilons):
                t, u = float(times[m, leaf]), float(chosen[m, leaf, arm])
                enough = t >= math.log(n) ** 2
                weight = min(abs(epsilon**2 / t * u), 1.0) if enough else 0.0
                above += weight * float(rewards[m, leaf, arm])
                below += weight * u
                spread += weight**2 * max(t / epsilon**2, u)
            known = below != 0.0
            expected = math.sqrt(c * math.log(n) * spread) / abs(below) if known else math.inf
            assert estimate[leaf, arm] == pytest.approx(above / below if known else 0.0)
            assert radius[leaf, arm] == pytest.approx(expected)

    @pytest.mark.parametrize("epsilon", [2.0, 1e6])
    def test_one_source_that_counts_gives_equations_13_and_14(self, epsilon: float) -> None:
        """Without privacy its weight is 1."""
        chosen, rewards = np.array([[[300.0, 20.0]]]), np.array([[[200.0, 5.0]]])
        log = math.log(10_000)
        sums = np.array([epsilon]), np.array([[500.0]]), chosen, rewards
        estimate, radius = several_sources(*sums, log, log)
        np.testing.assert_allclose(estimate, [[200 / 300, 5 / 20]])
        spread = np.maximum(500.0 / epsilon**2, chosen[0, 0])
        np.testing.assert_allclose(radius[0], np.sqrt(log * spread) / chosen[0, 0])


def learner(epsilon: float = 4.0, **options: object) -> PublishedPartition:
    return PublishedPartition(
        unit_cube(2),
        3,
        Local(epsilon),
        horizon=2000,
        **options,  # type: ignore[arg-type]
    )


def taught(epsilon: float = 1024.0) -> PublishedPartition:
    """After a source of 3000 people whose reports are nearly exact."""
    made = learner(1.0, source_horizon=3000)
    made.open_source("near", epsilon)
    feed_source(made, "near", draw_auxiliary(PROBLEM, 3000, rng(1)), SimulatedNoise(2))
    return made


class TestLearner:
    def test_without_sources_algorithm_2_decides(self) -> None:
        """The recorded regret of the learner as it was before it heard from sources."""
        made = PublishedPartition(PROBLEM.domain, 3, Local(2.0), horizon=3000, public_seed=3)
        acting = rng(1)
        values = run_learner(made, PROBLEM.sample(3000, acting), acting, SimulatedNoise(2))
        assert values.sum() == pytest.approx(1643.1025871678894, abs=1e-6)
        assert made.sources == ()

    def test_sources_split_and_eliminate_before_the_target_comes(self) -> None:
        made = taught()
        first = made.policy()
        assert made.people == 0
        assert len(first.bins.tree) > 3
        assert not first.bins.active.all()
        # The source's policies and the target's first one come from the same tree.
        last = made.policy("near")
        assert (first.bins.tree.axis[: len(last.bins.tree)] != -1).sum() >= (
            last.bins.tree.axis != -1
        ).sum()

    def test_n_is_the_largest_of_all(self) -> None:
        made = learner(source_horizon=5000)
        assert made.log_people == math.log(2000)
        made.open_source("near", 8.0)
        assert made.log_people == math.log(5000)
        other = learner()
        other.open_source("near", 8.0)
        assert other.log_people == math.log(2000)
        feed_source(other, "near", draw_auxiliary(PROBLEM, 2500, rng()), SimulatedNoise(0))
        assert other.log_people == math.log(2500)

    def test_what_sources_add_is_what_their_people_reported(self) -> None:
        made = learner()
        made.open_source("near", 1e4)
        data = draw_auxiliary(PROBLEM, 100, rng(3))
        feed_source(made, "near", data, SimulatedNoise(1))
        sums = made.streams["near"]._sums
        counts = np.bincount(data.arms, minlength=3)
        rewards = np.bincount(data.arms, data.rewards, minlength=3)
        np.testing.assert_allclose(sums.chosen[0], counts, atol=0.05)
        np.testing.assert_allclose(sums.rewards[0], rewards, atol=0.05)
        assert sums.times[0] == 100.0

    def test_order_is_that_of_reporting(self) -> None:
        """The first source meets the whole cube, the second the bins that the first made."""
        data = [
            Source(name, 1024.0, draw_auxiliary(PROBLEM, 3000, rng(seed)))
            for seed, name in enumerate(("near", "far"))
        ]
        made = learner(1.0)
        run_with_sources(made, PROBLEM.sample(10, rng(9)), data, rng(9), SimulatedNoise(1))
        leaves = [len(made._sources[one].policies[1].bins.tree.leaves) for one in ("near", "far")]
        assert leaves[0] < leaves[1]

    def test_effective_sources_help(self) -> None:
        """One arm is better everywhere: sources tell before the first person of the target."""

        def means(contexts: np.ndarray) -> np.ndarray:
            return np.tile([0.9, 0.1], (len(contexts), 1))

        problem = SyntheticProblem(means, UniformContexts(1), 1, 2, "A test.")
        totals = []
        for sources in (0, 2):
            made = PublishedPartition(problem.domain, 2, Local(1.0), horizon=1000)
            data = [
                Source(f"{m}", 1024.0, draw_auxiliary(problem, 15_000, rng(m), kappa=0.5))
                for m in range(sources)
            ]
            people = problem.sample(1000, rng(7))
            totals.append(run_with_sources(made, people, data, rng(8), SimulatedNoise(1)).sum())
        assert totals[1] < 0.1 * totals[0]


class TestReports:
    def policy(self, epsilon: float = 2.0) -> EliminationPolicy:
        made = learner()
        made.open_source("near", epsilon)
        return made.policy("near")

    def test_arms_that_were_given_up_leave_only_noise(self) -> None:
        policy = self.policy(1e4)
        active = np.array([[True, False, True]])
        policy = replace(policy, bins=Bins(policy.bins.tree, active))
        contexts = np.full((2, 2), 0.5)
        values = policy.report(contexts, [1, 2], [1.0, 1.0], SimulatedNoise(1)).values
        np.testing.assert_allclose(values, [[0, 0, 0, 0], [0, 1, 0, 1]], atol=0.01)

    def test_noise_is_that_of_equation_25(self) -> None:
        policy = self.policy(2.0)
        data = draw_auxiliary(PROBLEM, 4000, rng())
        reports = policy.report(data.contexts, data.arms, data.rewards, SimulatedNoise(2))
        assert reports.values.shape == (4000, 6)
        np.testing.assert_allclose(reports.values.var(axis=0), 8.0, rtol=0.2)
        release = policy.release("SecureNoise")
        found = (release.sensitivity, release.scale, release.event.epsilon)
        assert found == pytest.approx((4.0, 2.0, 2.0))

    def test_being_nowhere_is_covered(self) -> None:
        """With one pair left, being in it or nowhere differs by 2; with more pairs by 4."""
        assert LaplaceOnCells(1, 1.0, partial=True).sensitivity == 2.0
        assert LaplaceOnCells(3, 1.0, partial=True).sensitivity == 4.0
        with pytest.raises(InvalidInput, match="cells was -1"):
            LaplaceOnCells(3, 1.0).privatise(np.array([-1]), np.zeros(1), SimulatedNoise(0))

    @pytest.mark.parametrize(
        "change",
        [
            lambda values: values * 1e6,
            lambda values: values[:, :4].copy(),
            lambda values: values[:0],
        ],
        ids=["beyond noise", "too few pairs", "nobody"],
    )
    def test_bad_reports_change_nothing(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        made = learner()
        made.open_source("near", 2.0)
        policy = made.policy("near")
        report = policy.report([[0.5, 0.5]], [1], [1.0], SimulatedNoise(2))
        with pytest.raises(InvalidInput, match="reports had values"):
            made.update([report, replace(report, values=change(report.values))])
        assert made.streams["near"].people == 0
