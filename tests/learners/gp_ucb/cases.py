"""Small learners, people with data of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.learners.gp_ucb.calibration import KernelCalibration
from discreet.learners.gp_ucb.learner import GPUCB, GPUCBLearner
from discreet.people.domain import ActionSpace, DecisionSets, PublicBox, PublicSet, unit_cube
from discreet.privacy import Budget, Joint, Local, SimulatedNoise, Unprotected

DOMAIN = unit_cube(2)
KERNEL = "RBF(length_scale=0.6)"
SETS = DecisionSets(4)
SPACES: dict[str, ActionSpace] = {
    "sets": SETS,
    "set": PublicSet.of(np.random.default_rng(1).random((7, 2))),
    "box": PublicBox(),
}


class People:
    """n people with decision sets and luck; where points are public, luck only."""

    def __init__(self, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.sets = rng.random((count, SETS.most, 2))
        self.luck = rng.random(count)

    def __len__(self) -> int:
        return len(self.luck)

    def replaced(self, person: int, seed: int) -> People:
        """The same people but one, who is another person altogether."""
        made, other = People(len(self), 0), People(1, seed)
        made.sets, made.luck = self.sets.copy(), self.luck.copy()
        made.sets[person], made.luck[person] = other.sets[0], 1.0 - round(self.luck[person])
        return made


def learner(
    space: ActionSpace = SETS,
    budget: Budget | None = None,
    noise: Any = None,
    horizon: int | None = None,
    kernel: str = KERNEL,
    identity: str | None = "gp",
    half_life: float | None = None,
    **options: Any,
) -> Any:
    """A learner with few features."""
    budget = Joint(1.0, 1e-5) if budget is None else budget
    if noise is None and isinstance(budget, Joint):
        noise = SimulatedNoise(0)
    return GPUCB(
        DOMAIN,
        space,
        budget,
        kernel=kernel,
        error=0.05,
        horizon=horizon,
        public_seed=3,
        identity=identity,
        noise=noise,
        half_life=half_life,
        calibration=KernelCalibration.taken_from(options),
    )


def observe(learner: GPUCBLearner[Any], people: People, start: int, stop: int) -> Any:
    """Reports of people start .. stop - 1 under the current policy."""
    policy = learner.policy()
    contexts = people.sets[start:stop] if isinstance(learner.space, DecisionSets) else stop - start
    actions, _ = policy.act(contexts, np.random.default_rng(start))
    assert actions.points is not None
    good = np.exp(-4.0 * ((actions.points - 0.7) ** 2).sum(axis=1))
    rewards = np.clip(0.5 * good + 0.5 * people.luck[start:stop], 0.0, 1.0)
    noise = SimulatedNoise(start) if isinstance(learner.budget, Local) else Unprotected()
    return policy.report(contexts, actions, rewards, noise)


def serve(learner: GPUCBLearner[Any], people: People, stop: int | None = None) -> list[Any]:
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
