"""The reproduction `po-gp-ucb-attack`: what attacks prove about Algorithm 1 and our release."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discreet.audit.lower_bound import Attack
from discreet.outsourcing.release import noise_scale
from discreet.privacy import Outsourced, SimulatedNoise
from discreet.privacy.accounting import gaussian_epsilon
from discreet.records import ReproductionRecord, Value
from discreet.reproduction.kharkovskii2020.attack import (
    distinguish,
    likelihood_ratio,
    neighbour,
    noisy,
    projected,
    reconstructed,
    subspace_score,
)
from discreet.reproduction.kharkovskii2020.methods import OURS, PUBLISHED
from discreet.reproduction.kharkovskii2020.settings import LARGEST_NORM, SEED
from discreet.reproduction.kharkovskii2020.transformation import (
    RADIUS,
    REASON,
    RandomProjection,
    Taken,
    centred,
)
from discreet.validation import FloatArray, whole_number

# A table of the attack; the published claim is the paper's Figure 2a.
_ROWS, _COLUMNS = 40, 2
_CLAIMED, _DELTA, _PROJECTED = math.exp(1.1), 1e-5, 10
OUR_EPSILONS = (math.exp(1.1), math.exp(2.0), math.exp(3.0))
_RECONSTRUCTED_ROWS = 1000

SUBSPACE, LIKELIHOOD_RATIO = "subspace", "likelihood ratio"
RECONSTRUCTION = "reconstruction"
LOWER_BOUND, LARGEST_ERROR = "empirical epsilon", "largest error of a reconstructed number"


def example(branch: Taken, rows: int, rng: np.random.Generator) -> FloatArray:
    """A table (n, 2) for which Algorithm 1 takes the branch as stated.

    For "else" its norms are at most 25, as in the experiments; for "if" rows lie so far apart that
    the smallest singular value is twice omega.
    """
    made = rng.standard_normal((whole_number(rows, "rows", minimum=3), _COLUMNS))
    if branch == "else":
        scaled: FloatArray = made * LARGEST_NORM / np.linalg.norm(made, axis=1).max()
        return scaled
    omega = RandomProjection(_CLAIMED, _DELTA, _PROJECTED).omega
    least = np.linalg.svd(centred(made), compute_uv=False).min()
    apart: FloatArray = made * 2.0 * omega / least
    return apart


@dataclass(frozen=True)
class Finding:
    """One attack and what it proves.

    Attributes:
        release: whose: `published` or `ours`.
        branch: of Algorithm 1, taken as stated; None for ours.
        name: of the attack.
        promised: the epsilon claimed or asked for.
        held: what the guarantee says; infinity for none.
        attack: what a distinguisher reached; None for a reconstruction.
        error: of a reconstruction, the largest of all numbers; None for a distinguisher.
        rows: of the table.
    """

    release: str
    branch: Taken | None
    name: str
    promised: float
    held: float
    attack: Attack | None = None
    error: float | None = None
    rows: int = _ROWS

    @property
    def record(self) -> ReproductionRecord:
        """The lower bound on epsilon, or the largest error."""
        setting: dict[str, Value] = {
            "release": self.release,
            "attack": self.name,
            "branch": self.branch,
            "rows": self.rows,
            "epsilon": self.promised,
            "delta": _DELTA,
            "radius": RADIUS,
            "true_epsilon": self.held if math.isfinite(self.held) else None,
            "trust_model": "outsourced" if math.isfinite(self.held) else "none",
        }
        if self.attack is None:
            assert self.error is not None
            return ReproductionRecord(
                self.release, LARGEST_ERROR, self.error, math.nan, 1, setting=setting
            )
        setting["true_positive_rate"] = self.attack.true_positive_rate
        setting["false_positive_rate"] = self.attack.false_positive_rate
        setting["confidence"] = self.attack.confidence
        return ReproductionRecord(
            self.release,
            LOWER_BOUND,
            self.attack.epsilon,
            math.nan,
            self.attack.trials,
            setting=setting,
        )


@dataclass(frozen=True)
class Attacks:
    """The reproduction `po-gp-ucb-attack`.

    Attributes:
        name: how the command line calls it.
        title: what it shows.
        trials: on each of two tables, and as many to choose the threshold.
        seed: of everything that is drawn.
        note: what the numbers say.
        sizes: numbers of questions: none are asked.
    """

    name: str
    title: str
    trials: int
    seed: int
    note: str
    sizes: tuple[int, ...] = ()

    def findings(self, trials: int | None = None) -> Iterator[Finding]:
        """Every attack, one after the other.

        Raises:
            InvalidInput: for a number of trials that is not allowed.
        """
        number = whole_number(self.trials if trials is None else trials, "trials", minimum=2)
        return self._findings(number)

    @property
    def count(self) -> int:
        """How many findings there are."""
        return 4 + 2 * len(OUR_EPSILONS)

    def _findings(self, trials: int) -> Iterator[Finding]:
        branches: tuple[Taken, ...] = ("if", "else")
        for branch in branches:
            yield on_published(branch, trials, self._rng(0))
        for branch in branches:
            yield by_known_rows(branch, self._rng(1))
        for epsilon in OUR_EPSILONS:
            for name in (SUBSPACE, LIKELIHOOD_RATIO):
                yield on_ours(epsilon, name, trials, self._rng(2))

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, number])


def on_published(branch: Taken, trials: int, rng: np.random.Generator) -> Finding:
    """The subspace distinguisher on Algorithm 1, on a table for which it takes that branch."""
    algorithm = RandomProjection(_CLAIMED, _DELTA, _PROJECTED)
    rows = example(branch, _ROWS, rng)
    moved = neighbour(rows)
    score = subspace_score(centred(rows), centred(moved))
    found = distinguish(rows, moved, projected(algorithm), score, trials, _DELTA, rng)
    held = algorithm.guarantee().epsilon
    return Finding(PUBLISHED, algorithm.taken(rows), SUBSPACE, _CLAIMED, held, found)


def by_known_rows(branch: Taken, rng: np.random.Generator) -> Finding:
    """How well three known rows give away all others of a table released by Algorithm 1."""
    algorithm = RandomProjection(_CLAIMED, _DELTA, _PROJECTED)
    rows = example(branch, _RECONSTRUCTED_ROWS, rng)
    points = algorithm.release(rows, rng)
    found = reconstructed(points, rows[: _COLUMNS + 1])
    return Finding(
        PUBLISHED,
        algorithm.taken(rows),
        RECONSTRUCTION,
        _CLAIMED,
        algorithm.guarantee().epsilon,
        error=float(np.abs(found - rows).max()),
        rows=_RECONSTRUCTED_ROWS,
    )


def on_ours(epsilon: float, name: str, trials: int, rng: np.random.Generator) -> Finding:
    """The named distinguisher on Gaussian noise that keeps epsilon."""
    rows = example("else", _ROWS, rng)
    moved = neighbour(rows)
    budget = Outsourced(epsilon, _DELTA, RADIUS)
    scale = noise_scale(budget, RADIUS, SimulatedNoise(0), rows.size)
    score = (
        subspace_score(rows, moved) if name == SUBSPACE else likelihood_ratio(rows, moved, scale)
    )
    found = distinguish(rows, moved, noisy(scale), score, trials, _DELTA, rng)
    return Finding(OURS, None, name, epsilon, gaussian_epsilon(scale / RADIUS, _DELTA), found)


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
