"""Reports are linear measurements without bias, and what they add up to is exact."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

from discreet.codec import decode, encode
from discreet.lab.environments.synthetic import ExponentialMeans
from discreet.learners.kernel.design import KernelStatistics, Measurements
from discreet.learners.kernel.features import DensityBins
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.kernel.policy import KernelPolicy, arms_of_all
from discreet.learners.messages import Observations
from discreet.learners.signs import SignedReports
from discreet.people.domain import Box, unit_cube
from discreet.privacy import Local, NonPrivate, SimulatedNoise, Unprotected
from discreet.validation import FloatArray, InvalidInput

from .scene import SQUARE, all_contexts, midpoints, random_policy, reported

# Features of the functions that people are given, and of those that say what rewards are.
USED, WITHIN = tuple(range(24)), 20
VERSIONS = 25
Means = Callable[[FloatArray], FloatArray]


def beta_density() -> FloatArray:
    """The Beta(2, 5) x uniform law as a histogram over the bins of the square."""
    rows, columns = DensityBins((None, None)).shape
    share = np.diff(beta.cdf(np.linspace(0.0, 1.0, rows + 1), 2, 5))
    return np.repeat(share * rows, columns) + 1e-3


def spread(density: FloatArray, people: int, rng: np.random.Generator) -> FloatArray:
    """Contexts from that histogram."""
    shape = DensityBins((None, None)).shape
    places = rng.choice(len(density), size=people, p=density / density.sum())
    corner = np.stack(np.unravel_index(places, shape), axis=1)
    contexts: FloatArray = (corner + rng.random((people, 2))) / shape
    return contexts


def true_theta(policy: KernelPolicy) -> FloatArray:
    """(K, M) coefficients of a function within the span, with values in [-1, 1]."""
    theta = np.zeros((policy.arms, len(policy.features)))
    theta[:, :WITHIN] = np.random.default_rng(9).standard_normal((policy.arms, WITHIN))
    values = policy.features(midpoints(60, 2)) @ theta.T
    scaled: FloatArray = theta * (0.98 / np.abs(values).max())
    return scaled


def within_span(policy: KernelPolicy) -> Means:
    theta = true_theta(policy)[:, :WITHIN]
    first = np.arange(WITHIN)

    def means(contexts: FloatArray) -> FloatArray:
        values: FloatArray = 0.5 * (1.0 + policy.features(contexts, first) @ theta.T)
        return values.clip(0.0, 1.0)

    return means


def exact_means(policy: KernelPolicy, means: Means) -> FloatArray:
    """(F, C, G) of E[t 1(cell = j)] = (p - b) integral over C_j of kappa g (2 f_A - 1), by brute
    force on a fine grid, with the p and b of the specification."""
    points = midpoints(240, 2)
    weight = policy.density[DensityBins((None, None)).of(points)]
    weight = weight / weight.sum()
    phi = policy.features(points, policy.used)
    value = 2.0 * means(points) - 1.0
    cells = policy.cells.locate_all(points)
    count = policy.cells.count
    contrast = (math.exp(policy.epsilon) - 1.0) / (math.exp(policy.epsilon) + 2 * count - 1)
    rows = np.arange(len(points))
    found = []
    for theta, delta in zip(policy.values, policy.directions, strict=True):
        arm = (phi @ theta.T.astype(float)).argmax(axis=1)
        sign = np.where((phi @ delta.T.astype(float))[rows, arm] >= 0.0, 1.0, -1.0)
        integrand = contrast * weight * sign * value[rows, arm]
        found.append([np.bincount(row, integrand, minlength=count) for row in cells])
    return np.array(found)


def predicted(policy: KernelPolicy, theta: FloatArray) -> FloatArray:
    """(F, C, G) of P_j a_j' theta, as the learner sees it."""
    measured = Measurements(policy)
    functions, partitions, count = len(policy.values), len(policy.cells.axis), policy.cells.count
    index = np.indices((functions, partitions, count)).reshape(3, -1)
    vectors = measured.vectors(*index)
    shown = measured.shown[index[1], index[2]]
    expected: FloatArray = shown * (vectors @ theta.ravel())
    return expected.reshape(functions, partitions, count)


