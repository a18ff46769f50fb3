"""How the partition learner hears from auxiliary sources.

All sources report on one tree, which is theirs: it is refined by what they say, as the target's is
by what the target says. So a weak or wrong source cannot tie the target to bins that it would not
have made. What sources say is then expressed on the target's leaves (`Projection`).

A source observes cells (node, arm). The mass of a cell, the share of the source's people who are in
the node and were given the arm, is unknown and estimated from the same reports: nothing is assumed
about the behaviour policy, nor about where the people of a source are.

*Trust.* A source is believed to share the target's reward functions with probability w. The
reports of both are either explained by one set of functions or each by its own, and the evidence
for the two explanations (posterior.py) is compared:

    log w / (1 - w) = PRIOR_LOG_ODDS + E(target and source) - E(target) - E(source).

Without a person of the target the two are equally likely and the prior decides; a source that
contradicts is found out with the first few hundred people.

| array       | shape     | meaning                                                       |
|-------------|-----------|---------------------------------------------------------------|
| mass        | (N, K)    | share of a source's people in each cell                       |
| deviation   | (N, K)    | its standard deviation                                        |
| shares      | (N, L)    | how a node's cell spreads over the leaves, for one arm        |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.base import Common
from discreet.learners.partition.policy import (
    NodeSums,
    PartitionPolicy,
    PartitionReports,
    PartitionSourcePolicy,
    PartitionStatistics,
)
from discreet.learners.partition.posterior import (
    FIRST_LENGTH_SCALE,
    TEMPER,
    Information,
    Priors,
    Smoothness,
    average,
    box_roughness,
    condition,
    likely_length_scales,
    log_evidence,
    rivals,
    upwards,
)
from discreet.learners.partition.tree import Bins, Rules, Tree, splittable
from discreet.learners.sources import SourceLearner
from discreet.learners.stream import Stream
from discreet.privacy import Local, NonPrivate
from discreet.validation import FloatArray

_LEAST_BLUR = 1e-9


@dataclass(frozen=True, eq=False)
class Projection:
    """What was learnt on one partition, expressed on another.

    Sources, and the target before it started anew, reported on trees of their own. Their
    observations of boxes are averages of f over boxes, so on other leaves they are observations of
    mixtures:

        f(box) = sum_l share_l f(leaf l) + how far the average over a part of a leaf is from it,

    with the shares of the box's volume. That difference has variance roughness x (1 - coverage), if
    the box covers a part `coverage` of the leaf.

    | array    | shape  | meaning                                                              |
    |----------|--------|----------------------------------------------------------------------|
    | shares   | (B, L) | part of the volume of box b that lies in leaf l; rows add up to 1    |
    | blur     | (B,)   | variance of that difference for each box                             |
    """

    shares: FloatArray
    blur: FloatArray

    @classmethod
    def between(cls, old: Tree, new: Tree, roughness: FloatArray) -> Projection:
        """From the leaves of `old` to those of `new`, whose roughness is (L,)."""
        low, high = old.lower[old.leaves], old.upper[old.leaves]
        lower, upper = new.lower[new.leaves], new.upper[new.leaves]
        both = np.ones((len(low), len(lower)))
        for axis in range(low.shape[1]):
            length = np.minimum(high[:, axis][:, None], upper[:, axis][None]) - np.maximum(
                low[:, axis][:, None], lower[:, axis][None]
            )
            both *= np.maximum(length, 0.0)
        shares = both / np.prod(high - low, axis=1)[:, None]
        coverage = both / np.prod(upper - lower, axis=1)[None]
        blur = (shares**2 * (1.0 - coverage) * roughness[None]).sum(axis=1)
        return cls(shares, np.maximum(blur, _LEAST_BLUR))

    def apply(self, information: Information) -> Information:
        """Information about the old leaves as information about the new ones.

        With information (A, t) about g = S f + e, e ~ N(0, D): since A may be singular,
        A' = S' (A - A (A + D^-1)^-1 A) S and t' = S' (t - A (A + D^-1)^-1 t).
        """
        precision, weighted = [], []
        for a, t in zip(information.precision, information.weighted, strict=True):
            solved = np.linalg.solve(a + np.diag(1.0 / self.blur), np.column_stack([a, t]))
            precision.append(self.shares.T @ (a - a @ solved[:, :-1]) @ self.shares)
            weighted.append(self.shares.T @ (t - a @ solved[:, -1]))
        return Information(np.stack(precision), np.stack(weighted))

    def masses(self, mass: FloatArray) -> FloatArray:
        """(L, ...) masses of the new leaves, from those of the old ones (B, ...)."""
        found: FloatArray = self.shares.T @ mass
        return found


PRIOR_LOG_ODDS = 3.0
# Prior of a root cell's mass, 1 / K +- this / K, and of the share of a cell that falls left.
_ROOT_SD, _SHARE_SD = 1.0, 0.25
_LEAST_SHARE = 0.02
# The average over a cell is one under the source's density, not the target's: so much of the
# variation within a node it may be off by, as a variance.
_SHIFT = 0.1
# No source is believed to tell f more exactly than this, on the scale of 2f - 1.
_LEAST_VARIANCE = 0.02**2


@dataclass(frozen=True, eq=False)
class CellMasses:
    """Masses of the cells of a source (see the module).

    Attributes:
        mass: (N, K).
        deviation: (N, K) standard deviation of a mass, had the root's been known.
        split_variance: (N, K) variance of the share of a cell that lies in its left half.
        root_variance: (K,) variance of the root's mass over its square: an error that all
            observations of an arm share.
    """

    mass: FloatArray
    deviation: FloatArray
    split_variance: FloatArray
    root_variance: FloatArray


def cell_masses(tree: Tree, sums: NodeSums) -> CellMasses:
    """Masses (N, K) that add up over the tree, for every arm by itself.

    Upwards, what is known of a cell is its own reports and the sum of its halves, by precision.
    Downwards, a cell is shared between its halves by what is known of them and a prior of 1/2.
    """
    nodes, arms = sums.mass_weight.shape
    weight, total = upwards(tree, sums.mass_weight, sums.mass_sum)
    inner = np.flatnonzero(tree.axis >= 0)
    mass = np.empty((nodes, arms))
    variance, split = np.empty((nodes, arms)), np.zeros((nodes, arms))
    prior = (arms / _ROOT_SD) ** 2
    precision = prior + weight[0]
    mass[0], root = _shares_of_arms((prior / arms + total[0]) / precision, 1.0 / precision)
    variance[0] = 0.0
    for parent in inner:
        left, right = tree.left[parent], tree.left[parent] + 1
        whole = mass[parent]
        prior_half = 1.0 / (_SHARE_SD * whole) ** 2
        precision = prior_half + weight[left] + weight[right]
        part = (
            prior_half * 0.5 * whole + total[left] + weight[right] * whole - total[right]
        ) / precision
        part = np.clip(part, _LEAST_SHARE * whole, (1.0 - _LEAST_SHARE) * whole)
        mass[left], mass[right] = part, whole - part
        share = part / whole
        split[parent] = 1.0 / (precision * whole**2)
        variance[left] = 1.0 / precision + share**2 * variance[parent]
        variance[right] = 1.0 / precision + (1.0 - share) ** 2 * variance[parent]
    return CellMasses(mass, np.sqrt(variance), split, root / mass[0] ** 2)


def _shares_of_arms(found: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(K,) shares of the arms and their variances, given that they add up to 1."""
    whole = variance.sum()
    shares = found + variance / whole * (1.0 - found.sum())
    left = variance * (1.0 - variance / whole)
    # Not below half a standard deviation: a share that is too small makes rewards too extreme.
    return np.maximum(shares, 0.5 * np.sqrt(left) + 1e-4), left


