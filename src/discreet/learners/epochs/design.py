"""Sampling designs: how often each arm of an active set is offered in each context.

| design    | offers                                                                              |
|-----------|-------------------------------------------------------------------------------------|
| `uniform` | every active arm equally often                                                      |
| `optimal` | context-wise D-optimal: multiplicative updates (Silvey, Titterington and Torsney    |
|           | 1978), which lower the largest leverage phi' Z^-1 phi and with it the sensitivity   |

| array   | shape     | meaning                                       | symbol    |
|---------|-----------|-----------------------------------------------|-----------|
| active  | (N, K)    | which arms may be given in which context      | X_r(c)    |
| offers  | (N, K)    | probabilities of arms                         | pi(x | c) |
| table   | (N, K, m) | features                                      | phi(c, x) |
"""

from __future__ import annotations

import numpy as np

from discreet.validation import BoolArray, FloatArray, InvalidInput

DESIGNS = ("optimal", "uniform")
_STEPS = 15
# What is added to a covariance, as a share of its mean eigenvalue.
_RIDGE = 1e-3
# Every active arm keeps this share of a uniform design, so that none is forgotten.
_UNIFORM_SHARE = 0.1


def offers_of(
    design: str, table: FloatArray, weights: FloatArray, active: BoolArray, ridge: float = _RIDGE
) -> FloatArray:
    """The offers of a named design.

    Args:
        design: `optimal` or `uniform`.
        table: (N, K, m) features.
        weights: (N,) probabilities of contexts.
        active: (N, K), at least one arm in every context.
        ridge: what is added to the covariance, as a share of its mean eigenvalue per person.
    """
    uniform: FloatArray = active / active.sum(axis=1, keepdims=True)
    if check_design(design) == "uniform":
        return uniform
    return optimal(table, weights, uniform, ridge)


def check_design(design: str) -> str:
    """The name of a design; `InvalidInput` if there is none of that name."""
    if design not in DESIGNS:
        raise InvalidInput(f"design was {design!r:.80}; it must be one of {', '.join(DESIGNS)}.")
    return design


def optimal(table: FloatArray, weights: FloatArray, start: FloatArray, ridge: float) -> FloatArray:
    """(N, K) D-optimal offers on the arms that `start` offers; arguments as in `offers_of`."""
    contexts, arms, features = table.shape
    phi = table.reshape(-1, features)
    offers = start
    for _ in range(_STEPS):
        chances = (weights[:, None] * offers).ravel()
        covariance = (phi * chances[:, None]).T @ phi
        floor = max(ridge, 1e-12) * np.trace(covariance) / features
        turned = np.linalg.solve(covariance + floor * np.eye(features), phi.T).T
        leverage = np.maximum((turned * phi).sum(axis=1), 0.0).reshape(contexts, arms)
        grown = offers * leverage**2
        total = grown.sum(axis=1, keepdims=True)
        offers = np.where(total > 0.0, grown / np.maximum(total, 1e-300), offers)
    mixed: FloatArray = (1.0 - _UNIFORM_SHARE) * offers + _UNIFORM_SHARE * start
    shares: FloatArray = mixed / mixed.sum(axis=1, keepdims=True)
    return shares