def simulated(
    policy: KernelPolicy, means: Means, people: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """(F, C, G) averages of t 1(cell = j) over people, and their standard errors."""
    rng = np.random.default_rng(seed)
    contexts = spread(policy.density, people, rng)
    actions, _ = policy.act(contexts, rng)
    # A reward between its bounds is rounded to a sign, so means may stand for rewards.
    rewards = means(contexts)[np.arange(people), actions.arms]
    reports = reported(policy, contexts, actions, rewards, SimulatedNoise(1000 + seed))
    function, partition = policy.picked(actions.public_coins)
    shape = (len(policy.values), len(policy.cells.axis), policy.cells.count)
    place = np.ravel_multi_index((function, partition, reports.places[:, 0]), shape)
    asked = np.bincount(function * shape[1] + partition, minlength=shape[0] * shape[1])
    number = asked.reshape(*shape[:2], 1)
    size = math.prod(shape)
    mean = np.bincount(place, reports.signs[:, 0], minlength=size).reshape(shape) / number
    square = np.bincount(place, minlength=size).reshape(shape) / number
    error: FloatArray = np.sqrt((square - mean**2) / number)
    return mean, error


@pytest.mark.parametrize(
    ("count", "epsilon", "law"),
    [
        *((1, 1.0, "uniform"), (2, 4.0, "uniform"), (6, 1.0, "uniform")),
        *((2, 1.0, "beta"), (6, 1.0, "beta"), (6, 4.0, "beta")),
    ],
)
def test_reports_measure_theta_without_bias(count: int, epsilon: float, law: str) -> None:
    """The average of t 1(cell = j) over people is P_j a_j' theta, up to its standard error."""
    density = beta_density() if law == "beta" else None
    policy = random_policy(
        SQUARE, 3, epsilon, count, functions=2, partitions=2, used=USED, density=density
    )
    means = within_span(policy)
    exact = exact_means(policy, means)
    mean, error = simulated(policy, means, 40_000, 1)
    z = (mean - exact) / error
    assert np.abs(z).max() < 4.0
    assert (z**2).mean() < 1.0 + 4.0 * math.sqrt(2.0 / z.size)
    # The learner integrates over fewer points, which move with the version of the policy.
    theta = true_theta(policy)
    versions = np.array([predicted(replace(policy, version=v), theta) for v in range(VERSIONS)])
    half_life = (versions.mean(axis=0) - exact) / (versions.std(axis=0) / math.sqrt(VERSIONS))
    assert np.abs(half_life).max() < 4.5
    # One version alone is off by this much, beside a range of (p - b) / G either way.
    assert (versions - exact).std() < 0.006


@pytest.mark.parametrize(("count", "epsilon"), [(1, 1.0), (2, 4.0), (6, 4.0)])
def test_functions_outside_the_span_are_measured_nearly_without_bias(
    count: int, epsilon: float
) -> None:
    """The exponential problem: theta is its projection on the features."""
    policy = random_policy(SQUARE, 3, epsilon, count, functions=2, partitions=2, used=USED)
    means = ExponentialMeans(3)
    points = midpoints(96, 2)
    phi = policy.features(points)
    theta = (phi.T @ (2.0 * means(points) - 1.0) / len(points)).T
    mean, error = simulated(policy, means, 40_000, 2)
    guess = np.mean(
        [predicted(replace(policy, version=version), theta) for version in range(VERSIONS)], axis=0
    )
    assert np.abs((mean - exact_means(policy, means)) / error).max() < 4.0
    assert (np.abs(mean - guess) < 4.0 * error + 0.004).all()


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_cells_are_reported_as_often_as_predicted(epsilon: float) -> None:
    policy = random_policy(
        SQUARE, 3, epsilon, 6, functions=1, partitions=1, used=USED, density=beta_density()
    )
    rng = np.random.default_rng(3)
    contexts = spread(policy.density, 40_000, rng)
    actions, _ = policy.act(contexts, rng)
    reports = reported(policy, contexts, actions, np.ones(40_000), SimulatedNoise(1003))
    seen = np.bincount(reports.places[:, 0], minlength=6) / 40_000
    shown = np.mean(
        [Measurements(replace(policy, version=v)).shown[0] for v in range(VERSIONS)], axis=0
    )
    assert shown.sum() == pytest.approx(1.0)
    assert np.abs(seen - shown).max() < 4.0 * math.sqrt(0.25 / 40_000) + 0.002


def test_levels_are_measured_without_any_error() -> None:
    """With columns of 3 and 2 levels, over all six kinds of people, given enough points."""
    domain = Box((0.0, 0.0), (1.0, 1.0), levels=(3, 2))
    policy = random_policy(domain, 2, 2.0, 3, functions=3, partitions=2)
    contexts = all_contexts(domain)
    phi = policy.features(contexts)
    theta = np.random.default_rng(4).standard_normal((2, len(policy.features))) / 8.0
    value = phi @ theta.T
    placed = np.stack([policy.features.place(contexts[:, a], a) for a in range(2)], axis=1)
    cells = policy.cells.locate_all(placed)
    contrast = math.expm1(2.0) / (math.exp(2.0) + 5.0)
    arms = arms_of_all(policy.values, phi)
    signs = policy.signs_of_all(phi, arms)
    own = np.take_along_axis(value, arms, axis=1) * signs * contrast / 6.0
    exact = [
        [np.bincount(row, own[:, function], minlength=3) for row in cells] for function in range(3)
    ]
    versions = [predicted(replace(policy, version=v), theta) for v in range(20)]
    assert np.allclose(np.mean(versions, axis=0), exact, atol=1.5e-3)


def people_of(policy: KernelPolicy, people: int, seed: int) -> SignedReports:
    rng = np.random.default_rng(seed)
    contexts = policy.domain.from_unit(rng.random((people, policy.domain.dimension)))
    actions, _ = policy.act(contexts, rng)
    return reported(policy, contexts, actions, rng.random(people), SimulatedNoise(1000 + seed))


def part(reports: SignedReports, rows: np.ndarray) -> SignedReports:
    arrays = {name: getattr(reports, name)[rows] for name in ("public_coins", "places", "signs")}
    return replace(reports, **arrays)


def brute_force(policy: KernelPolicy, reports: SignedReports) -> tuple[FloatArray, FloatArray]:
    """J and b, one report after the other."""
    measured = Measurements(policy)
    function, partition = policy.picked(reports.public_coins)
    size = policy.arms * len(policy.features)
    precision, weighted = np.zeros((size, size)), np.zeros(size)
    for i in range(len(reports)):
        a = measured.vectors(function[[i]], partition[[i]], reports.places[i])[0]
        precision += np.outer(a, a)
        weighted += a * reports.signs[i, 0]
    return precision, weighted


@pytest.mark.parametrize(("dimension", "count"), [(2, 1), (6, 4)])
def test_sums_are_exact_in_any_order_and_anywhere(dimension: int, count: int) -> None:
    """Bit for bit: as one batch, one by one, and from servers that send each other JSON."""
    policy = random_policy(unit_cube(dimension), 3, 4.0, count, used=USED[:12])
    reports = people_of(policy, 400, 5)
    measured = Measurements(policy)
    whole = measured.statistics(reports)
    precision, weighted = brute_force(policy, part(reports, np.arange(30)))
    first = measured.statistics(part(reports, np.arange(30)))
    assert np.array_equal(first.precision, precision)
    assert np.array_equal(first.weighted, weighted)
    rng = np.random.default_rng(6)
    for servers in (2, 5):
        where = rng.integers(servers, size=400)
        texts = []
        for server in rng.permutation(servers):
            rows = rng.permutation(np.flatnonzero(where == server))
            # Another server has only the JSON of the policy.
            elsewhere = Measurements(decode(encode(policy), KernelPolicy))
            texts.append(encode(elsewhere.statistics(part(reports, rows))))
        parts = [decode(text, KernelStatistics) for text in texts]
        total = parts[0]
        for one in parts[1:]:
            total = total + one
        assert np.array_equal(total.precision, whole.precision)
        assert np.array_equal(total.weighted, whole.weighted)
        assert np.allclose(total.located, whole.located, rtol=1e-12)
        assert (total.reports, total.placed) == (whole.reports, whole.placed)
    assert whole.placed == (400 if count > 1 else 0)
    assert np.array_equal(whole.precision, whole.precision.T)


def test_portions_do_not_change_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = random_policy(SQUARE, 3, 4.0, 6)
    reports = people_of(policy, 200, 7)
    whole = encode(Measurements(policy).statistics(reports))
    monkeypatch.setattr("discreet.learners.kernel.policy._NUMBERS_AT_ONCE", 50)
    assert encode(Measurements(policy).statistics(reports)) == whole


def test_people_with_the_same_answer_count_as_often_as_they_are() -> None:
    policy = random_policy(SQUARE, 2, 4.0, 3)
    reports = people_of(policy, 1, 8)
    many = part(reports, np.zeros(7, dtype=np.int64))
    many = replace(many, public_coins=many.public_coins.copy())
    one, seven = (Measurements(policy).statistics(r) for r in (reports, many))
    assert np.array_equal(seven.precision, 7.0 * one.precision)
    assert np.array_equal(seven.weighted, 7.0 * one.weighted)


def test_vectors_of_cells_add_up_to_the_vector_of_the_domain() -> None:
    """(P_j a_j) / (p - b) summed over cells is the integral over everything."""
    whole = random_policy(SQUARE, 3, 3.0, 1)
    split = replace(whole, cells=random_policy(SQUARE, 3, 3.0, 6).cells)
    one, parts = Measurements(whole), Measurements(split)
    zeros = np.zeros(6, dtype=np.int64)
    vector = one.vectors(zeros[:1], zeros[:1], zeros[:1])[0] / whole.mechanism.contrast
    vectors = parts.vectors(zeros, zeros, np.arange(6))
    summed = (parts.shown[0][:, None] * vectors).sum(axis=0) / split.mechanism.contrast
    assert np.allclose(summed, vector, atol=2e-3)
    assert one.shown == pytest.approx(1.0)


def test_late_reports_are_read_with_the_policy_that_made_them() -> None:
    """A public coin picks other functions, and cells mean something else, under the next policy."""
    learner = LocalKernel(SQUARE, 3, Local(4.0), public_seed=3)
    first = learner.policy()
    for seed in range(7):
        learner.update(people_of(learner.policy(), 60, seed))
    new = learner.policy()
    assert new.version >= 5
    late = people_of(first, 80, 99)
    found = learner.statistics(late)
    expected = Measurements(first).statistics(late)
    assert np.array_equal(found.precision, expected.precision)
    assert np.array_equal(found.weighted, expected.weighted)
    places = np.minimum(late.places, new.cells.count - 1)
    wrong = Measurements(new).statistics(replace(late, policy_version=new.version, places=places))
    assert not np.allclose(wrong.precision, found.precision, atol=0.1)
    before = learner._sums
    learner.update(late)
    assert np.array_equal(learner._sums.precision, before.precision + expected.precision)
    assert np.array_equal(learner._sums.weighted, before.weighted + expected.weighted)


class TestForgedStatistics:
    def test_of_other_learners_do_not_add(self) -> None:
        one, two = (
            Measurements(policy).statistics(people_of(policy, 5, 1))
            for policy in (random_policy(SQUARE, 2), random_policy(SQUARE, 3))
        )
        with pytest.raises(InvalidInput, match="different learners"):
            one + two

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"precision": [[1.0]]}, "weighted had shape"),
            ({"precision": [1.0]}, "shape"),
            ({"weighted": "much"}, "weighted"),
            ({"located": [math.nan]}, "NaN"),
            ({"located": [-1.0]}, "located"),
            ({"placed": -1}, "placed"),
            ({"placed": 0.5}, "placed"),
            ({"reports": -1}, "reports"),
            ({"noise": ["loud"]}, "noise"),
        ],
    )
    def test_are_refused_when_read(self, change: dict[str, object], message: str) -> None:
        policy = random_policy(THIN, 2)
        fields = json.loads(encode(Measurements(policy).statistics(people_of(policy, 5, 1))))
        decode(json.dumps(fields), KernelStatistics)
        with pytest.raises(InvalidInput, match=message):
            decode(json.dumps({**fields, **change}), KernelStatistics)

    def test_are_refused_by_the_learner(self) -> None:
        learner = LocalKernel(THIN, 2, Local(1.0))
        good = learner.statistics(people_of(learner.policy(), 5, 1))
        size = len(good.weighted)
        for bad in (
            replace(good, precision=good.precision - 10.0 * np.eye(size)),
            replace(good, precision=good.precision + 1e9 * np.eye(size)),
            replace(good, precision=good.precision + np.eye(size)[::-1]),  # symmetric, but negative
            replace(good, precision=good.precision + np.eye(size, k=1)),
            replace(good, weighted=good.weighted + 1e9),
            replace(good, located=np.ones(3)),
            replace(good, placed=good.reports + 1),
            replace(good, precision=np.eye(size + 1), weighted=np.ones(size + 1)),
        ):
            with pytest.raises(InvalidInput, match="statistics"):
                learner.merge(bad)
        assert learner.people == 0
        learner.merge(good)
        assert learner.people == 5


