"""The numbers of a summary against hand calculation."""

from __future__ import annotations

import math

import pytest

from discreet.reporting.summary import summarise
from discreet.simulation import Setting
from discreet.validation import InvalidInput

from .cases import outcome, setting

UNIFORM, FREE, PRIVATE = setting("uniform"), setting("partition"), setting("partition", 1.0)


def test_mean_and_standard_error() -> None:
    found = summarise([outcome(PRIVATE, value, r) for r, value in enumerate((10.0, 20.0, 60.0))])
    (line,) = found.lines
    assert line.mean == pytest.approx(30.0)
    # Deviations -20, -10, 30: variance 1400 / 2 = 700.
    assert line.standard_error == pytest.approx(math.sqrt(700.0 / 3.0))
    assert (line.replicates, line.seconds) == (3, 2.0)
    assert (line.epsilon, line.delta, line.trust_model) == (1.0, 0.0, "local")
    assert (found.metric, found.rounds) == ("reward", 100)


def test_one_replicate_has_no_standard_error() -> None:
    assert summarise([outcome(PRIVATE, 10.0)]).lines[0].standard_error is None


def test_share_kept_of_a_reward() -> None:
    found = summarise([outcome(PRIVATE, 60.0), outcome(FREE, 80.0), outcome(UNIFORM, 40.0)])
    assert [line.share_kept for line in found.lines] == [pytest.approx(0.5), None, None]


def test_share_kept_of_regret_has_its_sign_flipped() -> None:
    found = summarise(
        [
            outcome(PRIVATE, 20.0, metric="regret"),
            outcome(FREE, 10.0, metric="regret"),
            outcome(UNIFORM, 50.0, metric="regret"),
        ]
    )
    assert found.lines[0].share_kept == pytest.approx(0.75)


def test_share_kept_needs_uniform_the_free_version_and_a_gain() -> None:
    private, free, uniform = outcome(PRIVATE, 6.0), outcome(FREE, 8.0), outcome(UNIFORM, 4.0)
    other = outcome(setting("abse"), 9.0)
    for present in (
        [private, free],
        [private, uniform],
        [private, uniform, other],
        [private, uniform, outcome(FREE, 4.0)],
        [private, uniform, outcome(FREE, 3.0)],
    ):
        assert summarise(present).lines[0].share_kept is None
    assert summarise([private, free, uniform]).lines[0].share_kept == pytest.approx(0.5)


def test_the_free_version_has_the_same_options() -> None:
    other = Setting("partition", "coarse (non-private)", FREE.budget, {"batch_size": 9})
    found = summarise([outcome(PRIVATE, 6.0), outcome(other, 8.0), outcome(UNIFORM, 4.0)])
    assert found.lines[0].share_kept is None


def test_lines_follow_the_study_and_count_what_is_there() -> None:
    found = summarise(
        [outcome(UNIFORM, 4.0), outcome(PRIVATE, 6.0, 1), outcome(UNIFORM, 5.0, 1)],
        [PRIVATE, FREE, UNIFORM],
    )
    assert [(line.label, line.replicates) for line in found.lines] == [
        ("partition, epsilon 1", 1),
        ("uniform", 2),
    ]


def test_families_are_labels_without_budgets() -> None:
    named = setting("partition", 0.5, label="mine, epsilon 2")
    found = summarise([outcome(s, 1.0) for s in (PRIVATE, FREE, UNIFORM, named)])
    families = [line.family for line in found.lines]
    assert families == ["partition", "partition", "uniform", "mine, epsilon 2"]


def test_simulated_noise_is_noticed() -> None:
    assert summarise([outcome(PRIVATE, 1.0)]).simulated_noise
    assert not summarise([outcome(PRIVATE, 1.0, noise="SecureNoise")]).simulated_noise
    assert not summarise([outcome(UNIFORM, 1.0)]).simulated_noise


def test_refuses_nothing_and_mixtures() -> None:
    with pytest.raises(InvalidInput, match="empty"):
        summarise([])
    with pytest.raises(InvalidInput, match="one study at a time"):
        summarise([outcome(PRIVATE, 1.0), outcome(UNIFORM, 1.0, metric="regret")])


def test_a_gain_that_may_be_chance_has_no_share() -> None:
    """Free 60 +- 20 against uniform 50 +- 5 over two replicates each."""
    pairs = [(PRIVATE, (55.0, 75.0)), (FREE, (40.0, 80.0)), (UNIFORM, (45.0, 55.0))]
    found = summarise([outcome(kind, value) for kind, pair in pairs for value in pair])
    assert [line.share_kept for line in found.lines] == [None, None, None]
