"""The numbers of a summary against hand calculation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from scipy.stats import ttest_1samp

from discreet.lab.environments.base import Metric
from discreet.lab.experiments import Outcome, Setting, people_of
from discreet.lab.reporting.summary import summarise, with_best_fixed
from discreet.validation import InvalidInput

from .cases import exponential, outcome, run_study, setting

UNIFORM, FREE, PRIVATE = setting("uniform"), setting("partition"), setting("partition", 1.0)
FIXED = setting("best_fixed")


def test_mean_and_interval() -> None:
    found = summarise([outcome(PRIVATE, value, r) for r, value in enumerate((10.0, 20.0, 60.0))])
    (line,) = found.lines
    assert line.mean == pytest.approx(30.0)
    # Deviations -20, -10, 30: variance 1400 / 2 = 700.
    # 97.5% quantile of Student's t with 2 degrees of freedom.
    assert line.half_width == pytest.approx(4.30265 * math.sqrt(700.0 / 3.0), rel=1e-5)
    assert (line.replicates, line.seconds) == (3, 2.0)
    assert line.epsilon == 1.0
    assert (found.metric, found.rounds) == ("reward", 100)


def test_one_replicate_has_no_interval() -> None:
    found = summarise([outcome(PRIVATE, 10.0), outcome(UNIFORM, 5.0)])
    assert found.lines[0].half_width is None
    difference = found.lines[0].over["uniform"]
    assert (difference.mean, difference.half_width, difference.sign) == (0.05, None, None)


@pytest.mark.parametrize(
    ("values", "metric", "share"),
    [
        ({"private": 60.0, "free": 80.0, "uniform": 40.0}, "reward", 0.5),
        ({"private": 20.0, "free": 10.0, "uniform": 50.0}, "regret", 0.75),
        ({"private": 6.0, "free": 8.0}, "reward", None),
        ({"private": 6.0, "uniform": 4.0}, "reward", None),
        ({"private": 6.0, "uniform": 4.0, "other": 9.0}, "reward", None),
        ({"private": 6.0, "uniform": 4.0, "free": 4.0}, "reward", None),
        ({"private": 6.0, "uniform": 4.0, "free": 3.0}, "reward", None),
        # Other options are another learner.
        ({"private": 6.0, "uniform": 4.0, "coarse": 8.0}, "reward", None),
    ],
)
def test_share_kept(values: dict[str, float], metric: Metric, share: float | None) -> None:
    """It needs uniform choice, the same learner without privacy, and a gain."""
    coarse = Setting("partition", "coarse (non-private)", FREE.budget, {"batch_size": 9})
    kinds = {
        "private": PRIVATE,
        "free": FREE,
        "uniform": UNIFORM,
        "other": setting("abse"),
        "coarse": coarse,
    }
    lines = summarise([outcome(kinds[k], v, metric=metric) for k, v in values.items()]).lines
    assert lines[0].share_kept == (None if share is None else pytest.approx(share))
    assert all(line.share_kept is None for line in lines[1:])


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
    """Without privacy it gains -5 in one replicate and 25 in the other."""
    pairs = [(PRIVATE, (55.0, 75.0)), (FREE, (40.0, 80.0)), (UNIFORM, (45.0, 55.0))]
    found = summarise([outcome(kind, v, r) for kind, pair in pairs for r, v in enumerate(pair)])
    assert [line.share_kept for line in found.lines] == [None, None, None]


def replicates(ran: Setting, values: Sequence[float], metric: Metric = "reward") -> list[Outcome]:
    return [outcome(ran, value, r, metric) for r, value in enumerate(values)]


@pytest.mark.parametrize("metric", ["reward", "regret"])
def test_settings_are_compared_within_replicates(metric: Metric) -> None:
    """Replicates differ by 100, settings by 5 +- 1: unpaired, nothing could be told."""
    sign = 1.0 if metric == "reward" else -1.0
    base = [1000.0, 1100.0, 1200.0, 1300.0]
    private = [value + sign * more for value, more in zip(base, (4.0, 5.0, 5.0, 6.0), strict=True)]
    found = summarise([*replicates(PRIVATE, private, metric), *replicates(FIXED, base, metric)])
    over = found.lines[0].over["fixed"]
    assert over.mean == pytest.approx(0.05)  # for each of 100 people
    # Deviations -1, 0, 0, 1: variance 2 / 3; t with 3 degrees of freedom.
    assert over.half_width == pytest.approx(3.18245 * math.sqrt(2.0 / 3.0 / 4.0) / 100.0, rel=1e-5)
    assert over.sign == 1
    assert found.lines[1].over == {}


def test_only_replicates_that_ran_both_are_compared() -> None:
    pairs = [outcome(PRIVATE, 10.0, 0), outcome(PRIVATE, 30.0, 1), outcome(FIXED, 20.0, 1)]
    over = summarise(pairs).lines[0].over["fixed"]
    assert over.mean == pytest.approx(0.1)
    apart = summarise([outcome(PRIVATE, 10.0, 0), outcome(FIXED, 20.0, 1)])
    assert apart.lines[0].over == {}


def test_what_is_more_than_chance_depends_on_the_number_of_comparisons() -> None:
    """A difference with a p-value of 0.03 counts alone, and not among twenty others."""
    close = [10.0 + more for more in (-2.0, 1.0, 3.0, 4.0, 5.0)]
    fixed = replicates(FIXED, [10.0] * 5)
    alone = summarise([*replicates(PRIVATE, close), *fixed]).lines[0].over["fixed"]
    assert alone.p_value == pytest.approx(ttest_1samp([-2, 1, 3, 4, 5], 0.0).pvalue)
    many = [replicates(setting("partition", 2.0 + at), [9.0, 11.0] * 2 + [10.0]) for at in range(3)]
    among = summarise(
        [*replicates(PRIVATE, close), *fixed, *(one for each in many for one in each)]
    )
    assert among.comparisons == 4
    assert among.lines[0].over["fixed"].p_value == pytest.approx(4.0 * (alone.p_value or 0.0))


def test_equal_sums_in_another_order_are_no_difference() -> None:
    total, other = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert total != other
    found = summarise([*replicates(PRIVATE, [total] * 3), *replicates(FIXED, [other] * 3)])
    over = found.lines[0].over["fixed"]
    assert (over.mean, over.half_width, over.sign) == (0.0, 0.0, 0)


def test_the_best_single_choice_is_computed_where_the_study_does_not_ask(tmp_path: Path) -> None:
    learners = "[[learners]]\nname = 'partition'\nepsilon = 1.0\n"
    study, outcomes = run_study(tmp_path, exponential(1), learners)
    found = summarise(with_best_fixed(study, outcomes), study.settings)
    assert [line.learner for line in found.lines] == ["partition", "best_fixed"]
    people = people_of(study.problem, study.rounds, study.seed, 1)
    mine = next(o for o in outcomes if o.record.replicate == 1).record.value
    pairs = with_best_fixed(study, outcomes)[-1]
    assert pairs.record.value == pytest.approx(people.best_fixed().sum())
    assert mine != pairs.record.value


def test_the_best_single_choice_of_the_study_is_not_run_twice(tmp_path: Path) -> None:
    study, outcomes = run_study(tmp_path, exponential(1), replicates=1)
    assert with_best_fixed(study, outcomes) == outcomes
    without = [one for one in outcomes if one.record.learner != "best_fixed"]
    assert [one.record.label for one in with_best_fixed(study, without)][-1] == "best_fixed"


def test_public_points_have_no_single_choice_to_beat(tmp_path: Path) -> None:
    study, outcomes = run_study(
        tmp_path, "[problem]\nname = 'camelback'\n", "[[learners]]\nname = 'uniform'\n"
    )
    assert with_best_fixed(study, outcomes) == outcomes