def source_information(
    tree: Tree, sums: NodeSums, roughness: FloatArray, prior: Smoothness
) -> Information:
    """What the reports of one source say about the leaves; `roughness` (N,) is that of nodes."""
    masses = cell_masses(tree, sums)
    seen = np.maximum(sums.offered, 1.0) * masses.mass
    y = sums.signed / seen
    noise = (1.0 - masses.mass) * sums.noise_other + masses.mass * sums.noise_own
    variance = (
        TEMPER * noise / seen**2
        + np.minimum(y**2, 1.0) * (masses.deviation / masses.mass) ** 2
        + _mixture_variance(tree, masses, roughness)
        + _SHIFT * roughness[:, None]
        + _LEAST_VARIANCE
    )
    worth = np.where(sums.offered > 0.0, 1.0 / variance, 0.0)
    # Beyond +-1 there is no 2f - 1: such an average comes from a mass that is too small.
    y = np.clip(y, -1.5, 1.5)
    leaves = len(tree.leaves)
    precision = np.zeros((worth.shape[1], leaves, leaves))
    weighted = np.zeros((worth.shape[1], leaves))
    for arm in range(worth.shape[1]):
        used = np.flatnonzero(worth[:, arm] > 0.0)
        inside = tree.within[used] * masses.mass[tree.leaves, arm]
        shares = inside / inside.sum(axis=1, keepdims=True)
        precision[arm] = (shares.T * worth[used, arm]) @ shares
        weighted[arm] = (worth[used, arm] * y[used, arm]) @ shares
    return _without_scale(prior, Information(precision, weighted), masses.root_variance)


