"""Trained scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from discreet.audit.games import Classifier, arrays_of
from discreet.audit.lower_bound import attack, best_threshold
from discreet.privacy import SimulatedNoise
from discreet.privacy.frequency import SignedSubsetSelection


def reports(own: int, sign: int, seed: int, people: int = 20_000) -> dict[str, np.ndarray]:
    mechanism = SignedSubsetSelection(8, 3, 1.5)
    signs = np.full(people, sign, dtype=np.int8)
    chosen, shown = mechanism.privatise(np.full(people, own), signs, SimulatedNoise(seed))
    return {"bins": chosen, "signs": shown}


@pytest.mark.parametrize("other", [(0, -1), (5, 1), (5, -1)])
def test_it_finds_the_best_test_against_subset_selection(other: tuple[int, int]) -> None:
    trained = Classifier.trained(reports(0, 1, 1), reports(*other, 2))
    one, two = trained.scores(reports(0, 1, 3)), trained.scores(reports(*other, 4))
    threshold = best_threshold(one[:10_000], two[:10_000], 0.0)
    found = attack(one[10_000:], two[10_000:], threshold, 0.0).epsilon
    assert 0.8 * 1.5 < found < 1.5


def test_numbers_are_read_as_numbers_and_new_tokens_count_nothing() -> None:
    rng = np.random.default_rng(1)
    first, second = ({"x": rng.normal(mean, 1.0, (2000, 5))} for mean in (0.5, 0.0))
    trained = Classifier.trained(first, second)
    assert trained.weights.shape == (5,)
    assert (trained.weights > 0.0).all()
    arrays = {"token": np.array([[0], [1], [0], [1]])}
    trained = Classifier.trained(arrays, arrays)
    assert trained.scores({"token": np.array([[7]])}) == pytest.approx([0.0])


def test_tickets_and_names_are_left_out() -> None:
    @dataclass
    class Report:
        source: str
        tickets: np.ndarray
        rows: np.ndarray

    assert set(arrays_of(Report("x", np.zeros(2), np.ones(2)))) == {"rows"}
