"""What one person contributes to an epoch's statistic, and what released sums say of theta.

A person at w = (c, x) with centred reward y, |y| <= B, contributes the row

    row(w, y) = a(w) R_w clip(y - h(w), -c(w), c(w)) / D,     a(w) = min(1, D / (c(w) ||R_w||)),

where R_w = projection' phi(w), h = clip(mean'phi(w), -B, B) is the posterior mean (a control
variate), c(w) = min(B + |h|, reward noise + sd(w) / 2) the bound at which residuals are clipped,
and sd(w) = ||root'phi(w)||. All of these are public before the epoch begins.

**Sensitivity.** ||row|| <= 1 for every w of any domain and every y, because longer rows are
shortened; so replacing one person moves the sum by at most 2. `in_unit_ball` makes that true of the
numbers that were computed, whatever a policy claims, and rows are rounded to multiples of 2^-30,
which adds sqrt(d) 2^-30 to the distance: sums are whole numbers, so they add exactly. Sums of more
than 2^23 people may not fit into a float when noise is added; `contribution_sensitivity` covers
that.

Because the actions of an epoch follow a public law rho(w) = kappa(c) pi(x | c), its statistic has a
known mean up to f: with F = sum rho a g R phi', k = sum rho a g h R, Q = sum rho a^2 q R R',

    E[D sum_t row_t] + n k = n F theta,   Cov <= n Q,

where g and q are the gain and the mean square of the clipping: if f(w) - h is N(0, sd^2) and the
reward noise uniform, with Z their sum, E[clip(Z) | f] is on average linear in f - h with the slope
g = P(|Z| <= c) (Bussgang 1952), and q = E[clip(Z)^2]. Clipping at half a deviation costs little of
the slope, and the noise of privacy is in proportion to c.

**Posterior.** Every released sum measures a few linear functions of theta with known noise, so

    precision = sum F' C^-1 F,   shift = sum F' C^-1 g,   theta | level ~ N(0, level^2 I),

C the covariance of a sum and of its noise, g the sum with n k added. The level maximises the
evidence over a grid around the declared bound of |f|, with a log-normal prior, so the variance of f
need not be known.

**Which projection.** R whitens the features in the coordinates of the posterior, up to a threshold
under which directions are left out: that maximises log det of the information at a given mean
square of rows (water-filling). The threshold is the one that leaves the least variance where it
counts.

| array      | shape  | meaning                                                        | symbol |
|------------|--------|----------------------------------------------------------------|--------|
| phi        | (n, m) | features                                                       | phi    |
| projection | (m, d) | directions that are measured                                   | L M    |
| rows       | (n, d) | contributions                                                  |        |
| mean       | (m,)   | posterior mean of theta                                        | theta  |
| root       | (m, r) | a square root of the posterior covariance                      | L      |
| precision  | (m, m) | the information of releases about theta                        | J      |
| shift      | (m,)   |                                                                | b      |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated

import numpy as np
from scipy.special import ndtr

from discreet.codec import Range, Serializable, Shape
from discreet.gaussian import GaussianNaturalParameters, LevelPosteriors, Posterior
from discreet.privacy.calibration import in_unit_ball
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput

# Rewards in [0, 1] are centred at 1/2, so the rest is at most 1/2.
CENTRE = 0.5
BOUND = 0.5
# Rewards are cut at their own noise plus this multiple of the posterior deviation.
_CLIP = 0.5
# D as a multiple of the root mean square of c ||R||; longer rows are shortened.
_SHORTENED = 0.7
# Nodes for the mean square of what is cut.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
# Directions with less than these shares of the largest variance are left out.
_THRESHOLDS = (0.001, 0.01, 0.03, 0.1, 0.3)
# Prior standard deviations of theta'phi, as multiples of the bound of |f|.
SCALES = 2.0 ** np.arange(-4.0, 0.51, 0.25)
# Numbers that are computed together: about 64 MB.
_AT_ONCE = 2**23


Around = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class ClippedContribution(Serializable):
    """The map from features and rewards to contributions (see the module's table).

    Attributes:
        mean: (m,) posterior mean of theta.
        root: (m, r) a square root of the posterior covariance.
        projection: (m, d) the directions that are measured.
        clipping_norm: D, which scales rows into the unit ball.
        reward_noise: bound of |y - f| on the scale of rewards in [0, 1].
    """

    mean: Annotated[FloatArray, Shape("m")]
    root: Annotated[FloatArray, Shape("m", "r")]
    projection: Annotated[FloatArray, Shape("m", "d")]
    clipping_norm: Annotated[float, Range(above=0.0)]
    reward_noise: Annotated[float, Range(above=0.0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size == 0:
            raise InvalidInput("a contribution had no direction; send it as it was made.")

    @property
    def size(self) -> int:
        """d, the numbers in a row."""
        return int(self.projection.shape[1])

    def around(self, phi: FloatArray) -> Around:
        """h, c and sd at features (n, m): (n,) each."""
        centre = np.clip(phi @ self.mean, -BOUND, BOUND)
        spread = lengths(phi, self.root)
        allowed = np.minimum(BOUND + np.abs(centre), self.reward_noise + _CLIP * spread)
        return centre, allowed, spread

    def contributions(self, phi: FloatArray, centred: FloatArray) -> FloatArray:
        """(n, d) contributions of people with features phi and centred rewards (n,)."""
        centre, allowed, _ = self.around(phi)
        left = np.clip(centred - centre, -allowed, allowed)
        share = self._shortened(phi, allowed) * left / self.clipping_norm
        return in_unit_ball((phi @ self.projection) * share[:, None])

    def largest(self, phi: FloatArray) -> FloatArray:
        """(n,) the largest a(w) c(w): D row is at most that times turn' phi, whatever y is."""
        _, allowed, _ = self.around(phi)
        return allowed * self._shortened(phi, allowed)

    def _shortened(self, phi: FloatArray, allowed: FloatArray) -> FloatArray:
        length = allowed * lengths(phi, self.projection)
        return np.minimum(1.0, self.clipping_norm / np.maximum(length, 1e-300))

    def expected(
        self, phi: FloatArray, chances: FloatArray, around: Around | None = None
    ) -> Expected:
        """What one person adds on average, if features phi come with probabilities (n,) above 0;
        `around` of them may be known already."""
        centre, allowed, spread = self.around(phi) if around is None else around
        factor = self._shortened(phi, allowed)
        gain, square = cut(allowed, spread, self.reward_noise, BOUND + np.abs(centre))
        slope, offset = np.zeros(self.projection.T.shape), np.zeros(self.size)
        squares = np.zeros((self.size, self.size))
        for some in portions(*phi.shape):
            turned = phi[some] @ self.projection
            weighted = turned * (chances * factor)[some, None]
            gained = weighted * gain[some, None]
            slope += gained.T @ phi[some]
            offset += gained.T @ centre[some]
            squares += (weighted * (factor * square)[some, None]).T @ turned
        return Expected(slope, offset, squares, self.clipping_norm)


def believe(known: GaussianNaturalParameters) -> Posterior:
    """The posterior of theta at the likeliest level, given what releases say."""
    levels = SCALES * BOUND
    scaled = LevelPosteriors.of(np.eye(len(known.weighted)), known)
    evidence = scaled.log_evidence(levels) - 0.5 * np.log2(2.0 * SCALES) ** 2
    found: Posterior = scaled.at(float(levels[int(evidence.argmax())]))
    return found


@dataclass(frozen=True, eq=False)
class Expected:
    """Mean and covariance of one contribution times D (see the module).

    Attributes:
        slope: (d, m) F.
        offset: (d,) k.
        spread: (d, d) Q.
        clipping_norm: D.
    """

    slope: FloatArray
    offset: FloatArray
    spread: FloatArray
    clipping_norm: float

    def information(
        self, total: FloatArray | IntArray, people: int, noise: float
    ) -> GaussianNaturalParameters:
        """What a noisy sum of rows says of theta.

        Args:
            total: (d,) the sum of rows with noise.
            people: number of people in it.
            noise: variance of the noise on each number of `total`.
        """
        weighing = self._weighing(people, noise)
        seen = self.clipping_norm * total + people * self.offset
        return GaussianNaturalParameters(
            people**2 * weighing @ self.slope, people * weighing @ seen
        )

    def precision(self, people: int, noise: float) -> FloatArray:
        """(m, m) `information` without the statistic."""
        return people**2 * self._weighing(people, noise) @ self.slope

    def _weighing(self, people: int, noise: float) -> FloatArray:
        """(m, d) F' C^-1."""
        # The second part keeps C invertible where there is neither noise nor doubt.
        floor = self.clipping_norm**2 * (noise + 1e-12 * people)
        covariance = people * self.spread + floor * np.eye(len(self.spread))
        return np.asarray(np.linalg.solve(covariance, self.slope).T, dtype=np.float64)


def cut(
    allowed: FloatArray, spread: FloatArray, reward_noise: float, most: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gain and mean square of a reward that is cut (see the module): (n,) each.

    Args:
        allowed: (n,) c.
        spread: (n,) sd.
        reward_noise: half the width of the uniform noise.
        most: (n,) how far any reward can lie from h; nothing is cut where c is no less.
    """
    uncut = allowed >= most
    wide = np.maximum(spread, 1e-9 * reward_noise)

    def within(level: FloatArray) -> FloatArray:
        """P(|Z| <= level)."""
        high, low = (level + reward_noise) / wide, (level - reward_noise) / wide
        area = high * ndtr(high) + _density(high) - low * ndtr(low) - _density(low)
        inside: FloatArray = np.clip(wide / reward_noise * area - 1.0, 0.0, 1.0)
        return inside

    shares = 0.5 * (_NODES + 1.0)
    # E[clip(Z)^2] is the integral of 2 t P(|Z| > t) from 0 to c.
    tails = np.stack([1.0 - within(allowed * share) for share in shares], axis=1)
    square = allowed**2 * ((tails * shares) @ _WEIGHTS)
    full = reward_noise**2 / 3.0 + spread**2
    return (
        np.where(uncut, 1.0, within(allowed)),
        np.where(uncut, np.minimum(full, most**2), np.minimum(square, full)),
    )


def _density(x: FloatArray) -> FloatArray:
    return np.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)


def contribution_candidates(
    belief: Posterior, phi: FloatArray, chances: FloatArray, reward_noise: float
) -> list[tuple[ClippedContribution, Expected]]:
    """A row map for each threshold, and what one person adds on average by each, where features
    phi (w, m) come with probabilities (w,)."""
    some = chances > 0.0
    phi, chances = (phi, chances) if some.all() else (phi[some], chances[some])
    values, axes = np.linalg.eigh(second_moment(phi, chances, belief.root))
    values, axes = values[::-1], axes[:, ::-1]
    # What is believed at each pair is the same for every threshold.
    around = ClippedContribution(
        belief.mean, belief.root, belief.root[:, :1], 1.0, reward_noise
    ).around(phi)
    candidates = []
    for threshold in _THRESHOLDS:
        kept = values > threshold * values[0]
        shares = np.sqrt(values[kept] - threshold * values[0]) / values[kept]
        projection = np.asarray(belief.root @ (axes[:, kept] * shares), dtype=np.float64)
        length = around[1] * lengths(phi, projection)
        # D, from what is expected of rows: public.
        bound = min(_SHORTENED * math.sqrt(float(chances @ length**2)), float(length.max()))
        contribution = ClippedContribution(
            belief.mean, belief.root, projection, bound, reward_noise
        )
        candidates.append((contribution, contribution.expected(phi, chances, around)))
    return candidates


def best_contribution(
    candidates: list[tuple[ClippedContribution, Expected]],
    belief: Posterior,
    doubt: FloatArray,
    people: int,
    noise: Callable[[int], float],
) -> ClippedContribution:
    """The row map that leaves the least variance where it counts.

    Args:
        candidates: as `contribution_candidates` made them.
        belief: before the epoch.
        doubt: (r, r) V: the variance that is left is trace(V Sigma), in the coordinates in which
            theta is standard normal before the epoch.
        people: how many people the epoch has.
        noise: from the numbers in a row, the variance of the noise on each number of their sum.
    """
    choices = []
    for contribution, expected in candidates:
        precision = expected.precision(people, noise(contribution.size))
        inside = belief.root.T @ precision @ belief.root
        left = float(np.trace(np.linalg.solve(np.eye(len(inside)) + inside, doubt)))
        choices.append((contribution, left))
    return min(choices, key=itemgetter(1))[0]


def plain_contribution(projection: FloatArray, phi: FloatArray) -> ClippedContribution:
    """Rows without control variate whose largest length over features (w, m) is allowed."""
    features = len(projection)
    nothing = np.zeros(features), np.zeros((features, 1))
    longest = BOUND * float(lengths(phi, projection).max())
    return ClippedContribution(*nothing, projection, longest, BOUND)


def covariance_axes(phi: FloatArray, chances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (m,), at least 0, and axes (m, m) of Lambda = sum rho phi phi'."""
    values, axes = np.linalg.eigh(second_moment(phi, chances))
    return np.maximum(values, 0.0), axes


# Sums over pairs of a context and an arm, in portions: there may be 100,000 pairs with 600 features
# each, half a gigabyte, of which no copy is made.


def portions(rows: int, columns: int) -> list[slice]:
    """Rows of `columns` numbers each, in portions that fit into memory."""
    most = max(1, _AT_ONCE // columns)
    return [slice(start, start + most) for start in range(0, rows, most)]


def offered(phi: FloatArray, active: BoolArray) -> IntArray:
    """The places of pairs that count: those with active arms, or all where one portion holds all,
    so that there sums are added in the same order however many arms were given up."""
    if len(portions(*phi.shape)) == 1:
        return np.arange(active.size)
    return np.flatnonzero(active)


def lengths(phi: FloatArray, turn: FloatArray) -> FloatArray:
    """(w,) how long each row of turned is."""
    squares = [((phi[some] @ turn) ** 2).sum(axis=1) for some in portions(*phi.shape)]
    long: FloatArray = np.sqrt(np.concatenate(squares))
    return long


def second_moment(
    phi: FloatArray, weights: FloatArray, turn: FloatArray | None = None
) -> FloatArray:
    """(d, d) the weighted sum of turned turned'; of phi phi' without `turn`."""
    size = phi.shape[1] if turn is None else turn.shape[1]
    total = np.zeros((size, size))
    for some in portions(*phi.shape):
        turned = phi[some] if turn is None else phi[some] @ turn
        total += (turned * weights[some][:, None]).T @ turned
    return total


def leverages(phi: FloatArray, covariance: FloatArray) -> FloatArray:
    """(w,) phi' C^-1 phi of each pair, at least 0."""
    parts = []
    for some in portions(*phi.shape):
        solved = np.linalg.solve(covariance, phi[some].T).T
        parts.append(np.maximum((solved * phi[some]).sum(axis=1), 0.0))
    return np.concatenate(parts)


def offered_doubt(
    table: FloatArray, weights: FloatArray, probabilities: FloatArray, root: FloatArray
) -> FloatArray:
    """(r, r) how offered arms differ from each other in the directions of `root` (m, r), where
    contexts with features (N, K, m) have weights (N,) and arms are offered with chances (N, K)."""
    mean = np.einsum("nk,nkm->nm", probabilities, table)
    total = np.zeros((root.shape[1], root.shape[1]))
    for some in portions(len(table), table[0].size):
        away = (table[some] - mean[some, None]).reshape(-1, table.shape[2])
        total += second_moment(away, (weights[some, None] * probabilities[some]).ravel(), root)
    return total


def spreads(table: FloatArray, root: FloatArray, best: IntArray) -> FloatArray:
    """(N, K) the variance of f, of covariance root root', less f at the best arm (N,)."""
    beside = table[np.arange(len(table)), best][:, None]
    parts = [
        (((table[some] - beside[some]) @ root) ** 2).sum(axis=2)
        for some in portions(len(table), table[0].size)
    ]
    return np.concatenate(parts)
