"""Local reports about which of J bins a person is in, and what happened to them there.

The private value is (bin j of J, sign s in {-1, +1}) for the first mechanism, one of V values for
unary encoding, and (cell, reward in [0, 1]) for the last, which the paper uses. Each is
epsilon-locally private as it is drawn: the coins of the first two are whole numbers of 64-bit words
(noise.py), and the probabilities below are those of these coins, so estimates are unbiased
for every epsilon. Of signed subset selection:

| symbol   | meaning                                                       |
|----------|---------------------------------------------------------------|
| h_i      | the sign reported for bin i, 0 where bin i is not reported    |
| p        | P(h_j = s), the person's own bin with the true sign           |
| b        | P(h_j = -s) = p e^-epsilon                                    |
| q        | P(h_i = +1) = P(h_i = -1) for another bin i                   |

Hence E[h_j] = s (p - b) and E[h_i] = 0, so sums of h / (p - b) over people estimate
n mass_j E[s | bin j] without bias; E|h_j| - 2q = p + b - 2q carries the mass of the bin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from discreet.codec import Range, Serializable
from discreet.privacy.noise import NoiseSource, hiding_probability
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    SignArray,
    finite_vector,
    positive_number,
    whole_number,
    whole_vector,
)

# Subsets are drawn in portions of this many keys, which bounds memory.
_KEYS_AT_ONCE = 2**21
# OpenDP rounds every step of its privacy map up, which makes a distance of 4 at a scale of 4 /
# epsilon an epsilon that is one or two last bits too large. The promise is epsilon, not more.
_WIDER = 1.0 + 2.0**-50


@dataclass(frozen=True)
class SignedSubsetSelection(Serializable):
    """Report m distinct bins, each with a sign; sets with the truth in them are e^epsilon likelier.

    A set without (j, s) is drawn with probability h, one with it otherwise, uniformly. With
    theta = m / (2J), the share of signed sets that a given (bin, sign) is in,

        p = 1 - h,   b = h m / (2J - m),
        q = (1 - h) (m - 1) / (2 (J - 1)) + h m (2J - m - 1) / (2 (J - 1) (2J - m)),

    where h is (1 - theta) / (1 - theta + e^epsilon theta), rounded up to a multiple of 2^-64.
    m = 1 is k-ary randomized response on the 2J values, m = J one bit of randomized response for
    every bin. (Subset selection: Ye and Barg 2018; Wang et al. 2019; the signed form is ours.)

    Attributes:
        bins: J.
        size: m, from 1 to J.
        epsilon: at least the log of the largest ratio of two output probabilities, and within a
            rounding of h of it; infinity reports the truth, for references without privacy.

    Raises:
        InvalidInput: also for an epsilon so small that no coin of 64 bits tells anything.
    """

    bins: Annotated[int, Range(1)]
    size: Annotated[int, Range(1)]
    epsilon: Annotated[float, Range(above=0.0, infinite=True)]

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.size, "size", minimum=1, maximum=self.bins)
        _ = self.hidden_probability  # refuses an epsilon that is too small

    @classmethod
    def best(cls, bins: int, epsilon: float, estimate_mass: bool = True) -> SignedSubsetSelection:
        """The size with the least variance for signs, averaged over a bin of mass 1/J.

        With `estimate_mass` the size is at most J/2 (or 1), because reports of all J bins say
        nothing about where people are.
        """
        count = whole_number(bins, "bins", minimum=1)
        if epsilon != math.inf:
            positive_number(epsilon, "epsilon")
        return cls(count, _best_size(count, float(epsilon), estimate_mass), epsilon)

    @cached_property
    def hidden_probability(self) -> Fraction:
        """h: the true (bin, sign) is not in the report, exactly."""
        return hiding_probability(Fraction(self.size, 2 * self.bins), self.epsilon)

    @cached_property
    def _wrong_share(self) -> Fraction:
        """m / (2J - m): the wrong sign is in a set without the truth."""
        return Fraction(self.size, 2 * self.bins - self.size)

    @cached_property
    def true_probability(self) -> float:
        """p: the true (bin, sign) is in the report."""
        return float(1 - self.hidden_probability)

    @cached_property
    def false_probability(self) -> float:
        """b: the person's bin is in the report with the wrong sign."""
        return float(self.hidden_probability * self._wrong_share)

    @cached_property
    def other_probability(self) -> float:
        """q: another given bin is in the report with a given sign."""
        if self.bins == 1:
            return 0.0
        hidden, others = self.hidden_probability, 2 * (self.bins - 1)
        beside_truth = Fraction(self.size - 1, others)
        without_truth = self._wrong_share * Fraction(2 * self.bins - self.size - 1, others)
        return float((1 - hidden) * beside_truth + hidden * without_truth)

    @cached_property
    def contrast(self) -> float:
        """p - b, by which sums of reported signs are divided."""
        return float(1 - self.hidden_probability * (1 + self._wrong_share))

    @cached_property
    def mass_contrast(self) -> float:
        """p + b - 2q, by which counts of reported bins are divided; 0 where m = J."""
        if self.bins == 1:
            return self.true_probability + self.false_probability
        return self.contrast * (self.bins - self.size) / (self.bins - 1)

    def variance(self, mass: float | FloatArray) -> float | FloatArray:
        """E[(h_j / (p - b))^2] for a bin of the given mass: the estimator's variance per report.

        The square of its mean, (mass E[s | j])^2, is left out, so this is an upper bound that is
        exact for signs that are balanced.
        """
        own = self.true_probability + self.false_probability
        return ((1.0 - mass) * 2.0 * self.other_probability + mass * own) / self.contrast**2

    def privatise(
        self, bins: IntArray, signs: SignArray, noise: NoiseSource
    ) -> tuple[IntArray, SignArray]:
        """One report for each person.

        Args:
            bins: (n,) private bins, 0 .. J - 1.
            signs: (n,) private signs, -1 or +1.
            noise: where the randomness comes from.

        Returns:
            (n, m) reported bins in increasing order, and their (n, m) signs.
        """
        own = whole_vector(bins, "bins", 0, self.bins - 1)
        truth = _signs(signs, len(own))
        people = len(own)
        hidden = noise.coins(self.hidden_probability, people)
        wrong = hidden & (noise.below(2 * self.bins - self.size, people) < self.size)
        chosen = self._subset(own, ~hidden | wrong, noise)
        flipped = (2 * noise.below(2, chosen.shape) - 1).astype(np.int8)
        mine = chosen == own[:, None]
        reported = np.where(mine, np.where(wrong, -truth, truth)[:, None], flipped)
        return chosen, reported.astype(np.int8)

    def _subset(self, own: IntArray, included: NDArray[np.bool_], noise: NoiseSource) -> IntArray:
        """m distinct bins, uniform given that the own bin is included or not."""
        people = len(own)
        if self.size == 1:
            other = noise.below(max(self.bins - 1, 1), people)
            return np.where(included, own, other + (other >= own))[:, None]
        chosen = np.empty((people, self.size), dtype=np.int64)
        most = max(1, _KEYS_AT_ONCE // self.bins)
        for start in range(0, people, most):
            part = slice(start, start + most)
            chosen[part] = self._smallest(own[part], included[part], noise)
        return np.sort(chosen, axis=1)

    def _smallest(self, own: IntArray, included: NDArray[np.bool_], noise: NoiseSource) -> IntArray:
        """The m bins with the smallest of random keys; the own bin's is forced down or up.

        Where two keys tie for the last place, all keys of that person are drawn again, so that the
        other bins are chosen exactly uniformly.
        """
        if self.size == self.bins:
            return np.tile(np.arange(self.bins), (len(own), 1))
        winners = np.empty((len(own), self.size), dtype=np.int64)
        forced = np.where(included, np.uint64(0), np.uint64(2**64 - 1))
        rows = np.arange(len(own))
        while len(rows):
            keys = noise.keys((len(rows), self.bins))
            keys[np.arange(len(rows)), own[rows]] = forced[rows]
            order = np.argpartition(keys, (self.size - 1, self.size), axis=1)
            winners[rows] = order[:, : self.size]
            last = np.take_along_axis(keys, order[:, self.size - 1 : self.size + 1], axis=1)
            rows = rows[last[:, 0] == last[:, 1]]
        return winners

    def log_probability(self, chosen: IntArray, reported: SignArray, j: int, s: int) -> float:
        """log P(Y | j, s) of one report with bins `chosen` (m,) and signs `reported` (m,)."""
        contains = bool(((chosen == j) & (reported == s)).any())
        sets = math.log(math.comb(self.bins, self.size)) + self.size * math.log(2.0)
        share, hidden = Fraction(self.size, 2 * self.bins), self.hidden_probability
        density = (1 - hidden) / share if contains else hidden / (1 - share)
        return math.log(density) - sets if density else -math.inf

    def estimate(self, chosen: IntArray, reported: SignArray) -> FloatArray:
        """(J,) unbiased estimates of mass_j E[s | bin j] from n reports (n, m)."""
        sums = np.bincount(chosen.ravel(), reported.ravel(), minlength=self.bins)
        return sums / (len(chosen) * self.contrast)

    def estimate_mass(self, chosen: IntArray) -> FloatArray:
        """(J,) unbiased estimates of the mass of each bin; `InvalidInput` where m = J > 1."""
        if self.mass_contrast == 0.0:
            raise InvalidInput(
                f"size was {self.size} with {self.bins} bins: such reports say nothing about the "
                "mass of a bin; use a size of at most half the bins."
            )
        shown = np.bincount(chosen.ravel(), minlength=self.bins) / len(chosen)
        return (shown - 2.0 * self.other_probability) / self.mass_contrast


def k_ary_response(bins: int, epsilon: float) -> SignedSubsetSelection:
    """k-ary randomized response on the 2J values: signed subset selection with m = 1."""
    return SignedSubsetSelection(bins, 1, epsilon)


@lru_cache(maxsize=4096)
def _best_size(bins: int, epsilon: float, estimate_mass: bool) -> int:
    m = np.arange(1, (max(1, bins // 2) if estimate_mass else bins) + 1, dtype=np.float64)
    theta = m / (2.0 * bins)
    phi = m * (m - 1.0) / (4.0 * bins * max(bins - 1, 1))
    shrink, grow = math.exp(-epsilon), -math.expm1(-epsilon)
    normaliser = shrink + grow * theta
    other = (shrink * theta + grow * phi) / normaliser
    own = theta * (1.0 + shrink) / normaliser
    contrast = grow * theta / normaliser
    variance = ((1.0 - 1.0 / bins) * 2.0 * other + own / bins) / contrast**2
    return int(m[np.argmin(variance)])


@dataclass(frozen=True)
class UnaryEncoding(Serializable):
    """Report V bits, one for each value: the own one shows with probability p, each other with q.

    Optimised unary encoding (Wang et al. 2017) has p = 1/2, the symmetric one (basic RAPPOR,
    Erlingsson et al. 2014) p = 1 - q. Two values differ in two bits, whose ratios multiply to at
    most p (1 - q) / (q (1 - p)) <= e^epsilon, where q is p / (p + (1 - p) e^epsilon), rounded up to
    a multiple of 2^-64. The variance of an estimated count is at least q (1 - q) / (p - q)^2 for
    each report, which is e^epsilon / (e^epsilon - 1)^2 * 4 at p = 1/2.

    Attributes:
        values: V.
        epsilon: of one report.
        shown: p, the probability that the bit of the own value shows.
    """

    values: Annotated[int, Range(1)]
    epsilon: Annotated[float, Range(above=0.0)]
    shown: Annotated[float, Range(2.0**-20, 1.0 - 2.0**-20)] = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.hidden_probability  # refuses an epsilon that is too small

    @classmethod
    def symmetric(cls, values: int, epsilon: float) -> UnaryEncoding:
        """p = 1 - q = 1 / (1 + e^(-epsilon / 2))."""
        return cls(values, epsilon, 1.0 / (1.0 + math.exp(-0.5 * epsilon)))

    @cached_property
    def shown_probability(self) -> Fraction:
        """p, exactly: that of the coin, which is a multiple of 2^-64."""
        return Fraction(math.ceil(Fraction(self.shown) * 2**64), 2**64)

    @cached_property
    def hidden_probability(self) -> Fraction:
        """q, exactly."""
        return hiding_probability(1 - self.shown_probability, self.epsilon)

    @property
    def other_probability(self) -> float:
        """q: a bit that is not the true one shows."""
        return float(self.hidden_probability)

    @property
    def contrast(self) -> float:
        """p - q, by which counts of bits are divided."""
        return float(self.shown_probability - self.hidden_probability)

    def variance(self) -> float:
        """Variance per report of the estimated count of a value that the person does not have."""
        q = self.other_probability
        return q * (1.0 - q) / self.contrast**2

    def privatise(self, values: IntArray, noise: NoiseSource) -> NDArray[np.bool_]:
        """(n, V) bits of people with private values (n,), 0 .. V - 1."""
        own = whole_vector(values, "values", 0, self.values - 1)
        bits = noise.coins(self.hidden_probability, (len(own), self.values))
        bits[np.arange(len(own)), own] = noise.coins(self.shown_probability, len(own))
        return bits

    def counts(self, shown: FloatArray, people: int) -> FloatArray:
        """(..., V) unbiased estimates of how many of the people have each value.

        Args:
            shown: (..., V) how many of their reports show each bit.
            people: n.
        """
        return (shown - people * self.other_probability) / self.contrast


@dataclass(frozen=True)
class LaplaceOnCells(Serializable):
    """The published mechanism: Laplace noise on indicator U and reward V of every cell.

    Ma et al. (2025), eqs (11) and (12): a cell is a pair (active bin, active arm); U is 1 in the
    person's cell and V their reward there, and every cell's U and V get Laplace(4 / epsilon).

    Attributes:
        cells: C, the number of (bin, arm) pairs that are active.
        epsilon: the budget; the scale is 4 / epsilon as published, wider by a part in 2^50.
        partial: whether a person may be in none of them (an auxiliary person, eq. (24), whose arm
            was given up in their bin); such a person has the cell -1.
    """

    cells: Annotated[int, Range(1)]
    epsilon: Annotated[float, Range(above=0.0)]
    partial: bool = False

    @property
    def scale(self) -> float:
        """The scale of the Laplace noise on every number: 4 / epsilon, and a few roundings more."""
        return 4.0 / self.epsilon * _WIDER

    @property
    def sensitivity(self) -> float:
        """Largest l1 distance of (U, V) between two records, from the operator itself.

        (U, V) is affine in the reward, so the maximum over two records lies at rewards 0 or 1;
        cells beyond the first two add nothing, because all cells are alike.
        """
        cells = range(-1 if self.partial else 0, min(self.cells, 2))
        records = np.array(list(product(cells, (0.0, 1.0))))
        points = self._place(records[:, 0].astype(np.int64), records[:, 1])
        return float(np.abs(points[:, None] - points[None]).sum(axis=2).max())

    def variance(self) -> float:
        """Variance of the noise on each U and each V: 32 / epsilon^2."""
        return 2.0 * self.scale**2

    def privatise(self, cells: IntArray, rewards: FloatArray, noise: NoiseSource) -> FloatArray:
        """(n, 2C) noisy numbers: C columns of U, then C columns of V."""
        own = whole_vector(cells, "cells", -1 if self.partial else 0, self.cells - 1)
        received = finite_vector(rewards, "rewards", len(own))
        if ((received < 0.0) | (received > 1.0)).any():
            raise InvalidInput(
                "rewards were outside [0, 1], beyond which the sensitivity does not hold; scale "
                "them by their declared bounds."
            )
        exact = self._place(own, received)
        return noise.add_laplace(exact, self.scale)

    def _place(self, cells: IntArray, rewards: FloatArray) -> FloatArray:
        exact = np.zeros((len(cells), 2 * self.cells))
        rows = np.flatnonzero(cells >= 0)
        exact[rows, cells[rows]] = 1.0
        exact[rows, self.cells + cells[rows]] = rewards[rows]
        return exact

    def estimate(self, reports: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(C,) unbiased estimates of P(cell) and of E[reward 1(cell)] from n reports (n, 2C)."""
        means = reports.mean(axis=0)
        return means[: self.cells], means[self.cells :]


def round_to_signs(rewards: FloatArray, noise: NoiseSource) -> SignArray:
    """Rewards in [0, 1] as random signs with P(+1) = reward, so E[sign] = 2 reward - 1.

    This gives no protection: a mechanism then privatises the sign, whatever its law.
    """
    return np.where(noise.coins(rewards, rewards.shape), 1, -1).astype(np.int8)


def _signs(signs: SignArray, people: int) -> SignArray:
    array = np.asarray(signs)
    if array.shape != (people,) or not ((array == 1) | (array == -1)).all():
        raise InvalidInput(
            f"signs had shape {array.shape} and values {np.unique(array)[:5].tolist()}; they must "
            f"have shape ({people},) and each be -1 or +1."
        )
    return array.astype(np.int8)
