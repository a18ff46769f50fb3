"""Our locally private bandit on an adaptive partition.

Reports are those of policy.py, sums those of statistics.py, beliefs those of posterior.py. What is
left here is when to publish and, from the beliefs, what: `Rules` says it in numbers. All of it
reads reports that are private already, so none of it costs privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.base import ArmLearner, Common
from discreet.learners.partition.bins import Bins
from discreet.learners.partition.decisions import rivals, thompson_probabilities
from discreet.learners.partition.policy import PartitionPolicy, PartitionReports
from discreet.learners.partition.posterior import (
    FIRST_LENGTH_SCALE,
    Information,
    Posterior,
    average,
    leaf_information,
    likely_length_scales,
    node_masses,
    observations,
)
from discreet.learners.partition.smoothness import Smoothness, box_roughness
from discreet.learners.partition.statistics import TARGET, NodeSums, PartitionStatistics
from discreet.learners.partition.tree import Tree, splittable
from discreet.privacy import Local, NonPrivate
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.validation import (
    BoolArray,
    FloatArray,
    InvalidInput,
    positive_number,
    read_array,
    whole_number,
)

# Deeper than this the closed form of the prior has lost its digits (smoothness.py).
_DEEPEST = 16


@dataclass(frozen=True)
class Rules:
    """When the partition learner acts; the defaults were tuned in simulation.

    Attributes:
        batch: least number of reports between two policies.
        growth: later, that number is this share of all reports so far.
        caution: an arm is given up when it lies this many standard deviations, plus the margin,
            below the leading one.
        contention: arms within this many standard deviations, plus the margin, of the leading one
            are contenders; only bins with contenders are split.
        margin: the multiple of the variation within a bin that is added to either, because an arm
            that is behind on average may lead in a part of the bin.
        resolution: a bin is split only if as many people again would tell arms apart in one half
            with a standard deviation below this multiple of the variation within the bin.
        temperatures: posterior draws deviate from the mean by these factors, in equal parts.
        max_depth: no bin is split below this depth.
        max_bins: no bin is split while there are this many.
        first_learning: reports before length scales are first learnt.
        learning_growth: they are learnt again whenever the reports have grown by this factor.
    """

    batch: int = 200
    growth: float = 0.01
    caution: float = 3.0
    contention: float = 2.0
    margin: float = 2.0
    resolution: float = 1.0
    temperatures: tuple[float, ...] = (0.7,)
    max_depth: int = 10
    max_bins: int = 400
    first_learning: int = 500
    learning_growth: float = 1.15

    def __post_init__(self) -> None:
        if not isinstance(self.temperatures, Sequence) or not self.temperatures:
            raise InvalidInput(
                f"temperatures was {self.temperatures!r}; give a list of factors above 0."
            )
        for value in self.temperatures:
            positive_number(value, "each of temperatures")
        object.__setattr__(self, "temperatures", tuple(self.temperatures))
        for name in ("batch", "max_depth", "max_bins", "first_learning"):
            most = _DEEPEST if name == "max_depth" else None
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1, most))
        for name in ("growth", "caution", "contention", "margin", "resolution", "learning_growth"):
            object.__setattr__(self, name, positive_number(getattr(self, name), name))

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Rules:
        """Rules from the options of a study file."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise InvalidInput(
                f"partition got the option {unknown[0]!r}; its options are {', '.join(known)}."
            )
        return cls(**options)


