"""Small epoch learners, people with data of their own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from discreet.learners.epochs.capri import BernsteinElimination, Capri, PosteriorElimination
from discreet.learners.epochs.learner import EpochLearner
from discreet.learners.epochs.sums import EpochStatistics, EpochSum, whole
from discreet.learners.epochs.usca import Usca
from discreet.people.domain import ArmPoints, Box
from discreet.privacy import Budget, Joint, Local, SimulatedNoise, Unprotected

LEVELS = 5
DOMAIN = Box((0.0,), (1.0,), ("context",), (LEVELS,))
SMOOTH = Box((0.0,), (1.0,), ("context",))
DOSES = ArmPoints.of([0.0, 0.3, 0.6, 1.0])
GRID = np.linspace(0.0, 1.0, LEVELS)[:, None]
PRIVATE = Joint(1.0, 1e-5)

MAKERS: dict[str, Any] = {
    "posterior": partial(Capri, calibration=PosteriorElimination()),
    "bernstein": partial(Capri, calibration=BernsteinElimination()),
    "usca": Usca,
}


class People:
    """n people with contexts and luck."""

    def __init__(self, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.contexts = GRID[rng.integers(LEVELS, size=count)]
        self.luck = rng.random(count)

    def __len__(self) -> int:
        return len(self.luck)

    def replaced(self, person: int) -> People:
        """The same people but one, who is another person altogether."""
        made = People(len(self), 0)
        made.contexts, made.luck = self.contexts.copy(), self.luck.copy()
        made.contexts[person] = (made.contexts[person] + 0.5) % 1.25
        made.luck[person] = 1.0 - round(made.luck[person])
        return made


def mean_reward(contexts: np.ndarray, arms: np.ndarray) -> np.ndarray:
    """(n,) the mean reward, from 0.2 to 0.8."""
    away = DOSES.array[arms, 0] - contexts[:, 0]
    return 0.2 + 0.6 * np.exp(-4.0 * away**2)


def learner(
    kind: str = "posterior",
    budget: Budget | None = None,
    noise: Any = None,
    horizon: int | None = 400,
    domain: Box = DOMAIN,
    arms: Any = DOSES,
    identity: str | None = "epochs",
    **options: Any,
) -> EpochLearner:
    """A learner with few features."""
    budget = PRIVATE if budget is None else budget
    if noise is None and isinstance(budget, Joint):
        noise = SimulatedNoise(0)
    if "kernel" not in options and isinstance(arms, ArmPoints):
        options["kernel"] = "RBF([0.5, 0.5])"
    made: EpochLearner = MAKERS[kind](
        domain,
        arms,
        budget,
        noise=noise,
        horizon=horizon,
        public_seed=3,
        identity=identity,
        **{"error": 0.02, "reward_noise": 0.2, **options},
    )
    return made


def observe(learner: EpochLearner, people: People, start: int, stop: int) -> Any:
    """Reports of people start .. stop - 1 under the current policy."""
    policy = learner.policy()
    contexts = people.contexts[start:stop]
    actions, _ = policy.act(contexts, np.random.default_rng(start))
    luck = people.luck[start:stop]
    rewards = mean_reward(contexts, actions.arms) + 0.4 * (luck - 0.5)
    noise = SimulatedNoise(start) if isinstance(learner.budget, Local) else Unprotected()
    return policy.report(contexts, actions, np.clip(rewards, 0.0, 1.0), noise)


def serve(learner: EpochLearner, people: People, stop: int | None = None) -> list[Any]:
    """Everyone comes, as many at a time as the policy lasts; the policies that were seen."""
    end, start = len(people) if stop is None else stop, learner.people
    seen = [learner.policy()]
    while start < end:
        after = min(start + learner.batch_size, end)
        learner.update(observe(learner, people, start, after))
        start = after
        if (policy := learner.policy()) is not seen[-1]:
            seen.append(policy)
    return seen


def every_record(
    arms: int = len(DOSES), rewards: Sequence[float] = (0.0, 0.3, 0.5, 0.8, 1.0)
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contexts (n, 1), arms (n,) and rewards (n,) in all combinations."""
    mesh = np.meshgrid(GRID[:, 0], np.arange(arms), rewards, indexing="ij")
    contexts, chosen, given = (part.ravel() for part in mesh)
    return contexts[:, None], chosen.astype(np.int64), given


def sums_of(rows: np.ndarray, counts: Sequence[int]) -> EpochStatistics:
    """The sums of so many people with each of some rows, under the first policy."""
    total = np.asarray(counts) @ whole(rows)
    people = int(np.sum(counts))
    return EpochStatistics(reports=people, epochs={0: EpochSum(people, total)})
