"""The policy of an epoch: a public law of arms, and what each person's report holds.

| decision      | the law of arms                                                                |
|---------------|--------------------------------------------------------------------------------|
| `Greedy`      | the best arm by the posterior mean, at any context                             |
| `ActionTable` | an arm drawn from a public table, at the nearest tabulated context             |

| design     | the law of arms on the active ones                                                |
|------------|-----------------------------------------------------------------------------------|
| `uniform`  | every active arm equally often                                                    |
| `optimal`  | context-wise D-optimal: multiplicative updates (Silvey, Titterington and Torsney  |
|            | 1978), which lower the largest leverage phi' Z^-1 phi and with it the sensitivity |

Under joint privacy a report is the plain observation, of which the learner makes a contribution;
under local privacy it is made here, and a `VectorReport` privatises it before it leaves the person.

| array   | shape     | meaning                                            | symbol     |
|---------|-----------|----------------------------------------------------|------------|
| unit    | (n, d)    | contexts as points of [0, 1]^d                     | c          |
| table   | (N, K, m) | features of the tabulated contexts with every arm  | phi(c, x)  |
| active  | (N, K)    | which arms may be given in which context           | X_r(c)     |
| action_probabilities | (N, K) | at the tabulated contexts                | pi(x | c)  |
| uniform | (n,)      | one public number in [0, 1) for each person        |            |
| rows    | (n, s)    | private contributions (contribution.py)            |            |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from discreet.codec import Range, Serializable, Shape
from discreet.learners.epochs.contribution import (
    CENTRE,
    ClippedContribution,
    leverages,
    offered,
    portions,
    second_moment,
)
from discreet.learners.epochs.features import ArmFeatures
from discreet.learners.epochs.sums import DATA
from discreet.learners.messages import Reports, public_uniforms
from discreet.learners.policy import ArmPolicy
from discreet.privacy import NoiseSource, Release
from discreet.privacy.calibration import in_unit_ball
from discreet.privacy.vectors import VectorReport
from discreet.validation import BoolArray, CoinArray, FloatArray, IntArray, InvalidInput

Design = Literal["optimal", "uniform"]
_STEPS = 15
# What is added to a covariance, as a share of its mean eigenvalue.
_RIDGE = 1e-3
# Every active arm keeps this share of a uniform design, so that none is forgotten.
_UNIFORM_SHARE = 0.1
# Where the number that chooses an arm is drawn.
_CHOICE = 2**40


def design_probabilities(
    design: Design, table: FloatArray, weights: FloatArray, active: BoolArray, ridge: float = _RIDGE
) -> FloatArray:
    """(N, K) the probabilities of active arms under a named design.

    Args:
        design: `optimal` or `uniform`.
        table: (N, K, m) features.
        weights: (N,) probabilities of contexts.
        active: (N, K), at least one arm in every context.
        ridge: what is added to the covariance, as a share of its mean eigenvalue per person.
    """
    probabilities: FloatArray = active / active.sum(axis=1, keepdims=True)
    if design == "uniform":
        return probabilities
    features = table.shape[2]
    phi, uniform = table.reshape(-1, features), probabilities
    leverage = np.zeros(probabilities.shape)
    pairs = offered(phi, active)
    phi = phi if len(pairs) == len(phi) else phi[pairs]
    for _ in range(_STEPS):
        chances = (weights[:, None] * probabilities).ravel()[pairs]
        covariance = second_moment(phi, chances)
        floor = max(ridge, 1e-12) * np.trace(covariance) / features
        leverage.flat[pairs] = leverages(phi, covariance + floor * np.eye(features))
        grown = probabilities * leverage**2
        total = grown.sum(axis=1, keepdims=True)
        probabilities = np.where(total > 0.0, grown / np.maximum(total, 1e-300), probabilities)
    mixed: FloatArray = (1.0 - _UNIFORM_SHARE) * probabilities + _UNIFORM_SHARE * uniform
    shares: FloatArray = mixed / mixed.sum(axis=1, keepdims=True)
    return shares


class Decision(Serializable, ABC):
    """A public law of arms given contexts.

    Attributes:
        features: of contexts and arms.
    """

    features: ArmFeatures

    @cached_property
    @abstractmethod
    def table(self) -> FloatArray:
        """(N, K) probabilities of arms at the tabulated contexts."""

    @abstractmethod
    def probabilities(self, unit: FloatArray) -> FloatArray:
        """(n, K) probabilities of arms."""

    @abstractmethod
    def choose(self, unit: FloatArray, uniform: FloatArray) -> IntArray:
        """(n,) arms."""


@dataclass(frozen=True, eq=False)
class Greedy(Decision):
    """The best arm by the mean.

    Attributes:
        mean: (m,) of theta.
    """

    kind: ClassVar[str] = "greedy"

    features: ArmFeatures
    mean: Annotated[FloatArray, Shape("features.features")]

    @cached_property
    def table(self) -> FloatArray:
        best = (self.features.table @ self.mean).argmax(axis=1)
        shares: FloatArray = np.eye(self.features.arms)[best]
        return shares

    def probabilities(self, unit: FloatArray) -> FloatArray:
        shares: FloatArray = np.eye(self.features.arms)[self._best(unit)]
        return shares

    def choose(self, unit: FloatArray, uniform: FloatArray) -> IntArray:
        return self._best(unit)

    def _best(self, unit: FloatArray) -> IntArray:
        """(n,) arms."""
        arms, features = np.empty(len(unit), dtype=np.int64), self.features
        for some in features.portions(len(unit)):
            arms[some] = (features.all(unit[some]) @ self.mean).argmax(axis=1)
        return arms


@dataclass(frozen=True, eq=False)
class ActionTable(Decision):
    """Arms drawn from a table.

    Attributes:
        action_probabilities: (N, K) probabilities of arms; its rows add up to 1.
    """

    kind: ClassVar[str] = "action-table"

    features: ArmFeatures
    action_probabilities: Annotated[FloatArray, Shape("N", "features.arms"), Range(0.0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        contexts = len(self.features.contexts)
        if (
            len(self.action_probabilities) != contexts
            or not (np.abs(self.action_probabilities.sum(axis=1) - 1.0) <= 1e-9).all()
        ):
            raise InvalidInput(
                f"action_probabilities had shape {self.action_probabilities.shape}; each of the "
                f"{contexts} contexts needs probabilities that add up to 1."
            )

    @cached_property
    def table(self) -> FloatArray:
        return self.action_probabilities

    @cached_property
    def _cumulative(self) -> FloatArray:
        """(N, K) cumulative probabilities, 1 from the last arm with positive probability on."""
        shares = self.action_probabilities
        steps, arms = np.cumsum(shares, axis=1), shares.shape[1]
        last = arms - 1 - (shares[:, ::-1] > 0.0).argmax(axis=1)
        steps[np.arange(arms) >= last[:, None]] = 1.0
        return steps

    def probabilities(self, unit: FloatArray) -> FloatArray:
        return self.action_probabilities[self.features.contexts.places(unit)]

    def choose(self, unit: FloatArray, uniform: FloatArray) -> IntArray:
        steps = self._cumulative[self.features.contexts.places(unit)]
        return np.asarray((steps <= uniform[:, None]).sum(axis=1), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PrivateRows(Reports):
    """Private reports of n people."""

    kind: ClassVar[str] = "private-rows"

    rows: Annotated[FloatArray, Shape("n", "s")]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class EpochPolicy(ArmPolicy):
    """The policy of one epoch: a public law of arms, and the contribution of a report.

    Attributes:
        decision: the law of arms.
        contribution: what a person adds to the epoch's statistic.
        local: the mechanism of reports; None where people trust the learner.
        believed: (m,) the posterior mean of theta when the epoch began, for information.
    """

    kind: ClassVar[str] = "epoch-policy"

    decision: Decision
    contribution: ClippedContribution
    local: VectorReport | None
    believed: Annotated[FloatArray, Shape("features.features")]

    def __post_init__(self) -> None:
        super().__post_init__()
        features = self.features
        given = features.arms, features.contexts.points.shape[1], features.features
        if given != (self.arms, self.domain.dimension, len(self.contribution.mean)):
            raise InvalidInput(
                f"the features of a policy were {given[2]} for {given[0]} arms and {given[1]} "
                f"columns; the policy has {self.arms} and {self.domain.dimension}, and its rows "
                f"are made of {len(self.contribution.mean)} features."
            )
        if self.local is not None and self.local.dimension != self.contribution.size:
            raise InvalidInput(
                f"a policy hides vectors of {self.local.dimension} numbers, but rows have "
                f"{self.contribution.size}; do not report under it."
            )

    @property
    def features(self) -> ArmFeatures:
        """Of contexts and arms."""
        return self.decision.features

    def _known(self, unit: FloatArray) -> None:
        # The maker of an untrusted policy also chose its contexts, so rejecting one would reveal
        # something to them; there a strange context counts as the nearest.
        if self.local is None:
            self.features.contexts.check(unit)

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        self._known(unit)
        return self.decision.probabilities(unit)

    def chances(self, unit: FloatArray) -> FloatArray:
        return self.decision.probabilities(unit)

    def _choose(self, unit: FloatArray, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        self._known(unit)
        places = np.full(len(public_coins), _CHOICE)
        uniform = public_uniforms(self.public_seed, self.version, public_coins, places)
        # Forged numbers may overflow for some people; a warning would reveal for whom.
        arms, propensities = np.empty(len(unit), dtype=np.int64), np.empty(len(unit))
        with np.errstate(all="ignore"):
            for some in portions(len(unit), self.arms):
                arms[some] = chosen = self.decision.choose(unit[some], uniform[some])
                shares = self.decision.probabilities(unit[some])
                propensities[some] = shares[np.arange(len(chosen)), chosen]
        return arms, propensities

    @property
    def reports_are_private(self) -> bool:
        return self.local is not None

    def _report(
        self, people: FloatArray, actions: Any, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        self._known(people)
        if self.local is None:
            return super()._report(people, actions, rewards, noise)
        contributions = self.contributions_of(people, actions.arms, rewards)
        return PrivateRows(
            **self.origin(noise.name), rows=self.local.privatise(contributions, noise)
        )

    def contributions_of(self, unit: FloatArray, arms: IntArray, rewards: FloatArray) -> FloatArray:
        """(n, size) contributions of contexts in [0, 1]^d, arms and rewards in [0, 1]."""
        contributions = np.empty((len(arms), self.contribution.size))
        with np.errstate(all="ignore"):
            for some in self.features.portions(len(arms)):
                phi = self.features.at(unit[some], arms[some])
                made = self.contribution.contributions(phi, rewards[some] - CENTRE)
                contributions[some] = in_unit_ball(made)
        return contributions

    def expected_rewards(self, unit: FloatArray) -> FloatArray:
        """(n, K) posterior mean rewards in [0, 1], for contexts in [0, 1]^d."""
        parts = [
            self.features.all(unit[some]) @ self.believed
            for some in self.features.portions(len(unit))
        ]
        return np.clip(CENTRE + np.concatenate(parts), 0.0, 1.0)

    def release(self, noise: str) -> Release | None:
        if self.local is None:
            return self.unprotected_release(DATA)
        return Release(
            mechanism=self.local.mechanism,
            event=self.local.event(noise),
            sensitivity=self.local.sensitivity,
            sensitivity_source="rows lie in the unit ball",
            scale=self.local.scale,
            people=self.group,
            data=DATA,
            noise=noise,
        )

    def sharing(self, features: ArmFeatures) -> EpochPolicy:
        """This policy with the given features, which policies share."""
        return replace(self, decision=replace(self.decision, features=features))  # type: ignore[type-var]
