"""Our locally private bandit on an adaptive partition.

Reports and sums are those of policy.py, beliefs those of posterior.py. What is left here is when to
publish and, from the beliefs, what: `Rules` says it in numbers. All of it reads reports that are
private already, so none of it costs privacy.

All sources report on one tree, which is theirs: it is refined by what they say, as the target's is
by what the target says. So a weak or wrong source cannot tie the target to bins that it would not
have made.
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

from discreet.learners.base import Common
from discreet.learners.forgetting import half_life, longest, sharpness
from discreet.learners.partition.policy import (
    NodeSums,
    PartitionPolicy,
    PartitionSourcePolicy,
    PartitionStatistics,
    selection,
)
from discreet.learners.partition.posterior import (
    NodeInformation,
    TreePosterior,
    cell_masses,
    node_masses,
    observations,
    projected,
    source_information,
)
from discreet.learners.partition.rules import (
    FIRST_LENGTH_SCALE,
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
    Masses,
    Tree,
    overlaps,
    same_boxes,
    splittable,
    trimmed,
)
from discreet.learners.partition.values import LeafBeliefs
from discreet.learners.signs import SignedReports
from discreet.learners.sources import Belief, Information, TrustingLearner, believe
from discreet.learners.stream import Stream
from discreet.people.domain import Arms, Box
from discreet.privacy import Local, NonPrivate
from discreet.validation import BoolArray, FloatArray, InvalidInput, check_options

# Where sources were heard, an arm must lie this many standard deviations behind by the target's own
# reports too. More would wait for arms that are hardly ever offered.
_AGREEMENT = 0.5
# Where a report tells the bin and more, the first policies are for few people, who choose nearly by
# chance, each later one for a quarter of those so far, until batches are as large as the rules say.
# Where it hardly tells the sign, a policy made of twenty reports follows noise.
_FIRST_BATCH, _EARLY_GROWTH, _TOLD = 20, 0.25, 1.5
_NEVER = 1e15
# Without privacy there are hundreds of bins, and length scales take longer to learn.
_GROWTH_OF_MANY = 1.5


@dataclass(frozen=True, eq=False)
class View:
    """What all reports so far say about the target's present leaves.

    Attributes:
        masses: how the target's people are spread.
        target: what the target's reports say.
        joint: the same with all sources that are believed.
        belief: how far sources share the target's reward functions.
    """

    masses: Masses
    target: Information
    joint: Information
    belief: Belief

    @property
    def mass(self) -> FloatArray:
        """(N,) the share of the target's people in every node."""
        return self.masses.mass

    @property
    def deviation(self) -> FloatArray:
        """(N,) its standard deviation."""
        return self.masses.deviation