class Partition(ArmLearner[PartitionPolicy, PartitionReports, PartitionStatistics]):
    """Learns which arm is best where, from reports that are private when they leave a person.

    Contexts are cut into bins that are halved where arms contend and the reports can tell halves
    apart. In each bin arms are offered with the probability that they are best (Thompson
    sampling) under a Gaussian posterior that shares strength between bins, arms that are clearly
    behind are given up, and bins with one arm left stop costing noise.

    Args:
        budget: `Local(epsilon)`, or `NonPrivate()` for the same learner without noise.
        rules: when it acts.
    """

    name: ClassVar[str] = "partition"
    trust_models: ClassVar[tuple[str, ...]] = ("local", "none")
    reports_type = PartitionReports
    statistics_type = PartitionStatistics

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
        self._length_scales = [(FIRST_LENGTH_SCALE,) * domain.dimension]
        self._learn_at = self.rules.first_learning
        self._priors: dict[tuple[float, ...], Smoothness] = {}
        self._priors_tree: Tree | None = None

    @property
    def batch_size(self) -> int:
        return max(self.rules.batch, int(self._published_at * self.rules.growth))

    def _empty(self) -> PartitionStatistics:
        return PartitionStatistics(self.arms, {TARGET: NodeSums.zeros(1, self.arms)}, reports=0)

    def _statistics(
        self, policy: PartitionPolicy, reports: PartitionReports
    ) -> PartitionStatistics:
        policy.check(reports)
        return policy.sums(reports)

    def _check_sums(self, statistics: PartitionStatistics) -> None:
        for name, sums in statistics.sources.items():
            nodes, arms = sums.offered.shape
            if arms != self.arms or nodes > len(self._bins.tree):
                raise InvalidInput(
                    f"the statistics of source {name!r} had {nodes} nodes and {arms} arms; this "
                    f"learner has {len(self._bins.tree)} nodes and {self.arms} arms."
                )
            counts = (sums.offered, sums.noise_other, sums.noise_own, sums.mass_weight)
            # |h / (p - b)| is at most 1 / (p - b) <= 1 + (p + b) / (p - b)^2.
            most = sums.offered + sums.noise_own + sums.noise_other
            if any((count < 0.0).any() for count in counts) or (np.abs(sums.signed) > most).any():
                raise InvalidInput(
                    f"the statistics of source {name!r} had negative counts or sums that no "
                    "reports add up to; send them as statistics() made them."
                )

    def beliefs(self) -> tuple[Bins, Posterior]:
        """The present bins and what is believed of each arm in each: for plots and for auditors."""
        return self._bins, self._posterior(self._information()[1])[0]

    def masses(self) -> FloatArray:
        """(L,) the estimated share of people in each present bin."""
        return self._information()[0][self._bins.tree.leaves]

    def _publish(self) -> PartitionPolicy:
        mass, information = self._information()
        learning = self.people >= self._learn_at
        if learning:
            best = self._length_scales[0]
            self._length_scales = likely_length_scales(best, self._prior, information)
            grown = int(self.people * self.rules.learning_growth)
            self._learn_at = max(self.people + self.rules.first_learning, grown)
        state, scales = self._posterior(information)
        if self.people:
            before = self._bins.tree
            # While length scales are uncertain, a split may take an axis that does not matter,
            # and bins cannot be joined again: wait until they are learnt anew.
            may_split = learning or len(self._length_scales) == 1
            self._decide(state, scales, mass[before.leaves], may_split)
            if self._bins.tree is not before:
                state, _ = self._posterior(self._information()[1])
        deviation = np.sqrt(state.variance)
        offers = [
            thompson_probabilities(state.mean, factor * deviation, self._bins.active)
            for factor in self.rules.temperatures
        ]
        return PartitionPolicy(
            **self.policy_header(),
            tree=self._bins.tree,
            active=self._bins.active,
            offers=np.mean(offers, axis=0),
            epsilon=self.budget.epsilon,
        )

    def _information(self) -> tuple[FloatArray, Information]:
        """Masses of all nodes (N,) and what the sums say about the leaves."""
        tree = self._bins.tree
        sources = {name: sums.grown(len(tree)) for name, sums in self._sums.sources.items()}
        masses = {name: node_masses(tree, sums) for name, sums in sources.items()}
        mass = masses[TARGET].mass
        roughness = box_roughness(tree.lower, tree.upper, np.array(self._length_scales[0]))
        seen = observations(tree, sources, masses, roughness)
        return mass, leaf_information(tree, mass, seen)

    def _prior(self, length_scales: tuple[float, ...]) -> Smoothness:
        """The prior of the present leaves; kept while the tree stays the same."""
        if self._priors_tree is not self._bins.tree:
            self._priors, self._priors_tree = {}, self._bins.tree
        if length_scales not in self._priors:
            self._priors[length_scales] = Smoothness.of(self._bins.tree, length_scales)
        return self._priors[length_scales]

    def _posterior(self, information: Information) -> tuple[Posterior, FloatArray]:
        """The posterior averaged over likely length scales, and their (d,) geometric mean."""
        state, weights = average([self._prior(s) for s in self._length_scales], information)
        return state, np.exp(weights @ np.log(np.array(self._length_scales)))

    def _decide(
        self, state: Posterior, scales: FloatArray, mass: FloatArray, may_split: bool
    ) -> None:
        """Give up arms that are clearly behind, and split bins where that will tell more."""
        rules, tree = self.rules, self._bins.tree
        gap, spread, variation = rivals(state, self._bins.active)
        active = self._bins.active & ~(gap > rules.caution * spread + rules.margin * variation)
        contend = (
            active & (gap > 0.0) & (gap <= rules.contention * spread + rules.margin * variation)
        )
        uncertainty = np.where(contend, spread, 0.0).max(axis=1)
        allowed = splittable(tree, tree.leaves, self.domain.levels)
        chosen = (
            contend.any(axis=1)
            & (uncertainty < variation[:, 0])
            & (self._noise_in_halves(active, mass) < rules.resolution * variation[:, 0])
            & (tree.depth[tree.leaves] < rules.max_depth)
            & allowed.any(axis=1)
        )
        room = rules.max_bins - len(tree.leaves) if may_split else 0
        if chosen.sum() > room:  # the bins with the most to gain come first
            worth = np.where(chosen, variation[:, 0] * mass, -1.0)
            chosen[np.argsort(-worth)[max(room, 0) :]] = False
        edges = (tree.upper[tree.leaves] - tree.lower[tree.leaves]) / scales
        self._bins = Bins(tree, active).split(chosen, np.where(allowed, edges, -1.0).argmax(axis=1))

    def _noise_in_halves(self, active: BoolArray, mass: FloatArray) -> FloatArray:
        """(L,) standard deviation of an arm difference in half a bin after as many people again."""
        arms = active.sum(axis=1)
        mechanism = SignedSubsetSelection.best(int((arms > 1).sum()) + 1, self.budget.epsilon)
        half = 0.5 * mass
        variance = mechanism.variance(half) * arms / self.people
        noise: FloatArray = np.sqrt(2.0 * variance) / half
        return noise

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"rules": Rules.of(options)}

    def _options(self) -> dict[str, Any]:
        return asdict(self.rules)

    def _state(self) -> dict[str, Any]:
        return {
            **self._bins.to_fields(),
            "length_scales": [list(scales) for scales in self._length_scales],
            "learn_at": self._learn_at,
        }

    def _restore(self, fields_: dict[str, Any]) -> None:
        dimension = self.domain.dimension
        self._bins = Bins.from_fields(fields_, dimension, self.arms)
        scales = read_array(fields_["length_scales"], "length_scales", "number", 2)
        if scales.shape[1] != dimension or len(scales) == 0 or not (scales > 0.0).all():
            raise InvalidInput(
                f"length_scales had shape {scales.shape}; give rows of {dimension} numbers above 0."
            )
        self._length_scales = [tuple(row) for row in scales.tolist()]
        self._learn_at = whole_number(fields_["learn_at"], "learn_at")
