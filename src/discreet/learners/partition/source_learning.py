"""How the partition learner hears from auxiliary sources.

All sources report on one tree, which is theirs: it is refined by what they say, as the target's is
by what the target says. So a weak or wrong source cannot tie the target to bins that it would not
have made. What sources say is then expressed on the target's leaves (projection.py).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
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
from discreet.learners.partition.smoothness import Priors, box_roughness
from discreet.learners.partition.source_beliefs import added, cell_masses, source_information
from discreet.learners.partition.source_reports import CellReports, PartitionSourcePolicy
from discreet.learners.partition.statistics import NodeSums
from discreet.learners.partition.tree import Tree, splittable
from discreet.learners.source_states import states_from_fields, states_to_fields
from discreet.learners.sources import SourceLearner, SourceState
from discreet.validation import FloatArray, InvalidInput, read_array


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
        self._source_priors = Priors()
        self._known: dict[str, _Known] = {}
        self._masses: dict[str, tuple[Tree, NodeSums, FloatArray]] = {}
        # Sources that contradicted the target; what they said counts for nothing any more.
        self._given_up: set[str] = set()

    @property
    def heard(self) -> int:
        """How many people of all sources have reported."""
        return sum(state.people for state in self._sources.values())

    @property
    def _heard_sums(self) -> dict[str, NodeSums]:
        """The sums of all sources that were not given up."""
        return {name: one for name, one in self._source_sums.items() if name not in self._given_up}

    def source_batch(self, name: str) -> int:
        return max(self.rules.batch, int(self.heard * 2.0 * self.rules.growth))

    def _publish_source(
        self, name: str, state: SourceState[PartitionSourcePolicy]
    ) -> PartitionSourcePolicy:
        if self._heard_sums:
            self._refine_sources()
        tree = self._source_tree
        return PartitionSourcePolicy(
            **self.source_header(name, state),
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
            state = self._sources[name]
            mechanism = state.policies[-1].mechanism
            mass = self._leaf_masses(name, sums)
            cell = 0.5 * projection.masses(mass)
            total += state.people * cell**2 / mechanism.variance(cell)
        return total

    def _leaf_masses(self, name: str, sums: NodeSums) -> FloatArray:
        """(L,) mean over arms of a source's masses of cells in its leaves; kept as above."""
        tree = self._source_tree
        known = self._masses.get(name)
        if known is None or known[0] is not tree or known[1] is not sums:
            mass = cell_masses(tree, sums.grown(len(tree))).mass[tree.leaves].mean(axis=1)
            self._masses[name] = known = (tree, sums, mass)
        return known[2]

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
        self._source_scales = read_length_scales(state["length_scales"], self.domain.dimension)
        self._sources = states_from_fields(
            state["sources"], PartitionSourcePolicy, self.policy_header()
        )
        for name, one in self._sources.items():
            if not all(self._source_tree.begins_with(policy.tree) for policy in one.policies):
                raise InvalidInput(
                    f"a policy of source {name!r} had bins that the bins of sources did not grow "
                    "from. The file is damaged."
                )
        heard = {name for name, one in self._sources.items() if one.people > 0}
        if set(state["sums"]) != heard:
            raise InvalidInput(
                f"there were sums of the sources {sorted(state['sums'])!r:.200}; there must be one "
                f"for each source that reported: {sorted(heard)!r:.200}. The file is damaged."
            )
        self._source_sums = {
            name: self._read_sums(name, arrays) for name, arrays in state["sums"].items()
        }
        self._known, self._masses = {}, {}

    def _read_sums(self, name: str, arrays: dict[str, Any]) -> NodeSums:
        sums = NodeSums(
            **{
                one.name: read_array(arrays[one.name], one.name, "number", 2)
                for one in fields(NodeSums)
            }
        )
        shapes = {getattr(sums, one.name).shape for one in fields(sums)}
        people = self._sources[name].people
        if shapes != {(len(sums), self.arms)} or len(sums) > len(self._source_tree):
            raise InvalidInput(
                f"the sums of source {name!r} had shapes {sorted(shapes)}; all must be (nodes, "
                f"{self.arms}) with at most {len(self._source_tree)} nodes. The file is damaged."
            )
        counts = (sums.offered, sums.noise_other, sums.noise_own, sums.mass_weight)
        # |h / (p - b)| is at most 1 / (p - b) <= 1 + (p + b) / (p - b)^2.
        most = sums.offered + sums.noise_own + sums.noise_other
        if (
            any((count < 0.0).any() for count in counts)
            or (sums.offered > people).any()
            or (np.abs(sums.signed) > most).any()
        ):
            raise InvalidInput(
                f"the sums of source {name!r} had negative counts, or sums that {people} reports "
                "do not add up to. The file is damaged."
            )
        return sums


def read_length_scales(values: Any, dimension: int) -> list[tuple[float, ...]]:
    """Length scales from JSON values, most likely first: one or more rows of `dimension`."""
    scales = read_array(values, "length_scales", "number", 2)
    if scales.shape[1] != dimension or len(scales) == 0 or not (scales > 0.0).all():
        raise InvalidInput(
            f"length_scales had shape {scales.shape} and values that may not be positive; give "
            f"rows of {dimension} numbers above 0."
        )
    return [tuple(row) for row in scales.tolist()]
