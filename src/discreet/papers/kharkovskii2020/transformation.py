"""Algorithm 1 of Kharkovskii et al. (2020), as published, and why it keeps nothing private.

| array      | shape  | meaning                                                   | symbol  |
|------------|--------|-----------------------------------------------------------|---------|
| rows       | (n, d) | the curator's table                                       | X       |
| projection | (d, r) | independent standard normal numbers, drawn once           | M       |
| points     | (n, r) | what the modeler receives                                 | Z       |

    X <- X - 1 1' X / n,   X = U S V'
    omega = 16 sqrt(r) log(2 / delta) log(16 r / delta) / epsilon

    "if"    s_min(X) >= omega:   Z = r^(-1/2) X M
    "else"                       Z = r^(-1/2) U sqrt(S^2 + omega^2 I) V' M

Logarithms are natural, as in the proof of Theorem 1. Then omega(e^1.1, delta = 1e-5, r = 10) is
3410, while 10,000 rows of norm at most 25 in two columns have a smallest singular value of at most
1768: the branch "if", which the paper reports for it, cannot have been taken as stated. So two
readings of the published method are run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from discreet.privacy import (
    Adjacency,
    Guarantee,
    OnceEach,
    Release,
    derive_guarantee,
)
from discreet.privacy.accounting import PureEvent
from discreet.validation import (
    FloatArray,
    finite_matrix,
    one_of,
    positive_number,
    probability,
    whole_number,
)

Taken = Literal["if", "else"]
Branch = Literal["as stated", "if", "else"]
AS_STATED: Branch = "as stated"

RADIUS = 1.0
"""How far a row moves between neighbours (Definition 1 of the paper)."""

REASON = (
    "Algorithm 1 is not differentially private where a table has more rows than columns. All "
    "columns of Z lie in the column space of X, a d-dimensional subspace of R^n that moves when "
    "one row moves; anyone who knows X and its neighbour tells them apart with certainty, in both "
    "branches. "
    "The proof of Theorem 1 compares densities on R^n as if both had the same support: it takes "
    "X X' + omega^2 I as the covariance of a column, but that of the lifted table is "
    "X X' + omega^2 U U', which is singular. Besides, Z is a linear image of the centred rows, so "
    "d + 1 rows that are known give away all others."
)
"""Why the guarantee is none."""


@dataclass(frozen=True)
class RandomProjection:
    """Algorithm 1.

    Attributes:
        epsilon: claimed.
        delta: claimed.
        columns: of what is released, r.
        branch: which branch is taken; "as stated" for the one that the rule of line 6 gives.

    Raises:
        InvalidInput: for numbers that are not allowed, or a branch that there is not.
    """

    epsilon: float
    delta: float
    columns: int
    branch: Branch = AS_STATED

    def __post_init__(self) -> None:
        positive_number(self.epsilon, "epsilon")
        probability(self.delta, "delta")
        whole_number(self.columns, "columns", minimum=1)
        one_of(self.branch, "branch", get_args(Branch))

    @property
    def omega(self) -> float:
        """The threshold of line 5, in the units of the rows."""
        logs = math.log(2.0 / self.delta) * math.log(16.0 * self.columns / self.delta)
        return 16.0 * math.sqrt(self.columns) * logs / self.epsilon

    def taken(self, rows: ArrayLike) -> Taken:
        """The branch that rows (n, d) take."""
        if self.branch != "as stated":
            return self.branch
        least = np.linalg.svd(centred(rows), compute_uv=False).min()
        return "if" if least >= self.omega else "else"

    def prepared(self, rows: ArrayLike) -> FloatArray:
        """(n, d) what is multiplied by M / sqrt(r): lines 2 and 9; nothing in it is random."""
        middle = centred(rows)
        if self.taken(rows) == "if":
            return middle
        left, values, right = np.linalg.svd(middle, full_matrices=False)
        lifted: FloatArray = (left * np.hypot(values, self.omega)) @ right
        return lifted

    def release(self, rows: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """(n, r) the released table Z, with M from `rng`."""
        table = self.prepared(rows)
        projection = rng.standard_normal((table.shape[1], self.columns))
        points: FloatArray = table @ projection / math.sqrt(self.columns)
        return points

    def guarantee(self) -> Guarantee:
        """What is really promised: nothing (`REASON`)."""
        release = Release(
            mechanism="random projection of a centred table (Algorithm 1)",
            event=PureEvent(math.inf),
            sensitivity=RADIUS,
            sensitivity_source="none: the support of the released table depends on every row",
            scale=0.0,
            people=OnceEach("published table"),
            data="the row",
            noise="none: the projection hides neither the table nor its rows",
        )
        return derive_guarantee([release], "none", Adjacency("row", radius=RADIUS), self.delta)


def centred(rows: ArrayLike) -> FloatArray:
    """(n, d) the rows less their mean (line 2)."""
    table = finite_matrix(rows, "the rows", np.shape(rows)[-1])
    middle: FloatArray = table - table.mean(axis=0)
    return middle
