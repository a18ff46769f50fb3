"""What leaves a person: one private gradient, with the arm that it belongs to.

| array     | shape     | meaning                                                                 |
|-----------|-----------|-------------------------------------------------------------------------|
| vectors   | (n, p)    | gradients g of the arms that were given, |g| <= 1                       |
| explorers | (n,)      | whether the arm is public: a function of the public coin                |
| reports   | (n, K, p) | one row for each arm; their expectation is g in the row of the arm      |

*Claim.* Given the policy and the public coin, which are drawn without looking at the person, no two
people with contexts in the domain, any arm that could be theirs and rewards in their bounds make
any report more than e^epsilon times as likely from one as from the other.

*Why.* The arm of someone who explores is public. Their report is one draw of an epsilon-private
mechanism for vectors of length at most 1 (privacy/vectors.py) on the p numbers of g; the other rows
are 0 for everyone with that public coin. The greedy arm is a function of the context, and the arm
of a person of a source was chosen by others who knew the context, so these arms are private too.
Such a report is one draw of the same mechanism on all K p numbers of the matrix that holds g in the
row of the arm and 0 elsewhere. That matrix has length |g| <= 1 whichever row it is, so any other
context, arm and reward are just another vector of length at most 1, and one draw hides all of them
at once.

Anyone who does not explore may therefore report on any of the K arms. Whether theirs is the one
that the policy gives is not checked: that arm depends on the context, and so would a refusal.

(Han et al. 2021 hide the arm too, by updates of all arms of which most are synthetic.) A number of
a report has about the same variance among K p numbers as among p, but the row of arm k carries
signal only from people who got arm k, and noise from all. That is what hiding the arm costs;
exploring people, whose arm is public, add noise to their own arm alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np

from discreet.codec import Range, Shape
from discreet.learners.messages import PUBLIC_COINS, Reports, Statistics, public_uniforms
from discreet.learners.policy import Actions, ArmPolicy
from discreet.papers.ma2025.learners.gradients.models import LARGEST, Model
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.noise import NO_NOISE
from discreet.privacy.vectors import PrivUnit, l2_ball
from discreet.validation import BoolArray, CoinArray, FloatArray, IntArray, InvalidInput

MECHANISMS: dict[str, Callable[[int, float], PrivUnit]] = {"l2_ball": l2_ball, "privunit": PrivUnit}
MechanismName = Literal["l2_ball", "privunit"]

# Reports have a length that is public; this share of it is left to rounding.
_ROUNDING = 1e-6
_DATA = "the context, the arm and the reward, as the gradient of a loss"
# Places of public randomness.
_WHETHER, _WHICH = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)

Parameters = Annotated[FloatArray, Shape("arms", "model.size"), Range(-LARGEST, LARGEST)]


@dataclass(frozen=True)
class GradientMechanism:
    """The mechanism of a report (see the module).

    Attributes:
        arms: K.
        size: p.
        epsilon: infinity for reports as they are.
        name: `l2_ball` or `privunit` (privacy/vectors.py).
    """

    arms: int
    size: int
    epsilon: float
    name: MechanismName

    def __post_init__(self) -> None:
        if self.private:
            _ = self.of_matrix, self.of_row

    @property
    def private(self) -> bool:
        """Whether anything is hidden."""
        return math.isfinite(self.epsilon)

    @cached_property
    def of_row(self) -> PrivUnit:
        """The mechanism for one row, where the arm is public."""
        return MECHANISMS[self.name](self.size, self.epsilon)

    @cached_property
    def of_matrix(self) -> PrivUnit:
        """The mechanism for all rows, where the arm is private."""
        return MECHANISMS[self.name](self.arms * self.size, self.epsilon)

    @property
    def mean_square(self) -> float:
        """Of one number of a report with a private arm, averaged over all K p numbers.

        Without privacy that of a gradient where the reward has its largest variance, 1/4.
        """
        return self.of_matrix.variance if self.private else 0.25 / (self.arms * self.size)

    @property
    def lengths(self) -> tuple[float, float]:
        """The length of a report with a private arm, and of one with a public arm; without privacy
        the largest length of either."""
        if not self.private:
            return 1.0, 1.0
        return 1.0 / self.of_matrix.mean_cosine, 1.0 / self.of_row.mean_cosine

    def privatise(
        self, vectors: FloatArray, arms: IntArray, explorers: BoolArray, noise: NoiseSource
    ) -> FloatArray:
        """(n, K, p) reports; see the module's table."""
        matrices = np.zeros((len(vectors), self.arms, self.size))
        matrices[np.arange(len(vectors)), arms] = vectors
        if not self.private:
            return matrices
        others, public = np.flatnonzero(~explorers), np.flatnonzero(explorers)
        if len(others):
            flat = matrices[others].reshape(len(others), -1)
            matrices[others] = self.of_matrix.privatise(flat, noise).reshape(matrices[others].shape)
        if len(public):
            matrices[public, arms[public]] = self.of_row.privatise(vectors[public], noise)
        return matrices

    def check(self, reports: FloatArray, arms: IntArray, explorers: BoolArray) -> None:
        """Refuse reports that are impossible with these public arms."""
        people = len(reports)
        if reports.shape != (people, self.arms, self.size) or people == 0:
            raise InvalidInput(
                f"reports had gradients of shape {reports.shape}; they must have shape (people, "
                f"{self.arms}, {self.size}) with at least one person."
            )
        rows = np.sqrt(np.einsum("nkp,nkp->nk", reports, reports))
        others = explorers[:, None] & (arms[:, None] != np.arange(self.arms))
        if (others & (rows > 0.0)).any():
            raise InvalidInput(
                "reports had gradients of an arm that the public coin did not give; people who "
                "explore report on that arm alone."
            )
        lengths = np.sqrt((rows**2).sum(axis=1))
        wanted = np.where(explorers, self.lengths[1], self.lengths[0])
        if self.private:
            fits = np.abs(lengths - wanted) <= _ROUNDING * wanted
        else:
            fits = (lengths <= 1.0 + _ROUNDING) & ((rows > 0.0).sum(axis=1) <= 1)
        if not fits.all():
            first = int(np.argmin(fits))
            raise InvalidInput(
                f"reports had a gradient of length {lengths[first]:g} at position {first}; this "
                f"mechanism makes {wanted[first]:g}"
                f"{'' if self.private else ' at most, for one arm'}. Send them as the policy made "
                "them."
            )