def _without_scale(
    prior: Smoothness, information: Information, variance: FloatArray
) -> Information:
    """The same after averaging over how far off the masses of an arm are together.

    If all masses of an arm are off by a factor 1 - e, observations are (1 + e) times what they
    should be: in the leaves y = f + e f + noise. With f in e f replaced by its mean m given this
    source alone, averaging over e ~ N(0, v) takes A m m' A / (1 / v + m' A m) off the precision A.
    """
    mean = condition(prior, information)[0].T  # (K, L)
    precision, weighted = information.precision.copy(), information.weighted.copy()
    for arm, v in enumerate(variance):
        along = precision[arm] @ mean[arm]
        strength = 1.0 / (1.0 / max(float(v), 1e-12) + float(mean[arm] @ along))
        weighted[arm] -= strength * float(mean[arm] @ weighted[arm]) * along
        precision[arm] -= strength * np.outer(along, along)
    return Information(precision, weighted)


def _mixture_variance(tree: Tree, masses: CellMasses, roughness: FloatArray) -> FloatArray:
    """(N, K) as posterior.mixture_variance, for every arm."""
    total = masses.split_variance * 4.0 * roughness[:, None] * masses.mass**2
    for node in range(len(tree) - 1, 0, -1):  # children come after their parents
        total[tree.parent[node]] += total[node]
    spread: FloatArray = total / masses.mass**2
    return spread


def added(parts: list[Information]) -> Information:
    """What several independent sets of observations say together."""
    precision, weighted = parts[0].precision, parts[0].weighted
    for one in parts[1:]:
        precision, weighted = precision + one.precision, weighted + one.weighted
    return Information(precision, weighted)


def trust(
    prior: Smoothness, target: Information, sources: Mapping[str, Information]
) -> dict[str, float]:
    """For each source the probability that it shares the target's reward functions."""
    alone = log_evidence(prior, target)
    found = {}
    for name, information in sources.items():
        together = log_evidence(prior, added([target, information]))
        odds = PRIOR_LOG_ODDS + together - alone - log_evidence(prior, information)
        found[name] = 1.0 / (1.0 + math.exp(-min(max(odds, -500.0), 500.0)))
    return found


Heard = Stream[PartitionSourcePolicy, PartitionStatistics]


@dataclass(frozen=True, eq=False)
class _Known:
    """What the sums of a source were found to say. The objects themselves are kept: an id may be
    that of a later object."""

    tree: Tree
    sums: NodeSums
    scales: tuple[float, ...]
    found: Information

    def of(self, tree: Tree, sums: NodeSums, scales: tuple[float, ...]) -> bool:
        return self.tree is tree and self.sums is sums and self.scales == scales