THIN = unit_cube(1)


class TestOpenReports:
    """What happened as it was, for a reference without privacy."""

    DOMAIN = Box((0.0, 0.0), (1.0, 1.0), levels=(None, 3))

    def observed(self, people: int) -> tuple[LocalKernel, Observations]:
        learner = LocalKernel(self.DOMAIN, 3, NonPrivate(), public_seed=2)
        rng = np.random.default_rng(0)
        contexts = np.column_stack([rng.random(people), rng.integers(3, size=people) / 2])
        policy = learner.policy()
        actions, _ = policy.act(contexts, rng)
        reports = policy.report(contexts, actions, rng.random(people), Unprotected())
        assert isinstance(reports, Observations)
        return learner, reports

    def test_sums_are_those_of_rows_of_features(self) -> None:
        learner, reports = self.observed(40)
        sums = learner.statistics(reports)
        size = len(learner.features)
        phi = learner.features(reports.contexts)
        rows = np.zeros((40, 3 * size))
        for person, arm in enumerate(reports.arms):
            rows[person, arm * size : (arm + 1) * size] = phi[person]
        shown = 2.0 * reports.rewards - 1.0
        assert np.allclose(sums.precision, rows.T @ rows, atol=0.05)
        assert np.allclose(sums.weighted, shown @ rows, atol=0.05)
        assert sums.squares == pytest.approx(shown @ shown, abs=0.01)
        columns = DensityBins(self.DOMAIN.levels).shape
        bins = np.zeros(columns)
        places = (np.minimum(reports.contexts[:, 0] * columns[0], columns[0] - 1)).astype(int)
        np.add.at(bins, (places, np.round(2 * reports.contexts[:, 1]).astype(int)), 1.0)
        assert np.array_equal(sums.located.reshape(columns), bins)

    def test_sums_are_exact_in_any_order(self) -> None:
        learner, reports = self.observed(60)
        parts = [
            replace(
                reports,
                contexts=reports.contexts[part],
                arms=reports.arms[part],
                rewards=reports.rewards[part],
            )
            for part in (slice(40, 60), slice(7), slice(7, 40))
        ]
        whole, added = learner.statistics(reports), learner.statistics(parts)
        assert np.array_equal(whole.precision, added.precision)
        assert np.array_equal(whole.weighted, added.weighted)
        assert whole.squares == added.squares

    def test_sums_beyond_what_rewards_give_are_refused(self) -> None:
        learner, reports = self.observed(10)
        with pytest.raises(InvalidInput, match="add up to"):
            learner.merge(replace(learner.statistics(reports), squares=10.5))
