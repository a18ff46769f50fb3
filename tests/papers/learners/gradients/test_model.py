"""Models of an arm: their gradients against finite differences, and the bound on their length."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.special import expit

from discreet.codec import from_json, to_json
from discreet.papers.ma2025.learners.gradients.models import LinearModel, Model, NetworkModel
from discreet.validation import InvalidInput

MODELS: dict[str, Model] = {
    "linear, d = 1": LinearModel(1),
    "linear, d = 3": LinearModel(3),
    "network, d = 1": NetworkModel(1, 1),
    "network, d = 3": NetworkModel(3, 4),
}
ARMS = 3


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def model(request: pytest.FixtureRequest) -> Model:
    return request.param


def drawn(
    model: Model, people: int, seed: int, size: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Parameters, contexts, arms and rewards."""
    rng = np.random.default_rng(seed)
    parameters = rng.normal(0.0, size, (ARMS, model.size))
    return (
        parameters,
        rng.random((people, model.dimension)),
        rng.integers(ARMS, size=people),
        rng.random(people),
    )


def logit(model: Model, unit: np.ndarray, arm: int, parameters: np.ndarray) -> float:
    """m of one person and arm."""
    return float(model.logits(parameters, unit[None, :])[0, arm])


def loss(model: Model, unit: np.ndarray, arm: int, reward: float, parameters: np.ndarray) -> float:
    """The logistic loss of one person, by its definition."""
    mean = expit(logit(model, unit, arm, parameters))
    return float(-reward * np.log(mean) - (1.0 - reward) * np.log(1.0 - mean))


def difference(what: Callable[[np.ndarray], float], parameters: np.ndarray, arm: int) -> np.ndarray:
    """Central differences of `what(parameters)` in the parameters of one arm."""
    found = np.empty(parameters.shape[1])
    for i in range(len(found)):
        up, down = parameters.copy(), parameters.copy()
        up[arm, i] += 1e-6
        down[arm, i] -= 1e-6
        found[i] = (what(up) - what(down)) / 2e-6
    return found


def test_gradients_are_those_of_the_loss_over_the_length_of_the_slope(model: Model) -> None:
    parameters, unit, arms, rewards = drawn(model, 20, 1)
    found = model.gradients(parameters, unit, arms, rewards)
    for x, arm, reward, mine in zip(unit, arms, rewards, found, strict=True):
        slope = difference(partial(logit, model, x, arm), parameters, arm)
        steepest = difference(partial(loss, model, x, arm, reward), parameters, arm)
        assert np.allclose(mine, steepest / np.linalg.norm(slope), rtol=1e-5, atol=1e-7)


def test_slopes_come_with_the_logits_of_the_arms(model: Model) -> None:
    parameters, unit, arms, _ = drawn(model, 50, 2)
    logits, slopes = model.slopes(parameters, unit, arms)
    assert np.allclose(logits, model.logits(parameters, unit)[np.arange(50), arms])
    assert (slopes[:, 0] == 1.0).all()


@pytest.mark.parametrize("dimension", [2, 5, 8, 13, 40])
def test_logits_of_a_person_do_not_depend_on_who_else_is_asked_about(dimension: int) -> None:
    """To the last bit: where arms are as good as each other that bit decides."""
    for model in (LinearModel(dimension), NetworkModel(dimension, 7)):
        parameters, unit, _, _ = drawn(model, 100, dimension)
        together = model.logits(parameters, unit)
        alone = [model.logits(parameters, unit[i : i + 1])[0] for i in range(100)]
        assert np.array_equal(together, np.array(alone))
        assert np.array_equal(together, model.logits(parameters, np.asfortranarray(unit)))


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
def test_gradients_are_never_longer_than_one(model: Model, size: float) -> None:
    """By brute force: random contexts, corners, and rewards at both ends."""
    parameters, unit, arms, rewards = drawn(model, 3000, 3, size)
    unit[:1000] = np.round(unit[:1000])
    rewards[:2000] = np.round(rewards[:2000])
    lengths = np.linalg.norm(model.gradients(parameters, unit, arms, rewards), axis=1)
    assert lengths.max() <= 1.0 + 1e-12
    if size == 30.0:
        assert lengths.max() > 0.99, "the bound is reached"


def test_the_first_parameters_say_one_half_for_everyone(model: Model) -> None:
    start = model.start(ARMS, 7)
    assert start.shape == (ARMS, model.size)
    _, unit, _, _ = drawn(model, 20, 4)
    assert (model.logits(start, unit) == 0.0).all()
    assert np.array_equal(start, model.start(ARMS, 7))


def test_models_travel_and_say_what_they_are(model: Model) -> None:
    assert from_json(to_json(model), Model) == model
    for wrong in ({"dimension": 0}, {"dimension": 1.5}, {"hidden": 0}, {"kind": "tree"}):
        with pytest.raises(InvalidInput):
            from_json({**to_json(model), **wrong}, Model)


def test_weighting_leaves_a_right_model_where_it_is() -> None:
    """At the true parameters gradients average to 0, though people weigh differently."""
    model = LinearModel(2)
    parameters, unit, arms, luck = drawn(model, 200_000, 5)
    means = expit(model.logits(parameters, unit))[np.arange(len(arms)), arms]
    found = model.gradients(parameters, unit, arms, (luck < means).astype(np.float64))
    assert (np.abs(found.mean(axis=0)) < 4.0 * 0.5 / np.sqrt(len(arms))).all()
