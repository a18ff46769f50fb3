"""Designs that are known to be broken, each a small faithful copy of one flaw.

An audit that misses one of them proves nothing about honest code. Each is a function that releases
what its design would, of one of two data sets, and claims what its design promises, or would
promise; `discreet audit known-broken` must catch them all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from discreet.audit.checks import Check, Design
from discreet.audit.mechanisms import values_of, worst_group
from discreet.audit.replay import Claim, Promise
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.accounting import TrustModel
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.privacy.prefix_sums import Independent, PrivateStream
from discreet.validation import FloatArray, IntArray

# What most of them claim, without a delta and with one.
_EPSILON = 1.0
_CLAIM = Claim(_EPSILON, 1e-5)


KNOWN_BROKEN: list[Design] = []


def known_broken(
    name: str,
    trust_model: TrustModel,
    claim: Claim,
    pair: Sequence[tuple[str, Any]],
    about: str,
    shown: str = "the release",
) -> Callable[[Callable[[Any, NoiseSource], Any]], Design]:
    """Registers the function below as the release of a design that does not keep its claim."""

    def design(release: Callable[[Any, NoiseSource], Any]) -> Design:
        KNOWN_BROKEN.append(
            Design(
                name=name,
                kind="known-broken",
                trust_model=trust_model,
                release=release,
                promise=lambda *_: Promise(claim, claim),
                neighbours=[pair],
                about=about,
                shown=shown,
            )
        )
        return KNOWN_BROKEN[-1]

    return design


def known_broken_checks() -> list[Check]:
    """One check for every design, two for Lemma 5."""
    return [*(design.check for design in KNOWN_BROKEN), *_broken_shufflers()]


# Shufflers, of which each does one thing wrong.


def _broken_shufflers() -> Iterator[Check]:
    bit = values_of(SignedSubsetSelection(1, 1, _EPSILON))
    for name, about, flaw in (
        ("order", "reports are passed on in the order in which they came", {"passed_on": tuple}),
        ("one policy", "one person's report is the only one of its policy", {"passed_on": _named}),
        ("group", "a group is passed on before it is whole", {"short": 1}),
        ("twice", "two reports of one person are in a group", {"reports": 2}),
    ):
        exact = partial(worst_group, bit, _EPSILON, **flaw)
        yield Check(f"shuffler, {name}", "known-broken", "shuffled", exact, about)
    exact = partial(worst_group, bit, 0.99 * _EPSILON)
    about = "reports cost more than the group allows"
    yield Check("shuffler, epsilon", "known-broken", "shuffled", exact, about)


def _named(reports: tuple[Hashable, ...]) -> Hashable:
    return reports[0], *sorted(reports[1:], key=repr)


# Noise only from the people in a bin: the published program of LDPMAB (Ma et al. 2025).

_CELLS = 4


@known_broken(
    "own_bin",
    "local",
    Claim(_EPSILON),
    [("a person in the first bin", 0), ("in the second", 1)],
    "the published program of Ma et al. (2025)",
    shown="the report",
)
def own_bin(cell: int, noise: NoiseSource) -> FloatArray:
    """(2C,) U and V of a person in that bin with reward 1.

    The paper's mechanism adds Laplace(4 / epsilon) noise to U and V of *every* active (bin, arm)
    pair, for every person. The authors' program draws noise for the pair that the person is in and
    leaves all others at exactly 0, so a report reveals the person's bin, whatever the noise.
    """
    values = np.zeros(2 * _CELLS)
    values[[cell, _CELLS + cell]] = noise.add_laplace(np.ones(2), 4.0 / _EPSILON)
    return values


# The subspace leak of PO-GP-UCB (Kharkovskii et al. 2020, Algorithm 1).

_ROWS, _COLUMNS, _PROJECTED = 8, 2, 4
_RADIUS = 1.0
# Of the paper's Figure 2a.
COLUMN_SPACE_CLAIM = Claim(math.exp(1.1), 1e-5)


def _tables() -> tuple[FloatArray, FloatArray]:
    """A table (n, d) with norms of at most 25, and its neighbour."""
    normal = np.random.default_rng(1).standard_normal((_ROWS, _COLUMNS))
    rows = normal * 25.0 / np.linalg.norm(normal, axis=1).max()
    moved = rows.copy()
    moved[0, 0] += _RADIUS
    return rows, moved


@known_broken(
    "column_space",
    "outsourced",
    COLUMN_SPACE_CLAIM,
    list(zip(("a table", "one row moved by 1"), _tables(), strict=True)),
    "PO-GP-UCB, Kharkovskii et al. (2020)",
)
def column_space(rows: FloatArray, noise: NoiseSource) -> FloatArray:
    """(n, r) the release of a table (n, d) by Algorithm 1.

    A centred table X (n, d) with singular value decomposition U S V' is released as

        Z = r^(-1/2) U sqrt(S^2 + omega^2 I) V' M,    M (d, r) standard normal.

    Every column of Z lies in the span of U, which moves when one row moves: who knows the table and
    its neighbour tells them apart with certainty, however large omega is. (The other branch of
    Algorithm 1 has no omega and the same span.)
    """
    claim = COLUMN_SPACE_CLAIM
    logs = math.log(2.0 / claim.delta) * math.log(16.0 * _PROJECTED / claim.delta)
    omega = 16.0 * math.sqrt(_PROJECTED) * logs / claim.epsilon
    left, sizes, right = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    lifted = (left * np.hypot(sizes, omega)) @ right
    drawn = noise.add_gaussian(np.zeros((rows.shape[1], _PROJECTED)), 1.0)
    points: FloatArray = lifted @ drawn / math.sqrt(_PROJECTED)
    return points


# The sensitivity of 1 in Lemma 5 of Dubey (2021).

ALPHA, DELTA = 10.0, 0.1
SIGMA_GRAM = math.sqrt(8.0 * math.log(2.5 / DELTA)) / ALPHA
SIGMA_REWARDS = math.sqrt(8.0 * math.log(5.0 / DELTA)) / ALPHA
# phi' psi of the worst two people (see `lemma_5`).
COSINE = -0.5 * (SIGMA_GRAM / SIGMA_REWARDS) ** 2


def features(first: bool, cosine: float) -> FloatArray:
    """(2,) features of length 1 of either person, with that inner product."""
    angle = 0.5 * math.asin(-cosine)
    s, c = math.sin(angle), math.cos(angle)
    return np.array([s, c] if first else [-c, -s])


@known_broken(
    "lemma_5, gram",
    "local",
    Claim(0.5 * ALPHA, 0.5 * DELTA),
    [("a person", features(True, 0.0)), ("one with orthogonal features", features(False, 0.0))],
    "Dubey (2021), Lemma 5, alpha = 10",
    shown="the report",
)
def lemma_5_gram(phi: FloatArray, noise: NoiseSource) -> FloatArray:
    """(m (m + 1)/2,) the upper triangle of phi phi' with noise of sigma_X."""
    return noise.add_gaussian(np.outer(phi, phi)[np.triu_indices(len(phi))], SIGMA_GRAM)


