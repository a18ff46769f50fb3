"""How much noise, when to release, and what to believe: the rules a kernel learner follows.

`Posterior` is the default: geometric epochs, Gram matrix with noise taken off, Gaussian posterior.
`ConfidenceWidth` is the rule of the theorems: a regularised Gram matrix and a width that covers f
with the stated probability at confidence_multiplier 1, which explores far too much in practice.
Published calibrations live with the reproductions and subclass `Calibration`.

Only `weights`, `mechanism` and `noise_multiplier` touch privacy, and what they give is what the
releases record; the rest is post-processing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from discreet.learners.gp_ucb.axes import GramAxes, positive_part
from discreet.learners.gp_ucb.belief import (
    MOST_REWARD_VARIANCE,
    UNIFORM_VARIANCE,
    Belief,
    Sums,
    gram_belief,
)
from discreet.learners.gp_ucb.rows import RowWeights
from discreet.privacy import Joint, Local
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.prefix_sums import (
    MECHANISMS,
    BufferedToeplitz,
    Doubling,
    GeometricEpochs,
    PrefixMechanism,
)
from discreet.validation import (
    FloatArray,
    InvalidInput,
    finite_number,
    positive_number,
    probability,
    whole_number,
)

Decision = Literal["ucb", "thompson", "matching"]


@dataclass(frozen=True)
class Seen:
    """What a rule knows when it forms a belief.

    Attributes:
        sums: how many people the sums stand for, and the noise on them.
        people: how many people came.
        horizon: how many are expected; None if unknown.
        noise_scale: standard deviation of the noise on each released number.
        variance: of the noise on the sums, as a multiple of noise_scale^2.
    """

    sums: Sums
    people: int
    horizon: int | None
    noise_scale: float
    variance: float


class Calibration(ABC):
    """What a kernel learner leaves open."""

    name: ClassVar[str]
    weights: RowWeights
    smoothness: float = 0.0

    @abstractmethod
    def noise_multiplier(self, budget: Joint | Local, features: int) -> float:
        """scale / sensitivity of the whole stream (joint) or of one report (local)."""

    @abstractmethod
    def mechanism(self, reward_noise: float, horizon: int | None, public: bool) -> PrefixMechanism:
        """When releases happen and how their noise is correlated.

        Args:
            reward_noise: standard deviation of the noise on u if all were released at once.
            horizon: how many people are expected.
            public: whether everyone can be given the same points.
        """

    @abstractmethod
    def next_update(self, people: int) -> int:
        """Where releases cost nothing (local reports), the people at the next update."""

    @abstractmethod
    def believe(
        self, gram: FloatArray, rewards: FloatArray, seen: Seen, axes: GramAxes
    ) -> tuple[Belief, float]:
        """The belief about theta and how many of its deviations to add to the mean."""

    @abstractmethod
    def decision(self, public: bool) -> Decision:
        """How an action is chosen from the posterior."""


@dataclass(frozen=True)
class _Shared(Calibration):
    """Options that both rules have.

    Attributes:
        mechanism_name: `geometric_epochs`, or a prefix sum: `buffered_toeplitz`, `binary_tree`,
            `honaker`, `square_root_toeplitz`.
        growth: of people from one release to the next, for epochs.
        every: people between releases, for prefix sums.
        update_growth: of people from one update to the next where updates cost nothing.
        reward_weight: c, how much of the budget goes to rewards (rows.py).
        choose: `ucb`, `thompson` or `matching`; None for the default of the action space.
    """

    mechanism_name: str = "geometric_epochs"
    growth: float = 1.1
    every: int = 1
    update_growth: float = 1.02
    reward_weight: float = 2.0
    choose: str | None = None

    def __post_init__(self) -> None:
        if self.mechanism_name not in MECHANISMS or self.mechanism_name in (
            Doubling.name,
            "independent",
        ):
            known = [n for n in MECHANISMS if n not in (Doubling.name, "independent")]
            raise InvalidInput(
                f"mechanism_name was {self.mechanism_name!r}; it must be one of {known}."
            )
        GeometricEpochs(growth=self.growth)
        whole_number(self.every, "every", minimum=1)
        if finite_number(self.update_growth, "update_growth") <= 1.0:
            raise InvalidInput(f"update_growth was {self.update_growth}; it must be above 1.")
        positive_number(self.reward_weight, "reward_weight")
        if self.choose not in (None, "ucb", "thompson", "matching"):
            raise InvalidInput(
                f"choose was {self.choose!r}; it must be 'ucb', 'thompson' or 'matching'."
            )

    @property
    def weights(self) -> RowWeights:  # type: ignore[override]
        """What each part of a row counts."""
        return RowWeights(rewards=self.reward_weight)

    def noise_multiplier(self, budget: Joint | Local, features: int) -> float:
        return gaussian_noise_multiplier(budget.epsilon, budget.delta)

    def mechanism(self, reward_noise: float, horizon: int | None, public: bool) -> PrefixMechanism:
        if self.mechanism_name == GeometricEpochs.name:
            # Before this many people the noise is larger than what they could tell together.
            first = max(1, math.ceil(2.0 * reward_noise / math.sqrt(MOST_REWARD_VARIANCE)))
            if horizon is not None:
                first = min(first, max(1, horizon // 8))
            return GeometricEpochs(self.growth, min(first, 2**40), horizon)
        kind: Any = MECHANISMS[self.mechanism_name]
        if horizon is None:
            return Doubling(kind=self.mechanism_name, first_rows=64, every=self.every)
        made: PrefixMechanism = kind(rows=-(-horizon // self.every), every=self.every)
        return made

    def next_update(self, people: int) -> int:
        return max(people + 1, math.ceil(self.update_growth * people))

    def decision(self, public: bool) -> Decision:
        chosen: Any = self.choose or ("matching" if public else "ucb")
        return chosen  # type: ignore[no-any-return]

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> _Shared:
        """The rule with these options; `InvalidInput` for one that it does not have."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise InvalidInput(
                f"the rule {cls.name!r} of gp_ucb got the option {unknown[0]!r}; its options are "
                f"{', '.join(known)}."
            )
        return cls(**options)

    def to_options(self) -> dict[str, Any]:
        """The inverse of `of`."""
        return {"rule": self.name, **asdict(self)}


