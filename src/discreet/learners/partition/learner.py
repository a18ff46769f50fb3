"""Our locally private bandit on an adaptive partition.

Reports and sums are those of policy.py, beliefs those of posterior.py. What is left here is when to
publish and, from the beliefs, what: `Rules` says it in numbers. All of it reads reports that are
private already, so none of it costs privacy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.base import Common, check_options
from discreet.learners.partition.policy import (
    NodeSums,
    PartitionPolicy,
    PartitionReports,
    PartitionStatistics,
)
from discreet.learners.partition.posterior import (
    FIRST_LENGTH_SCALE,
    Information,
    Priors,
    Smoothness,
    TreePosterior,
    average,
    box_roughness,
    leaf_information,
    likely_length_scales,
    node_masses,
    observations,
)
from discreet.learners.partition.rules import (
    Rules,
    badly_cut,
    longest_axes,
    rivals,
    thompson_probabilities,
    worth_splitting,
)
from discreet.learners.partition.sources import PartitionSources, Projection, added, trust
from discreet.learners.partition.tree import Bins, Tree, splittable
from discreet.privacy import Local, NonPrivate
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.validation import BoolArray, FloatArray, InvalidInput

# A source that is believed less than this is given up. One that does share the reward functions
# falls so low by chance with probability e^-5 at most.
_LEAST_TRUST = 0.1
# Where sources were heard, an arm must lie this many standard deviations behind by the target's own
# reports too. More would wait for arms that are hardly ever offered.
_AGREEMENT = 0.5


@dataclass(frozen=True, eq=False)
class View:
    """What all reports so far say about the present leaves.

    Attributes:
        mass: (N,) the share of the target's people in every node.
        target: what the target's reports say.
        joint: the same with all sources that are believed.
        trust: for each source that reported the probability that it shares the reward functions.
        used: the sources that are believed.
        doubt: the probability that those that are believed together do not share them.
    """

    mass: FloatArray
    target: Information
    joint: Information
    trust: Mapping[str, float]
    used: tuple[str, ...]
    doubt: float


class Partition(PartitionSources):
    """Learns which arm is best where, from reports that are private when they leave a person.

    Contexts are cut into bins that are halved where arms contend and the reports can tell halves
    apart. In each bin arms are offered with the probability that they are best (Thompson
    sampling) under a Gaussian posterior that shares strength between bins, arms that are clearly
    behind are given up, and bins with one arm left stop costing noise.

    Auxiliary sources (`open_source`, see sources.py) refine the bins and enter the same posterior
    with their own noise. With the probability that a source does not share the target's reward
    functions, arms are offered as if there were no source, so a source that contradicts is found
    out; and arms are given up only where the target's own reports are against them too.

    Args:
        budget: `Local(epsilon)`, or `NonPrivate()` for the same learner without noise.
        rules: when it acts.
    """

    name: ClassVar[str] = "partition"
    trust_models: ClassVar[tuple[str, ...]] = ("local", "none")
    saved = (
        "_bins",
        "_left_behind",
        "_started",
        "_may_restart_at",
        "_believed",
        "_length_scales",
        "_learn_at",
        "_source_tree",
        "_source_scales",
        "_given_up",
    )
    _bins: Bins
    _left_behind: tuple[Tree, ...]
    _started: tuple[int, ...]
    _may_restart_at: int
    _believed: bool
    _length_scales: tuple[tuple[float, ...], ...]
    _learn_at: int

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Local | NonPrivate,
        *,
        rules: Rules | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        if rules is not None and not isinstance(rules, Rules):
            raise InvalidInput(f"rules was {rules!r}; pass Rules(...).")
        self.rules = rules or Rules()
        self._bins = Bins.whole(domain.dimension, self.arms)
        # Trees that the target reported on before it started anew, and the version of the policy
        # from which on each later tree was in use.
        self._left_behind, self._started = (), ()
        self._may_restart_at = self.rules.first_learning
        self._believed = False
        self._length_scales = ((FIRST_LENGTH_SCALE,) * domain.dimension,)
        self._learn_at = self.rules.first_learning
        self._priors = Priors()

    @property
    def batch_size(self) -> int:
        return max(self.rules.batch, int(self._published_at * self.rules.growth))

    def _empty(self) -> PartitionStatistics:
        return PartitionStatistics((NodeSums.zeros(1, self.arms),), reports=0)

    def _statistics(
        self, policy: PartitionPolicy, reports: PartitionReports
    ) -> PartitionStatistics:
        before = (NodeSums.zeros(1, self.arms),) * bisect_right(self._started, policy.version)
        return PartitionStatistics((*before, policy.sums(reports)), reports=len(reports))

    def _check_sums(self, statistics: PartitionStatistics) -> None:
        for place, sums in enumerate(statistics.trees):
            nodes = len(self._trees[place]) if place < len(self._trees) else 0
            sums.check(f"tree {place}", nodes, self.arms)

    @property
    def _trees(self) -> list[Tree]:
        """All trees that the target reported on, the present one last."""
        return [*self._left_behind, self._bins.tree]

    def beliefs(self) -> tuple[Bins, TreePosterior]:
        """The present bins and what is believed of each arm in each: for plots and for auditors."""
        with self.lock:
            return self._bins, self._posterior(self._view().joint)[0]

    def source_trust(self) -> Mapping[str, float]:
        """For each source that reported, the probability that it shares the reward functions; 0
        for those that were given up."""
        with self.lock:
            return {**dict.fromkeys(sorted(self._given_up), 0.0), **self._view().trust}

    def masses(self) -> FloatArray:
        """(L,) the estimated share of people in each present bin."""
        with self.lock:
            return self._view().mass[self._bins.tree.leaves]

    def _publish(self) -> PartitionPolicy:
        # Nobody of the target reported yet: what sources say is all there is.
        first = self.people == 0 and self.source_total > 0
        if first:
            self._length_scales = self._source_scales
        view, state = self._refine()
        # A source that contradicted is not asked again: on fewer bins it would contradict less.
        self._given_up = (*self._given_up, *(n for n in view.trust if n not in view.used))
        if self._believed and not view.used:
            # Bins that were made on the word of sources are too many for the target alone, and
            # length scales may be wrong.
            self._believed, self._learn_at = False, self.people
            self._length_scales = ((FIRST_LENGTH_SCALE,) * self.domain.dimension,)
            self._start_anew()
            view, state = self._grown()
        elif first:
            view, state = self._grown()
        self._believed = bool(view.used)
        offers = self._thompson(state)
        if view.doubt > 0.0:
            own = self._thompson(self._posterior(view.target)[0])
            offers = (1.0 - view.doubt) * offers + view.doubt * own
        return PartitionPolicy(
            **self.policy_header(),
            bins=self._bins,
            offers=offers,
            epsilon=self.budget.epsilon,
        )

    def _start_anew(self) -> None:
        """Begin again with one bin; what the target reported so far is carried over to it."""
        self._left_behind = (*self._left_behind, self._bins.tree)
        self._started = (*self._started, len(self._policies))
        self._bins = Bins.whole(self.domain.dimension, self.arms)

    def _grown(self) -> tuple[View, TreePosterior]:
        """Split for as long as there is reason to."""
        known = self._refine(growing=True)
        for _ in range(self.rules.max_depth):
            before = self._bins.tree
            known = self._refine(growing=True)
            if self._bins.tree is before:
                break
        return known

    def _thompson(self, state: TreePosterior) -> FloatArray:
        """(L, K) how often each arm is offered."""
        deviation = np.sqrt(state.variance)
        offers = [
            thompson_probabilities(state.mean, factor * deviation, self._bins.active)
            for factor in self.rules.temperatures
        ]
        mean: FloatArray = np.mean(offers, axis=0)
        return mean

    def _refine(self, growing: bool = False) -> tuple[View, TreePosterior]:
        """Learn length scales when it is time, then give up arms and split bins; returns what is
        known of the bins that are left."""
        view = self._view()
        # Until enough people of the target came, the sources' own tree tells length scales.
        learning = self.people >= self._learn_at
        if learning:
            best = self._length_scales[0]
            self._length_scales = likely_length_scales(best, self._prior, view.joint)
            grown = int(self.people * self.rules.learning_growth)
            self._learn_at = max(self.people + self.rules.first_learning, grown)
            if self.people >= self._may_restart_at and badly_cut(
                self._bins, view.mass, self._length_scales[0]
            ):
                # Every tree that is left behind costs time for good: at most one a doubling.
                self._may_restart_at = 2 * self.people
                self._start_anew()
                return self._grown()
        state, scales = self._posterior(view.joint)
        if self.people or self.source_total:
            before = self._bins.tree
            # Nothing is given up for good on the word of sources alone, which may yet contradict.
            own = self._posterior(view.target)[0] if view.trust else None
            # While length scales are uncertain, a split may take an axis that does not matter,
            # and joining bins means to start anew: wait until they are learnt again.
            may_split = learning or growing or len(self._length_scales) == 1
            self._decide(state, scales, view.mass[before.leaves], may_split, own)
            if self._bins.tree is not before:
                view = self._view()
                state, _ = self._posterior(view.joint)
        return view, state

    def _view(self) -> View:
        """What all reports so far say about the present leaves."""
        mass, target, roughness = self._information()
        said = self._told_on(self._bins.tree, roughness)
        trusted = trust(self._prior(self._length_scales[0]), target, said) if said else {}
        used = tuple(name for name, w in trusted.items() if w >= _LEAST_TRUST)
        if not used:
            return View(mass, target, target, trusted, used, 0.0)
        # Together: a weak source that little is known about does little harm.
        together = added([said[name] for name in used])
        prior = self._prior(self._length_scales[0])
        doubt = 1.0 - trust(prior, target, {"all": together})["all"]
        return View(mass, target, added([target, together]), trusted, used, doubt)

    def _information(self) -> tuple[FloatArray, Information, FloatArray]:
        """Masses of all nodes (N,), what the target says about the leaves, and the roughness of
        the leaves (L,)."""
        parts = []
        now = self._bins.tree
        leaf_roughness = self._roughness(now)[now.leaves]
        for place, tree in enumerate(self._trees):
            sums = self._sums.on(place, len(tree))
            masses = node_masses(tree, sums)
            seen = observations(tree, sums, masses, self._roughness(tree))
            information = leaf_information(tree, masses.mass, seen)
            if tree is not now:
                information = Projection.between(tree, now, leaf_roughness).apply(information)
            parts.append(information)
        return masses.mass, added(parts), leaf_roughness

    def _roughness(self, tree: Tree) -> FloatArray:
        return box_roughness(tree.lower, tree.upper, np.array(self._length_scales[0]))

    def _prior(self, length_scales: tuple[float, ...]) -> Smoothness:
        """The prior of the present leaves."""
        return self._priors.of(self._bins.tree, length_scales)

    def _posterior(self, information: Information) -> tuple[TreePosterior, FloatArray]:
        """The posterior averaged over likely length scales, and their (d,) geometric mean."""
        state, weights = average([self._prior(s) for s in self._length_scales], information)
        return state, np.exp(weights @ np.log(np.array(self._length_scales)))

    def _decide(
        self,
        state: TreePosterior,
        scales: FloatArray,
        mass: FloatArray,
        may_split: bool,
        own: TreePosterior | None,
    ) -> None:
        """Give up arms that are clearly behind, and split bins where that will tell more.

        Where sources were heard, `own` is the posterior of the target's reports alone, which must
        be against an arm too.
        """
        rules, tree = self.rules, self._bins.tree
        gaps = gap, spread, variation = rivals(state, self._bins.active)
        behind = gap > rules.caution * spread + rules.margin * variation
        if own is not None:
            own_gap, own_spread, _ = rivals(own, self._bins.active)
            behind &= own_gap > _AGREEMENT * own_spread
        active = self._bins.active & ~behind
        allowed = splittable(tree, tree.leaves, self.domain.levels)
        noise = self._noise_in_halves(active, mass)
        chosen = worth_splitting(tree, gaps, active, noise, rules) & allowed.any(axis=1)
        room = rules.max_bins - len(tree.leaves) if may_split else 0
        if chosen.sum() > room:  # the bins with the most to gain come first
            worth = np.where(chosen, variation[:, 0] * mass, -1.0)
            chosen[np.argsort(-worth)[max(room, 0) :]] = False
        self._bins = Bins(tree, active).split(chosen, longest_axes(tree, allowed, scales))

    def _noise_in_halves(self, active: BoolArray, mass: FloatArray) -> FloatArray:
        """(L,) standard deviation of an arm difference in half a bin after as many people again."""
        arms = active.sum(axis=1)
        mechanism = SignedSubsetSelection.best(int((arms > 1).sum()) + 1, self.budget.epsilon)
        half = 0.5 * mass
        precision = self.people * half**2 / (mechanism.variance(half) * arms)
        if self._believed or self.people == 0:
            precision = precision + self._precision_in_halves(self._bins.tree)
        noise: FloatArray = np.sqrt(2.0 / precision)
        return noise

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        check_options(cls.name, options, [field.name for field in fields(Rules)])
        return {"rules": Rules(**options)}

    def _options(self) -> dict[str, Any]:
        return asdict(self.rules)
