"""The policy of an epoch: how arms are chosen, and what each person's report holds.

Under joint privacy a report is the plain observation, and rows are made of it by the learner; under
local privacy the row is made here, and a `VectorReport` hides it before it leaves the person.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from discreet.learners.epochs.decisions import Decision, decision_from_fields
from discreet.learners.epochs.features import ArmFeatures, features_from_fields
from discreet.learners.epochs.releases import DATA
from discreet.learners.epochs.reports import ContextObservations, PrivateRows
from discreet.learners.epochs.rows import CENTRE, RowMap, in_unit_ball
from discreet.learners.messages import ArmPolicy, Reports
from discreet.learners.public_randomness import public_uniforms
from discreet.privacy import NoiseSource, Release
from discreet.privacy.noise import NO_NOISE
from discreet.privacy.vectors import VectorReport, vector_report_from_fields
from discreet.validation import FloatArray, IntArray, InvalidInput, TicketArray, read_array

# Where the number that chooses an arm is drawn; draws of theta have places of their own.
_CHOICE = 2**40


@dataclass(frozen=True, eq=False)
class EpochPolicy(ArmPolicy):
    """What the people of one epoch act and report by.

    Attributes:
        features: of contexts and arms.
        decision: how arms are chosen.
        rows: what a person adds to the epoch's statistic.
        local: how a person hides that; None where they trust the learner.
        believed: (m,) the posterior mean of theta when the epoch began; for whoever wants to know.
    """

    kind: ClassVar[str] = "epoch-policy"

    features: ArmFeatures
    decision: Decision
    rows: RowMap
    local: VectorReport | None
    believed: FloatArray

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            self.features.arms != self.arms
            or self.features.contexts.points.shape[1] != self.domain.dimension
            or self.rows.mean.shape != (self.features.features,)
            or self.believed.shape != (self.features.features,)
        ):
            raise InvalidInput(
                f"the features of a policy were for {self.features.arms} arms and "
                f"{self.features.contexts.points.shape[1]} columns; the policy has {self.arms} and "
                f"{self.domain.dimension}, and rows of {self.rows.mean.shape[0]} features."
            )
        if self.local is not None and self.local.dimension != self.rows.size:
            raise InvalidInput(
                f"a policy hides vectors of {self.local.dimension} numbers, but rows have "
                f"{self.rows.size}; do not report under it."
            )

    def _known(self, unit: FloatArray) -> None:
        # Whoever made a policy that people do not trust also chose its contexts, and to refuse
        # one of them would tell them something; there a strange context counts as the nearest.
        if self.local is None:
            self.features.contexts.check(unit)

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        self._known(unit)
        return self.decision.probabilities(unit)

    def chances(self, unit: FloatArray) -> FloatArray:
        return self.decision.probabilities(unit)

    def _choose(self, unit: FloatArray, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        self._known(unit)
        arms = self._drawn(unit, tickets)
        with np.errstate(all="ignore"):
            shares = self.decision.probabilities(unit)
        return arms, shares[np.arange(len(arms)), arms]

    def _drawn(self, unit: FloatArray, tickets: TicketArray) -> IntArray:
        places = np.full(len(tickets), _CHOICE)
        uniform = public_uniforms(self.public_seed, self.version, tickets, places)
        # Numbers that were sent may overflow for some people; warnings would tell for whom.
        with np.errstate(all="ignore"):
            return self.decision.choose(unit, uniform)

    @property
    def reports_are_private(self) -> bool:
        return self.local is not None

    def _report(
        self, people: FloatArray, actions: Any, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        self._known(people)
        if self.local is None:
            return ContextObservations(
                **self.origin(NO_NOISE), contexts=people, arms=actions.arms, rewards=rewards
            )
        rows = self.rows_of(people, actions.arms, rewards)
        return PrivateRows(**self.origin(noise.name), rows=self.local.privatise(rows, noise))

    def rows_of(self, unit: FloatArray, arms: IntArray, rewards: FloatArray) -> FloatArray:
        """(n, size) rows in the unit ball, of contexts in [0, 1]^d, arms and rewards in [0, 1]."""
        rows = np.empty((len(arms), self.rows.size))
        with np.errstate(all="ignore"):
            for some in self.features.portions(len(arms)):
                phi = self.features.at(unit[some], arms[some])
                rows[some] = in_unit_ball(self.rows.rows(phi, rewards[some] - CENTRE))
        return rows

    def expected_rewards(self, unit: FloatArray) -> FloatArray:
        """(n, K) what is believed of the mean reward in [0, 1], for contexts in [0, 1]^d."""
        parts = [
            self.features.all(unit[some]) @ self.believed
            for some in self.features.portions(len(unit))
        ]
        believed: FloatArray = np.clip(CENTRE + np.concatenate(parts), 0.0, 1.0)
        return believed

    def release(self, noise: str) -> Release | None:
        if self.local is None:
            return self.as_it_is(DATA)
        return Release(
            mechanism=self.local.mechanism,
            event=self.local.event(noise),
            sensitivity=self.local.sensitivity,
            sensitivity_source="rows lie in the unit ball",
            scale=self.local.scale,
            people=self.group,
            data=DATA,
            noise=noise,
        )

    def sharing(self, features: ArmFeatures) -> EpochPolicy:
        """This policy with features that other policies use too, instead of a copy of them."""
        return replace(self, features=features, decision=self.decision.using(features))

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.header(),
            "features": self.features.to_fields(),
            "decision": self.decision.to_fields(),
            "rows": self.rows.to_fields(),
            "local": None if self.local is None else self.local.to_fields(),
            "believed": self.believed.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        features = features_from_fields(fields["features"])
        local = fields["local"]
        return cls(
            **cls.read_header(fields),
            features=features,
            decision=decision_from_fields(fields["decision"], features),
            rows=RowMap.from_fields(fields["rows"]),
            local=None if local is None else vector_report_from_fields(local),
            believed=read_array(fields["believed"], "believed", "number", 1),
        )
