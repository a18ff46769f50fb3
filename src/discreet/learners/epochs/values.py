"""What released sums say of the value of a policy (learners/values.py).

f = 1/2 + phi(c, x)' theta with the posterior of theta that the next policy would follow from. What
is known of contexts is declared, not learnt: values are averaged over what was declared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.learners.epochs.features import ArmFeatures
from discreet.learners.epochs.rows import CENTRE, Belief
from discreet.learners.values import HIDDEN, LinearBeliefs
from discreet.people.domain import Box

# See `Beliefs`.
_MISFIT = 0.01


class EpochBeliefs(LinearBeliefs):
    """Beliefs at the contexts given, or at those that were declared."""

    def __init__(
        self, belief: Belief, features: ArmFeatures, domain: Box, contexts: Any = None
    ) -> None:
        known = features.contexts
        unit, weights, phi = known.points, known.weights, features.table
        where = (
            "the contexts that were declared" if known.exact else "the declared sample of contexts"
        )
        if contexts is not None:
            unit = domain.people_to_unit(contexts)
            known.check(unit)
            weights, phi = np.full(len(unit), 1.0 / len(unit)), features.all(unit)
            where = f"the {len(unit)} contexts given"
        super().__init__(
            domain.from_unit(unit),
            weights,
            where,
            phi,
            belief.mean,
            belief.root,
            CENTRE,
            _MISFIT,
            hidden=HIDDEN,
        )
