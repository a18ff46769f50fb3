"""Algorithm 1 of Kharkovskii et al. (2020) as published, and attacks that break it.

| array      | shape     | meaning                                                   | symbol  |
|------------|-----------|-----------------------------------------------------------|---------|
| rows       | (n, d)    | the curator's table                                       | X       |
| moved      | (n, d)    | its neighbour: the first row has moved by 1               | X'      |
| projection | (d, r)    | independent standard normal numbers, drawn once           | M       |
| points     | (n, r)    | what the modeler receives                                 | Z       |
| releases   | (m, n, r) | one release for each trial                                | Z       |
| scores     | (m,)      | high if the adversary guesses X                           |         |

    X <- X - 1 1' X / n,   X = U S V'
    omega = 16 sqrt(r) log(2 / delta) log(16 r / delta) / epsilon

    "if"    s_min(X) >= omega:   Z = r^(-1/2) X M
    "else"                       Z = r^(-1/2) U sqrt(S^2 + omega^2 I) V' M

Logarithms are natural, as in the proof of Theorem 1. Then omega(e^1.1, delta = 1e-5, r = 10) is
3410, while 10,000 rows of norm at most 25 in two columns have a smallest singular value of at most
1768: the branch "if", which the paper reports for it, cannot have been taken as stated. So two
readings of the published method are run.

**Attacks.** The adversary of differential privacy knows two neighbouring tables, of which one was
released, and guesses which. Two scores are tried, on the published release and on ours:

* subspace: how much further from the column space of X' than from that of X the columns of the
  release lie. Algorithm 1 keeps them inside the right one, up to rounding.
* likelihood ratio: for Gaussian noise, log p(Z | X) - log p(Z | X'). No score is better (Neyman and
  Pearson 1933), so it proves what 10,000 trials can prove.

An adversary who knows some rows can reconstruct the rest from the published release
(`reconstructed`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from discreet.audit.trials import Attack, attack
from discreet.lab.experiments.engine import Done, Row, Seed
from discreet.outsourcing.mechanisms import noise_scale
from discreet.papers.kharkovskii2020.data_sets import LARGEST_NORM, SEED
from discreet.papers.reproduction import (
    OURS,
    PUBLISHED,
    PaperPlan,
    PaperResults,
    Reproduction,
)
from discreet.privacy import (
    Adjacency,
    Guarantee,
    OnceEach,
    Outsourced,
    Release,
    SimulatedNoise,
    derive_guarantee,
)
from discreet.privacy.accounting import PureEvent, gaussian_epsilon
from discreet.validation import (
    FloatArray,
    InvalidInput,
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
"""The distance of neighbouring rows (Definition 1 of the paper)."""

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
        return table @ projection / math.sqrt(self.columns)

    def guarantee(self) -> Guarantee:
        """The true guarantee: none (`REASON`)."""
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


# Releases of this many trials are held at a time.
_AT_ONCE = 1000
# A table of the attack; the published claim is the paper's Figure 2a.
_ROWS, _COLUMNS = 40, 2
_CLAIMED, _DELTA, _PROJECTED = math.exp(1.1), 1e-5, 10
OUR_EPSILONS = (math.exp(1.1), math.exp(2.0), math.exp(3.0))
_RECONSTRUCTED_ROWS = 1000

SUBSPACE, LIKELIHOOD_RATIO = "subspace", "likelihood ratio"
RECONSTRUCTION = "reconstruction"
_ON_PUBLISHED, _ON_OURS = (SUBSPACE, RECONSTRUCTION), (SUBSPACE, LIKELIHOOD_RATIO)
_BRANCHES: tuple[Taken, ...] = ("if", "else")
# Which draws an attack has: on which release, and whether it reconstructs.
_STREAMS = {(PUBLISHED, False): 0, (PUBLISHED, True): 1, (OURS, False): 2}
LOWER_BOUND, LARGEST_ERROR = "empirical epsilon", "largest error of a reconstructed number"

# A threshold is chosen among this many quantiles of the scores, and as many close to each end. An
# odd number includes the median, which separates scores that do not overlap.
_CANDIDATES = 101

Releasing = Callable[[FloatArray, int, np.random.Generator], FloatArray]
Score = Callable[[FloatArray], FloatArray]


def neighbour(rows: FloatArray) -> FloatArray:
    """The table (n, d) with its first row moved by 1 along the first column."""
    moved = rows.copy()
    moved[0, 0] += RADIUS
    return moved


def column_space(table: FloatArray) -> FloatArray:
    """(n, d) an orthonormal basis of what the columns of a table (n, d) span."""
    return np.linalg.svd(table, full_matrices=False)[0]


def subspace_score(rows: FloatArray, moved: FloatArray) -> Score:
    """How much further from the columns of `moved` than from those of `rows` a release lies.

    Both tables (n, d) are taken as Algorithm 1 sees them: centred by the caller where it centres.
    """
    first, second = column_space(rows), column_space(moved)

    def score(releases: FloatArray) -> FloatArray:
        return _distance(releases, second) - _distance(releases, first)

    return score


def _distance(releases: FloatArray, basis: FloatArray) -> FloatArray:
    """(m,) how far releases (m, n, r) lie from the space of a basis (n, d)."""
    outside = releases - basis @ (basis.T @ releases)
    distance: FloatArray = np.sqrt(np.square(outside).sum(axis=(1, 2)))
    return distance


def likelihood_ratio(rows: FloatArray, moved: FloatArray, scale: float) -> Score:
    """log p(Z | X) - log p(Z | X') for Z = X + N(0, scale^2) on every number.

    It is (|Z - X'|^2 - |Z - X|^2) / (2 scale^2), where only the row that moved counts.
    """

    def score(releases: FloatArray) -> FloatArray:
        far = np.square(releases - moved).sum(axis=(1, 2))
        near = np.square(releases - rows).sum(axis=(1, 2))
        ratio: FloatArray = (far - near) / (2.0 * scale**2)
        return ratio

    return score


def projected(algorithm: RandomProjection) -> Releasing:
    """Releases of Algorithm 1: (m, n, r) for m trials on a table (n, d)."""

    def release(rows: FloatArray, trials: int, rng: np.random.Generator) -> FloatArray:
        table, columns = algorithm.prepared(rows), algorithm.columns
        drawn = rng.standard_normal((trials, table.shape[1], columns))
        return table @ drawn / math.sqrt(columns)

    return release


def noisy(scale: float) -> Releasing:
    """Our releases: (m, n, d) for m trials on a table (n, d)."""

    def release(rows: FloatArray, trials: int, rng: np.random.Generator) -> FloatArray:
        noise = SimulatedNoise(int(rng.integers(2**63)))
        return noise.add_gaussian(np.broadcast_to(rows, (trials, *rows.shape)), scale)

    return release


def distinguish(
    rows: FloatArray,
    moved: FloatArray,
    release: Releasing,
    score: Score,
    trials: int,
    delta: float,
    rng: np.random.Generator,
) -> Attack:
    """Attack `trials` releases of each table, with a threshold chosen on as many others."""
    whole_number(trials, "trials", minimum=2)

    counts = [min(_AT_ONCE, trials - start) for start in range(0, trials, _AT_ONCE)]

    def scores(table: FloatArray) -> FloatArray:
        return np.concatenate([score(release(table, count, rng)) for count in counts])

    threshold = best_threshold(scores(rows), scores(moved), delta)
    return attack(scores(rows), scores(moved), threshold, delta)


def best_threshold(first: FloatArray, second: FloatArray, delta: float) -> float:
    """The threshold whose guess "first, if the score is above" proves most on these scores.

    Args:
        first: (m,) scores of trials on the first data set.
        second: (m,) scores of trials on the second.
        delta: at which epsilon is read.
    """
    pooled = np.sort(np.concatenate([first, second]))
    last = len(pooled) - 2
    tail = np.geomspace(1, last + 1, _CANDIDATES) - 1.0
    even = np.linspace(0, last, _CANDIDATES)
    places = np.unique(np.concatenate([even, tail, last - tail]).astype(np.int64))
    # Between two scores, where the next ones are as likely to fall on either side.
    candidates = 0.5 * (pooled[places] + pooled[places + 1])
    proofs = np.array([attack(first, second, at, delta).epsilon for at in candidates])
    best = np.flatnonzero(proofs == proofs.max())
    return float(candidates[best[len(best) // 2]])


def reconstructed(points: FloatArray, known: FloatArray) -> FloatArray:
    """(n, d) all rows, from the published points and the first d + 1 rows.

    Both branches release Z = (X - 1 m') B with some B (d, r): B follows from differences of known
    rows, and its pseudoinverse turns differences of points into differences of rows.

    Args:
        points: (n, r), released by Algorithm 1.
        known: (d + 1, d) the rows of its first d + 1 points.

    Raises:
        InvalidInput: for another number of known rows, or rows on one line (d = 2).
    """
    columns = known.shape[1]
    if len(known) != columns + 1 or np.linalg.matrix_rank(known[1:] - known[0]) < columns:
        raise InvalidInput(
            f"known had shape {known.shape}; give {columns + 1} rows that do not lie in one plane "
            f"of {columns - 1} dimensions."
        )
    image = np.linalg.solve(known[1:] - known[0], points[1 : columns + 1] - points[0])
    rows: FloatArray = known[0] + (points - points[0]) @ np.linalg.pinv(image)
    return rows


def example(branch: Taken, rows: int, rng: np.random.Generator) -> FloatArray:
    """A table (n, 2) for which Algorithm 1 takes the branch as stated.

    For "else" its norms are at most 25, as in the experiments; for "if" rows lie so far apart that
    the smallest singular value is twice omega.
    """
    points = rng.standard_normal((whole_number(rows, "rows", minimum=3), _COLUMNS))
    if branch == "else":
        scaled: FloatArray = points * LARGEST_NORM / np.linalg.norm(points, axis=1).max()
        return scaled
    omega = RandomProjection(_CLAIMED, _DELTA, _PROJECTED).omega
    least = np.linalg.svd(centred(points), compute_uv=False).min()
    apart: FloatArray = points * 2.0 * omega / least
    return apart


@dataclass(frozen=True, kw_only=True)
class Attacks(Reproduction):
    """Attacks on the published release and on ours: `trials` releases of each of two tables."""

    form: str = "attacks"

    @property
    def options(self) -> Mapping[str, Any]:
        return {"releases": self.trials, "json": None}

    def plan(self, trials: int | None = None) -> PaperPlan:
        number = whole_number(self.trials if trials is None else trials, "trials", minimum=2)
        published = [(name, branch, _CLAIMED) for name in _ON_PUBLISHED for branch in _BRANCHES]
        ours = [(name, None, epsilon) for epsilon in OUR_EPSILONS for name in _ON_OURS]
        settings = [
            {"name": name, "branch": branch, "epsilon": epsilon, "trials": number}
            for name, branch, epsilon in (*published, *ours)
        ]
        names = [str(setting["name"]) for setting in settings]
        return PaperPlan(attacked, settings, names, 1, self.seed, _results)


def _results(done: Sequence[Done[Sequence[Row]]]) -> PaperResults:
    import pandas as pd

    records = [row for each in sorted(done, key=lambda each: each.case) for row in each.result]
    frame = pd.DataFrame(records)
    return PaperResults(records, frame, pd.DataFrame(), frame)


def attacked(seed: Seed, name: str, branch: Taken | None, epsilon: float, trials: int) -> list[Row]:
    """One attack, and what it proves: the lower bound on epsilon, or the largest error.

    Args:
        seed: of everything that is drawn.
        name: of the attack.
        branch: that Algorithm 1 shall take; None for our release.
        epsilon: claimed or asked for.
        trials: releases of each of two tables.
    """
    released = OURS if branch is None else PUBLISHED
    rng = np.random.default_rng([seed.base, _STREAMS[released, name == RECONSTRUCTION]])
    rows = example(branch or "else", _RECONSTRUCTED_ROWS if name == RECONSTRUCTION else _ROWS, rng)
    moved = neighbour(rows)
    if branch is None:
        budget = Outsourced(epsilon, _DELTA, RADIUS)
        scale = noise_scale(budget, RADIUS, SimulatedNoise(0), rows.size)
        held = gaussian_epsilon(scale / RADIUS, _DELTA)
        release, ratio = noisy(scale), likelihood_ratio(rows, moved, scale)
        score = subspace_score(rows, moved) if name == SUBSPACE else ratio
    else:
        algorithm = RandomProjection(epsilon, _DELTA, _PROJECTED)
        held = algorithm.guarantee().epsilon
        release, score = projected(algorithm), subspace_score(centred(rows), centred(moved))
    if name == RECONSTRUCTION:
        # How well three known rows give away all others.
        points = algorithm.release(rows, rng)
        error = np.abs(reconstructed(points, rows[: _COLUMNS + 1]) - rows).max()
        proved: Row = {"metric": LARGEST_ERROR, "mean": float(error), "trials": 1}
    else:
        guesses = distinguish(rows, moved, release, score, trials, _DELTA, rng)
        proved = {
            "true_positive_rate": guesses.true_positive_rate,
            "false_positive_rate": guesses.false_positive_rate,
            "confidence": guesses.confidence,
            "metric": LOWER_BOUND,
            "mean": guesses.epsilon,
            "trials": guesses.trials,
        }
    return [
        {
            "release": released,
            "attack": name,
            "branch": branch,
            "rows": len(rows),
            "epsilon": epsilon,
            "delta": _DELTA,
            "radius": RADIUS,
            "true_epsilon": held,
            "trust_model": "outsourced" if math.isfinite(held) else "none",
            **proved,
            "method": released,
            "standard_error": math.nan,
            "paper": None,
            "agrees": None,
        }
    ]


ATTACKS = Attacks(
    name="po-gp-ucb-attack",
    title="Kharkovskii et al. (2020), Algorithm 1: attacks on the published release and on ours",
    trials=10_000,
    seed=SEED,
    note=(
        f"{REASON} Where all guesses are right, the epsilon that is proved is limited by the "
        "number of trials alone."
    ),
)