@known_broken(
    "lemma_5, report",
    "local",
    Claim(ALPHA, DELTA),
    [
        ("a person with reward 1", features(True, COSINE)),
        (f"one whose features have the cosine {COSINE:.2f}", features(False, COSINE)),
    ],
    "Dubey (2021), Lemma 5, alpha = 10",
    shown="the report",
)
def lemma_5(phi: FloatArray, noise: NoiseSource) -> FloatArray:
    """(m (m + 3)/2,) both parts of the report of a person with reward 1.

    A person adds Gaussian noise to the upper triangle of phi phi' and to y phi, with

        sigma_X^2 = 8 ln(5 / (2 delta)) / alpha^2,    sigma_u^2 = 8 ln(5 / delta) / alpha^2,

    which would keep (alpha / 2, delta / 2) each if replacing the person moved each part by 1. It
    moves phi phi' by up to sqrt 2. At the paper's delta of 0.1 and alpha = 10 the first part, which
    should keep 5, keeps 7.7 only, and the whole report, which should keep 10, keeps 11.9. At
    alpha = 5 the noise is so generous otherwise that the whole report keeps 3.7: the flaw is there,
    but the claim is not broken. So the design is attacked at alpha = 10.

    The worst two people for the whole report have phi = (s, c) and psi = (-c, -s): the entry off
    the diagonal of phi phi', which has less weight than in the Frobenius norm, is the same, and
    with rewards of 1 y phi moves as well. With q = sigma_X / sigma_u the distance is largest at
    phi' psi = -q^2 / 2.
    """
    rewards = noise.add_gaussian(phi, SIGMA_REWARDS)
    return np.concatenate([lemma_5_gram.release(phi, noise), rewards])


# The classical Gaussian formula beyond its range.