@dataclass(frozen=True)
class Posterior(_Shared):
    """The Gaussian posterior of belief.py.

    Attributes:
        confidence_multiplier: how many posterior deviations are added to the mean.
        prior_variance: of f(x) on the scale of rewards in [0, 1].
        smoothness: of f, beyond that of the kernel's Gaussian process (axes.py).
    """

    name: ClassVar[str] = "posterior"

    confidence_multiplier: float = 0.25
    prior_variance: float = UNIFORM_VARIANCE
    smoothness: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if finite_number(self.confidence_multiplier, "confidence_multiplier") < 0.0:
            raise InvalidInput(
                f"confidence_multiplier was {self.confidence_multiplier}; it must be 0 or more."
            )
        positive_number(self.prior_variance, "prior_variance")

    def believe(
        self, gram: FloatArray, rewards: FloatArray, seen: Seen, axes: GramAxes
    ) -> tuple[Belief, float]:
        belief = gram_belief(gram, rewards, seen.sums, axes, self.prior_variance)
        return belief, self.confidence_multiplier


@dataclass(frozen=True)
class ConfidenceWidth(_Shared):
    """The confidence ellipsoid of regularised regression on noisy sums.

    With V = (noisy Gram)_+ + lambda_t I, lambda_t = lambda + k sqrt(2 v m) sigma and noise of
    standard deviation sigma sqrt(v) on svec and sigma sqrt(v) / c on u, f lies within

        sqrt(rho^2 (log det(V / lambda_t) + 2 ln(1 / zeta))) + B sqrt(lambda_t)
          + (sigma / c) sqrt(v m / lambda_t)

    times ||phi(x)||_(V^-1) of its estimate with probability about 1 - zeta, if ||theta|| <= B
    (Shariff and Sheffet 2018, Proposition 4; Abbasi-Yadkori et al. 2011, Theorem 2).

    Attributes:
        confidence_multiplier: 1 carries the proof; 0.03 to 0.1 does best in simulation.
        norm_bound: B.
        regulariser: lambda.
        noise_regulariser: k.
        failure_probability: zeta.
    """

    name: ClassVar[str] = "confidence_width"

    mechanism_name: str = BufferedToeplitz.name
    confidence_multiplier: float = 1.0
    norm_bound: float = 1.0
    regulariser: float = 1.0
    noise_regulariser: float = 1.0
    failure_probability: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("confidence_multiplier", "norm_bound", "regulariser", "noise_regulariser"):
            positive_number(getattr(self, name), name)
        probability(self.failure_probability, "failure_probability")

    def believe(
        self, gram: FloatArray, rewards: FloatArray, seen: Seen, axes: GramAxes
    ) -> tuple[Belief, float]:
        size = len(rewards)
        noise = math.sqrt(seen.sums.gram_variance)
        strength = self.regulariser + self.noise_regulariser * math.sqrt(2.0 * size) * noise
        shifted = positive_part(gram) + strength * np.eye(size)
        factor = cho_factor(shifted, lower=True)
        log_volume = 2.0 * float(np.log(np.diag(factor[0])).sum()) - size * math.log(strength)
        width = (
            math.sqrt(
                MOST_REWARD_VARIANCE * (log_volume - 2.0 * math.log(self.failure_probability))
            )
            + self.norm_bound * math.sqrt(strength)
            + math.sqrt(seen.sums.reward_variance * size / strength)
        )
        root = solve_triangular(factor[0], np.eye(size), lower=True).T
        return Belief(cho_solve(factor, rewards), root), self.confidence_multiplier * width


RULES: dict[str, type[_Shared]] = {rule.name: rule for rule in (Posterior, ConfidenceWidth)}


def rule_of(options: Mapping[str, Any]) -> _Shared:
    """The rule that the options of a study file name; `posterior` by default."""
    rest = dict(options)
    name = rest.pop("rule", Posterior.name)
    if name not in RULES:
        raise InvalidInput(f"rule was {name!r}; it must be one of {', '.join(RULES)}.")
    return RULES[name].of(rest)
