"""Policies of the kernel bandit, reports and what they add up to: what runs on a person's side.

A policy holds F public pairs of functions and C public partitions. A public coin, drawn before
anyone looks at the person, picks one of each:

* the *arm function* A(x) = argmax_k phi(x)' theta_k, by which the person's arm is chosen;
* the *sign function* g(x) = sign(phi(x)' delta_A(x)), which says which way of the reward counts;
* the *cell function* C(x), one of G cells.

The reward, clipped to a public range, becomes a sign s by randomised rounding, and (C(x), g(x) s),
one of 2G values, is reported by 2G-ary randomised response: the truth with probability
p = e^eps / (e^eps + 2G - 1), and each other value with p e^-eps. Where the policy asks about
thresholds of rewards, s = +1 says that the reward is at least that of the partition.

Under a bound on the noise of rewards the policy also holds *centres*, coefficients of 2 p - 1 for
the predicted reward p(x, k), clipped to [0, 1], and the range is moved by p(x, A(x)) - 1/2.

A, g, p, C and G depend on the public coin and on earlier reports only, so the claim of signs.py
holds for contexts and rewards, with the arms that follow.

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

*What a device does.* With its public coin it needs one pair of functions, 2 K m numbers, and one
partition of at most 3 (2G - 1) numbers; it evaluates m features and as many multiplications.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from discreet.codec import OPTIONAL_FIELD, Range, Shape
from discreet.learners.kernel.cells import Cells, Ranks
from discreet.learners.kernel.features import (
    LARGEST_COEFFICIENT,
    Coefficients,
    CosineFeatures,
    DensityBins,
    Grid,
    arm_places,
    decoded,
    grid_of,
)
from discreet.learners.messages import PUBLIC_COINS, public_uniforms
from discreet.learners.policy import Actions, ArmPolicy
from discreet.learners.signs import SignedReporter, SignedReports
from discreet.people.domain import RewardBounds
from discreet.privacy import NoiseSource, Release
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response, round_to_signs
from discreet.validation import CoinArray, FloatArray, IntArray, InvalidInput, SignArray

# Where a public coin's uniform numbers are used (public_uniforms).
_FUNCTION, _PARTITION = np.array([0]), np.array([1])
# Beyond these bounds sums of products would not be exact, and arms would depend on how sums are
# rounded.
Functions = Annotated[
    Coefficients, Shape("F", "arms", "m"), Range(-LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
]
Centres = Annotated[
    Coefficients, Shape("arms", "m"), Range(-LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
]
# A clipping range that is moved has two ends in floating point.
LEAST_WIDTH = 2.0**-20
WHOLE = (0.0, 1.0)  # the clipping range of rewards that are not clipped
# People are evaluated in portions of this many numbers, which bounds memory.
_NUMBERS_AT_ONCE = 2**22


def check_clipping_range(clipping_range: tuple[float, float]) -> None:
    """Refuse what is no range within [0, 1], and one too short to be moved."""
    low, high = clipping_range
    if not (low >= 0.0 and high <= 1.0 and high - low >= LEAST_WIDTH):
        raise InvalidInput(
            f"the policy clipped rewards to [{low:g}, {high:g}]; it must be a range within "
            f"[0, 1] of {LEAST_WIDTH:g} or more. Send it as it was made."
        )


def clipped_to(
    clipping_range: tuple[float, float], bounds: RewardBounds
) -> tuple[float, float] | None:
    """A clipping range in units of rewards; None where none is clipped."""
    (low, high), width = clipping_range, bounds.upper - bounds.lower
    return (bounds.lower + low * width, bounds.lower + high * width) if high - low < 1 else None


def arms_of_all(values: Coefficients, phi: FloatArray) -> IntArray:
    """(n, F) the arm of every arm function (F, K, m) at contexts with features (n, m)."""
    functions, arms, size = values.shape
    table = values.reshape(-1, size).T.astype(np.float64)
    chosen = np.empty((len(phi), functions), dtype=np.int64)
    most = max(1, _NUMBERS_AT_ONCE // (functions * arms))
    for start in range(0, len(phi), most):
        part = phi[start : start + most] @ table
        chosen[start : start + most] = part.reshape(-1, functions, arms).argmax(axis=2)
    return chosen


@dataclass(frozen=True, eq=False)
class FunctionPolicy(ArmPolicy):
    """A policy that chooses by one of F arm functions, which the public coin picks.

    Attributes:
        frequencies: (m, d) those of the features that functions are made of (features.py).
        ranks: how contexts are measured before anything else looks at them.
        values: (F, K, m) coefficients theta of the arm functions, in units of 2^-20; None for a
            source.
        varies: whether functions vary with the context; else they are constants (best_arm).
    """

    frequencies: Annotated[IntArray, Shape("m", "domain.dimension"), Range(0)]
    ranks: Ranks
    values: Functions | None
    varies: bool = field(default=True, kw_only=True, metadata=OPTIONAL_FIELD)

    def __post_init__(self) -> None:
        super().__post_init__()
        used = self.used
        if not (used.size and used[0] >= 0 and (np.diff(used) > 0).all()):
            raise InvalidInput(
                f"the policy had features of the frequencies {self.frequencies.tolist()!r:.80}; "
                f"they must be some of the {len(self.features)} of this domain, in their order. "
                "Send it as it was made."
            )
        columns, dimension = len(self.ranks.knots), self.domain.dimension
        if columns != dimension:
            raise InvalidInput(
                f"the policy had ranks of {columns} columns, but its domain has {dimension}. Send "
                "it as it was made."
            )

    @cached_property
    def features(self) -> CosineFeatures:
        """The features that functions are made of, and others."""
        return CosineFeatures.of(self.domain.levels, self.arms, self.varies)

    @property
    def density_bins(self) -> DensityBins:
        """The bins in which people are counted; for a source, with their arms."""
        return self.features.bins(self.ranks.implied(self.domain), 1 if self.chooses else self.arms)

    @cached_property
    def used(self) -> IntArray:
        """(m,) which of the features functions are made of."""
        return self.features.places(self.frequencies)

    def function_of(self, public_coins: CoinArray) -> IntArray:
        """(n,) the arm functions that public coins pick."""
        assert self.values is not None
        uniforms = public_uniforms(self.public_seed, self.version, public_coins, _FUNCTION)
        return (uniforms * len(self.values)).astype(np.int64)

    def _arms_at(self, unit: FloatArray) -> IntArray:
        """(n, F) the arm of every arm function for contexts in [0, 1]^d."""
        assert self.values is not None
        return arms_of_all(self.values, self.features(self.ranks(unit), self.used))

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        """(n, K) the shares of arm functions with each arm."""
        shares: FloatArray = (self._arms_at(unit)[..., None] == np.arange(self.arms)).mean(axis=1)
        return shares

    def _choose(self, unit: FloatArray, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        all_arms = self._arms_at(unit)
        arms = all_arms[np.arange(len(unit)), self.function_of(public_coins)]
        return arms, (all_arms == arms[:, None]).mean(axis=1)


@dataclass(frozen=True, eq=False)
class OpenKernelPolicy(FunctionPolicy):
    """Of people who report what happened as it was, for a reference without privacy."""

    kind: ClassVar[str] = "open-kernel-policy"
    accepts_logged_actions = True

    values: Functions


@dataclass(frozen=True, eq=False)
class KernelPolicy(FunctionPolicy):
    """Functions and partitions, of which a public coin picks one each (see the module).

    For a source there are no arm functions, and a public question picks one of each.

    Attributes:
        directions: (F, K, m) coefficients delta of the sign functions, in units of 2^-20.
        cells: C partitions into G cells.
        density: (Z,) where people are, as their reports will be read; for a source (Z K,), with
            their arms.
        epsilon: budget of one report.
        clipping_range: the range to which rewards are clipped, within [0, 1].
        thresholds: of each partition, where people say whether their reward is at least that
            instead of the reward (marginals.py); then there is one cell. Else there are none.
        centres: (K, m) coefficients of 2 p - 1 for the predicted reward p, in units of 2^-20: the
            clipping range, about 1/2, is moved by p - 1/2. None where it is the same for everyone.
    """

    kind: ClassVar[str] = "local-kernel-policy"
    for_sources: ClassVar[bool] = True
    decision_fields: ClassVar[tuple[str, ...]] = ("values",)
    reports_are_private = True

    directions: Functions
    cells: Cells
    density: Annotated[FloatArray, Shape("Z"), Range(above=0.0)]
    epsilon: Annotated[float, Range(above=0.0)]
    clipping_range: tuple[float, float] = field(
        default=WHOLE, kw_only=True, metadata=OPTIONAL_FIELD
    )
    thresholds: tuple[Annotated[float, Range(0.0, 1.0)], ...] = field(
        default=(), kw_only=True, metadata=OPTIONAL_FIELD
    )
    centres: Centres | None = field(default=None, kw_only=True, metadata=OPTIONAL_FIELD)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_clipping_range(self.clipping_range)
        asked = len(self.thresholds)
        if asked and (asked != self.partitions or self.cells.count > 1):
            raise InvalidInput(
                f"the policy had {asked} thresholds of rewards for {self.partitions} partitions "
                f"into {self.cells.count} cells; it needs one for each, and one cell. Send it as "
                "it was made."
            )
        if len(self.directions) == 0 or self.cells.columns > self.cell_columns:
            raise InvalidInput(
                f"the policy had {len(self.directions)} sign functions and cells of "
                f"{self.cells.columns} columns; it needs functions, and cells of at most "
                f"{self.cell_columns} columns. Send it as it was made."
            )

    @property
    def partitions(self) -> int:
        """C."""
        return len(self.cells.axis)

    @property
    def stage(self) -> int:
        """Of its reports, which measure functions of its ranks, of rewards clipped as it says."""
        clipped = self.clipping_range != WHOLE and self.centres is None
        return self.ranks.stage + clipped

    @property
    def clipped_to(self) -> tuple[float, float] | None:
        """The range to which all rewards are clipped, in their units; None where there is none."""
        if self.centres is not None:
            return None
        return clipped_to(self.clipping_range, self.reward_bounds)

    @property
    def radius(self) -> float:
        """Half the clipping range."""
        low, high = self.clipping_range
        return 0.5 * (high - low)

    def _missing(self, people: FloatArray, arms: IntArray) -> float | FloatArray:
        if self.thresholds:
            return 0.5
        low, high = self._clipping_ranges(people, arms)
        return low + 0.5 * (high - low)

    def _clipping_ranges(self, unit: FloatArray, arms: IntArray) -> tuple[FloatArray, FloatArray]:
        """(n,) the ends of the clipping ranges of people."""
        moved = self._moved(unit, arms)
        low, high = self.clipping_range
        return low + moved, high + moved

    def _moved(self, unit: FloatArray, arms: IntArray) -> FloatArray:
        """(n,) how far the predicted rewards of people lie above 1/2; 0 without centres."""
        if self.centres is None:
            return np.zeros(len(unit))
        phi = self.features(self.ranks(unit), self.used)
        moved: FloatArray = 0.5 * self.predicted(phi)[np.arange(len(phi)), arms]
        return moved

    @property
    def cell_columns(self) -> int:
        """How many columns cells are cut along; arms of a source are one more."""
        return self.domain.dimension + (not self.chooses)

    @property
    def questions(self) -> int:
        """How many questions there are for a source: F C."""
        return len(self.directions) * self.partitions

    @cached_property
    def mechanism(self) -> SignedSubsetSelection:
        """2G-ary randomised response."""
        return k_ary_response(self.cells.count, self.epsilon)

    @cached_property
    def reporter(self) -> SignedReporter:
        """How a cell and a sign are hidden."""
        cell = "the cell of the context" if self.chooses else "the cell of the context with the arm"
        sign = "the sign of the rounded reward"
        if self.thresholds:
            sign = "whether the reward reaches a threshold"
        elif self.clipped_to is not None:
            low, high = self.clipped_to
            sign = f"{sign}, clipped to [{low:,.4g}, {high:,.4g}]"
        elif self.centres is not None:
            reach = self.radius * (self.reward_bounds.upper - self.reward_bounds.lower)
            sign = f"{sign}, clipped to {reach:,.4g} about the predicted one"
        return SignedReporter(
            mechanism=self.mechanism,
            name=f"randomised response on {2 * self.mechanism.bins} values",
            data=f"{cell}{'' if self.chooses else ','} and {sign}",
            place_name="cell",
            public_coins=PUBLIC_COINS if self.chooses else self.questions,
        )

    @property
    def grid(self) -> Grid:
        """Where integrals are taken: over the domain, or over contexts and arms."""
        implied = self.ranks.implied(self.domain)
        grid = grid_of(self.public_seed, self.version, self.features, implied)
        return grid if self.chooses else grid.with_arms(self.arms)

    def arms_of_rows(self, phi: FloatArray) -> IntArray:
        """(R, F) the arm of each row of the grid, whose points have features (Q, m)."""
        if self.values is not None:
            return arms_of_all(self.values, phi)
        arms = np.tile(np.arange(self.arms), len(phi))
        return np.broadcast_to(arms[:, None], (len(arms), len(self.directions)))

    def signs_of_all(self, phi: FloatArray, arms: IntArray) -> SignArray:
        """(R, F) the sign of every sign function for the arms (R, F) of rows, of which each of the
        contexts with features (Q, m) has the same number."""
        functions, count, size = self.directions.shape
        table = self.directions.reshape(-1, size).T.astype(np.float64)
        values = (phi @ table).reshape(-1, 1, functions, count)
        own = np.take_along_axis(values, arms.reshape(len(phi), -1, functions, 1), axis=3)
        return np.where(own >= 0.0, 1, -1).astype(np.int8).reshape(arms.shape)

    def picked(self, public_coins: CoinArray) -> tuple[IntArray, IntArray]:
        """(n,) the functions and (n,) the partition that public coins, or questions, pick."""
        if not self.chooses:
            function, partition = np.divmod(public_coins.astype(np.int64), self.partitions)
            return function, partition
        uniforms = public_uniforms(self.public_seed, self.version, public_coins, _PARTITION)
        partition = (uniforms * self.partitions).astype(np.int64)
        return self.function_of(public_coins), partition

    def answers(
        self, unit: FloatArray, arms: IntArray, public_coins: CoinArray
    ) -> tuple[IntArray, SignArray]:
        """(n,) the cells of people, and (n,) which way of their rewards counts."""
        function, partition = self.picked(public_coins)
        ranks = self.ranks(unit)
        phi = self.features(ranks, self.used)
        own = self.directions[function, arms].astype(np.float64)
        asked = np.where((own[:, None, :] @ phi[:, :, None])[:, 0, 0] >= 0.0, 1, -1)
        placed = self.features.placed(ranks)
        if not self.chooses:
            placed = np.column_stack([placed, arm_places(arms, self.arms)])
        return self.cells.locate(placed, partition), asked.astype(np.int8)

    def predicted(self, phi: FloatArray) -> FloatArray:
        """(n, K) 2 p - 1 for the predicted rewards p of all arms at features (n, m)."""
        assert self.centres is not None
        return np.clip(decoded(phi @ self.centres.T.astype(np.float64)), -1.0, 1.0)

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> SignedReports:
        public_coins = actions.public_coins
        if not self.chooses:
            # First of all, and from their number alone: questions must not depend on people.
            public_coins = noise.below(self.questions, len(unit)).astype(np.uint64)
        cells, asked = self.answers(unit, actions.arms, public_coins)
        entering = self._entering(unit, actions.arms, rewards, public_coins)
        signs = round_to_signs(entering, noise) * asked
        return self.reporter.hidden(self, cells, signs, public_coins, noise)

    def _entering(
        self, unit: FloatArray, arms: IntArray, rewards: FloatArray, public_coins: CoinArray
    ) -> FloatArray:
        """(n,) what is rounded to signs, within [0, 1]."""
        if self.thresholds:
            asked = np.array(self.thresholds)[self.picked(public_coins)[1]]
            return (rewards >= asked + self._moved(unit, arms)).astype(np.float64)
        # Clipped first: however short a range is, no reward overflows.
        low, high = self._clipping_ranges(unit, arms)
        return (np.clip(rewards, low, high) - low) / (high - low)

    def release(self, noise: str) -> Release:
        return self.reporter.release(self, noise)
