"""CAPRI and USCA as published, for `Capri(calibration=..)` and `Usca(calibration=..)`.

Both papers replace the covariance of what people see by that of points which are drawn from the
same law rho, S and R in CAPRI (T_r of each in an epoch), Z in USCA (T K of them). The draws are
public: they depend on the learner's public seed and on the number of people.

**CAPRI in m dimensions.** The paper releases, with M = K_SR K_RS + tau K_SS,

    g = M^(-1/2) sum_t k_S(w_t) y_t + N(0, sigma_0^2 I),      mu(w) = k_S(w)' M^(-1/2) g,   (4)

in |S| dimensions. On a finite set of pairs S has repeated points and M is singular, so its inverse
root is taken on its range. With features, k(w, w') = phi' phi', A = Phi_S' has rows phi(s)' and a
singular value decomposition U D V'. Because A = A V V',

    M = A (Phi_R Phi_R' + tau I) A' = U D (V' Z V) D U',   Z = Phi_R Phi_R' + tau I,
    phi' A' M^+ A phi' = phi' V (V' Z V)^-1 V' phi':

the vectors M^(-1/2) A phi(w) and (V' Z V)^(-1/2) V' phi(w) have the same inner products, so one is
an isometry of the other. Isotropic noise stays isotropic under it, and what it has outside of the
range of M does not enter mu. Hence the row map turn = V (V' Z V)^(-1/2) gives the law of (4).

| symbol   | meaning                                                                         |
|----------|---------------------------------------------------------------------------------|
| B        | bound on |y| and, in the papers, on the norm of f: 1/2 on the learners' scale    |
| T, T_r   | people in all, and in epoch r                                                   |
| tau      | the ridge; neither paper says which                                             |
| sigma    | sup over w of sqrt(phi' (P_S Phi_R Phi_R' P_S + tau I)^-1 phi), (6); P_S = V V'  |
| gamma_T  | maximal information gain of T points                                            |

**Readings.** (a) sigma in the noise (5) and in the width (7) is a standard deviation, as (6) has
it; Lemma 6.6 calls the variance by the same name. (b) beta_1 is that of Lemma 6.6 and of the
theorem, which the proof gives; the one printed under (7) is smaller and leaves its third argument
out. beta, which both share, is so large that nothing hangs on the choice. (c) Logarithms are
natural. (d) K = ceil(T / gamma_T); USCA prints the ceiling and the floor. (e) In the local variant
every person adds the noise of (5) to M^(-1/2) k_S(w_t) y_t, as in Algorithm 1 (the proof has M^-1),
with the log T that only composition over epochs needs. It is left out here: it keeps what the joint
variant keeps, with sqrt(T_r) times the noise, where the joint one gives nothing up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from discreet.codec import Range
from discreet.gaussian import Posterior
from discreet.learners.epochs.capri import Capri, Elimination, PosteriorElimination
from discreet.learners.epochs.contribution import BOUND, ClippedContribution, plain_contribution
from discreet.learners.epochs.policy import EpochPolicy
from discreet.learners.epochs.sums import contribution_sensitivity
from discreet.learners.epochs.usca import Usca, UscaCalibration
from discreet.privacy import Budget, Joint
from discreet.validation import (
    BoolArray,
    FloatArray,
    InvalidInput,
)

# Steps towards the design with the largest information gain; it grows with each of them.
_GAIN_STEPS = 60
# Which of the sets that a public seed and a number of people give.
_BASIS, _COVARIANCE, _APPROXIMATION = range(3)


def drawn_counts(chances: FloatArray, points: int, seed: int, which: int = 0) -> FloatArray:
    """(w,) how often each pair is among `points` public draws with probabilities (w,)."""
    rng = np.random.default_rng([seed, points, which])
    return rng.multinomial(points, chances / chances.sum()).astype(np.float64)


def projected_turn(
    phi: FloatArray, basis: FloatArray, covariance: FloatArray, regulariser: float
) -> tuple[FloatArray, FloatArray]:
    """V (V' Z V)^(-1/2) (see the module), and V.

    Args:
        phi: (w, m) features of all pairs.
        basis: (w,) how often each is in S.
        covariance: (w,) how often each is in R.
        regulariser: tau.

    Returns:
        (m, s) the row map and (m, s) an orthonormal basis of what S spans.
    """
    spanning = phi[basis > 0.0]
    _, sizes, turned = np.linalg.svd(spanning, full_matrices=False)
    kept = sizes > sizes[0] * max(spanning.shape) * np.finfo(np.float64).eps
    basis_vectors = turned[kept].T
    seen = phi @ basis_vectors
    inner = (seen * covariance[:, None]).T @ seen + regulariser * np.eye(seen.shape[1])
    return basis_vectors @ _inverse_root(inner), basis_vectors


def surrogate_deviation(
    phi: FloatArray, turn: FloatArray, span: FloatArray, regulariser: float
) -> float:
    """sigma of (6): the largest over features (w, m), with what S does not span."""
    outside = np.maximum((phi**2).sum(axis=1) - ((phi @ span) ** 2).sum(axis=1), 0.0)
    variances = ((phi @ turn) ** 2).sum(axis=1) + outside / regulariser
    return math.sqrt(float(variances.max()))


def information_gain(phi: FloatArray, points: int, regulariser: float) -> float:
    """gamma_T: the largest 1/2 log det(I + K / tau) of `points` of the features (w, m).

    Shares of a point are allowed, which makes it concave in the design w: steps
    w_i <- w_i phi_i' Z^-1 phi_i / sum, Z = T sum w phi phi' + tau I, never lower it.
    """
    scale, eye = points / regulariser, np.eye(phi.shape[1])
    design = np.full(len(phi), 1.0 / len(phi))
    for _ in range(_GAIN_STEPS):
        solved = np.linalg.solve(eye + scale * (phi * design[:, None]).T @ phi, phi.T).T
        design = design * (solved * phi).sum(axis=1)
        design /= design.sum()
    return 0.5 * float(np.linalg.slogdet(eye + scale * (phi * design[:, None]).T @ phi)[1])


@dataclass(frozen=True)
class PublishedElimination(Elimination):
    """The noise and the widths of CAPRI, in units of rewards that are centred in [-1/2, 1/2].

    Every person enters one release only, so the division of the budget by log T is not needed; the
    guarantee states the epsilon that the noise really holds.

    Attributes:
        deviations: give an arm up when it is this many deviations of the posterior (from all
            releases) behind the best, instead of 4 Delta_r in the last release; None for 4 Delta_r.
        regulariser: tau.
        failure: delta_err, the probability that widths may fail with.
    """

    name: ClassVar[str] = "published"
    last_greedy: ClassVar[bool] = False
    deviations: Annotated[float, Range(above=0.0)] | None = None
    regulariser: Annotated[float, Range(above=0.0)] = 1.0
    failure: Annotated[float, Range(above=0.0, below=1.0)] = 0.05
    design: Literal["uniform"] = "uniform"

    def contribution(
        self, learner: Capri, posterior: Posterior, probabilities: FloatArray, people: int
    ) -> ClippedContribution:
        _joint(learner.budget)
        return self.drawn(learner, learner.chances(probabilities), people)[0]

    def drawn(
        self, learner: Capri, chances: FloatArray, people: int
    ) -> tuple[ClippedContribution, float]:
        """Rows from random S and R of `people` pairs each with probabilities (w,), and their sigma.

        The draws are public: the policy of an epoch is enough to repeat them.
        """
        phi, seed = learner.pairs, learner.public_seed
        basis = drawn_counts(chances, people, seed, _BASIS)
        covariance = drawn_counts(chances, people, seed, _COVARIANCE)
        turn, span = projected_turn(phi, basis, covariance, self.regulariser)
        allowed = phi[chances > 0.0]
        return plain_contribution(turn, allowed), surrogate_deviation(
            allowed, turn, span, self.regulariser
        )

    def deviation(self, learner: Capri, policy: EpochPolicy) -> float:
        """sigma of (6) in the epoch of that policy."""
        chances = learner.chances(policy.decision.table)
        return self.drawn(learner, chances, learner.epoch_length(policy.version))[1]

    def noise_multiplier(self, learner: Capri, policy: EpochPolicy) -> float:
        assert learner.horizon is not None
        deviation = self.deviation(learner, policy)
        noise = noise_deviation(_joint(learner.budget), learner.horizon, deviation)
        return noise / (
            policy.contribution.clipping_norm * contribution_sensitivity(policy.contribution.size)
        )

    def survivors(self, learner: Capri, posterior: Posterior, active: BoolArray) -> BoolArray:
        if self.deviations is not None:
            rule = PosteriorElimination(self.deviations, self.design)
            return rule.survivors(learner, posterior, active)
        last = learner.last_estimate()
        if last is None:
            return active
        policy, _, estimate, _ = last
        mean = np.where(active, estimate.reshape(active.shape), -np.inf)
        width = self.width(learner, policy)
        kept: BoolArray = mean >= mean.max(axis=1, keepdims=True) - 4.0 * width
        return kept & active

    def width(self, learner: Capri, policy: EpochPolicy) -> float:
        """Delta_r (7): how far the estimate of an epoch may be from f."""
        people = learner.horizon
        assert people is not None
        failure = self.failure / (len(learner.pairs) * people * math.log(people))
        deviation = self.deviation(learner, policy)
        return (
            beta(failure, people, self.regulariser) * deviation
            + beta_1(_joint(learner.budget), failure, people) * deviation**2
        )


def noise_deviation(budget: Joint, horizon: int, deviation: float) -> float:
    """sigma_0 (5): the standard deviation of the noise on each number of a release.

    A release moves by at most 2 B sigma, so where S spans all features the noise multiplier is
    log T sqrt(log(1.25 log T / delta)) 2 / epsilon. Elsewhere rows are shorter than sigma. The
    paper's people come once; for several contributions of a person it is as many times as large.
    """
    log = math.log(horizon)
    tail = math.sqrt(math.log(1.25 * log / budget.delta))
    return budget.times_noise * deviation * 4.0 * BOUND * log / budget.epsilon * tail


def beta(failure: float, horizon: int, regulariser: float) -> float:
    """beta(delta) of Lemma 6.6, for what is not noise."""
    long = math.sqrt(math.log(168.0 * horizon / failure))
    return (
        90.0 * BOUND * long
        + 52.0 * BOUND * long * math.sqrt(math.log(12.0 / failure) / regulariser)
        + 3.0 * BOUND * math.sqrt(2.0 * math.log(6.0 / failure))
        + math.sqrt(24.0 * regulariser)
    )


def beta_1(budget: Joint, failure: float, horizon: int) -> float:
    """beta_1(epsilon_DP, delta_DP, delta) of Lemma 6.6, for noise."""
    log = math.log(horizon)
    tail = math.sqrt(math.log(1.25 * log / budget.delta))
    once = 8.0 * BOUND * log / budget.epsilon * math.log(3.0 / failure) * tail
    return budget.times_noise * once


@dataclass(frozen=True)
class PublishedUsca(UscaCalibration):
    """Rows and scale of USCA: Z~ = (1/K) sum over Z of phi phi' + tau I, and 4 B sup sigma^2.

    Z has T K points, K = ceil(T / gamma_T), drawn from what people see; sigma^2 = phi' Z~^-1 phi
    (5), and the exponential mechanism has exp(epsilon mu / (2 m)), m = 2 B sup sigma^2.

    Attributes:
        regulariser: tau.
    """

    name: ClassVar[str] = "published"
    regulariser: Annotated[float, Range(above=0.0)] = 1.0

    def contribution(self, learner: Usca, probabilities: FloatArray) -> ClippedContribution:
        phi, chances, people = learner.pairs, learner.chances(probabilities), learner.horizon
        assert people is not None
        repeats = self.repeats(phi, people)
        counts = drawn_counts(chances, people * repeats, learner.public_seed, _APPROXIMATION)
        covariance = (phi * counts[:, None]).T @ phi / repeats
        turn = _inverse_root(covariance + self.regulariser * np.eye(phi.shape[1]))
        return plain_contribution(turn, phi[chances > 0.0])

    def score_range(self, learner: Usca, contribution: ClippedContribution) -> float:
        variances = ((learner.pairs @ contribution.projection) ** 2).sum(axis=1)
        return 4.0 * BOUND * float(variances.max())

    def repeats(self, phi: FloatArray, people: int) -> int:
        """K."""
        return math.ceil(people / information_gain(phi, people, self.regulariser))


def _inverse_root(matrix: FloatArray) -> FloatArray:
    values, axes = np.linalg.eigh(matrix)
    root: FloatArray = (axes / np.sqrt(values)) @ axes.T
    return root


def _joint(budget: Budget) -> Joint:
    if not isinstance(budget, Joint):
        raise InvalidInput(
            f"budget was {budget!r}; published elimination takes Joint(epsilon, delta)."
        )
    return budget
