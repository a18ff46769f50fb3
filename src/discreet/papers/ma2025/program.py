"""A simulation of the program that produced Figures 7 to 9 of Ma et al. (2025).

The numbers in the paper come from its program (github.com/Karlmyh/LDP-Contextual-MAB), which
differs from Algorithms 2 and 3. The first two differences decide the regret; the first one voids
the guarantee:

|        | Algorithms 2 and 3                    | program                                     |
|--------|---------------------------------------|---------------------------------------------|
| noise  | of every person on every pair, (12)   | of the people in a bin only                 |
| sums   | once in (26) and (28)                 | cumulative sums, added after every batch,   |
|        |                                       | so early people count repeatedly            |
| radius | sqrt(C_n ..), (28); doubled in (29)   | sqrt(2 log2(N) ..), at least the side       |
| split  | radius < 2 sqrt(d) side, one arm (17) | radius < side, all arms; limited depth      |
| choice | uniform among active arms, (8)        | exponential weights of their estimates      |

N is the largest n min(epsilon, 1)^2 of target and sources; a bin has sides of 2^(-depth/d). The
code was written from these rules, so its random draws differ from the program's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.lab.environments.base import People, Population
from discreet.lab.experiments import Source
from discreet.learners.partition.tree import Bins
from discreet.validation import BoolArray, FloatArray, IntArray

# Estimates closer than this have equal weights.
_EQUAL = 0.01
# Added to denominators.
_TINY = 1e-4


@dataclass(frozen=True)
class Program:
    """The program's rules, in place of a learner.

    Attributes:
        epsilon: of the target.
        batch: number of people between updates.
        leaks: whether only people in a bin add noise to its sums, as in the program; otherwise
            everybody does, as (12) requires.
    """

    epsilon: float
    batch: int
    leaks: bool = True

    @property
    def true_epsilon(self) -> float:
        """Infinity with the leak: an empty bin has no noise, so a person in it is certain to be
        seen."""
        return math.inf if self.leaks else self.epsilon

    def __call__(
        self, people: Population, sources: Sequence[Source], rng: np.random.Generator
    ) -> FloatArray:
        """Regret (n,) of each person of the target; sources report first."""
        assert isinstance(people, People)
        size, arms = people.rewards.shape
        state = _State(
            arms,
            people.contexts.shape[1],
            np.array([size, *(len(source.data) for source in sources)]),
            np.array([self.epsilon, *(source.epsilon for source in sources)]),
            rng,
            self.leaks,
        )
        for number, source in enumerate(sources, start=1):
            data = source.data
            for start in range(0, len(data), self.batch):
                rows = slice(start, start + self.batch)
                state.add(number, data.contexts[rows], data.arms[rows], data.rewards[rows])
        regrets = []
        for start in range(0, size, self.batch):
            contexts = people.contexts[start : start + self.batch]
            chosen = state.choose(contexts)
            rewards = people.rewards[np.arange(start, start + len(chosen)), chosen]
            state.add(0, contexts, chosen, rewards.astype(np.float64))
            regrets.append(people.value_of(chosen, start))
        return np.concatenate(regrets)


class _State:
    """Sums of the target and M sources in L bins, for K arms.

    Args:
        arms, dimension: K and d.
        people, epsilons: (M + 1,) of the target and of each source.
        rng: draws noise, arms and edges.
        leaks: see `Program`.
    """

    def __init__(
        self,
        arms: int,
        dimension: int,
        people: IntArray,
        epsilons: FloatArray,
        rng: np.random.Generator,
        leaks: bool,
    ) -> None:
        self.epsilons, self.rng, self.leaks = epsilons, rng, leaks
        log_most = math.log2((people * np.minimum(epsilons, 1.0) ** 2).max())
        self.factor, self.warm_up = math.sqrt(2.0 * log_most), int(log_most) ** 2
        doubled = 2.0 * len(people) * people
        levels = np.log2([doubled, doubled * epsilons**2]) * dimension
        self.depth = int((levels / [[2 + dimension], [2 + 2 * dimension]]).min(axis=0).max())
        self.bins = Bins.whole(dimension, arms)
        self._times = np.zeros((1, len(people)))
        # U, V; and numerator and denominator of (26), and the sum of (28), over the batches.
        self._sums = np.zeros((1, len(people), 5, arms))
        self._estimates = np.zeros((1, arms))

    def choose(self, contexts: FloatArray) -> IntArray:
        """(n,) arms for contexts (n, d)."""
        leaves = self.bins.leaf_of(contexts)
        active, estimates = self.bins.active[leaves], self._estimates[leaves]
        low = np.where(active, estimates, np.inf).min(axis=1)
        spread = np.where(active, estimates, -np.inf).max(axis=1) - low
        slope = np.log(1.2 * active.shape[1] / active.sum(axis=1)) / (spread + _TINY)
        slope[spread < _EQUAL] = 0.0
        above = np.where(active, estimates - low[:, None], 0.0)
        shares = np.cumsum(active * np.exp(above * slope[:, None]), axis=1)
        lots = self.rng.random(len(contexts)) * shares[:, -1]
        chosen: IntArray = (shares <= lots[:, None]).sum(axis=1)
        return chosen

    def add(self, source: int, contexts: FloatArray, arms: IntArray, rewards: FloatArray) -> None:
        """Learn from a batch of people of the target (0) or of a source (1, .., M)."""
        leaves, active = self.bins.leaf_of(contexts), self.bins.active
        bins, kinds = active.shape
        noisy = np.bincount(leaves, minlength=bins) if self.leaks else np.full(bins, len(arms))
        # A sum of n Laplace draws is a difference of two with the law Gamma(n).
        draws = self.rng.gamma(noisy[:, None, None], size=(2, bins, 2, kinds))
        cells = leaves * kinds + arms
        counts = [np.bincount(cells, each, bins * kinds) for each in (None, rewards)]
        fresh = np.stack([count.reshape(bins, kinds) for count in counts], axis=1)
        epsilon, own = self.epsilons[source], self._sums[:, source]
        own[:, :2] += active[:, None] * (fresh + 4.0 / epsilon * (draws[0] - draws[1]))
        self._times[:, source] += len(arms)
        times, chosen, rewarded = self._times[:, source, None], own[:, 0], own[:, 1]
        share = np.where(times > self.warm_up, np.minimum(epsilon**2 * chosen / times, 1.0), 0.0)
        spread = share * np.maximum(chosen, times / epsilon**2)
        own[:, 2:] += (active * share)[:, None] * np.stack([rewarded, chosen, spread], axis=1)
        self._decide(self._times[:, source] >= self.warm_up)

    def _decide(self, ready: BoolArray) -> None:
        """Eliminate arms and split bins (L,) that are past the warm-up."""
        tree, active = self.bins.tree, self.bins.active
        above, below, squared = np.moveaxis(self._sums[:, :, 2:].sum(axis=1), 1, 0)
        estimates = np.clip(above / (below + _TINY), 0.0, 1.0)
        self._estimates = np.where(ready[:, None], estimates, self._estimates)
        radius = np.full(active.shape, np.inf)
        width = self.factor * np.sqrt(np.maximum(squared + _TINY, 0.0))
        np.divide(width, np.abs(below), out=radius, where=active & (below != 0.0))
        depth = tree.depth[tree.leaves]
        side = 2.0 ** (-depth[:, None] / tree.dimension)
        low = self._estimates - np.maximum(radius, side)
        high = self._estimates + np.maximum(radius, side)
        best = np.where(active, low, -np.inf).max(axis=1, keepdims=True)
        self.bins = Bins(tree, active & ~(ready[:, None] & (best > high)))
        # Includes arms eliminated just now.
        sharp = ready & (depth < self.depth) & ((radius < side) | ~active).all(axis=1)
        if not sharp.any():
            return
        edges = (tree.upper - tree.lower)[tree.leaves]
        longest = edges == edges.max(axis=1, keepdims=True)
        axes = np.where(longest, self.rng.random(edges.shape), -1.0).argmax(axis=1)
        self.bins = self.bins.split(sharp, axes)
        self._times, self._sums, self._estimates = (
            # `Bins.split` appends the halves; their sums start at 0.
            np.concatenate([kept[~sharp], np.zeros((2 * sharp.sum(), *kept.shape[1:]))])
            for kept in (self._times, self._sums, self._estimates)
        )