class Partition(
    TrustingLearner[PartitionPolicy, SignedReports, PartitionStatistics, PartitionSourcePolicy]
):
    """Learns which arm is best where, from reports that are private when they leave a person.

    Contexts are cut into bins that are halved where arms contend and the reports can tell halves
    apart. In each bin arms are offered with the probability that they are best (Thompson
    sampling) under a Gaussian posterior that shares strength between bins, arms that are clearly
    behind are given up, and bins with one arm left stop costing noise.

    Auxiliary sources (`open_source`) refine the bins and enter the same posterior with their own
    noise. With the probability that a source does not share the target's reward functions, arms are
    offered as if there were no source, so a source that contradicts is found out; and arms are
    given up only where the target's own reports are against them too.

    Args:
        budget: `Local(epsilon)`, or `NonPrivate()` for the same learner without noise.
        rules: when it acts.
        drift: after how many people a report counts half; None where rewards do not change.
    """

    name: ClassVar[str] = "partition"
    trust_models: ClassVar[tuple[str, ...]] = ("local", "none")
    reports_type = SignedReports
    statistics_type = PartitionStatistics
    source_policy_type = PartitionSourcePolicy
    source_reports_type = SignedReports
    saved: ClassVar[tuple[str, ...]] = (*TrustingLearner.saved, "_decided")
    _decided: Decisions

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Local | NonPrivate,
        *,
        rules: Rules | None = None,
        drift: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        if rules is not None and not isinstance(rules, Rules):
            raise InvalidInput(f"rules was {rules!r}; pass Rules(...).")
        self.rules = rules or Rules()
        self.drift = half_life(drift)
        whole = ScaledBins.whole(domain.dimension, self.arms)
        first = self._before_learning
        self._decided = Decisions(whole, whole, (), (), first, first, False)

    def _decide(self, **changes: Any) -> None:
        self._decided = replace(self._decided, **changes)

    @property
    def batch_size(self) -> int:
        people, least = self._published_at, self.rules.batch
        if free_bins(self.budget.visit_epsilon) > _TOLD:
            least = min(least, max(int(_FIRST_BATCH * self._variance), int(_EARLY_GROWTH * people)))
        return longest(self.drift, max(least, int(people * self.rules.growth)))

    @property
    def _variance(self) -> float:
        """How many reports, of one bin, say as much as one person without privacy."""
        return float(selection(1, self.budget.visit_epsilon).variance(1.0))

    @property
    def _before_learning(self) -> int:
        """Reports between two times of learning. Evidence for length scales is in products of two
        reports, so it is the square of their variance that more of them must make up for."""
        return int(min(self.rules.first_learning * self._variance**2, _NEVER))

    def source_batch(self, name: str) -> int:
        return max(self.rules.batch, int(self.source_total * self.rules.growth))

    # Sums.

    def _empty(self) -> PartitionStatistics:
        return PartitionStatistics((NodeSums.zeros(1, self.arms),), reports=0)

    def _empty_source(self) -> PartitionStatistics:
        return PartitionStatistics((NodeSums.zeros(1, self.arms, self.arms),), reports=0)

    def _statistics(self, policy: PartitionPolicy, reports: SignedReports) -> PartitionStatistics:
        trees_before = bisect_right(self._decided.started, policy.version)
        before = (NodeSums.zeros(1, self.arms),) * trees_before
        return PartitionStatistics((*before, policy.sums(reports)), reports=len(reports))

    def _source_statistics(
        self, policy: PartitionSourcePolicy, reports: SignedReports
    ) -> PartitionStatistics:
        return PartitionStatistics((policy.sums(reports),), reports=len(reports))

    def _check_sums(self, statistics: PartitionStatistics) -> None:
        for place, sums in enumerate(statistics.trees):
            nodes = len(self._trees[place]) if place < len(self._trees) else 0
            sums.check(f"tree {place}", nodes, self.arms)

    # What is known.

    @property
    def _trees(self) -> list[Tree]:
        """All trees that the target reported on, the present one last."""
        return [*self._decided.left_behind, self._decided.now.tree]

    def beliefs(self) -> tuple[Bins, TreePosterior]:
        """The present bins and what is believed of each arm in each: for plots and for auditors."""
        with self.lock:
            now = self._decided.now
            return now.bins, now.posterior(self._view().joint)[0]

    def predict(self, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation (n, K) of each arm's reward in the bins of contexts
        (n, d).

        In the units of rewards; for plots, and for whoever decides without exploring.
        """
        bins, state = self.beliefs()
        tree, width = bins.tree, self.reward_bounds.upper - self.reward_bounds.lower
        leaf = tree.leaf_position[tree.locate(self.domain.to_unit(contexts))]
        mean = self.reward_bounds.lower + width * 0.5 * (1.0 + state.mean[leaf])
        deviation: FloatArray = 0.5 * width * np.sqrt(state.variance[leaf])
        return mean, deviation

    def _belief(self) -> Belief:
        return self._view().belief

    def _beliefs(self, contexts: Any) -> LeafBeliefs:
        unit = None if contexts is None else self.domain.people_to_unit(contexts)
        now, view = self._decided.now, self._view()
        best = np.where(now.bins.active, now.posterior(view.joint)[0].mean, -np.inf).argmax(axis=1)
        # Of the target's own reports: that sources share its rewards is a guess.
        said = now.priors, view.target
        return LeafBeliefs(self.domain, now.ranked, view.masses, best, *said, unit)

    def _view(self) -> View:
        now = self._decided.now
        tree = now.tree
        parts: list[Information] = []
        roughness = now.roughness(now.ranked)[tree.leaves]
        known = [(old, self._sums.on(place, len(old))) for place, old in enumerate(self._trees)]
        for old, sums in known:
            masses = node_masses(old, sums, known[:-1] if old is tree else ())
            ranked = now.ranked if old is tree else now.rank(old)
            exact = not self.budget.private
            seen = observations(old, sums, masses, now.roughness(ranked), exact)
            if old is tree:
                parts.append(NodeInformation.of(tree, masses.mass, *seen))
            else:
                parts.append(NodeInformation.elsewhere(*seen, ranked, now.ranked, roughness))
        target = reduce(add, parts).scaled(sharpness(self.drift, self.people))
        shared = self._decided.shared.tree
        sources = {
            name: projected(information, now.rank(shared), now.ranked, roughness)
            for name, information in self._of_sources().items()
        }
        belief = believe(target, sources, now.evidence)
        believed = [sources[name] for name in belief.used]
        joint = target + reduce(add, believed) if believed else target
        return View(masses, target, joint, belief)

    def _of_sources(self) -> dict[str, Information]:
        """What each source that is heard says about the leaves of the sources' tree."""
        shared = self._decided.shared
        return {
            name: source_information(shared.tree, source.sums.trees[0], shared.length_scales[0])
            for name, source in self._heard.items()
        }

    # What is published.

    def _publish(self) -> PartitionPolicy:
        # Nobody of the target reported yet: what sources say is all there is.
        first = self.people == 0 and self.source_total > 0
        if first:
            scales = self._decided.shared.length_scales
            self._decide(now=replace(self._decided.now, length_scales=scales))
        view, state = self._refine()
        # A source that contradicted is not asked again: on fewer bins it would contradict less.
        trust, used = view.belief.trust, view.belief.used
        self._given_up = (*self._given_up, *(name for name in trust if name not in used))
        if self._decided.believed and not used:
            # Bins that were made on the word of sources are too many for the target alone, and
            # length scales may be wrong.
            self._decide(believed=False, learn_at=self.people)
            self._start_anew(view, ((FIRST_LENGTH_SCALE,) * self.domain.dimension,))
            view, state = self._grown()
        elif self.people == 0:
            view, state = self._grown()
        self._decide(believed=bool(view.belief.used))
        offers, doubt = self._thompson(state), view.belief.doubt
        if doubt > 0.0:
            own = self._thompson(self._decided.now.posterior(view.target)[0])
            offers = (1.0 - doubt) * offers + doubt * own
        return PartitionPolicy(
            **self.policy_header(),
            bins=self._decided.now.bins,
            offers=offers,
            epsilon=self.budget.visit_epsilon,
        )

    def _start_anew(self, view: View, length_scales: tuple[tuple[float, ...], ...]) -> None:
        """Begin again with one bin, where nearly all people are; what the target reported so far
        is carried over to it."""
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

    def _grown(self) -> tuple[View, TreePosterior]:
        """Split for as long as there is reason to."""
        known = self._refine(growing=True)
        for _ in range(self.rules.max_depth):
            before = self._decided.now.tree
            known = self._refine(growing=True)
            if self._decided.now.tree is before:
                break
        return known

    def _thompson(self, state: TreePosterior) -> FloatArray:
        """(L, K) how often each arm is offered."""
        deviation = np.sqrt(state.variance)
        offers = [
            thompson_probabilities(state.mean, factor * deviation, self._decided.now.bins.active)
            for factor in self.rules.temperatures
        ]
        mean: FloatArray = np.mean(offers, axis=0)
        return mean

    def _refine(self, growing: bool = False) -> tuple[View, TreePosterior]:
        """Learn length scales when it is time, then give up arms and split bins; returns what is
        known of the bins that are left."""
        view = self._view()
        now, leaves = self._decided.now, self._decided.now.tree.leaves
        moved = now.moved(view.mass[leaves], view.deviation[leaves])
        if moved is not now:
            self._decide(now=moved)
            view = self._view()
        # Until enough people of the target came, the sources' own tree tells length scales.
        learning = self.people >= self._decided.learn_at
        if learning:
            growth = self.rules.learning_growth if self.budget.private else _GROWTH_OF_MANY
            again = int(self.people * growth)
            self._decide(
                now=self._decided.now.learnt(view.joint),
                learn_at=max(self.people + self._before_learning, again),
            )
            now = self._decided.now
            self.log_learnt("length scales", now.length_scales[0])
            if self.people >= self._decided.may_restart_at and badly_cut(
                now.bins, now.ranked, view.mass, now.length_scales[0]
            ):
                # Every tree that is left behind costs time for good: at most one a doubling.
                self._decide(may_restart_at=2 * self.people)
                self._start_anew(view, now.length_scales)
                return self._grown()
        before = self._decided.now
        state, scales = before.posterior(view.joint)
        if self.people or growing:
            # While length scales are uncertain, a split may take an axis that does not matter,
            # and joining bins means to start anew: wait until they are learnt again.
            may_split = learning or growing or len(before.length_scales) == 1
            self._decide(now=self._cut(view, state, scales, may_split))
            if self._decided.now.tree is not before.tree:
                self.log_learnt("number of bins", self._decided.now.tree.leaf_count)
                view = self._view()
                state, _ = self._decided.now.posterior(view.joint)
        return view, state

    def _cut(
        self, view: View, state: TreePosterior, scales: FloatArray, may_split: bool
    ) -> ScaledBins:
        """Give up arms that are clearly behind, and split bins where that will tell more."""
        rules, now = self.rules, self._decided.now
        tree, active = now.tree, now.bins.active
        mass = view.mass[tree.leaves]
        gaps = rivals(state, active)
        behind = far_behind(gaps, rules)
        if not self.budget.private or self.drift is not None:
            # Nothing is gained where bins cost no noise; and where rewards change, nobody would
            # find out that it is the best by now.
            behind[:] = False
        if view.belief.trust:
            # Nothing is given up for good on the word of sources alone, which may yet contradict.
            own_gap, own_spread, _ = rivals(now.posterior(view.target)[0], active)
            behind &= own_gap > _AGREEMENT * own_spread
        left = active & ~behind
        bins = now.bins if np.array_equal(left, active) else Bins(tree, left)
        noise = self._noise_in_halves(bins.active, mass)
        ranked, levels = now.ranked, self.domain.levels
        chosen, axes = worth_splitting(bins, ranked, gaps, noise, scales, levels, rules)
        if not may_split:
            # A bin with nearly all the people of its parent is no finer than that.
            parents = view.mass[np.maximum(tree.parent[tree.leaves], 0)]
            chosen &= (mass > NEARLY_ALL * parents) & (tree.parent[tree.leaves] >= 0)
        free = large(tree, mass, self.people, self.arms, self.budget.visit_epsilon)
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
        mechanism = selection(int((arms > 1).sum()) + 1, self.budget.visit_epsilon)
        half = 0.5 * mass
        precision = self.people * half**2 / (mechanism.variance(half) * arms)
        if self._decided.believed or self.people == 0:
            precision = precision + self._precision_of_sources(self._decided.now.tree)
        noise: FloatArray = np.sqrt(2.0 / np.maximum(precision, 1e-12))
        return noise

    # Sources.

    def _publish_source(
        self, source: Stream[PartitionSourcePolicy, PartitionStatistics]
    ) -> PartitionSourcePolicy:
        if self._heard:
            self._refine_shared()
        return PartitionSourcePolicy(**self.source_header(source), bins=self._decided.shared.bins)

    def _refine_shared(self) -> None:
        """Split the leaves where arms contend and sources can tell halves apart."""
        information = reduce(add, self._of_sources().values())
        shared = self._decided.shared.learnt(information)
        state, scales = shared.posterior(information)
        gaps = rivals(state, shared.bins.active)
        noise = np.sqrt(2.0 / self._precision_of_sources(shared.tree))
        levels, rules, ranked = self.domain.levels, self.rules, shared.ranked
        chosen, axes = worth_splitting(shared.bins, ranked, gaps, noise, scales, levels, rules)
        if shared.tree.leaf_count + int(chosen.sum()) <= rules.max_bins:
            shared = shared.split(chosen, axes)
        self._decide(shared=shared)

    def _precision_of_sources(self, tree: Tree) -> FloatArray:
        """(L,) precision of an arm's mean in half a leaf of a tree, had as many people of all
        sources that are heard reported again."""
        shared, total = self._decided.shared.tree, np.zeros(tree.leaf_count)
        now = self._decided.now
        shares, _ = overlaps(now.rank(shared), now.rank(tree))
        for source in self._heard.values():
            masses, _ = cell_masses(shared, source.sums.trees[0])
            cell = 0.5 * (shares[shared.leaves].T @ masses.mass[shared.leaves].mean(axis=1))
            total += source.people * cell**2 / source.policies[-1].mechanism.variance(cell)
        return total

    # Options.

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        rules = [field.name for field in fields(Rules)]
        check_options(cls.name, options, [*rules, "drift"])
        given = {name: value for name, value in options.items() if name != "drift"}
        return {"rules": Rules(**given), "drift": options.get("drift")}

    def _options(self) -> dict[str, Any]:
        return {**asdict(self.rules), "drift": self.drift}
