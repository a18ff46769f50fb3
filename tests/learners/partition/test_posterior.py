"""Masses and beliefs, held against brute force and an independent Gaussian process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

from discreet.learners.partition.policy import NodeSums
from discreet.learners.partition.posterior import (
    CONSTANT_VARIANCE,
    PRIOR_VARIANCE,
    TEMPER,
    VARYING_VARIANCE,
    average,
    box_covariance,
    box_roughness,
    condition,
    exact_information,
    interval_covariance,
    leaf_information,
    likely_length_scales,
    low_rank_root,
    mixing,
    mixture_variance,
    node_masses,
    observations,
    smoothness,
)
from discreet.learners.partition.rules import thompson_probabilities
from discreet.learners.partition.tree import Ranked, Tree
from discreet.learners.sources import Information

from .scene import random_tree, three_leaves


def test_interval_covariance_is_the_average_of_the_kernel() -> None:
    lower, upper = np.array([0.0, 0.25, 0.5]), np.array([0.25, 0.5, 1.0])
    exact = interval_covariance(lower, upper, 0.4)
    kernel = Matern(length_scale=0.4, nu=1.5)
    for i in range(3):
        for j in range(3):
            x = lower[i] + (upper[i] - lower[i]) * (np.arange(400) + 0.5) / 400
            y = lower[j] + (upper[j] - lower[j]) * (np.arange(400) + 0.5) / 400
            assert exact[i, j] == pytest.approx(kernel(x[:, None], y[:, None]).mean(), abs=2e-6)


def test_box_covariance_is_a_product_over_axes() -> None:
    tree = random_tree(6, 3, 2)
    low, high = tree.lower[tree.leaves], tree.upper[tree.leaves]
    scales = np.array([0.2, 0.8, 3.2])
    product = np.prod(
        [interval_covariance(low[:, a], high[:, a], scales[a]) for a in range(3)], axis=0
    )
    covariance = box_covariance(low, high, scales)
    assert np.allclose(covariance, CONSTANT_VARIANCE + VARYING_VARIANCE * product)
    assert np.allclose(box_roughness(low, high, scales), PRIOR_VARIANCE - np.diag(covariance))


@pytest.mark.parametrize("length_scale", [0.2, 3.2])
def test_narrow_boxes_keep_a_real_root(length_scale: float) -> None:
    """The deepest tree that the rules allow, split along one axis and in a corner."""
    tree = Tree.root(2)
    for depth in range(10):
        leaves = tree.leaves if depth < 6 else tree.leaves[-2:]
        tree = tree.split(leaves, np.zeros(len(leaves), dtype=np.int64))
    prior = smoothness(Ranked.plain(tree), (length_scale, length_scale))
    assert np.isfinite(prior.root).all()
    assert (prior.roughness >= 0.0).all()


def dense_posterior(
    prior: np.ndarray, weights: np.ndarray, y: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """The textbook formulas (Rasmussen and Williams 2006, eqs 2.23, 2.24 and 2.30)."""
    gram = weights @ prior @ weights.T + np.diag(noise)
    gain = prior @ weights.T @ np.linalg.inv(gram)
    evidence = -0.5 * y @ np.linalg.solve(gram, y) - 0.5 * np.linalg.slogdet(gram)[1]
    return gain @ y, np.diag(prior - gain @ weights @ prior), float(evidence)


def test_conditioning_agrees_with_the_textbook() -> None:
    rng = np.random.default_rng(3)
    tree = random_tree(7, 2, 4)
    mass = node_masses(tree, NodeSums.zeros(len(tree), 2)).mass
    y, noise = rng.normal(size=(len(tree), 2)), 0.05 + rng.random((len(tree), 2))
    shares = mixing(tree, mass, np.arange(len(tree)))
    scales = [(0.4, 0.8), (0.2, 3.2)]
    evidences = []
    for pair in scales:
        prior = smoothness(Ranked.plain(tree), pair)
        mean, variance, evidence = condition(
            prior, leaf_information(tree, mass, 1.0 / noise, y / noise)
        )
        dense_evidence = 0.0
        for k in range(2):
            covariance = prior.root @ prior.root.T
            exact = dense_posterior(covariance, shares, y[:, k], noise[:, k])
            assert np.allclose(mean[:, k], exact[0], atol=1e-6)
            assert np.allclose(variance[:, k], exact[1], atol=1e-6)
            dense_evidence += exact[2]
        evidences.append((evidence, dense_evidence))
    # The evidence is known up to a constant that all priors share.
    (one, exact_one), (two, exact_two) = evidences
    assert one - two == pytest.approx(exact_one - exact_two, abs=1e-5)


def test_the_average_over_length_scales_keeps_their_disagreement() -> None:
    tree = random_tree(5, 1, 1)
    precision = np.full((len(tree), 2), 3.0)
    mass = node_masses(tree, NodeSums.zeros(len(tree), 2)).mass
    information = leaf_information(tree, mass, precision, np.ones((len(tree), 2)))
    priors = [smoothness(Ranked.plain(tree), (0.2,)), smoothness(Ranked.plain(tree), (3.2,))]
    state, weight = average(priors, information)
    parts = [condition(prior, information) for prior in priors]
    mean = weight[0] * parts[0][0] + weight[1] * parts[1][0]
    second = sum(w * (v + m**2) for w, (m, v, _) in zip(weight, parts, strict=True))
    assert np.allclose(state.mean, mean)
    assert np.allclose(state.variance, second - mean**2)
    assert weight.sum() == pytest.approx(1.0)


def test_a_low_rank_root_leaves_out_little() -> None:
    tree = random_tree(60, 2, 1)
    prior = box_covariance(tree.lower[tree.leaves], tree.upper[tree.leaves], np.array([0.8, 0.4]))
    root = low_rank_root(prior)
    left_out = np.diag(prior - root @ root.T)
    assert root.shape[1] < len(prior)
    assert -1e-12 < left_out.min() <= left_out.max() <= 1e-3 + 1e-12


def test_without_noise_people_before_a_split_count_until_many_came_since() -> None:
    tree = three_leaves()
    mass = np.array([1.0, 0.6, 0.4, 0.3, 0.3])
    for since, kept in [(8.0, True), (60.0, False)]:
        sums = NodeSums.zeros(len(tree), 1)
        sums.offered[:] = np.array([[10.0], [0.0], [since], [since], [since]])
        sums.signed[:] = 0.5 * sums.offered
        information = exact_information(tree, mass, sums)
        people = np.array([10.0 * kept, 0.0, since, since, since])
        shares = mixing(tree, mass, np.arange(5))
        dense = shares.T @ np.diag(people / TEMPER) @ shares
        found = information.precision[0]
        assert np.allclose(found if kept else np.diag(found), dense)
        assert np.allclose(information.weighted[0], 0.5 * people / TEMPER @ shares)
        # Diagonal or not, conditioning gives the same.
        prior = smoothness(Ranked.plain(tree), (0.4, 0.8))
        same = condition(prior, Information(dense[None], information.weighted))
        assert np.allclose(condition(prior, information)[0], same[0])


def test_length_scales_of_columns_that_matter_only_together_are_learnt() -> None:
    """One short length scale shows nothing as long as the other is long."""
    tree = Tree.root(2)
    for axis in (0, 1) * 3:
        tree = tree.split(tree.leaves, np.full(len(tree.leaves), axis))
    centre = 0.5 * (tree.lower + tree.upper)
    cells = np.floor(8.0 * centre).sum(axis=1, keepdims=True) % 2.0
    precision = np.where(tree.axis[:, None] < 0, 400.0, 0.0)
    mass = node_masses(tree, NodeSums.zeros(len(tree), 1)).mass
    information = leaf_information(tree, mass, precision, precision * (2.0 * cells - 1.0))
    scales = likely_length_scales((3.2, 3.2), Ranked.plain(tree), information)
    assert scales[0] == (0.05, 0.05)


def test_length_scales_are_learnt() -> None:
    """A function that changes along the first axis only."""
    tree = Tree.root(2)
    for _ in range(3):
        for axis in range(2):
            tree = tree.split(tree.leaves, np.full(len(tree.leaves), axis))
    centre = 0.5 * (tree.lower + tree.upper)
    y = np.sin(12.0 * centre[:, :1])
    precision = np.where(tree.axis[:, None] < 0, 400.0, 0.0)
    mass = node_masses(tree, NodeSums.zeros(len(tree), 1)).mass
    information = leaf_information(tree, mass, precision, precision * y)
    scales = likely_length_scales((0.8, 0.8), Ranked.plain(tree), information)
    assert scales[0][0] <= 0.4
    assert scales[0][1] == 3.2


def sums_of(tree: Tree, mass: np.ndarray, precision: float) -> NodeSums:
    sums = NodeSums.zeros(len(tree), 2)
    weight = np.full((len(tree), 1), precision)
    return replace(sums, mass_weight=weight, mass_sum=weight * mass[:, None])


def test_masses_follow_the_reports_and_add_up() -> None:
    tree = random_tree(8, 2, 6)
    points = np.random.default_rng(0).beta(2, 5, (200_000, 2))
    inside = (points[:, None] >= tree.lower) & (points[:, None] <= tree.upper)
    true = inside.all(axis=-1).mean(axis=0)
    estimate = node_masses(tree, sums_of(tree, true, 1e7))
    assert np.allclose(estimate.mass, true, atol=2e-3)
    inner = np.flatnonzero(tree.axis >= 0)
    left = tree.left[inner]
    assert np.allclose(estimate.mass[inner], estimate.mass[left] + estimate.mass[left + 1])
    ignorant = node_masses(tree, sums_of(tree, true, 0.0))
    assert np.allclose(ignorant.mass, 2.0 ** -tree.depth.astype(float))
    assert (ignorant.deviation[1:] > estimate.deviation[1:]).all()


def test_masses_of_nodes_that_were_never_reported_on_come_from_their_halves() -> None:
    """A tree may begin with several leaves: then only these tell where people are."""
    tree = random_tree(6, 3, 2)
    shares = np.random.default_rng(4).dirichlet(np.full(len(tree.leaves), 30.0))
    true = tree.within @ shares
    sums = sums_of(tree, true, 1e8)
    leaf = (tree.axis < 0)[:, None]
    sums = replace(sums, mass_weight=sums.mass_weight * leaf, mass_sum=sums.mass_sum * leaf)
    masses = node_masses(tree, sums)
    assert np.allclose(masses.mass, true, atol=2e-3)
    assert masses.deviation.max() < 2e-3


def test_mass_deviations_are_those_of_the_estimator() -> None:
    """Over many draws of noisy sums with shares from the prior, z-scores have deviation one."""
    rng = np.random.default_rng(1)
    tree = Tree.root(1)
    for _ in range(2):
        tree = tree.split(tree.leaves, np.zeros(len(tree.leaves), dtype=np.int64))
    scores = []
    for _ in range(2000):
        mass = np.ones(len(tree))
        for parent in np.flatnonzero(tree.axis >= 0):
            share = np.clip(rng.normal(0.5, 0.25), 0.1, 0.9)
            mass[tree.left[parent]] = share * mass[parent]
            mass[tree.left[parent] + 1] = (1 - share) * mass[parent]
        sums = sums_of(tree, mass + rng.normal(0, 0.05, len(tree)), 400.0)
        found = node_masses(tree, sums)
        scores.append((found.mass - mass)[1:] / found.deviation[1:])
    assert np.std(scores) == pytest.approx(1.0, abs=0.12)


def test_wrong_shares_are_allowed_for() -> None:
    """The average of a split node differs from the believed mixture by less than is allowed."""
    tree = Tree.root(1).split(np.array([0]), np.array([0]))
    spread = node_masses(tree, sums_of(tree, np.array([1.0, 0.5, 0.5]), 0.0))
    roughness = np.array([0.2, 0.1, 0.1])
    variance = mixture_variance(tree, spread, roughness)
    # Share 1/2 +- 1/4 times a difference of halves whose square is 4 x 0.2.
    assert variance[0] == pytest.approx(0.25**2 * 0.8)
    assert variance[1:].tolist() == [0.0, 0.0]


def test_reports_are_weighed_by_what_they_say() -> None:
    tree = Tree.root(1)

    def seen(y: float, people: float, noise: float) -> list[float]:
        sums, offered = NodeSums.zeros(1, 2), np.full((1, 2), people)
        sums = replace(
            sums,
            offered=offered,
            signed=offered * y,
            noise_other=offered * noise,
            noise_own=offered * noise,
        )
        parts = observations(tree, sums, node_masses(tree, sums), np.zeros(1))
        return [float(part[0, 0]) * TEMPER for part in parts]

    assert seen(0.5, 10_000.0, 5.0) == pytest.approx([2000.0, 0.5 * 2000.0])
    assert seen(-0.5, 100.0, 50.0) == pytest.approx([2.0, -0.5 * 2.0])


def test_thompson_probabilities_match_draws() -> None:
    rng = np.random.default_rng(2)
    mean, deviation = rng.normal(size=(5, 4)), 0.3 + rng.random((5, 4))
    active = np.ones((5, 4), dtype=bool)
    active[0, 1] = active[3, [0, 2]] = False
    exact = thompson_probabilities(mean, deviation, active)
    draws = mean + deviation * rng.normal(size=(200_000, 5, 4))
    best = np.where(active, draws, -np.inf).argmax(axis=2)
    for leaf in range(5):
        seen = np.bincount(best[:, leaf], minlength=4) / len(best)
        assert np.allclose(exact[leaf], seen, atol=5e-3)
    assert (exact[~active] == 0.0).all()
    assert np.allclose(exact.sum(axis=1), 1.0)
