"""CellFrequencies and beliefs, held against brute force and an independent Gaussian process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

from discreet.learners.partition.policy import NodeSums
from discreet.learners.partition.posterior import (
    CONSTANT_VARIANCE,
    PRIOR_VARIANCE,
    SHARED_VARIANCE,
    TEMPER,
    VARYING_VARIANCE,
    AveragedPosterior,
    LeafPosterior,
    NodeInformation,
    box_covariance,
    box_within_variance,
    gp_prior,
    interval_covariance,
    low_rank_root,
    mixing,
    mixture_variance,
    node_masses,
    observations,
)
from discreet.learners.partition.rules import likely_length_scales, thompson_probabilities
from discreet.learners.partition.tree import Ranked, Tree, overlaps

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
    scales = (0.2, 0.8, 3.2)
    product = np.prod(
        [interval_covariance(low[:, a], high[:, a], scales[a]) for a in range(3)], axis=0
    )
    covariance = box_covariance(Ranked.plain(tree), scales)
    assert np.allclose(covariance, CONSTANT_VARIANCE + VARYING_VARIANCE * product)
    assert np.allclose(
        box_within_variance(low, high, np.array(scales)), PRIOR_VARIANCE - np.diag(covariance)
    )


@pytest.mark.parametrize("length_scale", [0.2, 3.2])
def test_narrow_boxes_keep_a_real_root(length_scale: float) -> None:
    """The deepest tree that the rules allow, split along one axis and in a corner."""
    tree = Tree.root(2)
    for depth in range(10):
        leaves = tree.leaves if depth < 6 else tree.leaves[-2:]
        tree = tree.split(leaves, np.zeros(len(leaves), dtype=np.int64))
    prior = gp_prior(Ranked.plain(tree), (length_scale, length_scale))
    assert np.isfinite(prior.root).all()
    assert (prior.within_cell_variance >= 0.0).all()


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
        prior = gp_prior(Ranked.plain(tree), pair)
        found = LeafPosterior.of(prior, NodeInformation.of(tree, mass, 1.0 / noise, y / noise))
        # Both arms at once: they share a level.
        covariance = np.kron(np.eye(2), prior.root @ prior.root.T) + SHARED_VARIANCE
        exact = dense_posterior(
            covariance, np.kron(np.eye(2), shares), y.T.ravel(), noise.T.ravel()
        )
        assert np.allclose(found.mean.T.ravel(), exact[0], atol=1e-6)
        assert np.allclose(found.variances.T.ravel(), exact[1], atol=1e-6)
        evidences.append((found.log_evidence, exact[2]))
    # The evidence is known up to a constant that all priors share.
    (one, exact_one), (two, exact_two) = evidences
    assert one - two == pytest.approx(exact_one - exact_two, abs=1e-5)


def test_the_average_over_length_scales_keeps_their_disagreement() -> None:
    tree = random_tree(5, 1, 1)
    precision = np.full((len(tree), 2), 3.0)
    mass = node_masses(tree, NodeSums.zeros(len(tree), 2)).mass
    information = NodeInformation.of(tree, mass, precision, np.ones((len(tree), 2)))
    priors = [gp_prior(Ranked.plain(tree), (0.2,)), gp_prior(Ranked.plain(tree), (3.2,))]
    state = AveragedPosterior.of(priors, information)
    weight, parts = state.weights, state.parts
    mean = weight[0] * parts[0].mean + weight[1] * parts[1].mean
    pairs = zip(weight, parts, strict=True)
    second = sum(w * (part.variances + part.mean**2) for w, part in pairs)
    assert np.allclose(state.mean, mean)
    assert np.allclose(state.variance, second - mean**2)
    assert weight.sum() == pytest.approx(1.0)


def test_masses_of_the_same_boxes_of_an_earlier_tree_count() -> None:
    old, new = random_tree(9, 2, 0), three_leaves()
    rng = np.random.default_rng(1)
    theirs, ours = (NodeSums.zeros(len(tree), 2) for tree in (old, new))
    for sums in (theirs, ours):
        sums.mass_weight[:] = 100.0 + rng.random(sums.mass_weight.shape)
        sums.mass_sum[:] = 30.0 * rng.random(sums.mass_sum.shape)
    both = ours + NodeSums.zeros(len(new), 2)
    for i in range(len(old)):
        for j in range(len(new)):
            corners = [np.hstack([t.lower[n], t.upper[n]]) for t, n in ((old, i), (new, j))]
            if np.array_equal(*corners):
                both.mass_weight[j] += theirs.mass_weight[i]
                both.mass_sum[j] += theirs.mass_sum[i]
    assert (both.mass_weight[1:] > ours.mass_weight[1:]).any()
    expected = node_masses(new, both)
    assert np.array_equal(node_masses(new, ours, [(old, theirs)]).mass, expected.mass)


def test_a_low_rank_root_leaves_out_little() -> None:
    tree = random_tree(60, 2, 1)
    prior = box_covariance(Ranked.plain(tree), (0.8, 0.4))
    root = low_rank_root(prior)
    left_out = np.diag(prior - root @ root.T)
    assert root.shape[1] < len(prior)
    assert -1e-12 < left_out.min() <= left_out.max() <= 1e-3 + 1e-12


def test_reports_on_nodes_say_of_leaves_what_their_mixtures_say() -> None:
    """Whether the arrays (K, L, L) are made or not; also of people who came before a split."""
    tree = three_leaves()
    mass = np.array([1.0, 0.6, 0.4, 0.3, 0.3])
    sums = NodeSums.zeros(len(tree), 2)
    sums.offered[:] = np.array([[10.0, 3.0], [0.0, 0.0], [60.0, 0.0], [50.0, 2.0], [90.0, 0.0]])
    sums.signed[:] = 0.5 * sums.offered
    nowhere = np.zeros(len(tree))
    seen = observations(tree, sums, node_masses(tree, sums), nowhere, exact=True)
    information = NodeInformation.of(tree, mass, *seen)
    assert information.shares.shape == (4, 3)  # nobody reported on node 1
    shares = mixing(tree, mass, np.arange(5))
    leaves = information.dense()
    for arm in range(2):
        people = sums.offered[:, arm] / TEMPER
        assert np.allclose(leaves.precision[arm], shares.T @ np.diag(people) @ shares)
        assert np.allclose(leaves.weighted[arm], 0.5 * people @ shares)
    prior = gp_prior(Ranked.plain(tree), (0.4, 0.8))
    mine, theirs = LeafPosterior.of(prior, information), LeafPosterior.of(prior, leaves)
    for name in ("mean", "variances", "log_evidence"):
        assert np.allclose(getattr(mine, name), getattr(theirs, name))
    twice = LeafPosterior.of(prior, information + information).mean
    assert np.allclose(twice, LeafPosterior.of(prior, leaves + information.dense()).mean)
    assert np.allclose(twice, LeafPosterior.of(prior, information.scaled(2.0)).mean)


def test_reports_on_an_old_tree_have_the_error_of_its_boxes_besides() -> None:
    """Against the information of observations S f + e + noise, written out."""
    old = Ranked.plain(three_leaves())
    new = Ranked.plain(Tree.root(2).split(np.array([0]), np.array([1])))
    precision = np.zeros((5, 2))
    precision[old.tree.leaves] = [[3.0, 0.5], [5.0, 1.0], [2.0, 4.0]]
    within_cell_variance = np.array([0.2, 0.1])
    nodes = NodeInformation.elsewhere(
        precision, 0.7 * precision, old, new, within_cell_variance
    ).dense()
    shares, coverage = (part[old.tree.leaves] for part in overlaps(old, new))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(coverage.sum(axis=0), 1.0)
    aggregation_variance = np.maximum(
        (within_cell_variance * shares**2 * (1.0 - coverage)).sum(axis=1), 1e-9
    )
    for arm, reported in enumerate(precision[old.tree.leaves].T):
        inverse = np.diag(1.0 / (1.0 / reported + aggregation_variance))
        np.testing.assert_allclose(nodes.precision[arm], shares.T @ inverse @ shares, rtol=1e-9)
        seen = inverse @ np.full(3, 0.7)
        np.testing.assert_allclose(nodes.weighted[arm], shares.T @ seen, rtol=1e-9)


def test_length_scales_of_columns_that_matter_only_together_are_learnt() -> None:
    """One short length scale shows nothing as long as the other is long."""
    tree = Tree.root(2)
    for axis in (0, 1) * 3:
        tree = tree.split(tree.leaves, np.full(len(tree.leaves), axis))
    centre = 0.5 * (tree.lower + tree.upper)
    cells = np.floor(8.0 * centre).sum(axis=1, keepdims=True) % 2.0
    precision = np.where(tree.axis[:, None] < 0, 400.0, 0.0)
    mass = node_masses(tree, NodeSums.zeros(len(tree), 1)).mass
    information = NodeInformation.of(tree, mass, precision, precision * (2.0 * cells - 1.0))
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
    information = NodeInformation.of(tree, mass, precision, precision * y)
    scales = likely_length_scales((0.8, 0.8), Ranked.plain(tree), information)
    assert scales[0][0] <= 0.4
    assert scales[0][1] == 3.2


def test_columns_that_were_never_cut_have_one_length_scale() -> None:
    """Twenty columns, one of them cut: nothing is learnt of the others but together."""
    tree = Tree.root(20).split(np.array([0]), np.array([3]))
    mass = np.array([1.0, 0.5, 0.5])
    y = np.array([[0.0], [0.9], [-0.9]])
    precision = np.array([[0.0], [900.0], [900.0]])
    information = NodeInformation.of(tree, mass, precision, precision * y)
    for scales in likely_length_scales((0.8,) * 20, Ranked.plain(tree), information):
        assert len({length for axis, length in enumerate(scales) if axis != 3}) == 1
    uncut = Ranked.plain(Tree.root(2))
    assert likely_length_scales((0.8, 0.4), uncut, information) == ((0.8, 0.4),)


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
    within_cell_variance = np.array([0.2, 0.1, 0.1])
    variance = mixture_variance(tree, spread, within_cell_variance)
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


def test_an_arm_that_is_known_far_better_than_its_rivals_is_offered_as_it_should_be() -> None:
    mean, deviation = np.array([[0.5, 0.45, 0.5]]), np.array([[1e-3, 0.4, 0.4]])
    draws = mean + deviation * np.random.default_rng(5).normal(size=(200_000, 3))
    best = np.bincount(draws.argmax(axis=1)) / len(draws)
    offers = thompson_probabilities(mean, deviation, np.ones((1, 3), dtype=bool))
    assert np.allclose(offers[0], best, atol=0.02)
    certain = thompson_probabilities(mean, 0.0 * deviation, np.ones((1, 3), dtype=bool))
    assert np.isfinite(certain).all()
