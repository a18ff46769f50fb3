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
from functools import partial
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
    Information,
    Kept,
    Masses,
    Priors,
    Smoothness,
    average,
    box_roughness,
    condition,
    downwards,
    likely_length_scales,
    log_evidence,
    mixture_variance,
    readings,
    upwards,
)
from discreet.learners.partition.rules import Rules, longest_axes, rivals, worth_splitting
from discreet.learners.partition.tree import Bins, Tree, splittable
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
        projected: FloatArray = self.shares.T @ mass
        return projected


PRIOR_LOG_ODDS = 3.0
# Prior of a root cell's mass: 1 / K +- this / K.
_ROOT_SD = 1.0
# The average over a cell is one under the source's density, not the target's: so much of the
# variation within a node it may be off by, as a variance.
_SHIFT = 0.1
# No source is believed to tell f more exactly than this, on the scale of 2f - 1.
_LEAST_VARIANCE = 0.02**2


def cell_masses(tree: Tree, sums: NodeSums) -> tuple[Masses, FloatArray]:
    """Masses (N, K) of cells that add up over the tree, for every arm by itself; and (K,) the
    variance of the root's over its square: an error that all observations of an arm share."""
    arms = sums.mass_weight.shape[1]
    weight, total = upwards(tree, sums.mass_weight, sums.mass_sum)
    prior = (arms / _ROOT_SD) ** 2
    precision = prior + weight[0]
    root, variance = _shares_of_arms((prior / arms + total[0]) / precision, 1.0 / precision)
    return downwards(tree, weight, total, root), variance / root**2


def _shares_of_arms(estimates: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(K,) shares of the arms and their variances, given that they add up to 1."""
    whole = variance.sum()
    shares = estimates + variance / whole * (1.0 - estimates.sum())
    left = variance * (1.0 - variance / whole)
    # Not below half a standard deviation: a share that is too small makes rewards too extreme.
    return np.maximum(shares, 0.5 * np.sqrt(left) + 1e-4), left


def source_information(
    tree: Tree, sums: NodeSums, roughness: FloatArray, prior: Smoothness
) -> Information:
    """What the reports of one source say about the leaves; `roughness` (N,) is that of nodes."""
    masses, root_variance = cell_masses(tree, sums)
    y, variance = readings(sums, masses.mass, masses.deviation)
    variance = (
        variance
        + mixture_variance(tree, masses, roughness[:, None])
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
    return _without_scale(prior, Information(precision, weighted), root_variance)


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


def added(parts: list[Information]) -> Information:
    """What several independent sets of observations say together."""
    precision, weighted = parts[0].precision, parts[0].weighted
    for part in parts[1:]:
        precision, weighted = precision + part.precision, weighted + part.weighted
    return Information(precision, weighted)


def trust(
    prior: Smoothness, target: Information, sources: Mapping[str, Information]
) -> dict[str, float]:
    """For each source the probability that it shares the target's reward functions."""
    alone = log_evidence(prior, target)
    probabilities = {}
    for name, information in sources.items():
        together = log_evidence(prior, added([target, information]))
        odds = PRIOR_LOG_ODDS + together - alone - log_evidence(prior, information)
        probabilities[name] = 1.0 / (1.0 + math.exp(-min(max(odds, -500.0), 500.0)))
    return probabilities


SourceStream = Stream[PartitionSourcePolicy, PartitionStatistics]


class PartitionSources(
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
        self._known: Kept[Information] = Kept()
        self._masses: Kept[FloatArray] = Kept()
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

    def _publish_source(self, source: SourceStream) -> PartitionSourcePolicy:
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
        active = np.ones_like(state.mean, dtype=np.bool_)
        allowed = splittable(tree, tree.leaves, self.domain.levels)
        noise = np.sqrt(2.0 / self._precision_in_halves(tree))
        gaps = rivals(state, active)
        chosen = worth_splitting(tree, gaps, active, noise, rules) & allowed.any(axis=1)
        if len(tree.leaves) + int(chosen.sum()) <= rules.max_bins:
            axes = longest_axes(tree, allowed, scales)
            self._source_tree = tree.split(tree.leaves[chosen], axes[chosen])

    def _at_home(self) -> dict[str, Information]:
        """What each source that is heard says about the leaves of the sources' tree; kept while
        nothing changes."""
        tree, scales = self._source_tree, self._source_scales[0]

        def said(sums: NodeSums) -> Information:
            roughness = box_roughness(tree.lower, tree.upper, np.array(scales))
            prior = self._source_priors.of(tree, scales)
            return source_information(tree, sums.grown(len(tree)), roughness, prior)

        return {
            name: self._known.of(name, (tree, sums, scales), partial(said, sums))
            for name, sums in self._heard_sums.items()
        }

    def _told_on(self, tree: Tree, roughness: FloatArray) -> dict[str, Information]:
        """What each source says about the leaves of another tree, whose roughness is (L,)."""
        if not self._heard_sums:
            return {}
        projection = Projection.between(self._source_tree, tree, roughness)
        return {
            name: projection.apply(information) for name, information in self._at_home().items()
        }

    def _precision_in_halves(self, target: Tree) -> FloatArray:
        """(L,) precision of an arm's mean in half a leaf of a tree, had as many people of all
        sources that are heard reported again."""
        tree, total = self._source_tree, np.zeros(len(target.leaves))

        def mean_mass(sums: NodeSums) -> FloatArray:
            masses, _ = cell_masses(tree, sums.grown(len(tree)))
            mean: FloatArray = masses.mass[tree.leaves].mean(axis=1)
            return mean

        projection = Projection.between(tree, target, np.zeros(len(target.leaves)))
        for name, sums in self._heard_sums.items():
            source = self._sources[name]
            mass = self._masses.of(name, (tree, sums), partial(mean_mass, sums))
            cell = 0.5 * projection.masses(mass)
            total += source.people * cell**2 / source.policies[-1].mechanism.variance(cell)
        return total
