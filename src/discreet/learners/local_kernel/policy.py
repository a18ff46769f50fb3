"""Policies of the kernel bandit, reports and what they add up to: what runs on a person's side.

A policy holds F public pairs of functions and C public partitions. A ticket, drawn before anyone
looks at the person, picks one of each:

* the *arm function* A(x) = argmax_k phi(x)' theta_k, by which the person's arm is chosen;
* the *sign function* g(x) = sign(phi(x)' delta_A(x)), which says which way of the reward counts;
* the *cell function* C(x), one of G cells.

The reward becomes a sign s by randomised rounding, and (C(x), g(x) s), one of 2G values, is
reported by 2G-ary randomised response: the truth with probability p = e^eps / (e^eps + 2G - 1), and
each other value with p e^-eps.

A, g, C and G depend on the ticket and on earlier reports only, so the claim of signs.py holds for
contexts and rewards, with the arms that follow.

*Sources.* The arm of such a person was chosen before, so it is as private as the context. A policy
holds F public sign functions and C public partitions of contexts and arms together. A public
question, drawn without looking at the person and sent along, picks one of each:

* the *sign function* g(x, k) = sign(phi(x)' delta_k), which says which way of the reward counts;
* the *cell function* C(x, k), one of G cells; arm k of K is the level at (k + 1/2) / K of one more
  column.

The reward becomes a sign s by randomised rounding, and (C(x, k), g(x, k) s), one of 2G values, is
reported by 2G-ary randomised response.

The question does not depend on the person, so the claim of signs.py holds for contexts, arms and
rewards, given the question.

*What a device does.* With its ticket it needs one pair of functions, 2 K m numbers, and one
partition of at most 3 (2G - 1) numbers; it evaluates m features and as many multiplications.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.codec import Range, Shape
from discreet.gaussian import GaussianNaturalParameters
from discreet.learners.local_kernel.cells import MOST_PARTS, Cells, Ranks
from discreet.learners.local_kernel.features import (
    LARGEST_COEFFICIENT,
    CosineFeatures,
    DensityBins,
    Grid,
    arm_places,
    grid_of,
    round_coefficients,
)
from discreet.learners.messages import ArmPolicy, LocalArmPolicy, Statistics
from discreet.learners.public_randomness import public_uniforms
from discreet.learners.signs import SignedOffer, SignedReports
from discreet.learners.sources import SourcePolicy
from discreet.learners.terms import Offer
from discreet.privacy import NoiseSource
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response, round_to_signs
from discreet.validation import FloatArray, IntArray, InvalidInput, SignArray, TicketArray

# Where a ticket's uniform numbers are used (public_uniforms).
_FUNCTION, _PARTITION = np.array([0]), np.array([1])
# People are evaluated in portions of this many numbers, which bounds memory.
_NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class FeatureOffer(Offer):
    """With functions that are made of features.

    Attributes:
        used: (m,) the features that are used.
        ranks: how contexts are measured before anything else looks at them.
    """

    arms: Annotated[int, Range(2)]
    used: Annotated[IntArray, Shape("m"), Range(0)]
    ranks: Ranks

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.features)
        if not (self.used.size and (np.diff(self.used) > 0).all() and self.used[-1] < count):
            raise InvalidInput(
                f"the policy used the features {self.used.tolist()!r:.80}; they must be increasing "
                f"numbers below {count}. Send it as it was made."
            )
        columns = len(self.ranks.knots)
        if columns != self.domain.dimension:
            raise InvalidInput(
                f"the policy had ranks of {columns} columns, but its domain has "
                f"{self.domain.dimension}. Send it as it was made."
            )

    @cached_property
    def features(self) -> CosineFeatures:
        """The features that functions are made of, and others."""
        return CosineFeatures.of(self.domain.levels, self.arms)


@dataclass(frozen=True, eq=False)
class KernelOffer(SignedOffer, FeatureOffer):
    """Under which people report a cell and a sign by randomised response.

    Attributes:
        directions: (F, K, m) coefficients delta of the sign functions.
        cells: C partitions into G cells.
        density: (Z,) where people are, as their reports will be read; for a source (Z K,), with
            their arms.
    """

    directions: Annotated[NDArray[np.float32], Shape("F", "arms", "m")]
    cells: Cells
    density: Annotated[FloatArray, Shape("density_bins"), Range(above=0.0)]

    place_name: ClassVar[str] = "cell"
    arms_are_private: ClassVar[bool]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.directions) == 0 or self.cells.columns > self.cell_columns:
            raise InvalidInput(
                f"the policy had {len(self.directions)} sign functions and cells of "
                f"{self.cells.columns} columns; it needs functions, and cells of at most "
                f"{self.cell_columns} columns. Send it as it was made."
            )
        check_coefficients("directions", self.directions)

    @property
    def density_bins(self) -> int:
        """How many bins the density has."""
        bins = len(DensityBins(self.domain.levels))
        return bins * self.arms if self.arms_are_private else bins

    @property
    def cell_columns(self) -> int:
        """How many columns cells are cut along."""
        return self.domain.dimension + self.arms_are_private

    @cached_property
    def mechanism(self) -> SignedSubsetSelection:
        """2G-ary randomised response."""
        return k_ary_response(self.cells.count, self.epsilon)

    @property
    def grid(self) -> Grid:
        """Where integrals are taken: over the domain, or over contexts and arms."""
        grid = grid_of(self.public_seed, self.version, self.features)
        return grid.with_arms(self.arms) if self.arms_are_private else grid

    @abstractmethod
    def arms_of_rows(self, phi: FloatArray) -> IntArray:
        """(R, F) the arm of each row of the grid, whose points have features (Q, m)."""

    def signs_of_all(self, phi: FloatArray, arms: IntArray) -> SignArray:
        """(R, F) the sign of every sign function for the arms (R, F) of rows, of which each of the
        contexts with features (Q, m) has the same number."""
        functions, count, size = self.directions.shape
        table = self.directions.reshape(-1, size).T.astype(np.float64)
        values = (phi @ table).reshape(-1, 1, functions, count)
        own = np.take_along_axis(values, arms.reshape(len(phi), -1, functions, 1), axis=3)
        return np.where(own >= 0.0, 1, -1).astype(np.int8).reshape(arms.shape)

    @abstractmethod
    def picked(self, tickets: TicketArray) -> tuple[IntArray, IntArray]:
        """(n,) the functions and (n,) the partition that tickets pick."""

    def placed(self, ranks: FloatArray, arms: IntArray) -> FloatArray:
        """(n, cell_columns) people with these ranks as cells look them up."""
        placed = self.features.placed(ranks)
        if not self.arms_are_private:
            return placed
        return np.column_stack([placed, arm_places(arms, self.arms)])

    def answers(
        self, unit: FloatArray, arms: IntArray, tickets: TicketArray
    ) -> tuple[IntArray, SignArray]:
        """(n,) the cells of people, and (n,) which way of their rewards counts."""
        function, partition = self.picked(tickets)
        ranks = self.ranks(unit)
        phi = self.features(ranks, self.used)
        own = self.directions[function, arms].astype(np.float64)
        asked = np.where((own[:, None, :] @ phi[:, :, None])[:, 0, 0] >= 0.0, 1, -1)
        return self.cells.locate(self.placed(ranks, arms), partition), asked.astype(np.int8)

    def reported(
        self,
        unit: FloatArray,
        arms: IntArray,
        rewards: FloatArray,
        tickets: TicketArray,
        noise: NoiseSource,
    ) -> SignedReports:
        """Reports from checked contexts in [0, 1]^d, arms, and rewards in [0, 1]."""
        cells, asked = self.answers(unit, arms, tickets)
        signs = round_to_signs(rewards, noise) * asked
        return self.hidden(cells, signs, tickets, noise)

    @property
    def mechanism_name(self) -> str:
        return f"randomised response on {2 * self.mechanism.bins} values"


@dataclass(frozen=True, eq=False)
class ArmFunctions(FeatureOffer, ArmPolicy):
    """Arm functions, of which a ticket picks one.

    Attributes:
        values: (F, K, m) coefficients theta of the arm functions.
    """

    values: Annotated[NDArray[np.float32], Shape("F", "arms", "m")]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_coefficients("values", self.values)

    def function_of(self, tickets: TicketArray) -> IntArray:
        """(n,) the arm functions that tickets pick."""
        uniforms = public_uniforms(self.public_seed, self.version, tickets, _FUNCTION)
        picked: IntArray = (uniforms * len(self.values)).astype(np.int64)
        return picked

    def arms_of_all(self, phi: FloatArray) -> IntArray:
        """(n, F) the arm of every arm function at contexts with features (n, m)."""
        functions, arms, size = self.values.shape
        table = self.values.reshape(-1, size).T.astype(np.float64)
        chosen = np.empty((len(phi), functions), dtype=np.int64)
        most = max(1, _NUMBERS_AT_ONCE // (functions * arms))
        for start in range(0, len(phi), most):
            part = phi[start : start + most] @ table
            chosen[start : start + most] = part.reshape(-1, functions, arms).argmax(axis=2)
        return chosen

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        arms = self.arms_of_all(self.features(self.ranks(unit), self.used))
        shares: FloatArray = (arms[..., None] == np.arange(self.arms)).mean(axis=1)
        return shares

    def _choose(self, unit: FloatArray, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        all_arms = self.arms_of_all(self.features(self.ranks(unit), self.used))
        arms = all_arms[np.arange(len(unit)), self.function_of(tickets)]
        return arms, (all_arms == arms[:, None]).mean(axis=1)


@dataclass(frozen=True, eq=False)
class OpenKernelPolicy(ArmFunctions):
    """Of people who report what happened as it was, for a reference without privacy."""

    kind: ClassVar[str] = "open-kernel-policy"
    takes_any_arms: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class KernelPolicy(KernelOffer, ArmFunctions, LocalArmPolicy):
    """Functions and partitions, of which a ticket picks one each (see the module).

    Attributes:
        epsilon: budget of one report.
    """

    kind: ClassVar[str] = "local-kernel-policy"
    data: ClassVar[str] = "the cell of the context and the sign of the rounded reward"
    arms_are_private: ClassVar[bool] = False

    epsilon: Annotated[float, Range(above=0.0)]

    def picked(self, tickets: TicketArray) -> tuple[IntArray, IntArray]:
        """(n,) the pair of functions and (n,) the partition that tickets pick."""
        uniforms = public_uniforms(self.public_seed, self.version, tickets, _PARTITION)
        partition = (uniforms * len(self.cells.axis)).astype(np.int64)
        return self.function_of(tickets), partition

    def arms_of_rows(self, phi: FloatArray) -> IntArray:
        return self.arms_of_all(phi)


@dataclass(frozen=True, eq=False)
class KernelSourcePolicy(KernelOffer, SourcePolicy):
    """Sign functions and partitions, of which a public question picks one each."""

    kind: ClassVar[str] = "local-kernel-source-policy"
    data: ClassVar[str] = "the cell of the context with the arm, and the sign of the rounded reward"
    arms_are_private: ClassVar[bool] = True

    @property
    def questions(self) -> int:
        """How many questions there are: F C."""
        return len(self.directions) * len(self.cells.axis)

    def picked(self, tickets: TicketArray) -> tuple[IntArray, IntArray]:
        function, partition = np.divmod(tickets.astype(np.int64), len(self.cells.axis))
        return function, partition

    def arms_of_rows(self, phi: FloatArray) -> IntArray:
        arms = np.tile(np.arange(self.arms), len(phi))
        return np.broadcast_to(arms[:, None], (len(arms), len(self.directions)))

    def _report(
        self, unit: FloatArray, arms: IntArray, rewards: FloatArray, noise: NoiseSource
    ) -> SignedReports:
        # First of all, and from their number alone: what is public must not depend on people.
        questions = noise.below(self.questions, len(unit))
        return self.reported(unit, arms, rewards, questions.astype(np.uint64), noise)

    def check(self, reports: SignedReports) -> None:
        super().check(reports)
        if not (reports.tickets < self.questions).all():
            raise InvalidInput(
                f"reports had questions outside 0 .. {self.questions - 1}, those of {self.title}; "
                "send them as the policy made them."
            )


def check_coefficients(name: str, values: NDArray[np.float32]) -> None:
    """Refuse coefficients with which sums would not be exact (features.py)."""
    numbers = values.astype(np.float64)
    off_grid = (round_coefficients(numbers) != numbers).any()
    if off_grid or (np.abs(numbers) > LARGEST_COEFFICIENT).any():
        raise InvalidInput(
            f"{name} had numbers beyond {LARGEST_COEFFICIENT} or off their grid; on other numbers "
            "arms would depend on how sums are rounded. Send them as made."
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelStatistics(Statistics):
    """What reports add up to: J, b, and where their people are likely to be.

    Each report, made under some policy, is one measurement t = a' theta + noise of unit variance,
    or of less where people report openly (measurement.py), so sums over any reports, of any
    policies and in any order, say all:

    | array     | shape      | sum of                                             |
    |-----------|------------|----------------------------------------------------|
    | precision | (K M, K M) | J: a a'                                            |
    | weighted  | (K M,)     | b: t a                                             |
    | located   | (Z,)       | probabilities that the person is in bin z          |
    | placed    |            | 1, for reports under policies with several cells   |
    | squares   |            | t^2                                                |
    | along     | (d, 8)     | 1, for reports of a part of a column (cells.py)    |

    They are measured in ranks. After these were worked out anew, at a later stage, what was
    reported before says nothing any more: of sums of two stages the later ones stay.
    """

    kind: ClassVar[str] = "local-kernel-statistics"

    precision: Annotated[FloatArray, Shape("c", "c")]
    weighted: Annotated[FloatArray, Shape("c")]
    located: Annotated[FloatArray, Shape("Z"), Range(0.0)]
    placed: Annotated[int, Range(0)]
    squares: Annotated[float, Range(0.0)]
    along: Annotated[FloatArray, Shape("d", MOST_PARTS), Range(0.0)]
    stage: Annotated[int, Range(0)]

    @classmethod
    def zeros(
        cls, coefficients: int, bins: int, dimension: int, stage: int = 0
    ) -> KernelStatistics:
        """No report at all."""
        return cls(
            precision=np.zeros((coefficients, coefficients)),
            weighted=np.zeros(coefficients),
            located=np.zeros(bins),
            placed=0,
            squares=0.0,
            along=np.zeros((dimension, MOST_PARTS)),
            stage=stage,
            reports=0,
        )

    def __add__(self, other: Self) -> Self:
        if self.stage == other.stage:
            return replace(super().__add__(other), stage=self.stage)
        later = max(self, other, key=lambda sums: sums.stage)
        return replace(later, **self.tally(other))

    @property
    def information(self) -> GaussianNaturalParameters:
        """J and b."""
        return GaussianNaturalParameters(self.precision, self.weighted)

    def faded(self, share: float) -> Self:
        """J and b fade; densities follow the latest reports by themselves (features.py)."""
        faded = self.information.scaled(share)
        return replace(self, precision=faded.precision, weighted=faded.weighted)

    def check(self, coefficients: int, bins: int, dimension: int, stage: int) -> None:
        """Refuse sums that no reports to a learner of d columns add up to, at this stage.

        Raises:
            InvalidInput: for other shapes, or numbers beyond what these many reports can give.
        """
        shape, wanted = (
            (len(self.weighted), len(self.located), len(self.along)),
            (coefficients, bins, dimension),
        )
        if shape != wanted or self.stage > stage:
            raise InvalidInput(
                f"statistics had (coefficients, bins, columns) {shape} and stage {self.stage}; "
                f"this learner has {wanted}, and is at stage {stage}."
            )
        # |a_i| is at most the largest value of a feature.
        most = 2.0**dimension * (1.0 + 1e-3) * self.reports
        diagonal = np.diagonal(self.precision)
        proper = (
            bool((diagonal >= 0.0).all() and (diagonal <= most).all())
            and bool((np.abs(self.weighted) <= most).all())
            and bool((self.located >= 0.0).all())
            and self.placed <= self.reports
            and self.squares <= self.reports
            and self.along.sum() <= self.reports
        )
        if not proper:
            raise InvalidInput(
                "statistics had sums that no reports add up to; send them as statistics() made "
                "them."
            )
