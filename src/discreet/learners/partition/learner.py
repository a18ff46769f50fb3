"""The locally private bandit on an adaptive partition.

    policy     a tree, the arms left in each leaf, and offers of arms         `_publish`
    choice     the arm that a public coin draws from the offers of the leaf        policy.py
    report     (leaf, sign) by signed subset selection                        policy.py
    statistics counts and signed sums of each node and arm                    policy.py
    posterior  masses, and leaf averages under likely length scales           `_view`, posterior.py
    update     learn length scales, start anew, eliminate arms, split leaves  `_refine`, `_cut`

Reports are private when they leave a person, so everything here is post-processing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from operator import add
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from discreet.gaussian import GaussianNaturalParameters
from discreet.learners.base import ArmLearner, Common
from discreet.learners.discounting import check_half_life, effective_sample_factor, longest, portion
from discreet.learners.partition.policy import (
    NodeSums,
    PartitionPolicy,
    PartitionStatistics,
    place_count,
    selection,
)
from discreet.learners.partition.posterior import (
    AveragedPosterior,
    NodeInformation,
    node_masses,
    observations,
)
from discreet.learners.partition.rules import (
    Decisions,
    Rules,
    ScaledBins,
    badly_cut,
    far_behind,
    free_bins,
    large,
    rivals,
    thompson_probabilities,
    worth_splitting,
)
from discreet.learners.partition.tree import (
    NEARLY_ALL,
    Bins,
    CellFrequencies,
    Tree,
    same_boxes,
    splittable,
    trimmed,
)
from discreet.learners.partition.values import leaf_values
from discreet.learners.signs import SignedReports
from discreet.learners.values import ValuePosterior
from discreet.people.domain import Arms, Box
from discreet.privacy import Local, NonPrivate
from discreet.validation import BoolArray, FloatArray, InvalidInput, check_options

# Where a report tells the bin and more, the first policies are for few people, who choose nearly by
# chance, each later one for a quarter of those so far, until batches are as large as the rules say.
# Where it hardly tells the sign, a policy made of twenty reports follows noise.
_FIRST_BATCH, _EARLY_GROWTH, _TOLD = 20, 0.25, 1.5
_NEVER = 1e15
# Without privacy there are hundreds of bins, and length scales take longer to learn.
_GROWTH_OF_MANY = 1.5
# It starts anew at most once while reports grow by these factors.
_RESTARTS, _OPEN_RESTARTS = 2, 8


@dataclass(frozen=True, eq=False)
class View:
    """What all reports so far say about the present leaves.

    Attributes:
        masses: how people are spread.
        information: what reports say of the leaves.
    """

    masses: CellFrequencies
    information: GaussianNaturalParameters

    @property
    def mass(self) -> FloatArray:
        """(N,) the share of people in every node."""
        return self.masses.mass


class Partition(ArmLearner[PartitionPolicy, SignedReports, PartitionStatistics]):
    """Learns which arm is best where, from reports that are private when they leave a person.

    Contexts are cut into bins that are halved where arms contend and the reports can tell halves
    apart. In each bin arms are offered with the probability that they are best (Thompson
    sampling) under a Gaussian posterior that shares strength between bins, arms that are clearly
    behind are given up, and bins with one arm left stop costing noise.

    Args:
        budget: `Local(epsilon)`, or `NonPrivate()` for the same learner without noise.
        rules: when it acts.
        half_life: of a report's weight, in people; None where rewards do not change.
    """

    name: ClassVar[str] = "partition"
    trust_models: ClassVar[tuple[str, ...]] = ("local", "shuffled", "none")
    reports_type = SignedReports
    statistics_type = PartitionStatistics
    saved: ClassVar[tuple[str, ...]] = ("_decided",)
    _decided: Decisions

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Local | NonPrivate,
        *,
        rules: Rules | None = None,
        half_life: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        if rules is not None and not isinstance(rules, Rules):
            raise InvalidInput(f"rules was {rules!r}; pass Rules(...).")
        self.rules = rules or Rules()
        self.half_life = check_half_life(half_life)
        whole = ScaledBins.whole(domain.dimension, self.arms)
        first = self._before_learning
        self._decided = Decisions(whole, (), (), first, first)

    def _decide(self, **changes: Any) -> None:
        self._decided = replace(self._decided, **changes)

    @property
    def batch_size(self) -> int:
        people, least = self._published_at, self.rules.batch
        if free_bins(self.budget.contribution_epsilon) > _TOLD:
            least = min(least, max(int(_FIRST_BATCH * self._variance), int(_EARLY_GROWTH * people)))
        return longest(self.half_life, max(least, portion(people, self.rules.growth)))

    @property
    def _variance(self) -> float:
        """How many reports, of one bin, say as much as one person without privacy."""
        return float(selection(1, self.budget.contribution_epsilon).variance(1.0))

    @property
    def _before_learning(self) -> int:
        """Reports between two times of learning. Evidence for length scales is in products of two
        reports, so it is the square of their variance that more of them must make up for."""
        return int(min(self.rules.first_learning * self._variance**2, _NEVER))

    # Sums.

    def _empty(self) -> PartitionStatistics:
        return PartitionStatistics((NodeSums.zeros(1, self.arms),), reports=0)

    def _statistics(self, policy: PartitionPolicy, reports: SignedReports) -> PartitionStatistics:
        trees_before = bisect_right(self._decided.started, policy.version)
        before = (NodeSums.zeros(1, self.arms),) * trees_before
        return PartitionStatistics((*before, policy.sums(reports)), reports=len(reports))

    def _check_reports(self, policy: PartitionPolicy, reports: SignedReports) -> None:
        policy.reporter.check(policy, reports)

    def _check_sums(self, statistics: PartitionStatistics) -> None:
        for place, sums in enumerate(statistics.trees):
            nodes = len(self._trees[place]) if place < len(self._trees) else 0
            sums.check(f"tree {place}", nodes, self.arms)

    # What is known.

    @property
    def _trees(self) -> list[Tree]:
        """All trees that people reported on, the present one last."""
        return [*self._decided.left_behind, self._decided.now.tree]

    def beliefs(self) -> tuple[Bins, AveragedPosterior]:
        """The present bins and the posterior of each arm in each, for plots and audits."""
        with self.lock:
            now = self._decided.now
            return now.bins, now.posterior(self._view().information)

    def predict(self, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation (n, K) of each arm's reward in the bins of contexts
        (n, d).

        In the units of rewards; for plots, and for decisions without exploration.
        """
        bins, state = self.beliefs()
        tree, width = bins.tree, self.reward_bounds.upper - self.reward_bounds.lower
        leaf = tree.leaf_position[tree.locate(self.domain.to_unit(contexts))]
        mean = self.reward_bounds.lower + width * 0.5 * (1.0 + state.mean[leaf])
        deviation: FloatArray = 0.5 * width * np.sqrt(state.variance[leaf])
        return mean, deviation

    def _value_posterior(self, contexts: Any) -> ValuePosterior:
        unit = None if contexts is None else self.domain.people_to_unit(contexts)
        now, view = self._decided.now, self._view()
        state, active = now.posterior(view.information), now.bins.active
        return leaf_values(self.domain, now.ranked, view.masses, active, state, unit)

    def _view(self) -> View:
        now = self._decided.now
        tree = now.tree
        parts: list[GaussianNaturalParameters] = []
        within_cell_variance = now.within_cell_variance(now.ranked)[tree.leaves]
        known = [(old, self._sums.on(place, len(old))) for place, old in enumerate(self._trees)]
        for old, sums in known:
            masses = node_masses(old, sums, known[:-1] if old is tree else ())
            ranked = now.ranked if old is tree else now.rank(old)
            exact = not self.budget.private
            seen = observations(old, sums, masses, now.within_cell_variance(ranked), exact)
            if old is tree:
                parts.append(NodeInformation.of(tree, masses.mass, *seen))
            else:
                parts.append(
                    NodeInformation.elsewhere(*seen, ranked, now.ranked, within_cell_variance)
                )
        return View(
            masses, reduce(add, parts).scaled(effective_sample_factor(self.half_life, self.people))
        )

    # What is published.

    def _publish(self) -> PartitionPolicy:
        _, state = self._grown() if self.people == 0 else self._refine()
        bins, epsilon = self._decided.now.bins, self.budget.contribution_epsilon
        return PartitionPolicy(
            **self.policy_header(),
            bins=bins,
            offers=self._thompson(state),
            size=selection(place_count(bins.active), epsilon).size,
            epsilon=epsilon,
        )

    def _start_anew(self, view: View, length_scales: tuple[tuple[float, ...], ...]) -> None:
        """Begin again with one bin, where nearly all people are; what was reported so far is
        carried over to it."""
        self.log_learnt("the tree", "begun anew with one bin")
        decided = self._decided
        tree = trimmed(decided.now.tree, view.mass)
        bins = Bins(tree, np.ones((tree.leaf_count, self.arms), dtype=np.bool_))
        mass = view.mass[same_boxes(decided.now.tree, tree)[0]][tree.leaves]
        self._decide(
            now=ScaledBins(bins, mass, length_scales),
            left_behind=(*decided.left_behind, decided.now.tree),
            started=(*decided.started, len(self._policies)),
        )

    def _grown(self) -> tuple[View, AveragedPosterior]:
        """Split until no leaf is worth splitting."""
        known = self._refine(growing=True)
        for _ in range(self.rules.max_depth):
            before = self._decided.now.tree
            known = self._refine(growing=True)
            if self._decided.now.tree is before:
                break
        return known

    def _thompson(self, state: AveragedPosterior) -> FloatArray:
        """(L, K) how often each arm is offered."""
        deviation = self.rules.temperature * np.sqrt(state.variance)
        return thompson_probabilities(state.mean, deviation, self._decided.now.bins.active)

    def _refine(self, growing: bool = False) -> tuple[View, AveragedPosterior]:
        """Learn length scales when it is time, then give up arms and split bins; returns what is
        known of the bins that are left."""
        view = self._view()
        now, leaves = self._decided.now, self._decided.now.tree.leaves
        moved = now.moved(view.mass[leaves], view.masses.deviation[leaves])
        if moved is not now:
            self._decide(now=moved)
            view = self._view()
        learning = self.people >= self._decided.learn_at
        if learning:
            growth = self.rules.learning_growth if self.budget.private else _GROWTH_OF_MANY
            again = int(self.people * growth)
            self._decide(
                now=self._decided.now.learnt(view.information),
                learn_at=max(self.people + self._before_learning, again),
            )
            now = self._decided.now
            self.log_learnt("length scales", now.length_scales[0])
            if self.people >= self._decided.may_restart_at and badly_cut(
                now.bins, now.ranked, view.mass, now.length_scales[0]
            ):
                # Every tree that is left behind costs time for good; needless bins cost reports
                # only where these are private.
                rarer = _RESTARTS if self.budget.private else _OPEN_RESTARTS
                self._decide(may_restart_at=rarer * self.people)
                self._start_anew(view, now.length_scales)
                return self._grown()
        before = self._decided.now
        state = before.posterior(view.information)
        if self.people or growing:
            # While length scales are uncertain, a split may take an axis that does not matter,
            # and joining bins means to start anew: wait until they are learnt again.
            may_split = learning or growing or len(before.length_scales) == 1
            self._decide(now=self._cut(view, state, may_split))
            if self._decided.now.tree is not before.tree:
                self.log_learnt("number of bins", self._decided.now.tree.leaf_count)
                view = self._view()
                state = self._decided.now.posterior(view.information)
        return view, state

    def _cut(self, view: View, state: AveragedPosterior, may_split: bool) -> ScaledBins:
        """Give up arms that are clearly behind, and split bins where that will tell more."""
        rules, now = self.rules, self._decided.now
        tree, active = now.tree, now.bins.active
        mass = view.mass[tree.leaves]
        gaps = rivals(state, active)
        behind = far_behind(gaps, rules)
        if not self.budget.private or self.half_life is not None:
            # Where bins cost no noise elimination gains nothing; where rewards change, a bad
            # arm may become the best.
            behind[:] = False
        left = active & ~behind
        bins = now.bins if np.array_equal(left, active) else Bins(tree, left)
        noise = self._noise_in_halves(bins.active, mass)
        ranked, levels, scales = now.ranked, self.domain.levels, now.mean_length_scales(state)
        chosen, axes = worth_splitting(bins, ranked, gaps, noise, scales, levels, rules)
        if not may_split:
            # A bin with nearly all the people of its parent is no finer than that.
            parents = view.mass[np.maximum(tree.parent[tree.leaves], 0)]
            chosen &= (mass > NEARLY_ALL * parents) & (tree.parent[tree.leaves] >= 0)
        free = large(tree, mass, self.people, self.arms, self.budget.contribution_epsilon)
        free &= splittable(tree, tree.leaves, levels).any(axis=1)
        chosen |= free & (tree.depth[tree.leaves] < rules.max_depth)
        room = rules.max_bins - len(tree.leaves)
        if chosen.sum() > room:  # the bins with the most to gain come first
            worth = np.where(chosen, gaps[2][:, 0] * mass, -1.0)
            chosen[np.argsort(-worth)[max(room, 0) :]] = False
        return replace(now, bins=bins).split(chosen, axes)

    def _noise_in_halves(self, active: BoolArray, mass: FloatArray) -> FloatArray:
        """(L,) standard deviation of an arm difference in half a bin after as many people again."""
        arms = active.sum(axis=1)
        mechanism = selection(int((arms > 1).sum()) + 1, self.budget.contribution_epsilon)
        half = 0.5 * mass
        precision = self.people * half**2 / (mechanism.variance(half) * arms)
        noise: FloatArray = np.sqrt(2.0 / np.maximum(precision, 1e-12))
        return noise

    # Options.

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        rules = [field.name for field in fields(Rules)]
        check_options(cls.name, options, [*rules, "half_life"])
        given = {name: value for name, value in options.items() if name != "half_life"}
        return {"rules": Rules(**given), "half_life": options.get("half_life")}

    def _options(self) -> dict[str, Any]:
        return {**asdict(self.rules), "half_life": self.half_life}
