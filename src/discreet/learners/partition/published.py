"""Algorithms 2 and 3 of Ma et al. (2025), with the paper's mechanism and rules.

Every person reports, for every active bin and every arm active in it, the pair U, V with
Laplace(4 / epsilon) noise, whether they are in the bin or not (eqs (8) to (17)). Auxiliary sources
report likewise before the target does (eqs (24) to (29); published_sources.py, weighted.py). It is
kept as published for comparison; `Partition` loses about ten times less at the same epsilon.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.base import Common
from discreet.learners.partition.elimination import CellSums, EliminationLearner
from discreet.learners.partition.published_policy import (
    LaplaceReports,
    PublishedPolicy,
    largest_value,
)
from discreet.learners.partition.published_sources import (
    LaplaceSourceReports,
    PublishedSourcePolicy,
)
from discreet.learners.partition.weighted import SeveralSources
from discreet.learners.schema import decode, encode
from discreet.learners.source_states import states_from_fields, states_to_fields
from discreet.learners.sources import SourceLearner, SourcePolicy, SourceReports, SourceState
from discreet.privacy import Local
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    positive_number,
    whole_number,
)


class PublishedPartition(
    EliminationLearner[PublishedPolicy, LaplaceReports],
    SourceLearner[PublishedSourcePolicy, LaplaceSourceReports],
):
    """The paper's learner.

    With sums U and V over the t people since a leaf was made: estimate V / U (13), radius
    r = sqrt(C_n max(t / epsilon^2, U)) / |U| with C_n = confidence_constant x log(n) (14). An arm
    is given up once t >= log(n)^2 and its upper bound estimate + 2 r lies below another's
    estimate - 2 r (16); a leaf is split when r < 2 sqrt(d) 2^(-depth/d) for an active arm (17).

    From the first source on that is opened, estimates and radii are those of Algorithm 3
    (weighted.py). Sources share the target's bins and are heard in the order in which they report;
    what they said about a leaf is not used once it is split. Algorithm 3 hears all of them before
    the target's first person; here they may also report while the target runs, since (26) and (28)
    do not ask which came first (the multi-task setting that the paper's section 5 outlines). n is
    the largest of the horizon, `source_horizon` and the number of people that any source has had
    so far.

    Args:
        confidence_constant: c in C_n = c log(n); the paper leaves its value to the supplement.
        source_horizon: the number of people of the largest source, where it is known beforehand.
        horizon, batch_size: see `EliminationLearner`; a batch of 1 is the paper to the letter.
    """

    name: ClassVar[str] = "published_partition"
    trust_models: ClassVar[tuple[str, ...]] = ("local",)
    reports_type = LaplaceReports
    source_policy_type: ClassVar[type[SourcePolicy]] = PublishedSourcePolicy
    source_reports_type: ClassVar[type[SourceReports]] = LaplaceSourceReports

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Local,
        *,
        confidence_constant: float = 1.0,
        source_horizon: int = 0,
        batch_size: int = 100,
        **common: Unpack[Common],
    ) -> None:
        self.confidence_constant = positive_number(confidence_constant, "confidence_constant")
        self.source_horizon = whole_number(source_horizon, "source_horizon")
        SourceLearner.__init__(self)
        self._source_sums: dict[str, CellSums] = {}
        super().__init__(domain, arms, budget, batch_size=batch_size, **common)

    @property
    def log_people(self) -> float:
        """log(n)."""
        if not self._sources:
            return math.log(max(self.expected, 2))
        heard = max(state.people for state in self._sources.values())
        return math.log(max(self.expected, self.source_horizon, heard, 2))

    def _publish(self) -> PublishedPolicy:
        self._decide()
        return PublishedPolicy(
            **self.policy_header(),
            tree=self._bins.tree,
            active=self._bins.active,
            epsilon=self.budget.epsilon,
        )

    def _statistics(self, policy: PublishedPolicy, reports: LaplaceReports) -> CellSums:
        return policy.sums(reports)

    # Sources.

    def source_batch(self, name: str) -> int:
        return self._batch_size

    def _publish_source(
        self, name: str, state: SourceState[PublishedSourcePolicy]
    ) -> PublishedSourcePolicy:
        self._decide()
        return PublishedSourcePolicy(
            **self.source_header(name, state),
            tree=self._bins.tree,
            active=self._bins.active,
        )

    def _check_source(self, policy: PublishedSourcePolicy, reports: LaplaceSourceReports) -> None:
        policy.check(reports)

    def _add_source(
        self, name: str, policy: PublishedSourcePolicy, reports: LaplaceSourceReports
    ) -> None:
        sums = policy.sums(reports)
        before = self._source_sums.get(name)
        self._source_sums[name] = sums if before is None else before + sums

    def _several(self, leaves: IntArray, sums: CellSums) -> SeveralSources:
        """The sums of the target and of all sources about some leaves."""
        nodes = len(self._bins.tree)
        none = CellSums.zeros(nodes, self.arms)
        found = [self._source_sums.get(name, none).grown(nodes) for name in self._sources]
        everyone = [sums, *found]
        budgets = [self.budget.epsilon, *(state.epsilon for state in self._sources.values())]
        return SeveralSources(
            np.array(budgets),
            np.stack([one.times[leaves] for one in everyone]),
            np.stack([one.chosen[leaves] for one in everyone]),
            np.stack([one.rewards[leaves] for one in everyone]),
        )

    # Rules.

    def _bounds(self, leaves: IntArray, sums: CellSums) -> tuple[FloatArray, FloatArray]:
        """(L, K) estimates, and radii: infinity where nothing is known or the arm is given up."""
        constant = self.confidence_constant * self.log_people
        if self._sources:  # (26), (28)
            several = self._several(leaves, sums)
            weights = several.weights(self.log_people)
            estimate, radius = several.estimate(weights), several.radius(weights, constant)
            return estimate, np.where(self._bins.active, radius, np.inf)
        chosen, times = sums.chosen[leaves], sums.times[leaves][:, None]
        spread = np.maximum(times / self.budget.epsilon**2, chosen)
        known = self._bins.active & (chosen != 0.0)
        radius = np.full(chosen.shape, np.inf)
        np.divide(np.sqrt(constant * spread), np.abs(chosen), out=radius, where=known)
        estimate = np.divide(
            sums.rewards[leaves], chosen, out=np.zeros_like(chosen), where=chosen != 0.0
        )
        return estimate, radius  # (13), (14)

    def _radius(self, leaves: IntArray, sums: CellSums) -> FloatArray:
        """(L, K) eq. (14), or (28) with sources."""
        return self._bounds(leaves, sums)[1]

    def _beaten(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        estimate, radius = self._bounds(leaves, sums)
        lower = np.where(np.isfinite(radius), estimate - 2.0 * radius, -np.inf)
        upper = np.where(np.isfinite(radius), estimate + 2.0 * radius, np.inf)
        beaten: BoolArray = upper < lower.max(axis=1, keepdims=True)
        if self._sources:  # (29); the weights see to it that there were enough people.
            return beaten
        explored = sums.times[leaves] >= self.log_people**2
        return beaten & explored[:, None]  # (16)

    def _known(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        dimension = self.domain.dimension
        depth = self._bins.tree.depth[leaves]
        error = 2.0 * math.sqrt(dimension) * 2.0 ** (-depth / dimension)
        sharp = self._radius(leaves, sums) < error[:, None]
        return np.asarray(sharp.any(axis=1))

    # Options and state.

    def _shared_facts(self) -> dict[str, Any]:
        return {**super()._shared_facts(), "epsilon": self.budget.epsilon}

    def _options(self) -> dict[str, Any]:
        return {
            **super()._options(),
            "confidence_constant": self.confidence_constant,
            "source_horizon": self.source_horizon,
        }

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "sources": states_to_fields(self._sources),
            "source_sums": {name: encode(sums) for name, sums in self._source_sums.items()},
        }

    def _restore(self, fields: dict[str, Any]) -> None:
        super()._restore(fields)
        self._sources = states_from_fields(
            fields["sources"], PublishedSourcePolicy, self.policy_header()
        )
        self._source_sums = {
            name: decode(text, CellSums) for name, text in fields["source_sums"].items()
        }
        heard = {name for name, state in self._sources.items() if state.people > 0}
        if set(self._source_sums) != heard:
            raise InvalidInput(
                f"there were sums of the sources {sorted(self._source_sums)!r:.200}; there must be "
                f"one for each source that reported: {sorted(heard)!r:.200}. The file is damaged."
            )
        for name, state in self._sources.items():
            if not all(self._bins.tree.begins_with(policy.tree) for policy in state.policies):
                raise InvalidInput(
                    f"a policy of source {name!r} had bins that this learner's bins did not grow "
                    "from. The file is damaged."
                )
        for name, sums in self._source_sums.items():
            self._check_source_sums(name, sums)

    def _check_source_sums(self, name: str, sums: CellSums) -> None:
        """Refuse sums that no reports of the source add up to."""
        state = self._sources[name]
        nodes, arms = sums.chosen.shape
        if arms != self.arms or nodes > len(self._bins.tree):
            raise InvalidInput(
                f"the sums of source {name!r:.80} had {nodes} nodes and {arms} arms; this learner "
                f"has {len(self._bins.tree)} nodes and {self.arms} arms. The file is damaged."
            )
        most = state.people * max(largest_value(one.mechanism) for one in state.policies)
        few = ((sums.times >= 0.0) & (sums.times <= state.people)).all()
        if not few or max(np.abs(sums.chosen).max(), np.abs(sums.rewards).max()) > most:
            raise InvalidInput(
                f"the sums of source {name!r:.80} had times outside 0 to {state.people}, or other "
                f"sums beyond {most:g}, which its {state.people} reports do not reach. The file is "
                "damaged."
            )