@dataclass(frozen=True, eq=False)
class GradientReports(Reports):
    """The private gradients of n people (see the module's table).

    Attributes:
        public_coins: None for people of a source, whose arms no public coin chose.
    """

    kind: ClassVar[str] = "gradient-reports"

    public_coins: Annotated[CoinArray, Shape("n"), Range(0, PUBLIC_COINS - 1)] | None
    gradients: Annotated[FloatArray, Shape("n", "K", "p")]

    def __len__(self) -> int:
        return len(self.gradients)


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientSums(Statistics):
    """The sum of gradients (K, p), and of how many people."""

    kind: ClassVar[str] = "gradient-sums"

    gradients: Annotated[FloatArray, Shape("K", "p")]


@dataclass(frozen=True, eq=False)
class GradientPolicy(ArmPolicy):
    """The best arm under the averages; some explore (see the module).

    People of a source do not explore, so every arm is private.

    Attributes:
        model: of an arm.
        parameters: (K, p), at which gradients are taken.
        mechanism_name: `l2_ball` or `privunit`.
        epsilon: budget of one report; infinity for a non-private reference.
        averages: (K, p), by which arms are chosen; None for a source.
        exploring: the probability with which a public coin gives an arm at random; None for a
            source.
    """

    kind: ClassVar[str] = "gradient-policy"
    for_sources: ClassVar[bool] = True
    decision_fields: ClassVar[tuple[str, ...]] = ("averages", "exploring")
    reports_are_private = True

    model: Model
    parameters: Parameters
    mechanism_name: MechanismName
    epsilon: Annotated[float, Range(above=0.0, infinite=True)]
    averages: Parameters | None = None
    exploring: Annotated[float, Range(0.0, 1.0)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.dimension != self.domain.dimension:
            raise InvalidInput(
                f"the model of a policy reads {self.model.dimension} columns; contexts have "
                f"{self.domain.dimension}."
            )
        _ = self.mechanism  # refuses an epsilon that is too small, on arrival

    @cached_property
    def mechanism(self) -> GradientMechanism:
        """How reports are made private."""
        return GradientMechanism(self.arms, self.model.size, self.epsilon, self.mechanism_name)

    def lots(self, public_coins: CoinArray | None, people: int) -> tuple[BoolArray, IntArray]:
        """(n,) whether each of `people` explores, and (n,) the arm that their public coin gives."""
        if (public_coins is not None) != self.chooses:
            had = (
                "no public coins" if self.chooses else "public coins, which a source does not draw"
            )
            raise InvalidInput(f"reports had {had}; send them as the policy made them.")
        if public_coins is None or self.exploring is None:
            return np.zeros(people, dtype=np.bool_), np.zeros(people, dtype=np.int64)
        whether = public_uniforms(self.public_seed, self.version, public_coins, _WHETHER)
        which = public_uniforms(self.public_seed, self.version, public_coins, _WHICH)
        explorers: BoolArray = whether < self.exploring
        return explorers, np.minimum((which * self.arms).astype(np.int64), self.arms - 1)

    def _best(self, unit: FloatArray) -> IntArray:
        assert self.averages is not None
        best: IntArray = self.model.logits(self.averages, unit).argmax(axis=1)
        return best

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        assert self.exploring is not None
        shares = np.full((len(unit), self.arms), self.exploring / self.arms)
        shares[np.arange(len(unit)), self._best(unit)] += 1.0 - self.exploring
        return shares

    def _choose(self, unit: FloatArray, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        assert self.exploring is not None
        explorers, given = self.lots(public_coins, len(unit))
        best = self._best(unit)
        arms = np.where(explorers, given, best)
        share = self.exploring / self.arms
        return arms, np.where(arms == best, share + (1.0 - self.exploring), share)

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> GradientReports:
        """One private gradient each, for the arm that each says they got.

        Someone who explores was given an arm by their public coin, in public, so their report is
        for that arm whatever they say. The mechanism hides any other arm.
        """
        public_coins = actions.public_coins if self.chooses else None
        explorers, given = self.lots(public_coins, len(unit))
        arms = np.where(explorers, given, actions.arms)
        vectors = self.model.gradients(self.parameters, unit, arms, rewards)
        return GradientReports(
            **self.origin(noise.name if self.mechanism.private else NO_NOISE),
            public_coins=public_coins,
            gradients=self.mechanism.privatise(vectors, arms, explorers, noise),
        )

    def sums(self, reports: GradientReports) -> GradientSums:
        """The sums of reports; `InvalidInput` for reports that this policy cannot make."""
        explorers, given = self.lots(reports.public_coins, len(reports))
        self.mechanism.check(reports.gradients, given, explorers)
        return GradientSums(gradients=reports.gradients.sum(axis=0), reports=len(reports))

    def release(self, noise: str) -> Release | None:
        if not self.mechanism.private:
            return self.unprotected_release(_DATA)
        matrix = self.mechanism.of_matrix
        exploring = f"; for those who explore on {self.model.size} of them" if self.chooses else ""
        return Release(
            mechanism=matrix.mechanism + exploring,
            event=PureEvent(self.epsilon),
            sensitivity=matrix.sensitivity,
            sensitivity_source="gradients have length at most 1, so any two lie at most 2 apart, "
            "whatever their arms",
            scale=self.epsilon,
            people=self.group,
            data=_DATA,
            noise=noise,
        )
