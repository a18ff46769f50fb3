"""The settings of Ma et al. (2025), section 4.1, and what the published program logged for them.

The paper prints Figures 6 to 9 without numbers. `published_logs.csv` holds means over repetitions
that its program (github.com/Karlmyh/LDP-Contextual-MAB) logged: d = 2, with exponential rewards
(K = 3) and with the symmetric ones (K = 2) of supplement S.4.3. That program adds noise only for
people inside a bin, so it does not keep its epsilon for contexts; its numbers stand beside ours as
what the paper shows, not as what its mechanism reaches.

| column of published_logs.csv | meaning                                              |
|------------------------------|------------------------------------------------------|
| experiment                   | the program's name of it                             |
| reward_function              | exponential or symmetric                             |
| epsilon, epsilon_auxiliary   | budgets of target and sources; or which source first |
| gamma, kappa                 | covariate shift and exploration of sources           |
| rounds, n_auxiliary, sources | n_P, n_Qm, M                                         |
| repeats                      | how many repetitions                                 |
| mean_regret, sd_regret       | their mean and standard deviation                    |

Figure 6 looks at what policies do at one context x. For policies pi_1, pi_2, .. that serve person
1, 2, .., which are public,

    share_k(t)  = 1/t sum_{i <= t} pi_i(k | x),
    regret(t)   = sum_k share_k(t) (max_j f_j(x) - f_k(x)).

The paper draws an arm at x for each person and counts it; these are the means of what it counts,
so nothing need be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np
import pandas as pd

from discreet.lab.environments.synthetic import (
    CornerContexts,
    SyntheticProblem,
    draw_auxiliary,
    exponential,
    symmetric,
)
from discreet.lab.experiments import Source
from discreet.lab.experiments.engine import Row
from discreet.learners.messages import ArmPolicy, Policy
from discreet.validation import FloatArray, IntArray

# Base of the trials' seeds; nothing was ever tuned on it.
SEED = 20250901
TRIALS = 100
ARMS, DIMENSION = 3, 2

# Where Figure 6 looks at what policies do; the first arm is the best there.
PROBE = (1.0 / 3.0, 1.0 / 3.0)
LOCAL_REGRET = "local_regret"

LOW_FIRST, HIGH_FIRST = "low quality first", "high quality first"
# As the program calls them: the source with the smallest epsilon first, or that with the largest.
_ORDERS = {LOW_FIRST: "first_inf", HIGH_FIRST: "first_sup"}

Rewards = Literal["exponential", "symmetric"]
EXPONENTIAL: Rewards = "exponential"
REWARDS: tuple[Rewards, ...] = (EXPONENTIAL, "symmetric")


def problem(rewards: Rewards = EXPONENTIAL) -> SyntheticProblem:
    """Uniform contexts in the square, and its mean rewards.

    Exponential: three arms, with the program's centres k / (K + 1). Symmetric: two arms.
    """
    return exponential(ARMS, DIMENSION) if rewards == EXPONENTIAL else symmetric()


@dataclass(frozen=True)
class SourceSpec:
    """A synthetic source.

    Attributes:
        name: of the source; its data depend on it, not on its place.
        people: n_Qm.
        epsilon: epsilon_m.
        gamma: of its contexts, with density proportional to ||x - 1/2||_inf^gamma.
        kappa: of its behaviour policy.
    """

    name: str
    people: int
    epsilon: float
    gamma: float = 0.0
    kappa: float = 1.0


@dataclass(frozen=True)
class SyntheticSources:
    """Draws the data of some sources, which report in the order given.

    A source has the same data wherever it stands, so that orders are compared on the same people.

    Attributes:
        specs: the sources.
        rewards: mean rewards of theirs and of the target.
    """

    specs: tuple[SourceSpec, ...]
    rewards: Rewards = EXPONENTIAL

    def __call__(self, rng: np.random.Generator) -> list[Source]:
        names = sorted(spec.name for spec in self.specs)
        own = dict(zip(names, rng.spawn(len(names)), strict=True))
        target = problem(self.rewards)
        return [
            Source(
                spec.name,
                spec.epsilon,
                draw_auxiliary(
                    target,
                    spec.people,
                    own[spec.name],
                    contexts=CornerContexts(DIMENSION, spec.gamma),
                    kappa=spec.kappa,
                ),
            )
            for spec in self.specs
        ]


class Probe:
    """Watches what policies offer at one context x, in the units of the problem's domain."""

    def __init__(self, context: tuple[float, ...], problem: SyntheticProblem) -> None:
        self._contexts = [list(context)]
        self._means: FloatArray = problem.mean_rewards(self._contexts)[0]
        self._served: list[int] = []
        self._offers: list[FloatArray] = []

    def __call__(self, policy: Policy[Any], served: int) -> None:
        assert isinstance(policy, ArmPolicy)
        self._served.append(served)
        self._offers.append(policy.probabilities(self._contexts)[0])

    def rows(self, at: IntArray) -> list[Row]:
        """What was seen, at numbers of people (t,) up to that of the last batch, as rows.

        `share_of_arm_k` has besides its trace `mean_reward` f_k(x), and `given_up`: after how many
        people the arm was never offered again, None if it was.
        """
        served, offers = np.array(self._served), np.stack(self._offers)
        lengths = np.diff(served, prepend=0)
        sums = np.cumsum(lengths[:, None] * offers, axis=0)
        # Within a batch the policy is the same, so sums grow linearly from one batch to the next.
        ends = np.concatenate([[0], served])
        columns = [np.interp(at, ends, np.concatenate([[0.0], column])) for column in sums.T]
        shares: FloatArray = np.stack(columns, axis=1) / at[:, None]
        regret = shares @ (self._means.max() - self._means)
        last_offered = (served[:, None] * (offers > 0.0)).max(axis=0)
        rows: list[Row] = [{"metric": LOCAL_REGRET, "trace": regret}]
        for k, mean in enumerate(self._means):
            last = int(last_offered[k])
            known = {"mean_reward": float(mean), "given_up": last if last < served[-1] else None}
            rows.append({"metric": f"share_of_arm_{k + 1}", "trace": shares[:, k], **known})
        return [
            {**row, "value": float(row["trace"][-1]), "along": at, "final": True} for row in rows
        ]