@known_broken(
    "classical_gaussian",
    "joint",
    Claim(10.0, 0.1),
    [("1", 1.0), ("0", 0.0)],
    "sqrt(2 ln(1.25/delta))/epsilon at epsilon = 10",
)
def classical_gaussian(value: float, noise: NoiseSource) -> FloatArray:
    """(1,) a number with sensitivity 1 and noise by the formula.

    sigma = sensitivity sqrt(2 ln(1.25 / delta)) / epsilon (Dwork and Roth 2014, Theorem A.1) is
    proved for epsilon below 1 only. At epsilon = 10 and delta = 0.1 its noise keeps 14.7 (Balle and
    Wang 2018).
    """
    return noise.add_gaussian(np.array([value]), classical_sigma(10.0, 0.1))


def classical_sigma(epsilon: float, delta: float) -> float:
    """The classical formula for sensitivity 1."""
    return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


# Noise that is drawn again after a restart.


@known_broken(
    "restart",
    "joint",
    _CLAIM,
    [("0.5", 0.5), ("-0.5", -0.5)],
    "a release drawn again from an older file",
)
def restart(value: float, noise: NoiseSource) -> None:
    """Release the same row before and after a restart.

    A service saves its stream, releases a sum, and is stopped. It restarts with the file from
    before, does not know that the sum has been released, and releases it again. Each release keeps
    the budget; an observer of both averages the noise away, and a person pays for two.
    """
    multiplier = gaussian_noise_multiplier(_CLAIM.epsilon, _CLAIM.delta)
    stream = PrivateStream(Independent(), 1, 1.0, multiplier, noise)
    saved = json.dumps(stream.to_fields())
    row = np.array([value])
    stream.release(row)
    restored = PrivateStream(Independent(), 1, 1.0, multiplier, noise)
    restored.restore(json.loads(saved))
    restored.release(row)


# A scale taken from the data: noise in proportion to the largest value that is there.


@known_broken(
    "scale_of_data",
    "joint",
    Claim(_EPSILON),
    [
        ("all people have 1", np.ones(20)),
        ("one person has 100", np.concatenate([[100.0], np.ones(19)])),
    ],
    "noise in proportion to the data's maximum",
)
def scale_of_data(values: FloatArray, noise: NoiseSource) -> FloatArray:
    """(1,) the sum of values with Laplace noise of max(values) / epsilon.

    Dividing a table by its largest entry "so that the sensitivity is 1" is the same thing. The
    noise is then a function of the person who has the largest value: without them there is hardly
    any.
    """
    largest = float(np.abs(values).max())
    return noise.add_laplace(np.array([values.sum()]), largest / _EPSILON)


# A bin that sends no report when it is empty.

_BINS = 4


@known_broken(
    "silent_bin",
    "joint",
    Claim(_EPSILON),
    [
        ("a person alone in the first bin", np.array([0, 1, 2, 2, 3])),
        ("in the second", np.array([1, 1, 2, 2, 3])),
    ],
    "empty bins send nothing",
    shown="the counts",
)
def silent_bin(bins: IntArray, noise: NoiseSource) -> FloatArray:
    """(bins,) noisy counts of people in bins (n,), NaN where none is sent.

    Counts of bins get Laplace(2 / epsilon) noise, which is right for replacing a person: two counts
    change by 1. But only bins that are not empty are sent, so a count reveals that a person is in
    its bin, and a person who is alone in a bin is found.
    """
    counts = np.bincount(bins, minlength=_BINS).astype(np.float64)
    noisy = noise.add_laplace(counts, 2.0 / _EPSILON)
    return np.where(counts > 0.0, noisy, np.nan)


# A seed that is used for two releases.

_PEOPLE = 10


@known_broken(
    "reused_seed",
    "joint",
    _CLAIM,
    [("1", 1.0), ("0", 0.0)],
    "two releases from one seed",
    shown="the sums",
)
def reused_seed(value: float, noise: NoiseSource) -> tuple[FloatArray, FloatArray]:
    """(1,) noisy sums of two batches, by a generator for each; one person has that value.

    Sums of two batches of people are released, each with the noise that its own people need. Both
    generators start from the seed in the configuration, so both sums carry the same noise: their
    difference is exact, and an adversary who knows all people but one learns that one.
    """
    others, mine = np.full(_PEOPLE, 0.5), np.full(_PEOPLE, 0.5)
    mine[0] = value
    seed = int(noise.below(2**62, 1)[0])  # as configured
    scale = gaussian_noise_multiplier(_CLAIM.epsilon, _CLAIM.delta)
    first, second = (
        SimulatedNoise(seed).add_gaussian(np.array([values.sum()]), scale)
        for values in (others, mine)
    )
    return first, second
