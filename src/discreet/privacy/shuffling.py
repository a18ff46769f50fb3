"""Shuffled reports: what a shuffler makes of a group of local reports.

n people apply one randomiser of report epsilon e0 each; a shuffler passes on their reports in
random order, and nothing else. Such groups are (epsilon, delta)-private; a report by itself keeps
e0. With p = e^e0, e = e^epsilon:

*Claim.* For every randomiser that is e0-private at delta 0, all inputs of the others, and two
inputs of one person,

    delta(epsilon) <= E_C sum_a (P(a) - e Q(a))_+,   C ~ Bin(n - 1, 2 / (p + 1)),
    P = A + Bern(p / (p + 1)),  Q = A + Bern(1 / (p + 1)),  A ~ Bin(C, 1/2),

with equality for two people and one bit. Others who conspire with the observer do not count: of
n - 1 the bound takes the share that is `honest`. docs/shuffling.md has the proof, which starts from
the blanket of Balle, Bell, Gascon and Nissim (2019). The general bound of Feldman, McMillan and
Talwar (2021) is larger: there C ~ Bin(n - 1, 1 / p).

With N = C + 1 and b(N, a) = binom(N, a) 2^-N the inner sum has the terms

    2 b(N, a) (a (p - e) - (N - a) (e p - 1)) / (N (p + 1)),   a > N (e p - 1) / ((e + 1) (p - 1)).

It falls in C, because P and Q at C + 1 are those at C plus an independent coin. So values of C are
grouped, each group at its least; that, tails and rounding only make the bound larger.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from discreet.validation import FloatArray, IntArray

# A report's epsilon is rounded down to these steps, so that every device finds the same one.
STEPS = 10_000
# The number of groups of values of C.
_BINS = 400
# Tails left out: e^-46 and less of C, e^-50 of A (Hoeffding). Log-gamma is wrong by some
# 10^-9 at a million, and differences of e and p by 10^-16.
_TAILS, _ROUNDED_UP = 1e-15, 1.0 + 1e-7
# The part of epsilon that is aimed at, and the halvings in which it is found.
_AIM, _HALVINGS = 1.0 - 1e-6, 36
# A report epsilon that no group amplifies.
_LARGEST = 300.0


def _binomial(number: int, chance: float, at: int) -> float:
    """P(Bin(number, chance) = at), for a chance below 1."""
    ways = math.lgamma(number + 1) - math.lgamma(at + 1) - math.lgamma(number - at + 1)
    return math.exp(ways + at * math.log(chance) + (number - at) * math.log1p(-chance))


def _clones(others: int, chance: float) -> tuple[IntArray, FloatArray]:
    """Values of C and upper bounds of their probabilities; larger ones are counted as these."""
    mean = others * chance
    low = max(int(mean - 10.0 * math.sqrt(mean)), 0)
    high = min(int(mean + 10.0 * math.sqrt(mean)) + 50, others)
    mode = min(max(int((others + 1) * chance), low), high)
    odds = chance / (1.0 - chance)
    up, down = np.arange(mode, high), np.arange(mode, low, -1)
    above = np.cumprod((others - up) / (up + 1) * odds)
    below = np.cumprod(down / ((others - down + 1) * odds))
    mass = _binomial(others, chance, mode) * np.concatenate([below[::-1], [1.0], above])
    starts = np.unique(np.linspace(0, high - low, _BINS + 1).astype(np.int64))
    return low + starts, np.add.reduceat(mass, starts)


def shuffled_delta(report: float, group: int, epsilon: float, honest: float = 1.0) -> float:
    """The least delta that the claim gives to groups of `group` reports at `epsilon`.

    Args:
        report: e0, the epsilon of one report at delta 0.
        group: n, at least 1.
        epsilon: at least 0.
        honest: the share of the others who follow the protocol.
    """
    if epsilon >= report:
        return 0.0
    if report < 1e-9:  # two reports are no further apart, and differences of p and e are lost
        return report
    p, e = math.exp(min(report, _LARGEST)), math.exp(epsilon)
    others = math.floor(honest * (group - 1))
    clones, shares = _clones(others, 2.0 / (p + 1.0))
    tokens = clones + 1
    first = (tokens * ((e * p - 1.0) / ((e + 1.0) * (p - 1.0)))).astype(np.int64)
    at = np.array([_binomial(n, 0.5, a) for n, a in zip(tokens, first, strict=True)])
    last = 0.5 * tokens + 5.0 * np.sqrt(tokens)
    width = int(np.max(last - first).clip(0.0)) + 3
    a = np.minimum(first[:, None] + np.arange(width), tokens[:, None])
    steps = (tokens[:, None] - a) / (a + 1.0)
    ways = at[:, None] * np.cumprod(np.column_stack([np.ones(len(a)), steps[:, :-1]]), axis=1)
    gains = a * ((p - e) / (p + 1.0)) - (tokens[:, None] - a) * ((e * p - 1.0) / (p + 1.0))
    inner = 2.0 / tokens * (ways * np.maximum(gains, 0.0)).sum(axis=1)
    return min(float(shares @ inner) * _ROUNDED_UP + _TAILS, 1.0)


@lru_cache(maxsize=1024)
def shuffled_epsilon(report: float, group: int, delta: float, honest: float = 1.0) -> float:
    """The least epsilon, rounded up, at which groups of `group` reports are (epsilon, delta)."""
    low, high = 0.0, report
    if not math.isfinite(high) or high > _LARGEST:
        return report
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if shuffled_delta(report, group, middle, honest) <= delta:
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=256)
def report_epsilon_of(group: int, epsilon: float, delta: float, honest: float = 1.0) -> float:
    """The largest e0, in steps of 0.0001, whose groups are (epsilon, delta); at least epsilon."""
    low = math.floor(epsilon * STEPS)
    high = math.ceil((max(epsilon, math.log(2.0 * group)) + 1.0) * STEPS)
    while high - low > 1:
        middle = (low + high) // 2
        if shuffled_delta(middle / STEPS, group, epsilon * _AIM, honest) <= delta:
            low = middle
        else:
            high = middle
    return max(low / STEPS, epsilon)