@cache
def _logs() -> dict[tuple[Any, ...], float]:
    """Mean regret by experiment, mean rewards, epsilon, n_P and n_Qm; and, where sources have
    anybody, by M, epsilon_m (or the order of sources), gamma and kappa."""
    with files("discreet.papers.ma2025").joinpath("published_logs.csv").open() as file:
        logs = pd.read_csv(file, dtype={"epsilon_auxiliary": str}).fillna({"kappa": 1.0})
    target = ["experiment", "reward_function", "epsilon", "rounds", "n_auxiliary"]
    sources = ["sources", "epsilon_auxiliary", "gamma", "kappa"]
    return {
        tuple(row[key] for key in (target + sources if row["n_auxiliary"] else target)): regret
        for row, regret in zip(logs.to_dict("records"), logs["mean_regret"], strict=True)
    }


def logged_mean(
    experiment: str, rewards: Rewards, epsilon: float, setting: Mapping[str, Any]
) -> float | None:
    """The mean regret that the published program logged; None where it logged none.

    Args:
        experiment: `sample_size_target`, `sample_size_source`, `kappa`, `gamma` or
            `order_of_auxiliary`.
        rewards: the mean rewards.
        epsilon: of the target.
        setting: of a case, as records say it: `rounds`, `n_auxiliary` and, if that is not 0,
            `sources`, `gamma`, `kappa`, and `epsilon_auxiliary` or `order`.
    """
    target = (experiment, rewards, epsilon, setting["rounds"], setting["n_auxiliary"])
    if not setting["n_auxiliary"]:
        return _logs().get(target)
    order = _ORDERS.get(setting.get("order", ""))
    which = order or f"{setting['epsilon_auxiliary']:g}"
    return _logs().get((*target, setting["sources"], which, setting["gamma"], setting["kappa"]))
