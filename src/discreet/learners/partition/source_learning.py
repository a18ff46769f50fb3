"""How the partition learner hears from auxiliary sources.

All sources report on one tree, which is theirs: it is refined by what they say, as the target's is
by what the target says. So a weak or wrong source cannot tie the target to bins that it would not
have made. What sources say is then told on the target's leaves (projection.py).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np

from discreet.domain import Box
from discreet.learners.partition.decisions import rivals
from discreet.learners.partition.posterior import (
    FIRST_LENGTH_SCALE,
    Information,
    average,
    likely_length_scales,
)
from discreet.learners.partition.projection import Projection
from discreet.learners.partition.rules import Rules
from discreet.learners.partition.smoothness import Smoothness, box_roughness
from discreet.learners.partition.source_beliefs import added, cell_masses, source_information
from discreet.learners.partition.source_reports import CellReports, PartitionSourcePolicy
from discreet.learners.partition.statistics import NodeSums
from discreet.learners.partition.tree import Tree, splittable
from discreet.learners.source_states import states_from_fields, states_to_fields
from discreet.learners.sources import SourceLearner, SourceState
from discreet.validation import FloatArray, InvalidInput, read_array


class HearsSources(SourceLearner[PartitionSourcePolicy, CellReports]):
    """The part of `Partition` that hears from sources.

    Attributes:
        arms: the number of arms.
        domain: the bounds of contexts.
        rules: when to act.
    """

    source_policy_type: ClassVar[type[PartitionSourcePolicy]] = PartitionSourcePolicy
    source_reports_type: ClassVar[type[CellReports]] = CellReports

    arms: int
    domain: Box
    rules: Rules

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self._source_tree = Tree.root(dimension)
        self._source_scales = [(FIRST_LENGTH_SCALE,) * dimension]
        self._source_sums: dict[str, NodeSums] = {}
        self._known: dict[str, tuple[Any, Information]] = {}

    @abstractmethod
    def policy_header(self) -> dict[str, Any]:
        """What all policies share."""

    @property
    def heard(self) -> int:
        """How many people of all sources have reported."""
        return sum(state.people for state in self._sources.values())

    def source_batch(self, name: str) -> int:
        return max(self.rules.batch, int(self.heard * 2.0 * self.rules.growth))

    def _publish_source(
        self, name: str, state: SourceState[PartitionSourcePolicy]
    ) -> PartitionSourcePolicy:
        if self._source_sums:
            self._refine_sources()
        header = self.policy_header()
        tree = self._source_tree
        return PartitionSourcePolicy(
            name=name,
            version=len(state.policies),
            domain=header["domain"],
            reward_bounds=header["reward_bounds"],
            arms=self.arms,
            epsilon=state.epsilon,
            public_seed=header["public_seed"],
            tree=tree,
            active=np.ones((len(tree.leaves), self.arms), dtype=np.bool_),
        )

    def _check_source(self, policy: PartitionSourcePolicy, reports: CellReports) -> None:
        policy.check(reports)

    def _add_source(self, name: str, policy: PartitionSourcePolicy, reports: CellReports) -> None:
        sums = policy.sums(reports)
        before = self._source_sums.get(name)
        self._source_sums[name] = sums if before is None else before + sums

    def _refine_sources(self) -> None:
        """Split the leaves where arms contend and sources can tell halves apart."""
        rules, tree = self.rules, self._source_tree
        information = added(list(self._at_home().values()))
        self._source_scales = likely_length_scales(
            self._source_scales[0], lambda scales: Smoothness.of(tree, scales), information
        )
        priors = [Smoothness.of(tree, scales) for scales in self._source_scales]
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
        """What each source says about the leaves of the sources' tree; kept while nothing
        changes."""
        tree, scales = self._source_tree, self._source_scales[0]
        for name, sums in self._source_sums.items():
            stamp = (id(tree), len(tree), id(sums), scales)
            if name not in self._known or self._known[name][0] != stamp:
                roughness = box_roughness(tree.lower, tree.upper, np.array(scales))
                found = source_information(
                    tree, sums.grown(len(tree)), roughness, Smoothness.of(tree, scales)
                )
                self._known[name] = (stamp, found)
        return {name: self._known[name][1] for name in self._source_sums}

    def _told_on(self, tree: Tree, roughness: FloatArray) -> dict[str, Information]:
        """What each source says about the leaves of another tree, whose roughness is (L,)."""
        if not self._source_sums:
            return {}
        projection = Projection.between(self._source_tree, tree, roughness)
        return {name: projection.apply(one) for name, one in self._at_home().items()}

    def _precision_in_halves(self, tree: Tree | None = None) -> FloatArray:
        """(L,) precision of an arm's mean in half a leaf of `tree` (their own), had as many people
        of all sources reported again."""
        own = self._source_tree
        target = own if tree is None else tree
        total = np.zeros(len(target.leaves))
        projection = Projection.between(own, target, np.zeros(len(target.leaves)))
        for name, sums in self._source_sums.items():
            state = self._sources[name]
            mechanism = state.policies[-1].mechanism
            mass = cell_masses(own, sums.grown(len(own))).mass[own.leaves].mean(axis=1)
            cell = 0.5 * projection.masses(mass)
            total += state.people * cell**2 / mechanism.variance(cell)
        return total

    def _source_state(self) -> dict[str, Any]:
        """The sources as JSON values."""
        return {
            "tree": self._source_tree.to_fields(),
            "length_scales": [list(scales) for scales in self._source_scales],
            "sources": states_to_fields(self._sources),
            "sums": {
                name: {one.name: getattr(sums, one.name).tolist() for one in fields(sums)}
                for name, sums in self._source_sums.items()
            },
        }

    def _restore_sources(self, state: dict[str, Any]) -> None:
        """The inverse of `_source_state`."""
        self._source_tree = Tree.from_fields(state["tree"], self.domain.dimension)
        scales = read_array(state["length_scales"], "length_scales of sources", "number", 2)
        self._source_scales = [tuple(row) for row in scales.tolist()]
        self._sources = states_from_fields(state["sources"], PartitionSourcePolicy)
        self._source_sums = {
            name: self._read_sums(name, arrays) for name, arrays in state["sums"].items()
        }
        self._known = {}

    def _read_sums(self, name: str, arrays: dict[str, Any]) -> NodeSums:
        sums = NodeSums(
            **{
                one.name: read_array(arrays[one.name], one.name, "number", 2)
                for one in fields(NodeSums)
            }
        )
        shapes = {getattr(sums, one.name).shape for one in fields(sums)}
        known = name in self._sources and len(sums) <= len(self._source_tree)
        if shapes != {(len(sums), self.arms)} or not known:
            raise InvalidInput(
                f"the sums of source {name!r} had shapes {sorted(shapes)}; all must be (nodes, "
                f"{self.arms}) with at most {len(self._source_tree)} nodes, of a source that is "
                "open."
            )
        return sums
