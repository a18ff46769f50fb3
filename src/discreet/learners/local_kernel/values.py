"""What the measurements of `local_kernel` say of the value of a policy (learners/values.py).

f_k(x) = (1 + phi(x)' theta_k) / 2, so V is linear in theta, of which mean and covariance are those
of a mixture over likely hyperparameters. Where people are is their density as learnt from the same
reports, at the points of integrals (features.py).

Where reports do not say where people are (one cell, no ranks), what is learnt as f is f times their
density, relative to even. Averages over these very people come out right; over others they do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet.learners.local_kernel.cells import Ranks
from discreet.learners.local_kernel.features import CosineFeatures, grid_of, on_levels
from discreet.learners.local_kernel.posterior import MixedPosterior
from discreet.learners.values import AS_REPORTED, HIDDEN, Beliefs, some_of
from discreet.people.domain import Box
from discreet.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Places:
    """Where people are, as far as is known.

    Attributes:
        domain: of contexts.
        features: of them.
        ranks: how contexts are measured.
        density: (Z,) of ranks.
        known: whether that was declared, or reports told it.
        seed: of the points of integrals.
    """

    domain: Box
    features: CosineFeatures
    ranks: Ranks
    density: FloatArray
    known: bool
    seed: int

    def of_people(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Contexts (n, d) in [0, 1]^d, shares of people there (n,), and features (n, M)."""
        grid = grid_of(self.seed, 0, self.features)
        unit = on_levels(self.ranks.inverse(grid.points), self.domain.levels)
        return unit, grid.weights(self.density), grid.phi

    def given(self, contexts: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The same for contexts (n, d) in the units of the domain."""
        unit = self.domain.people_to_unit(contexts)
        return unit, np.full(len(unit), 1.0 / len(unit)), self.features(self.ranks(unit))


class KernelBeliefs(Beliefs):
    """Beliefs under a mixture of posteriors.

    Args:
        places: where people are.
        contexts: (n, d) in the units of the domain; None for where people are.
        posterior: of theta, by the target's reports.
        joint: the same by those of sources too; what is recommended follows from it.
    """

    hidden = HIDDEN

    def __init__(
        self,
        places: Places,
        contexts: Any,
        posterior: MixedPosterior,
        joint: MixedPosterior,
    ) -> None:
        at = places.of_people() if contexts is None else places.given(contexts)
        unit, self.weights, phi = at
        self.contexts, self.elsewhere = places.domain.from_unit(unit), places.known
        self.where = AS_REPORTED if contexts is None else f"the {len(unit)} contexts given"
        self._phi, self._posterior = phi[:, posterior.used], posterior
        self.expected = 0.5 * (1.0 + self._phi @ posterior.mean.T)
        self.recommended = (phi[:, joint.used] @ joint.mean.T).argmax(axis=1)

    def variance(self, weights: FloatArray) -> float:
        along = (weights.T @ self._phi).reshape(-1, 1)
        return 0.25 * float(along[:, 0] @ self._posterior.covariance_times(along)[:, 0])

    @cached_property
    def deviations(self) -> FloatArray:
        return 0.5 * self._posterior.deviations(self._phi[some_of(self._phi)])