class HearsSources(
    SourceLearner[PartitionPolicy, PartitionReports, PartitionStatistics, PartitionSourcePolicy]
):
    """The part of `Partition` that hears from sources."""

    reports_type = PartitionReports
    statistics_type = PartitionStatistics
    source_policy_type: ClassVar[type[PartitionSourcePolicy]] = PartitionSourcePolicy
    source_reports_type: ClassVar[type[PartitionReports]] = PartitionReports

    rules: Rules
    _source_tree: Tree
    _source_scales: tuple[tuple[float, ...], ...]
    # Sources that contradicted the target; what they said counts for nothing any more.
    _given_up: tuple[str, ...]

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Local | NonPrivate,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        self._source_tree = Tree.root(domain.dimension)
        self._source_scales = ((FIRST_LENGTH_SCALE,) * domain.dimension,)
        self._source_priors = Priors()
        self._known: dict[str, _Known] = {}
        self._masses: dict[str, tuple[Tree, NodeSums, FloatArray]] = {}
        self._given_up = ()

    @property
    def _heard_sums(self) -> dict[str, NodeSums]:
        """The sums of all sources that reported and were not given up."""
        return {
            name: source.sums.trees[0]
            for name, source in self._sources.items()
            if source.people and name not in self._given_up
        }

    def source_batch(self, name: str) -> int:
        return max(self.rules.batch, int(self.source_total * 2.0 * self.rules.growth))

    def _empty_source(self) -> PartitionStatistics:
        return PartitionStatistics((NodeSums.zeros(1, self.arms, self.arms),), reports=0)

    def _publish_source(self, source: Heard) -> PartitionSourcePolicy:
        if self._heard_sums:
            self._refine_sources()
        everything = np.ones((self._source_tree.leaf_count, self.arms), dtype=np.bool_)
        return PartitionSourcePolicy(
            **self.source_header(source), bins=Bins(self._source_tree, everything)
        )

    def _source_statistics(
        self, policy: PartitionSourcePolicy, reports: PartitionReports
    ) -> PartitionStatistics:
        return PartitionStatistics((policy.sums(reports),), reports=len(reports))

    def _refine_sources(self) -> None:
        """Split the leaves where arms contend and sources can tell halves apart."""
        rules, tree = self.rules, self._source_tree
        information = added(list(self._at_home().values()))
        self._source_scales = likely_length_scales(
            self._source_scales[0], lambda scales: self._source_priors.of(tree, scales), information
        )
        priors = [self._source_priors.of(tree, scales) for scales in self._source_scales]
        state, weights = average(priors, information)
        scales = np.exp(weights @ np.log(np.array(self._source_scales)))
        gap, spread, variation = rivals(state, np.ones_like(state.mean, dtype=np.bool_))
        contend = (gap > 0.0) & (gap <= rules.contention * spread + rules.margin * variation)
        uncertainty = np.where(contend, spread, 0.0).max(axis=1)
        allowed = splittable(tree, tree.leaves, self.domain.levels)
        noise = np.sqrt(2.0 / self._precision_in_halves())
        chosen = (
            contend.any(axis=1)
            & (uncertainty < variation[:, 0])
            & (noise < rules.resolution * variation[:, 0])
            & (tree.depth[tree.leaves] < rules.max_depth)
            & allowed.any(axis=1)
        )
        if len(tree.leaves) + int(chosen.sum()) > rules.max_bins or not chosen.any():
            return
        edges = (tree.upper[tree.leaves] - tree.lower[tree.leaves]) / scales
        axes = np.where(allowed, edges, -1.0).argmax(axis=1)
        self._source_tree = tree.split(tree.leaves[chosen], axes[chosen])

    def _at_home(self) -> dict[str, Information]:
        """What each source that is heard says about the leaves of the sources' tree; kept while
        nothing changes."""
        tree, scales = self._source_tree, self._source_scales[0]
        for name, sums in self._heard_sums.items():
            known = self._known.get(name)
            if known is None or not known.of(tree, sums, scales):
                roughness = box_roughness(tree.lower, tree.upper, np.array(scales))
                found = source_information(
                    tree, sums.grown(len(tree)), roughness, self._source_priors.of(tree, scales)
                )
                self._known[name] = _Known(tree, sums, scales, found)
        return {name: self._known[name].found for name in self._heard_sums}

    def _told_on(self, tree: Tree, roughness: FloatArray) -> dict[str, Information]:
        """What each source says about the leaves of another tree, whose roughness is (L,)."""
        if not self._heard_sums:
            return {}
        projection = Projection.between(self._source_tree, tree, roughness)
        return {name: projection.apply(one) for name, one in self._at_home().items()}

    def _precision_in_halves(self, tree: Tree | None = None) -> FloatArray:
        """(L,) precision of an arm's mean in half a leaf of `tree` (their own), had as many people
        of all sources that are heard reported again."""
        own = self._source_tree
        target = own if tree is None else tree
        total = np.zeros(len(target.leaves))
        projection = Projection.between(own, target, np.zeros(len(target.leaves)))
        for name, sums in self._heard_sums.items():
            source = self._sources[name]
            mechanism = source.policies[-1].mechanism
            mass = self._leaf_masses(name, sums)
            cell = 0.5 * projection.masses(mass)
            total += source.people * cell**2 / mechanism.variance(cell)
        return total

    def _leaf_masses(self, name: str, sums: NodeSums) -> FloatArray:
        """(L,) mean over arms of a source's masses of cells in its leaves; kept as above."""
        tree = self._source_tree
        known = self._masses.get(name)
        if known is None or known[0] is not tree or known[1] is not sums:
            mass = cell_masses(tree, sums.grown(len(tree))).mass[tree.leaves].mean(axis=1)
            self._masses[name] = known = (tree, sums, mass)
        return known[2]
