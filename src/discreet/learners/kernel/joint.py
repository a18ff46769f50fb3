"""The kernel bandit under joint privacy: one noisy sum of each epoch.

Features, prior and posterior are those of learner.py, which need the natural parameters J and b
alone. Here they follow from central sums:

    reports of an epoch                              `_observed`
    -> sum of what people contribute                 epochs/sums.py
    -> the sum becomes public, once, with noise      `_release`
    -> where people are; J and b                     `_absorb`
    -> arm functions and the next contribution       `_publish`

**First epoch.** Uniform arms. A person contributes for each column the bin of their context, and
the bin of their reward with weight 1/2, so the release is a histogram of each. Continuous columns
of which half of the bins hold most people in a denoised histogram are measured in ranks from then
on. If sources reported before, arms follow from their reports, and people contribute a vector as
below beside the bins; once a source has a policy columns that are not in ranks stay as declared.
Under a given kernel they do, too: the first epoch then contributes as later ones, and lasts until
its release tells enough.

**Later epochs.** A person at context x with arm a and reward r contributes

    ( s T'z (t - h) / D,   e_cell(x) / 2,   e_bin(r) / 2 ),    s = min(1, D / ((1 + |h|) |T'z|)),

with z = e_a (x) phi(x), T the projection, h = clip(z' mean, -1, 1), t = -1 .. 1 the place of r in
the clipping range, and the cell of a random k-d split of the estimated density. Under a bound
on the noise of rewards t - h is clipped to twice a radius, which then stands in place of 1 + |h|
(prior_knowledge.py).

**Sensitivity.** The first block lies in the unit ball, so two of them differ by at most 2; a
one-hot vector of weight w differs from another by at most w sqrt(2). Blocks are orthogonal, so one
replaced person moves the sum by at most root(4 + 1/2 + 1/2), and that of the first epoch by
root(2 d + 1/2), or root(4 + 2 d + 1/2): `JointKernelPolicy.width`, from the blocks that the policy
holds. Contributions beyond the bound add 0 in every block. Of `best_arm`, whose contributions do
not depend on the context, the first block moves by the largest distance between those of two arms
and rewards.

**Privacy.** Policies follow from earlier releases and public coins. An arm follows from the policy
and the person's own context, so replacing a person changes their own contribution alone. Everyone
enters one release at most, so each has the whole budget (parallel composition), and what other
people see follows from releases (billboard lemma).

**What a release says.** With rho = w_q pi(a | x_q) over public points q of estimated weights w,

    F = sum rho s T'z z',  k = sum rho s T'z h,  Q = sum rho s^2 (1 - h^2) T'z z'T,
    C = n Q + D^2 sigma^2 I,    J += n^2 F'C^-1 F,    b += n F'C^-1 (D total + n k).

With a radius F and k are multiplied by the gain of clipping, and the mean square of t - h clipped
stands in place of 1 - h^2 (prior_knowledge.py).

Contributions carry t - h, so a wrong density rescales a correction of the mean. With t = u + w t'
in the range [(1 + u - w) / 2, (1 + u + w) / 2] of all rewards, J and b of t' become J / w^2 and
b / w + u J e / w^2 (e is 1 at constants); `_in_units`.

**Logs** (`expect_log`). Others gave everyone each arm with a chance p of at least p0. The first
block and the bin of the reward of such a person have the weight p0 / p, which is at most 1, so the
sensitivity is as above, and rho = p0 w_q for each arm, whatever p was.

**Clipping.** Noise is proportional to the range of rewards, so they are clipped to the shortest
range with light tails (adaptive clipping, Andrew et al. 2021, here by a histogram). A tail is light
if it holds at most a third as many people as come after the first quarter of the range, seen from
the other end, and at most five standard deviations of an arm's mean; with more people ranges grow.
Rewards of 0 and 1 are never clipped, and where few people spend anything, what they spend is not
counted as a tail. Functions are of clipped rewards, so a range stays while it will do. Once many
rewards are at both of their bounds, none will be clipped, and later epochs do not count them.

| array      | shape     | meaning                                                        | symbol |
|------------|-----------|----------------------------------------------------------------|--------|
| projection | (K, m, s) | directions that are measured                                   | T      |
| believed   | (K, m)    | posterior mean when the epoch began                            | mean   |
| weights    | (Q,)      | the share of people at each public point                       | w      |

Notes
-----
*Projection.* L is a root of .7 of the posterior covariance and .3 of the mean posterior covariance
under hyperparameters drawn from their prior: with the likeliest alone nothing else is asked once
functions seem flat. Half of the draws have the length scales below .2, where features reach so far
and noise leaves room: what no draw expects is never measured. T whitens the features in these
coordinates up to a threshold, that which leaves the least variance of the contrasts in doubt.

*Arm functions* are picked one by one, as the people of one epoch all learn the same; for more than
ten arms they are the mean plus .4 posterior draws, or .6 under a given kernel while 20,000 people
or more profit: with .4 one run in twenty stayed with wrong arms; without a kernel .6 loses more.

*Ranks* follow from a denoised histogram. Estimated from the noisy bins themselves they warped
uniform columns at random; functions of such ranks are not smooth, and the posterior was
overconfident.

*Tried without gain:* learning in the first release, whose histograms then have more noise; epochs
that double; a shorter first epoch, whose histograms are mostly noise; a fifth of the horizon in the
gain, with less mean regret but runs that never try an arm again; a variance of rewards below that
of signs, and residuals t - h clipped, both as the histogram tells them; shorter epochs where arms
are points; a second epoch of .4 to 2.5 times the first; under a given kernel draws of 1 at first;
for thirty arms shorter epochs, functions of means alone at first, or picked as for few arms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from discreet.codec import OPTIONAL_FIELD, Range, Shape
from discreet.gaussian import GaussianNaturalParameters
from discreet.learners.base import ENDLESS
from discreet.learners.discounting import (
    discount_factor,
    effective_sample_factor,
    longest,
)
from discreet.learners.epochs.sums import (
    DATA,
    MOST_PEOPLE,
    RESOLUTION,
    EpochRelease,
    EpochStatistics,
    EpochSum,
    Released,
    whole,
)
from discreet.learners.kernel.cells import MOST_CELLS, Cells, Ranks
from discreet.learners.kernel.design import DecisionContrasts
from discreet.learners.kernel.features import (
    LENGTH_SCALES,
    Coefficients,
    by_number,
    on_levels,
    sobol_points,
    whole_coefficients,
    with_implied,
)
from discreet.learners.kernel.learner import KernelCommon, KernelLearner, LocalKernel
from discreet.learners.kernel.policy import (
    LEAST_WIDTH,
    FunctionPolicy,
    Functions,
    arms_of_all,
    check_clipping_range,
    clipped_to,
)
from discreet.learners.kernel.posterior import (
    HyperparameterPosterior,
    MixturePart,
    PosteriorMixture,
    coefficient_places,
    resampled,
)
from discreet.learners.messages import Observations
from discreet.learners.stream import Stream
from discreet.learners.values import ValuePosterior
from discreet.people.domain import Arms, Box
from discreet.privacy import Budget, Joint, OnceEach, Release, Unprotected
from discreet.privacy.calibration import in_unit_ball
from discreet.validation import (
    CoinArray,
    FloatArray,
    IntArray,
    InvalidInput,
    finite_vector,
    number_from,
    positive_number,
    whole_number,
)

_BLOCKS = "a vector in the unit ball and one-hot vectors, rounded to 2^-30"
# The weight of the cell beside the unit ball, a multiple of 2^-30.
_CELL_WEIGHT = 0.5
# Bins of a column in the first epoch, a power of two. A column is measured in ranks if half of them
# hold more than this share.
_BINS, _CROWDED = 32, 0.7
# People of the first epoch: deviations of a bin's noise, least number, and share of the horizon.
_FIRST_DEVIATIONS, _FEWEST, _MOST_FIRST = 4.0, 100, 0.04
_FIRST_OF_LOG = 0.05, 0.25  # the least and the largest share of a log
# Later epochs have this share of the people so far. With more than ten arms a short epoch is mostly
# noise: they have at least this many people per arm, capped at this share of the horizon.
_GROWTH, _OF_ARM, _MOST_OF_ARMS = 0.4, 50, 0.1
_SHARE_OF_HALF_LIFE = 0.25
# People of a cell for each deviation of its noise.
_PEOPLE_PER_CELL = 5.0
_FLOOR = 0.05
# The weight of the reward's bin beside the unit ball, a multiple of 2^-30; the edges of the bins.
_REWARD_WEIGHT = 0.5
_EDGES = np.array([0, 1, 4, 16, 64, 96, 128, 160, 192, 240, 252, 255, 256]) / 256.0
# Of the clipping range (see the module): a light tail, at most; its limit in deviations; how much
# shorter another one has to be, and how much too heavy tails may become.
_LIGHT, _MOST_DEVIATIONS, _SHORTER, _TOO_HEAVY = 1 / 3, 5.0, 0.7, 2.0
# Rewards are counted until the share at each of their bounds exceeds this one by these deviations.
_MANY, _SURE = 0.02, 3.0
# Hyperparameters that are averaged, half of those drawn from the prior, and the latters' share.
_MIXED, _WIDE, _WIDE_SHARE, _MIXED_TO_PREDICT = 6, 4, 0.3, 8
# Fast changes are looked for where, with all features of all arms in the release, noise would have
# at most this multiple of the variance of the rewards.
_MOST_NOISE = 8.0
# The first epoch under a given kernel ends when its release leaves this share of the variance of
# the differences that count; without a horizon this many people are expected.
_DOUBT_LEFT, _EXPECTED = 0.75, 10_000
# Directions of the covariance, at most, and the least variance of one relative to the largest.
_MOST_DIRECTIONS, _LEAST_DIRECTION = 400, 1e-6
_THRESHOLDS = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2, 0.4)
# D as a multiple of the root mean square length; longer contributions are shortened.
_SHORTENED, _USUAL_SPREAD = 0.7, 1.2
_LEAST_VARIANCE = 0.05
_FUNCTIONS, _PLACES, _DOUBTS = 32, 1024, 200
# Weights in the choice of arm functions: of the information from the rest of an epoch, and of the
# gain, as longer epochs later give the same information with less noise.
_BESIDE, _GAIN = 4.0, 0.4
_FEW_ARMS, _DRAWN, _DRAWN_FOR_MANY, _MANY_LEFT = 10, 0.4, 0.6, 20_000
_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class LoggedObservations(Observations):
    """What happened to people of a log.

    Attributes:
        weights: (n,) in [0, 1]: p0 / p of each.
    """

    kind: ClassVar[str] = "logged-observations"

    weights: Annotated[FloatArray, Shape("n"), Range(0.0, 1.0)]


@dataclass(frozen=True, eq=False)
class JointKernelPolicy(FunctionPolicy):
    """The policy of one epoch: arm functions, and what a person contributes (see the module).

    Attributes:
        believed: (K, m) coefficients of the posterior mean when the epoch began.
        projection: (K, m, s) directions that are measured; None where none are yet.
        clipping_norm: D.
        cells: the partition whose cells are counted; nothing is where it has one.
        bins: (d,) numbers of bins in which columns are counted; empty after the first epoch.
        clipping_range: the range to which rewards are clipped, within [0, 1].
        reward_weight: the weight of the reward's bin; 0 where rewards are not counted.
        least_propensity: 0, or of a log: then everyone had each arm with at least this chance.
        radius: how far beside the predicted reward rewards are clipped, on [0, 1]; None where the
            clipping range is the same for everyone.
    """

    kind: ClassVar[str] = "joint-kernel-policy"

    values: Functions
    believed: Annotated[FloatArray, Shape("arms", "m")]
    projection: Annotated[FloatArray, Shape("arms", "m", "s")] | None
    clipping_norm: Annotated[float, Range(above=0.0)]
    cells: Cells
    bins: Annotated[IntArray, Shape("columns"), Range(2)]
    clipping_range: tuple[float, float]
    reward_weight: Annotated[float, Range(0.0, 1.0)]
    least_propensity: Annotated[float, Range(0.0, 1.0)] = field(
        default=0.0, kw_only=True, metadata=OPTIONAL_FIELD
    )
    radius: Annotated[float, Range(LEAST_WIDTH, 0.5)] | None = field(
        default=None, kw_only=True, metadata=OPTIONAL_FIELD
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = len(self.bins), self.cells.columns
        if columns[0] not in (0, self.domain.dimension) or columns[1] > self.domain.dimension:
            raise InvalidInput(
                f"the policy counted {columns[0]} columns and cells of {columns[1]} columns; its "
                f"domain has {self.domain.dimension}. Send it as it was made."
            )
        if self.size == 0 or len(self.cells.axis) != 1:
            raise InvalidInput(
                "the policy has no contribution, or several partitions; send it as it was made."
            )
        check_clipping_range(self.clipping_range)
        if not self.varies and (len(self.bins) or self.cells.count > 1):
            raise InvalidInput(
                "the policy ignores contexts but counts them; send it as it was made."
            )

    @property
    def clipped_to(self) -> tuple[float, float] | None:
        """The range to which rewards are clipped, in their units; None where none is clipped."""
        return clipped_to(self.clipping_range, self.reward_bounds)

    @property
    def entering(self) -> str:
        """What of a person's data enters the release."""
        data = DATA
        if self.clipped_to is not None:
            low, high = self.clipped_to
            data = f"{DATA}, clipped to [{low:,.4g}, {high:,.4g}]"
        elif self.radius is not None:
            reach = self.radius * (self.reward_bounds.upper - self.reward_bounds.lower)
            data = f"{DATA}, clipped to {reach:,.4g} about the predicted one"
        return f"{data}, and the propensity" if self.least_propensity else data

    @property
    def mass(self) -> float:
        """What people count on average."""
        return self.arms * self.least_propensity if self.least_propensity else 1.0

    # People of a log.

    @property
    def accepts_logged_actions(self) -> bool:
        return self.least_propensity > 0.0

    def _choose(self, unit: FloatArray, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        if self.least_propensity:
            raise InvalidInput(
                f"{self.title} is for people of a log, who were given their arms; pass these to "
                "logged()."
            )
        return super()._choose(unit, public_coins)

    def logged(
        self, contexts: Any, arms: ArrayLike, rewards: ArrayLike, propensities: ArrayLike
    ) -> LoggedObservations:
        """What happened to people of a log.

        Args:
            contexts, arms, rewards: as `report` takes them.
            propensities: (n,) the probabilities with which people had their arms.

        Raises:
            InvalidInput: as `report`, for propensities below the least, and under a policy that is
                of no log.
        """
        least, reports = self.least_propensity, self.report(contexts, arms, rewards, Unprotected())
        assert isinstance(reports, Observations)
        chances = checked_propensities(propensities, len(reports), least)
        return LoggedObservations(
            **self.origin(reports.noise),
            contexts=reports.contexts,
            arms=reports.arms,
            rewards=reports.rewards,
            weights=np.minimum(least / chances, 1.0),
        )

    # What a person contributes.

    @property
    def directions(self) -> int:
        """s, the numbers in the unit ball."""
        return 0 if self.projection is None else self.projection.shape[2]

    @property
    def counted(self) -> tuple[tuple[int, float], ...]:
        """Length and weight of each one-hot vector."""
        cells = ((self.cells.count, _CELL_WEIGHT),) if self.cells.count > 1 else ()
        rewards = ((len(_EDGES) - 1, self.reward_weight),) if self.reward_weight else ()
        return (*((count, 1.0) for count in self.bins.tolist()), *cells, *rewards)

    @property
    def size(self) -> int:
        """The numbers of a contribution."""
        return self.directions + sum(count for count, _ in self.counted)

    @cached_property
    def width(self) -> float:
        """l2 distance between any two contributions, at most, before they are rounded."""
        ball = 2.0 if self.directions else 0.0
        if not self.varies:
            # Linear in the reward and the same for every context: the ends are all there is.
            arms, rewards = np.repeat(np.arange(self.arms), 2), np.tile([0.0, 1.0], self.arms)
            ends = self._measured(np.ones((len(arms), 1)), arms, rewards)
            ends = np.vstack([ends, np.zeros(self.directions)])
            ball = 1e-12 + float(np.linalg.norm(ends[:, None] - ends, axis=2).max())
        return math.sqrt(ball**2 + 2.0 * sum(weight**2 for _, weight in self.counted))

    def contributions(
        self,
        unit: FloatArray,
        arms: IntArray,
        rewards: FloatArray,
        weights: FloatArray | None = None,
    ) -> IntArray:
        """(n, size) whole multiples of 2^-30, for contexts in [0, 1]^d and rewards in [0, 1]; of
        people of a log with their weights."""
        weighing = np.ones(len(arms)) if weights is None else weights
        made = np.zeros((len(arms), self.size), dtype=np.int64)
        low, high = self.clipping_range
        clipped = np.clip((rewards - low) / (high - low), 0.0, 1.0)
        most = max(1, _AT_ONCE // max(self.size, len(self.used)))
        for start in range(0, len(arms), most):
            some = slice(start, start + most)
            ranks = self.ranks(unit[some])
            if self.projection is not None:
                phi = self.features(ranks, self.used)
                measured = self._measured(phi, arms[some], clipped[some])
                made[some, : self.directions] = whole(measured * weighing[some, None])
            placed, at = self.features.placed(ranks), self.directions
            rows = np.arange(start, start + len(placed))
            for column, count in enumerate(self.bins.tolist()):
                made[rows, at + _bin(placed[:, column], count)] = RESOLUTION
                at += count
            if self.cells.count > 1:
                cell = self.cells.locate(placed, np.zeros(len(placed), dtype=np.int64))
                made[rows, at + cell] = _CELL_WEIGHT * RESOLUTION
                at += self.cells.count
            if self.reward_weight:
                found = np.searchsorted(_EDGES[1:-1], rewards[some], side="right")
                made[rows, at + found] = whole(self.reward_weight * weighing[some])
        return made

    def _measured(self, phi: FloatArray, arms: IntArray, rewards: FloatArray) -> FloatArray:
        """(n, s) s T'z (t - h) / D, in the unit ball."""
        assert self.projection is not None
        turned = np.zeros((len(phi), self.directions))
        for arm in range(self.arms):
            given = arms == arm
            turned[given] = phi[given] @ self.projection[arm]
        centre = np.clip((phi * self.believed[arms]).sum(axis=1), -1.0, 1.0)
        most, residual = self._most(centre), 2.0 * rewards - 1.0 - centre
        length = most * np.sqrt((turned**2).sum(axis=1))
        share = np.clip(residual, -most, most) / np.maximum(length, self.clipping_norm)
        return in_unit_ball(turned * share[:, None])

    def _most(self, centre: FloatArray) -> FloatArray:
        """The largest |t - h| at h (n,)."""
        return 1.0 + np.abs(centre) if self.radius is None else 0.0 * centre + 2.0 * self.radius

    def expected_at(self, phi: FloatArray, arm: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """T'z (n, s), h (n,) and the factor s (n,) of an arm at features (n, m)."""
        assert self.projection is not None
        turned = phi @ self.projection[arm]
        centre = np.clip(phi @ self.believed[arm], -1.0, 1.0)
        length = self._most(centre) * np.sqrt((turned**2).sum(axis=1))
        return turned, centre, np.minimum(1.0, self.clipping_norm / np.maximum(length, 1e-300))

    def check_sum(self, added: EpochSum) -> None:
        """Refuse a sum that no contributions add up to."""
        total, people = added.total, added.people
        proper = total.shape == (self.size,) and total.dtype.kind == "i"
        if proper and self.directions:
            ball = total[: self.directions]
            # Not np.abs, which leaves the least 64-bit integer negative.
            proper = max(int(ball.max()), -int(ball.min())) <= people * (RESOLUTION + 1.0)
        at = self.directions
        for count, weight in self.counted if proper else ():
            block = total[at : at + count]
            proper &= bool((block >= 0).all() and (block <= people * weight * RESOLUTION).all())
            proper = proper and int(block.sum()) <= people * weight * RESOLUTION
            at += count
        if not proper:
            raise InvalidInput(
                f"statistics of version {self.version} had {len(total)} numbers of type "
                f"{total.dtype} that no {people} contributions of {self.size} numbers add up to. "
                "Send them as statistics() made them."
            )


class JointKernel(KernelLearner[JointKernelPolicy, Observations, EpochStatistics]):
    """The kernel bandit under joint privacy (see the module).

    People of auxiliary sources (`open_source`) report as under local privacy, and their reports
    enter the same posterior.

    Args:
        budget: `Joint(epsilon, delta)` with a delta above 0.
        first: people of the first epoch; by default as many as tell bins of columns, or arms, from
            noise.
        growth: later epochs have this share of the people so far.
        half_life, kernel, reward_noise: as for `LocalKernel`.
    """

    central: ClassVar[bool] = True
    reports_type = Observations
    statistics_type = EpochStatistics
    saved: ClassVar[tuple[str, ...]] = (
        *KernelLearner.saved,
        "_released",
        "_length",
        "_keeps_columns",
        "_log",
    )
    _released: Released
    # Whether columns stay as declared, because reports of sources measure functions of them; None
    # until the first release is read.
    _keeps_columns: bool | None = None
    _length: Annotated[int, Range(0)]  # number of people in the current epoch
    # Of logs: when the last one ends, its least propensity, and people in all of them.
    _log: tuple[int, float, int]

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Joint,
        *,
        first: int | None = None,
        growth: float = _GROWTH,
        **common: Unpack[KernelCommon],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        if budget.delta == 0.0:
            raise InvalidInput(
                f"delta was 0; {self.name} adds Gaussian noise; give a delta above 0, such as 1e-6."
            )
        self.first = None if first is None else whole_number(first, "first", minimum=1)
        self.growth = positive_number(growth, "growth")
        self._released = Released((), self._empty())
        self._length, self._log = 0, (0, 0.0, 0)
        # What releases say, a function of policies and releases: how many were read, where people
        # are, how contexts are measured, J and b.
        self._read_releases = 0
        self._kept: tuple[tuple[int, int], HyperparameterPosterior, PosteriorMixture] | None = None
        self._weights: FloatArray | None = None
        self._ranks = Ranks.plain(domain.dimension)
        self._information = GaussianNaturalParameters.zeros(self.arms * len(self.features))
        # Shares of rewards in each bin, their precision, and how many rewards they are of.
        self._rewards = np.zeros(len(_EDGES) - 1), 0.0, 0.0

    @property
    def batch_size(self) -> int:
        return self._length

    @property
    def enough_of_log(self) -> int:
        """People of a log who are worth a release of their own."""
        return max(self._first_length, math.ceil(self.growth * self.people))

    def expect_log(self, people: int, least_propensity: float) -> None:
        """Say that the next `people` are of a log, in which everyone had each of the K arms with at
        least this probability.

        The epoch ends, and policies from `policy()` take the log (`JointKernelPolicy.logged`), as
        long as these people last; with 0 people it ends early.

        Raises:
            InvalidInput: for another number than a whole one, or a probability that K arms cannot
                all have.
        """
        count, most = whole_number(people, "people", maximum=MOST_PEOPLE), 1.0 / self.arms
        least = number_from(least_propensity, "least_propensity", 1e-6, 1.0)
        if least > most * (1.0 + 1e-9):
            raise InvalidInput(
                f"least_propensity was {least:g}; everyone in a log must have had each of the "
                f"{self.arms} arms with at least this probability, so it is at most {most:g}. "
                "Leave out arms that some people in the log could not have had."
            )
        with self.lock:
            missed = max(self._log[0] - self.people, 0)
            if count or missed:
                self._log = self.people + count, least, self._log[2] + count - missed
                self._length = 0

    def _empty(self) -> EpochStatistics:
        return EpochStatistics(reports=0, epochs={})

    # Reports, sums and releases.

    def _observed(self, policy: JointKernelPolicy, reports: Observations) -> EpochStatistics:
        columns, most = reports.contexts.shape[1], reports.arms.max(initial=0)
        if not len(reports) or columns != self.domain.dimension or most >= self.arms:
            raise InvalidInput(
                f"reports had {len(reports)} entries of {columns} columns and arms up to {most}; "
                f"this learner has {self.domain.dimension} columns and {self.arms} arms. Send "
                "reports as report() made them."
            )
        weights = reports.weights if isinstance(reports, LoggedObservations) else None
        if (weights is None) == (policy.least_propensity > 0.0):
            raise InvalidInput(
                f"reports were {type(reports).__name__}; send what policy.report() made, and under "
                "a policy of a log what policy.logged() made."
            )
        made = policy.contributions(reports.contexts, reports.arms, reports.rewards, weights)
        if reports.over_limit is not None:
            made[reports.over_limit] = 0
        added = EpochSum(len(reports), made.sum(axis=0))
        return EpochStatistics(reports=len(reports), epochs={policy.version: added})

    def _check_sums(self, statistics: EpochStatistics) -> None:
        statistics.check(self.people, self._check_sum)

    def _check_sum(self, version: int, added: EpochSum) -> None:
        self.published(version).check_sum(added)

    def _release(self) -> None:
        """Release the sums since the last one, in one assignment; noise is drawn nowhere else."""
        self._released = self._released.extended(self._sums, self._drawn)

    def _drawn(self, version: int, added: EpochSum) -> EpochRelease:
        assert self.noise is not None
        multiplier, _, width = self._asked(version)
        return EpochRelease.noisy(version, added, multiplier, self.noise, width)

    def _asked(self, version: int) -> tuple[float, int, float]:
        """Noise multiplier of a release, and size and width of what people contribute to it."""
        policy = self.published(version)
        return self.budget.noise_multiplier, policy.size, policy.width

    def _central_releases(self) -> list[Release]:
        people = OnceEach(f"one row of learner {self.identity}", self.budget.max_contributions)
        return [
            drawn.record(people, policy.width, _BLOCKS, policy.entering)
            for drawn in self._released.drawn
            for policy in [self.published(drawn.version)]
        ]

    # What releases say.

    @cached_property
    def _points(self) -> FloatArray:
        """(Q, d) public contexts over which integrals are sums."""
        levels, shift = self.domain.levels, np.random.default_rng([self.public_seed, 4])
        points = (sobol_points(len(levels)) + shift.random(len(levels))) % 1.0
        return on_levels(with_implied(points, self._ranks.implied(self.domain)), levels)

    @cached_property
    def _phi(self) -> FloatArray:
        """(Q, M) all features there."""
        return self.features(self._points)

    @cached_property
    def _placed(self) -> FloatArray:
        """(Q, d) the same, as cells and bins look them up."""
        return self.features.placed(self._points)

    @property
    def weights(self) -> FloatArray:
        """(Q,) the estimated share of people at each public point."""
        count = len(self._points)
        return np.full(count, 1.0 / count) if self._weights is None else self._weights

    def _absorb(self) -> None:
        """Read the releases that were not read yet."""
        for drawn in self._released.drawn[self._read_releases :]:
            policy, known = self.published(drawn.version), self._information
            factor = discount_factor(self.half_life, drawn.people)
            known = known.scaled(factor)
            if policy.reward_weight:
                shares, before, people = self._rewards
                count = policy.reward_weight * policy.mass * drawn.people
                precision = factor * before + (count / drawn.scale) ** 2
                step = (count / drawn.scale) ** 2 / precision
                shares = shares + step * (drawn.total[-len(shares) :] / count - shares)
                self._rewards = shares, precision, factor * people + policy.mass * drawn.people
            if policy.cells.count > 1:
                self._weights = self._moved(policy, drawn)
            elif len(policy.bins) and self._weights is None:
                self._locate(policy, drawn)
            if policy.projection is not None:
                fresh = self._likelihood_of(policy, drawn)
                known = known + _in_units(fresh, self.arms, policy.clipping_range)
            self._information = known
            self._read_releases += 1

    @property
    def _own(self) -> GaussianNaturalParameters:
        """J and b, as of people of the latest weight and in units of the clipping range."""
        came = sum(drawn.people for drawn in self._released.drawn)
        known = self._information.scaled(effective_sample_factor(self.half_life, came))
        return _in_units(known, self.arms, self._inverse_range)

    def _of_source(self, source: Stream[Any, Any]) -> GaussianNaturalParameters:
        return _in_units(super()._of_source(source), self.arms, self._inverse_range)

    @property
    def _inverse_range(self) -> tuple[float, float]:
        """Where [0, 1] is relative to the clipping range."""
        low, high = self.clipping_range
        return -low / (high - low), (1.0 - low) / (high - low)

    def _locate(self, policy: JointKernelPolicy, drawn: EpochRelease) -> None:
        """Ranks and first weights from the histograms of columns."""
        if self._keeps_columns is None:
            self._keeps_columns = any(source.policies for source in self._sources.values())
        people, deviation, at = drawn.people, drawn.scale, policy.directions
        knots, weights = self._ranks.fine_knots(), self.weights.copy()
        indicators = by_number(self._ranks.implied(self.domain))
        shown: dict[int, float] = {}
        behind = {column for places in indicators.values() for column, _ in places}
        for column, count in enumerate(policy.bins.tolist()):
            found, even = drawn.total[at : at + count], people / count
            at += count
            if self.domain.levels[column] is not None:
                noise = deviation * (0.5 if deviation < 2.0 * even else 1.0)
                shares = np.maximum(found - noise, 0.0) + _FLOOR * even
                sure = even**2 / (even**2 + deviation**2 + even)
                shares = (1.0 - sure) / count + sure * shares / shares.sum()
                if column in behind:  # a person has at most one of the indicators of a number
                    shown[column] = float(shares[1])
                else:
                    weights *= count * shares[_bin(self._placed[:, column], count)]
                continue
            shares = np.maximum(_smoothed(found, deviation**2 + even), _FLOOR * even)
            shares = shares / shares.sum()
            half = float(np.sort(shares)[::-1][: count // 2].sum())
            if half > _CROWDED and self._keeps_columns:
                weights *= count * shares[_bin(self._placed[:, column], count)]
            elif half > _CROWDED:
                below = np.concatenate([[0.0], np.cumsum(0.9 * shares + 0.1 / count)])
                even_ranks = np.linspace(0.0, below[-1], knots.shape[1])
                knots[column] = np.interp(even_ranks, below, np.linspace(0.0, 1.0, count + 1))
        for places in indicators.values():
            rest = 1.0 - sum(shown[column] for column, _ in places)
            factor = np.full(len(weights), 2.0 * max(rest, _FLOOR))
            for column, _ in places:
                factor[self._placed[:, column] > 0.5] = 2.0 * len(places) * shown[column]
            weights *= factor
        self._weights = weights / weights.sum()
        self._ranks = Ranks(knots, 0, np.zeros(0, dtype=np.int64))
        if self.domain.implied:  # points contain numbers of indicators, which ranks have moved
            for kept in ("_points", "_phi", "_placed"):
                self.__dict__.pop(kept, None)

    def _next_clipping_range(self) -> tuple[float, float]:
        """The shortest range with light tails, or the present one while it will do."""
        shares, precision, people = self._rewards
        if people == 0.0:
            return self.clipping_range
        noise = precision**-0.5
        mean = 2.0 * self.budget.noise_multiplier * self.arms / people
        most = _MOST_DEVIATIONS * (mean + math.sqrt(self.arms / people))

        def excess(low: int, high: int) -> float:
            """The tails between these edges, relative to light ones."""
            mirrored = _tail(shares[::-1], noise, most, len(shares) - high, len(shares) - low)
            return max(_tail(shares, noise, most, low, high), mirrored)

        edges = range(len(_EDGES))
        light = [(_EDGES[b] - _EDGES[a], a, b) for a in edges for b in edges[a + 1 :]]
        width, low, high = min(each for each in light if excess(*each[1:]) <= 1.0)
        now = np.searchsorted(_EDGES, self.clipping_range).tolist()
        long = width > _SHORTER * (_EDGES[now[1]] - _EDGES[now[0]])
        if long and excess(*now) <= _TOO_HEAVY:
            return self.clipping_range
        return float(_EDGES[low]), float(_EDGES[high])

    @property
    def _fill_their_range(self) -> bool:
        """Whether many rewards are at both ends of their bounds, so that none will be clipped."""
        shares, precision, _ = self._rewards
        excess = min(shares[0], shares[-1]) - _MANY
        return self.clipping_range == (0.0, 1.0) and excess * math.sqrt(precision) > _SURE

    @property
    def _clipping_bias(self) -> float:
        """From the histogram, with one deviation of its noise."""
        shares, precision, _ = self._rewards
        (low, high), middle = self.clipping_range, 0.5 * (_EDGES[1:] + _EDGES[:-1])
        away = np.maximum(middle - high, 0.0) + np.maximum(low - middle, 0.0)
        spread = float(np.linalg.norm(away)) / math.sqrt(max(precision, 1e-300))
        return max(float(away @ shares), 0.0) + spread

    def _moved(self, policy: JointKernelPolicy, drawn: EpochRelease) -> FloatArray:
        """The weights after a step towards the counts of cells."""
        count = policy.cells.count
        at = policy.directions
        found = drawn.total[at : at + count] / (_CELL_WEIGHT * drawn.people)
        cell = policy.cells.locate_all(self._placed)[0]
        mass = np.maximum(np.bincount(cell, self.weights, minlength=count), 1e-12)
        variance = mass / drawn.people + (drawn.scale / (_CELL_WEIGHT * drawn.people)) ** 2
        fresh = mass**2 / (1.0 + 0.25 * (policy.version - 1))
        step = fresh / (fresh + variance)
        moved = np.maximum((1.0 - step) * mass + step * found, _FLOOR * mass)
        weights = self.weights * (moved / moved.sum() / mass)[cell]
        shares: FloatArray = weights / weights.sum()
        return shares

    def _likelihood_of(
        self, policy: JointKernelPolicy, drawn: EpochRelease
    ) -> GaussianNaturalParameters:
        """J and b of one release (see the module)."""
        phi, size, people = self._phi[:, policy.used], len(self.features), drawn.people
        shares = self._shares(policy.values, phi, policy.least_propensity) * self.weights[:, None]
        slope = np.zeros((policy.directions, self.arms * size))
        offset, spread = np.zeros(policy.directions), np.zeros((policy.directions,) * 2)
        gain, square = self._clipping(policy.radius)
        for arm in range(self.arms):
            turned, centre, factor = policy.expected_at(phi, arm)
            weighted = turned * (shares[:, arm] * factor)[:, None]
            slope[:, arm * size : (arm + 1) * size] = gain * (weighted.T @ self._phi)
            offset += gain * (weighted.T @ centre)
            variance = np.minimum(np.maximum(1.0 - centre**2, _LEAST_VARIANCE), square)
            spread += (weighted * (factor * variance)[:, None]).T @ turned
        norm = policy.clipping_norm
        floor = (norm * drawn.scale) ** 2 + 1e-9 * people
        covariance = people * spread + floor * np.eye(policy.directions)
        weighing = np.linalg.solve(covariance, slope).T
        precision = people**2 * weighing @ slope
        seen = norm * drawn.total[: policy.directions] + people * offset
        return GaussianNaturalParameters(
            0.5 * (precision + precision.T), people * (weighing @ seen)
        )

    def _clipping(self, radius: float | None) -> tuple[float, float]:
        """The gain and the mean square of t - h clipped to a radius."""
        noise = self._noise_bound
        return (1.0, 1.0) if radius is None or noise is None else noise.clipped(radius)

    def _shares(self, values: Coefficients, phi: FloatArray, least: float) -> FloatArray:
        """(Q, K) the shares of arm functions with each arm; of a log, weights by their chances."""
        if least:
            return np.full((len(phi), self.arms), least)
        chosen = arms_of_all(values, phi)
        return np.stack([(chosen == arm).mean(axis=1) for arm in range(self.arms)], axis=1)

    # The policy.

    def _publish(self) -> JointKernelPolicy:
        self._release()
        self._absorb()
        self.clipping_range = self._next_clipping_range()
        self._review(True)
        if self._known.precision.any():
            self._learn(sweeps=4)  # epochs are few
        until, least, of_logs = self._log
        left_in_log = max(until - self.people, 0)
        least = least if left_in_log else 0.0
        if not (self._policies or not self.varies or self._used_sources or self._kernel_prior):
            return self._first_policy(left_in_log, least)
        grown = self.growth * self.people
        if self.varies and self.arms > _FEW_ARMS and self._kernel_prior is None:
            fewest = min(_OF_ARM * self.arms, _MOST_OF_ARMS * (self.horizon or math.inf))
            grown = max(grown, fewest)
        grown = longest(self.half_life, math.ceil(grown), _SHARE_OF_HALF_LIFE)
        lengths = [max(grown, self._first_length)]
        if self._kernel_prior is not None:
            lengths = self._lengths(grown)
        people, after, last = lengths[0], 1000 + self.people, False
        if least:  # arms are given, so several epochs would only have more noise
            people = longest(self.half_life, left_in_log, _SHARE_OF_HALF_LIFE)
        if self.horizon is not None and not least:
            remaining = max(self.horizon + of_logs - self.people, 1)
            if people >= remaining:
                # The epoch would not end, so its reports are not needed.
                people, last = remaining, True
            after = remaining - people
        left = longest(self.half_life, max(after, 1), 1.0 / math.log(2.0))
        rng = np.random.default_rng([self.public_seed, len(self._policies), 2])
        if last or least:
            lengths = [people]
        policy, people = self._designed(lengths, left, last, least, rng)
        self._length = ENDLESS if last else people
        return policy

    def _lengths(self, grown: int) -> list[int]:
        """The lengths that the next epoch may have under a given kernel."""
        least = _FEWEST // 2
        before = [
            max(drawn.people, least)
            for drawn in self._released.drawn
            if not self.published(drawn.version).least_propensity
        ]
        if before or self.first is not None:
            return [max(grown, self.first or before[0])]
        lengths, most = [max(grown, least)], _MOST_OF_ARMS * (self.horizon or _EXPECTED)
        while 1.5 * lengths[-1] < most:
            lengths.append(math.ceil(1.5 * lengths[-1]))
        return lengths

    @property
    def _first_length(self) -> int:
        """People of the first epoch, which tell bins of columns, or arms, from noise."""
        if self.first is not None:
            return self.first
        square, counts = 2.0 * self.domain.dimension, math.sqrt(_BINS)
        if not self.varies:
            square, counts = 4.0, float(self.arms)
        deviation = self.budget.noise_multiplier * math.sqrt(square + 2.0 * _REWARD_WEIGHT**2)
        wanted = max(_FEWEST, math.ceil(_FIRST_DEVIATIONS * deviation * counts))
        horizon = math.inf if self.horizon is None else self.horizon + self._log[2]
        return int(min(wanted, max(_FEWEST // 2, _MOST_FIRST * horizon)))

    @property
    def _bins(self) -> IntArray:
        """Bins of each column in the first epoch."""
        levels = self.domain.levels
        return np.array([_BINS if count is None else min(count, _BINS) for count in levels])

    def _first_policy(self, left_in_log: int, least: float) -> JointKernelPolicy:
        """Uniform arms, or those of a log, and a histogram of each column."""
        self._length = self._first_length
        if least:
            low, high = (math.ceil(share * left_in_log) for share in _FIRST_OF_LOG)
            usual = min(max(self._length, low), high)
            self._length = min(self.first, left_in_log) if self.first else usual
        return JointKernelPolicy(
            **self.policy_header(),
            frequencies=self.features.index[:1],
            ranks=self._ranks,
            values=whole_coefficients(np.eye(self.arms)[:, :, None]),
            believed=np.zeros((self.arms, 1)),
            projection=None,
            clipping_norm=1.0,
            cells=Cells.whole(1),
            bins=self._bins,
            clipping_range=self.clipping_range,
            reward_weight=_REWARD_WEIGHT if self._noise_bound is None else 0.0,
            least_propensity=least,
        )

    def _designed(
        self, lengths: Sequence[int], left: int, last: bool, least: float, rng: np.random.Generator
    ) -> tuple[JointKernelPolicy, int]:
        """The policy of an epoch, after whose people `left` profit from what they say.

        Args:
            lengths: numbers of people that the epoch may have, increasing.
            left: people after it.
            last: whether the epoch does not end; then everyone gets the best arm by the mean.
            least: the least propensity of a log, or 0.
            rng: of public draws.
        """
        mixture = self._model_average(_MIXED, rng, self._source_weights.together)
        known, likely = self._known, self._hyperparameters.best
        weights, people = self.weights, lengths[0]
        counts = self._noise_bound is None and not self._fill_their_range
        reward_weight = _REWARD_WEIGHT if counts else 0.0
        # After reports of sources the first epoch counts bins of columns, too.
        counted = self.varies and not self._policies and self._kernel_prior is None
        bins = self._bins if counted else np.zeros(0, dtype=np.int64)
        square = 4.0 + 2.0 * (len(bins) or _CELL_WEIGHT**2) + 2.0 * reward_weight**2
        deviation = self.budget.noise_multiplier * math.sqrt(square)
        usual = LENGTH_SCALES[:-1]
        seen = self.arms * len(self.features) * deviation**2 <= _MOST_NOISE * people
        faster = (seen and self.features.length_scales[: -len(LENGTH_SCALES)]) or usual
        if self._kernel_prior is not None:
            prior = self._kernel_prior.prior
            drawn = [prior.draw(1, rng)[0][0] for _ in range(_WIDE)]
        else:
            drawn = [likely.drawn(rng, each) for each in [usual, faster] * _WIDE]
        wide = [self._posterior(each, known) for each in drawn]
        used = np.unique(np.concatenate([mixture.used, *(part.used for part in wide)]))
        # Points by the share of people there, in random order.
        at = (np.arange(_PLACES) + rng.random()) / _PLACES
        places = rng.permutation(np.searchsorted(np.cumsum(weights)[:-1], at, side="right"))
        phi = self._phi[places][:, mixture.used]
        even = np.full(_PLACES, 1.0 / _PLACES)
        contrasts = DecisionContrasts.of(mixture, phi, even, rng)
        if last:
            functions = mixture.mean[None]
        elif least or not (self._policies or self._used_sources):
            functions = np.eye(self.arms)[:, :, None] * (mixture.used == 0)
        else:
            functions = self._functions(contrasts, people, left, deviation, rng)
        inside = np.searchsorted(used, mixture.used)
        values = np.zeros((len(functions), self.arms, len(used)), dtype=np.int32)
        values[:, :, inside] = whole_coefficients(functions)
        believed = np.zeros((self.arms, len(used)))
        believed[:, inside] = mixture.mean
        shares = self._shares(values, self._phi[:, used], least) * weights[:, None]
        doubts = np.zeros((self.arms * len(used), _DOUBTS))
        doubts[coefficient_places(inside, self.arms, len(used))] = _doubts(contrasts, rng)
        radius = None
        if self._noise_bound is not None:
            # The mean posterior variance where people are.
            spread = mixture.deviations(self._phi[:, mixture.used]) ** 2
            mean = float((shares * spread).sum()) / (self.arms * least or 1.0)
            radius = self._noise_bound.radius(math.sqrt(mean))
        people, projection, norm = _projection(
            _root(mixture, wide, used, self._kernel_prior is not None),
            self._phi[:, used],
            shares,
            believed,
            doubts,
            lengths,
            deviation,
            self.arms * least or 1.0,
            radius,
            self._clipping(radius),
        )
        count = int(people * _CELL_WEIGHT / (_PEOPLE_PER_CELL * deviation))
        count = min(max(count, 1), MOST_CELLS if self.varies and not len(bins) else 1)
        scales = np.ones(self.domain.dimension)
        levels, ties = self.domain.levels, bool(self.domain.implied)
        cells = Cells.split(self._placed, weights, count, 1, scales, levels, rng, ties)
        policy = JointKernelPolicy(
            **self.policy_header(),
            frequencies=self.features.index[used],
            ranks=self._ranks,
            values=values,
            believed=believed,
            projection=projection,
            clipping_norm=norm,
            cells=cells,
            bins=bins,
            clipping_range=self.clipping_range,
            reward_weight=reward_weight,
            least_propensity=least,
            radius=radius,
        )
        return policy, people

    def _functions(
        self,
        contrasts: DecisionContrasts,
        people: int,
        left: int,
        deviation: float,
        rng: np.random.Generator,
    ) -> FloatArray:
        """(F, K, m) coefficients of arm functions."""
        mean = contrasts.posterior.mean
        if self.arms > _FEW_ARMS:
            many = self._kernel_prior is not None and left >= _MANY_LEFT
            factor = _DRAWN_FOR_MANY if many else _DRAWN
            drawn = mean.reshape(-1, 1) + factor * contrasts.drawn[:, :_FUNCTIONS]
            return drawn.T.reshape(_FUNCTIONS, *mean.shape)
        tried = contrasts.tried(rng)
        noise = 1.0 + 20.0 * deviation**2 / people
        squares = (tried.local**2 / (noise + tried.spread[:, None])).T @ tried.given
        count = len(squares)
        free = count * squares[:, :_FUNCTIONS].mean(axis=1)
        picked, learnt = [], np.zeros(count)
        for _ in range(_FUNCTIONS):
            worth = _GAIN * contrasts.total * ((left / (1.0 + left * free + learnt)) @ squares)
            picked.append(int((worth - tried.cost).argmax()))
            learnt += _BESIDE * people / _FUNCTIONS * count * squares[:, picked[-1]]
        return tried.values[:, picked].T.reshape(_FUNCTIONS, *mean.shape)

    # Predictions and policy values.

    @property
    def _predictive(self) -> PosteriorMixture:
        """Kept until a release is read, sources report, or hyperparameters are learnt."""
        read, learnt = (self._read_releases, self.source_total), self._hyperparameters
        if self._kept is None or self._kept[0] != read or self._kept[1] is not learnt:
            rng = np.random.default_rng(self.public_seed)
            self._kept = read, learnt, self._model_average(_MIXED_TO_PREDICT, rng)
        return self._kept[2]

    @property
    def _located(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self._points, self.weights, self._phi

    def _value_posterior(self, contexts: Any) -> ValuePosterior:
        best = own = self._predictive
        if self._used_sources:
            rng = np.random.default_rng(self.public_seed)
            own = self._model_average(_MIXED_TO_PREDICT, rng, alone=True)
        return self._values_under(contexts, own, best, True)

    # Files.

    def _restore(self, saved: dict[str, Any]) -> None:
        super()._restore(saved)
        self._target.check_released(self._released.before.reports)
        self._released.check(self._sums, self._asked, self._check_sum)
        self._absorb()
        if self._policies:
            self.clipping_range = self._policies[-1].clipping_range


def KernelBandit(  # noqa: N802, a name of the field
    domain: Box, arms: Arms, budget: Budget, **options: Any
) -> KernelLearner[Any, Any, Any]:
    """The kernel bandit, which learns which arm is best where.

    Args:
        domain: the public bounds of contexts.
        arms: their number, their names, or `ArmPoints`, which the prior compares.
        budget: `Local(epsilon)`, `Joint(epsilon, delta)` or `NonPrivate()`.
        options: the keyword arguments of `JointKernel` under joint privacy, else of `LocalKernel`.

    Returns:
        One of these two.

    Raises:
        InvalidInput: for another budget, or wrong options.
    """
    kind: Any = JointKernel if isinstance(budget, Joint) else LocalKernel
    learner: KernelLearner[Any, Any, Any] = kind(domain, arms, budget, **options)
    return learner


def checked_propensities(given: ArrayLike, people: int, least: float) -> FloatArray:
    """(n,) the propensities of a log; `InvalidInput` for one outside [least, 1]."""
    chances = finite_vector(given, "propensities", people)
    wrong = (chances < least * (1.0 - 1e-9)) | (chances > 1.0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"propensities was {chances[row]:g} in row {row}; each must be from "
            f"least_propensity = {least:g} to 1."
        )
    return chances


def _in_units(
    known: GaussianNaturalParameters, arms: int, range_: tuple[float, float]
) -> GaussianNaturalParameters:
    """J and b of functions on [0, 1], from those of functions relative to a range (see the module).

    For the inverse the range is where [0, 1] is relative to it.
    """
    low, high = range_
    if range_ == (0.0, 1.0):
        return known
    width, shift = high - low, low + high - 1.0
    precision = known.precision / width**2
    along = precision[:, :: len(known.weighted) // arms].sum(axis=1)
    return GaussianNaturalParameters(precision, known.weighted / width + shift * along)


def _tail(shares: FloatArray, noise: float, most: float, low: int, high: int) -> float:
    """The share of rewards above the edge `high`, relative to that of a light tail.

    A tail is at least 0, so that its posterior mean under a flat prior is positive; what it is
    compared with counts a deviation less.
    """
    if high == len(shares):
        return 0.0
    deviation = noise * math.sqrt(len(shares) - high) + 1e-300
    z = max(float(shares[high:].sum()) / deviation, -30.0)
    tail = deviation * (z + math.exp(-0.5 * z**2 - log_ndtr(z)) / math.sqrt(2.0 * math.pi))
    quarter = _EDGES[low] + 0.25 * (_EDGES[high] - _EDGES[low])
    after = _EDGES[:-1] >= quarter
    kept = float(shares[after].sum()) - noise * math.sqrt(after.sum())
    return tail / max(min(_LIGHT * kept, most), 1e-300)


def _bin(placed: FloatArray, count: int) -> IntArray:
    """(n,) the bin of each place in [0, 1)."""
    return np.minimum((placed * count).astype(np.int64), count - 1)


def _smoothed(found: FloatArray, variance: float) -> FloatArray:
    """(2^k,) counts of adjacent bins without most of their noise, of this variance in each.

    Haar coefficients of each scale are multiplied by 1 - v / s, or 0 if that is negative: s is
    their mean square, and v the noise variance plus two standard errors (James and Stein 1961, by
    scale).
    """
    details, level = [], found
    while len(level) > 1:
        pairs, variance = level.reshape(-1, 2), 0.5 * variance
        detail = 0.5 * (pairs[:, 0] - pairs[:, 1])
        noise = variance * (1.0 + 2.0 * math.sqrt(2.0 / len(detail)))
        share = 1.0 - noise / max(float((detail**2).mean()), noise)
        details.append(share * detail)
        level = pairs.mean(axis=1)
    for detail in reversed(details):
        level = np.stack([level + detail, level - detail], axis=1).ravel()
    return level


def _doubts(contrasts: DecisionContrasts, rng: np.random.Generator) -> FloatArray:
    """(K m, _DOUBTS) differences of the best arm and a rival at places where they may change, each
    with variance in proportion to what is at stake."""
    arms, size = contrasts.posterior.mean.shape
    points = np.arange(contrasts.gaps.shape[1])
    best = contrasts.gaps.argmin(axis=0)
    deviation = np.sqrt(contrasts.spread + contrasts.spread[best, points]) + 1e-9
    stake = deviation * np.exp(-0.5 * (contrasts.gaps / deviation) ** 2)
    stake[best, points] = 0.0
    rival, point = np.divmod(resampled(stake, _DOUBTS, rng), len(points))
    scaled = contrasts.phi[point] / np.sqrt(deviation[rival, point])[:, None]
    vectors = np.zeros((_DOUBTS, arms, size))
    vectors[np.arange(_DOUBTS), best[point]] = scaled
    vectors[np.arange(_DOUBTS), rival] -= scaled
    return vectors.reshape(_DOUBTS, -1).T


def _root(
    mixture: PosteriorMixture, wide: list[MixturePart], used: IntArray, low_rank: bool
) -> FloatArray:
    """(K m, r) L: a root of the covariance under which directions are chosen (see the module)."""
    arms, share = mixture.arms, 1.0 - _WIDE_SHARE
    size, parts = arms * len(used), [*mixture.parts, *wide]
    weights = [*(share * mixture.weights), *[_WIDE_SHARE / len(wide)] * len(wide)]

    def rows(features: IntArray) -> IntArray:
        return coefficient_places(np.searchsorted(used, features), arms, len(used))

    def kept(values: FloatArray) -> IntArray:
        return np.flatnonzero(values > _LEAST_DIRECTION * values[-1])[-_MOST_DIRECTIONS:]

    if low_rank and sum(part.half.shape[1] for part in parts) < size:
        # The same directions, by a smaller matrix.
        roots = [(mixture.used, np.sqrt(share * mixture.weights) * mixture.apart.T)]
        roots += [(p.used, math.sqrt(w) * p.half) for p, w in zip(parts, weights, strict=True)]
        joined = np.hstack([_placed(each, rows(features), size) for features, each in roots])
        values, axes = np.linalg.eigh(joined.T @ joined)
        directions: FloatArray = joined @ axes[:, kept(values)]
        return directions
    covariance = np.zeros((size, size))

    def add(features: IntArray, part: FloatArray) -> None:
        covariance[np.ix_(rows(features), rows(features))] += part

    for part, weight in zip(parts, weights, strict=True):
        add(part.used, weight * part.half @ part.half.T)
    add(mixture.used, share * (mixture.apart.T @ (mixture.weights[:, None] * mixture.apart)))
    values, axes = np.linalg.eigh(covariance)
    root: FloatArray = axes[:, kept(values)] * np.sqrt(values[kept(values)])
    return root


def _placed(part: FloatArray, rows: IntArray, size: int) -> FloatArray:
    """(size, r) the rows of a part (k, r) among others of 0."""
    placed = np.zeros((size, part.shape[1]))
    placed[rows] = part
    return placed


def _projection(
    root: FloatArray,
    phi: FloatArray,
    shares: FloatArray,
    believed: FloatArray,
    doubts: FloatArray,
    lengths: Sequence[int],
    deviation: float,
    mass: float,
    radius: float | None,
    clipping: tuple[float, float],
) -> tuple[int, FloatArray, float]:
    """People of the epoch, the projection (K, m, s) that leaves least doubt, and D.

    Args:
        root: (K m, r) L.
        phi: (Q, m) features of public points.
        shares: (Q, K) of people with a context and an arm.
        believed: (K, m) the posterior mean.
        doubts: (K m, n) contrasts whose variance is to fall.
        lengths: numbers of people that the epoch may have, increasing; it has the first that leaves
            little enough in doubt, or the last.
        deviation: of the noise on each number.
        mass: what the shares add up to; contributions of people of a log are weighted by less
            than 1 after they were shortened.
        radius: to which t - h is clipped, or None.
        clipping: its gain, and the mean square of t - h clipped.
    """
    arms, (gain, variance) = shares.shape[1], clipping
    usual = _USUAL_SPREAD if radius is None else 2.0 * radius
    blocks = root.reshape(arms, phi.shape[1], -1)
    moment = np.zeros((root.shape[1],) * 2)
    for arm in range(arms):
        weighted = phi * np.sqrt(shares[:, arm, None])
        moment += blocks[arm].T @ (weighted.T @ weighted) @ blocks[arm]
    values, axes = np.linalg.eigh(moment)
    values, axes = np.maximum(values[::-1], 0.0), axes[:, ::-1]
    doubtful = ((axes.T @ (root.T @ doubts)) ** 2).sum(axis=1)
    for people in lengths:
        best, least = axes[:, :1] / math.sqrt(values[0]), math.inf
        for threshold in _THRESHOLDS:
            kept = values > threshold * values[0]
            long = values[kept]
            scale = np.sqrt(long - threshold * values[0]) / long
            norm = _SHORTENED * usual * math.sqrt(float((scale**2 * long).sum()) / mass)
            signal = (gain * people * scale * long) ** 2
            learnt = signal / (people * variance * scale**2 * long + (norm * deviation) ** 2)
            remains = float((doubtful[kept] / (1.0 + learnt)).sum() + doubtful[~kept].sum())
            if remains < least:
                best, least = axes[:, kept] * scale, remains
        if least <= _DOUBT_LEFT * float(doubtful.sum()):
            break
    projection = np.einsum("kmr,rs->kms", blocks, best)
    square = 0.0
    for arm in range(arms):
        centre = np.clip(phi @ believed[arm], -1.0, 1.0)
        most = 1.0 + np.abs(centre) if radius is None else 2.0 * radius
        length = most**2 * ((phi @ projection[arm]) ** 2).sum(axis=1)
        square += float(shares[:, arm] @ length)
    return people, projection, _SHORTENED * math.sqrt(square / mass)
