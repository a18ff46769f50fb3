"""The partition learner's policies, reports and sums: what runs on a person's side.

*Public arms.* A public coin, drawn before anyone looks at the person, and the policy fix one arm
for every open bin. Given the bin, the arm is public, so what must be protected is only (bin,
reward): the person looks up their bin, takes the arm offered there, turns the reward into a sign by
randomised rounding, and reports (bin, sign) by signed subset selection. All resolved bins, where
one arm is left, count as one bin whose sign is always +.

The claim of signs.py then holds for contexts and rewards, with the arms that follow.

*Sums.* Over the people whose public coin offered arm k in bin j, whether they were in bin j or not:

| array       | shape  | sum of              | meaning                                    |
|-------------|--------|---------------------|--------------------------------------------|
| offered     | (N, K) | 1                   | T                                          |
| signed      | (N, K) | h / (p - b)         | S; E[S / T] = mass (2f - 1)                |
| noise_other | (N, K) | 2q / (p - b)^2      | (1 - mass) noise_other + mass noise_own is |
| noise_own   | (N, K) | (p + b) / (p - b)^2 | R, the variance of S                       |
| mass_weight | (N, 1) | g^2 / v             | precision of the mass                      |
| mass_sum    | (N, 1) | g (abs(h) - 2q) / v | precision x mass                           |

with g = p + b - 2q and v the variance of |h|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import Annotated, ClassVar

import numpy as np

from discreet.codec import Range, Shape, check_fields
from discreet.learners.messages import Statistics, public_uniforms
from discreet.learners.partition.tree import Bins, Tree
from discreet.learners.policy import Actions, ArmPolicy
from discreet.learners.signs import SignedReporter, SignedReports
from discreet.privacy import NoiseSource, Release
from discreet.privacy.frequency import SignedSubsetSelection, round_to_signs
from discreet.validation import BoolArray, CoinArray, FloatArray, IntArray, InvalidInput

Counts = Annotated[FloatArray, Shape("N", "K"), Range(0.0)]


@dataclass(frozen=True, eq=False, repr=False)
class NodeSums:
    """The sums of one tree (see the module's table)."""

    offered: Counts
    signed: Annotated[FloatArray, Shape("N", "K")]
    noise_other: Counts
    noise_own: Counts
    mass_weight: Annotated[FloatArray, Shape("N", 1), Range(0.0)]
    mass_sum: Annotated[FloatArray, Shape("N", 1)]

    @classmethod
    def zeros(cls, nodes: int, arms: int) -> NodeSums:
        """The sums of no report."""
        return cls(*np.zeros((4, nodes, arms)), *np.zeros((2, nodes, 1)))

    @classmethod
    def of(
        cls,
        mechanism: SignedSubsetSelection,
        shape: tuple[int, int],
        at: IntArray,
        offered: FloatArray,
        signed: FloatArray,
        shown: FloatArray,
        people: int,
    ) -> NodeSums:
        """The sums of people who reported by a mechanism.

        Args:
            mechanism: over the B open bins, and perhaps one for all resolved leaves.
            shape: (N, K).
            at: (B,) the nodes of the open bins.
            offered: (B, K) how many people were offered the arm there.
            signed: (B, K) the sum of their signs.
            shown: (B, 1) how many people reported the bin.
            people: the number of people.
        """
        q, contrast, gain = mechanism.other_probability, mechanism.contrast, mechanism.mass_contrast
        own = mechanism.true_probability + mechanism.false_probability
        sums = cls.zeros(*shape)
        sums.offered[at] = offered
        sums.signed[at] = signed / contrast
        sums.noise_other[at] = offered * (2.0 * q / contrast**2)
        sums.noise_own[at] = offered * (own / contrast**2)
        if mechanism.bins > 1 and gain > 0.0:
            typical = 2.0 * q + gain / mechanism.bins
            variance = max(typical * (1.0 - typical), 1e-12)
            sums.mass_weight[at] = people * gain**2 / variance
            sums.mass_sum[at] = gain * (shown - people * 2.0 * q) / variance
        return sums

    def __len__(self) -> int:
        return len(self.mass_weight)

    def grown(self, nodes: int) -> NodeSums:
        """The same sums for a tree that has more nodes by now."""
        more = nodes - len(self)
        if more <= 0:
            return self
        return NodeSums(*(np.pad(array, [(0, more), (0, 0)]) for array in vars(self).values()))

    def discounted(self, share: float) -> NodeSums:
        """After people count `share` of what they did (learners/discounting.py): an average S / T
        stays what it was, and its variance R / T^2 grows by 1 / share."""
        return NodeSums(*(share * array for array in vars(self).values()))

    def __add__(self, other: NodeSums) -> NodeSums:
        nodes = max(len(self), len(other))
        pairs = zip(
            vars(self.grown(nodes)).values(), vars(other.grown(nodes)).values(), strict=True
        )
        return NodeSums(*(mine + theirs for mine, theirs in pairs))

    def check(self, name: str, nodes: int, arms: int) -> None:
        """Reject sums that no reports on a tree with `nodes` nodes add up to."""
        check_fields(self)
        if self.offered.shape[1] != arms or len(self) > nodes:
            raise InvalidInput(
                f"the statistics of {name} had {len(self)} nodes and {self.offered.shape[1]} arms; "
                f"this learner has {nodes} nodes and {arms} arms there."
            )
        # |h / (p - b)| is at most 1 / (p - b) <= 1 + (p + b) / (p - b)^2.
        most = self.offered + self.noise_own + self.noise_other
        if (np.abs(self.signed) > most).any():
            raise InvalidInput(
                f"the statistics of {name} had sums that no reports add up to; send them as "
                "statistics() made them."
            )


@dataclass(frozen=True, eq=False)
class PartitionStatistics(Statistics):
    """Node sums for each tree that people reported on, in the order in which trees were begun."""

    kind: ClassVar[str] = "partition-statistics"

    trees: tuple[NodeSums, ...]

    def __add__(self, other: PartitionStatistics) -> PartitionStatistics:
        pairs = zip_longest(self.trees, other.trees)
        trees = (b if a is None else a if b is None else a + b for a, b in pairs)
        return PartitionStatistics(tuple(trees), **self.tally(other))

    def discounted(self, share: float) -> PartitionStatistics:
        return replace(self, trees=tuple(sums.discounted(share) for sums in self.trees))

    def on(self, place: int, nodes: int) -> NodeSums:
        """The sums on one of the trees, with `nodes` nodes."""
        sums = self.trees[place] if place < len(self.trees) else None
        arms = self.trees[0].offered.shape[1]
        return (NodeSums.zeros(1, arms) if sums is None else sums).grown(nodes)


# People are counted in portions of this many (person, bin) pairs, which bounds memory.
_CELLS_AT_ONCE = 2**21


@lru_cache(maxsize=256)
def selection(bins: int, epsilon: float) -> SignedSubsetSelection:
    """The mechanism for a number of bins, which few policies change."""
    return SignedSubsetSelection.best(bins, epsilon)


def place_count(active: BoolArray) -> int:
    """How many places reports tell apart where (L, K) arms are left: each leaf with more than one,
    and all others together."""
    asked = int((active.sum(axis=1) > 1).sum())
    return asked + (asked < len(active))


@dataclass(frozen=True, eq=False)
class PartitionPolicy(ArmPolicy):
    """A tree, and for each of its leaves the probabilities with which arms are offered there.

    Attributes:
        bins: the partition and the arms left in each leaf.
        offers: (L, K) the probabilities with which arms are offered in each leaf.
        size: how many places a report names.
        epsilon: budget of one report; infinity for a non-private reference.
    """

    kind: ClassVar[str] = "partition-policy"
    reports_are_private = True

    bins: Bins
    offers: Annotated[FloatArray, Shape("tree.leaf_count", "arms"), Range(0.0)]
    size: Annotated[int, Range(1)]
    epsilon: Annotated[float, Range(above=0.0, infinite=True)]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bins.check(self.domain.dimension, self.arms)
        proper = np.abs(self.offers.sum(axis=1) - 1.0) <= 1e-9
        if not proper.all() or (self.offers[~self.active] != 0.0).any():
            raise InvalidInput(
                f"the policy had offers that do not add up to 1 over the active arms of each of "
                f"its {self.tree.leaf_count} leaves; send it as it was made."
            )
        _ = self.mechanism  # refuses a size, or an epsilon, with which no report can be made

    @property
    def tree(self) -> Tree:
        """The partition."""
        return self.bins.tree

    @property
    def active(self) -> BoolArray:
        """(L, K) the arms left in each leaf, in the order of `tree.leaves`."""
        return self.bins.active

    # What is reported.

    @cached_property
    def wanted(self) -> BoolArray:
        """(L, 1) the open leaves, where more than one arm is left: each is a place of its own."""
        return np.asarray(self.active.sum(axis=1, keepdims=True) > 1)

    @cached_property
    def asked(self) -> int:
        """How many places of their own there are; all the rest is one more, of that number."""
        return int(self.wanted.sum())

    @cached_property
    def place(self) -> IntArray:
        """(L, K) the number of the place of each leaf and arm."""
        place: IntArray = np.full(self.wanted.shape, self.asked)
        place[self.wanted] = np.arange(self.asked)
        return np.broadcast_to(place, self.active.shape)

    @cached_property
    def mechanism(self) -> SignedSubsetSelection:
        """Signed subset selection over the places."""
        return SignedSubsetSelection(place_count(self.active), self.size, self.epsilon)

    @cached_property
    def reporter(self) -> SignedReporter:
        """How a place and a sign are hidden."""
        mechanism = self.mechanism
        return SignedReporter(
            mechanism=mechanism,
            name=f"signed subset selection, {mechanism.size} of {mechanism.bins} bins",
            data="the bin of the context and the sign of the rounded reward",
            place_name="bin",
        )

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> SignedReports:
        own = self.place[self.bins.leaf_of(unit), actions.arms]
        signs = round_to_signs(rewards, noise)
        signs[own == self.asked] = 1
        return self.reporter.hidden(self, own, signs, actions.public_coins, noise)

    def release(self, noise: str) -> Release:
        return self.reporter.release(self, noise)

    # What is chosen.

    @cached_property
    def _thresholds(self) -> FloatArray:
        """(L, K) cumulative probabilities; the last is 1 exactly."""
        cumulative = np.cumsum(self.offers, axis=1)
        # From the last arm that is offered on the sum is 1, whatever was lost in rounding, so an
        # arm of probability 0 is never reached.
        last = self.arms - 1 - np.argmax(self.offers[:, ::-1] > 0.0, axis=1)
        cumulative[np.arange(self.arms) >= last[:, None]] = 1.0
        return cumulative

    def offered(self, public_coins: CoinArray, leaves: IntArray) -> IntArray:
        """The arm that a public coin offers in a leaf (position among `tree.leaves`),
        broadcasting."""
        nodes: IntArray = self.tree.leaves[leaves]
        uniforms = public_uniforms(self.public_seed, self.version, public_coins, nodes)
        thresholds = self._thresholds[leaves]
        arms = np.zeros(uniforms.shape, dtype=np.int64)
        for k in range(self.arms - 1):
            arms += uniforms >= thresholds[..., k]
        return arms

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        return self.offers[self.bins.leaf_of(unit)]

    def _choose(self, unit: FloatArray, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        leaves = self.bins.leaf_of(unit)
        arms = self.offered(public_coins, leaves)
        return arms, self.offers[leaves, arms]

    # What reports add.

    def sums(self, reports: SignedReports) -> NodeSums:
        """What reports of this policy add; `InvalidInput` if it cannot have made them."""
        self.reporter.check(self, reports)
        if self.epsilon == math.inf:
            return self._exact_sums(reports)
        people, arms, leaves = len(reports), self.arms, np.flatnonzero(self.wanted)
        counts, signed = np.zeros((2, self.asked, arms))
        shown = np.zeros((self.asked, 1))
        most = max(1, _CELLS_AT_ONCE // max(self.asked, 1))
        for start in range(0, people, most):
            some = slice(start, start + most)
            bins, signs = reports.places[some], reports.signs[some]
            offered = self.offered(reports.public_coins[some, None], leaves[None, :])
            counts += np.stack([(offered == k).sum(axis=0) for k in range(arms)], axis=1)
            # Bins beyond the open ones stand for all resolved leaves; nothing is learnt there.
            used = bins < self.asked
            row = np.broadcast_to(np.arange(len(bins))[:, None], bins.shape)[used]
            cell = bins[used] * arms + offered[row, bins[used]]
            totals = np.bincount(cell, signs[used].astype(np.float64), minlength=counts.size)
            signed += totals.reshape(counts.shape)
            shown[:, 0] += np.bincount(bins[used], minlength=self.asked)
        shape, at = (len(self.tree), arms), self.tree.leaves[leaves]
        return NodeSums.of(self.mechanism, shape, at, counts, signed, shown, people)

    def _exact_sums(self, reports: SignedReports) -> NodeSums:
        """The sums of reports without noise, which name the bin: only its offers are counted."""
        bins, arms, leaves = reports.places[:, 0], self.arms, np.flatnonzero(self.wanted)
        used = bins < self.asked
        own = bins[used]
        cell = own * arms + self.offered(reports.public_coins[used], leaves[own])
        cells = {"minlength": self.asked * arms}
        counts = np.bincount(cell, **cells).astype(np.float64).reshape(-1, arms)
        signs = reports.signs[used, 0].astype(np.float64)
        signed = np.bincount(cell, signs, **cells).astype(np.float64).reshape(-1, arms)
        shape, at = (len(self.tree), arms), self.tree.leaves[leaves]
        shown = counts.sum(axis=1, keepdims=True)
        return NodeSums.of(self.mechanism, shape, at, counts, signed, shown, len(reports))
