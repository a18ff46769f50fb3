"""What a forecast says, where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from discreet.lab.planning.forecast import (
    FEWEST,
    REACH,
    Forecast,
    along,
    curve_of,
    first_from,
    grid_of,
    interval,
    power_of,
    ratio,
    resampled_means,
    resamples,
    steady_ceiling,
    stretch,
    student,
    verdict,
)
from discreet.records import PLANNED
from discreet.validation import InvalidInput

from .cases import FIXED, HORIZONS, drawn, forecast, growing, until

FREE = growing(0.05, 0.5)
# Regret of n people in all is scale n^0.7.
SCALES = {1.0: 5.0, 2.0: 2.0, 4.0: 1.2}
POWER = 0.7


def known(
    replicates: int = 8,
    deviation: float = 0.0,
    seed: int = 0,
    scales: Mapping[float, float] = SCALES,
) -> Forecast:
    private = {
        epsilon: drawn(growing(scale, POWER), replicates, deviation, seed + place)
        for place, (epsilon, scale) in enumerate(scales.items(), start=1)
    }
    return forecast(private, drawn(FREE, replicates, deviation, seed))


def true_people(epsilon: float, keep: float) -> float:
    """From how many people on gain / gain of no privacy is at least `keep`."""
    people = np.geomspace(10.0, 1e6, 200_001)
    share = (FIXED - SCALES[epsilon] * people ** (POWER - 1.0)) / (FIXED - 0.05 * people**-0.5)
    return float(people[np.argmax(share >= keep)])


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_people_until_one_choice_is_beaten(epsilon: float) -> None:
    answer = known().people_until_gain(epsilon)
    truth = until(SCALES[epsilon], POWER, 0.0)
    if truth <= HORIZONS[0]:
        assert answer.value == answer.least == HORIZONS[0]
    elif truth > 4 * HORIZONS[-1]:
        assert answer.value == math.inf
    else:
        assert answer.value == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize(
    ("epsilon", "keep"), [(1.0, 0.5), (2.0, 0.5), (4.0, 0.5), (4.0, 0.8), (4.0, 0.9)]
)
def test_people_until_a_share_is_kept(epsilon: float, keep: float) -> None:
    answer = known().people_for(epsilon, keep)
    truth = true_people(epsilon, keep)
    if truth > 4 * HORIZONS[-1]:
        assert answer.value == math.inf
    else:
        assert answer.value == pytest.approx(truth, rel=0.03)
        assert answer.extrapolated == (truth > HORIZONS[-1])


def test_intervals_of_people_cover_the_truth() -> None:
    """Of 30 plans of 8 replicates, within the horizons and beyond them."""
    inside, beyond = true_people(4.0, 0.5), true_people(4.0, 0.8)
    assert HORIZONS[0] < inside < HORIZONS[-1] < beyond < 4 * HORIZONS[-1]
    covered = np.zeros(2)
    for seed in range(30):
        plan = known(8, 0.01, 10 * seed, {4.0: SCALES[4.0]})
        for place, (keep, truth) in enumerate(((0.5, inside), (0.8, beyond))):
            answer = plan.people_for(4.0, keep)
            covered[place] += answer.low <= truth <= answer.high
    assert (covered >= 25).all()


def test_inverse_questions_agree_with_the_forward_one() -> None:
    plan = known(8, 0.003)
    for people in (1000, 4000, 9000):
        loss = plan.loss_for(2.0, people).value
        assert loss is not None
        assert plan.people_for(2.0, 1.0 - loss).value == pytest.approx(people, rel=0.01)
        assert plan.epsilon_for(people, loss).value == pytest.approx(2.0, rel=0.01)
    between = plan.epsilon_for(4000, 0.3)
    assert between.value is not None
    assert 1.0 < between.value < 4.0
    assert plan.loss_for(between.value, 4000).value == pytest.approx(0.3, abs=0.01)
    assert between.low <= between.value <= between.high


def test_there_are_no_answers_beyond_the_limit() -> None:
    alone = forecast({2.0: np.tile(growing(2.0, POWER), (4, 1))}, np.tile(FREE, (4, 1)))
    assert [alone.epsilon_for(4000, loss).value for loss in (0.1, 0.9)] == [math.inf, 2.0]
    assert alone.advice().best == 2.0
    plan = known()
    assert plan.limit == 4 * HORIZONS[-1]
    assert plan.people_for(1.0, 0.9).value == math.inf
    assert plan.people_for(1.0, 0.9).most == pytest.approx(plan.limit)
    # What is extrapolated says so; what is not reached at all is not.
    shares = {0.5: False, 0.8: True, 0.9: False}
    assert {keep: plan.people_for(4.0, keep).extrapolated for keep in shares} == shares
    assert plan.loss_for(2.0, 8000).simulated == -math.inf
    assert plan.loss_for(2.0, 2000).simulated == math.inf
    for people in (HORIZONS[0] - 1, plan.limit + 1):
        with pytest.raises(InvalidInput, match="250 to 16,000 people"):
            plan.loss_for(2.0, people)
        with pytest.raises(InvalidInput, match="250 to 16,000 people"):
            plan.epsilon_for(people, 0.1)
    for epsilon in (0.9, 4.1):
        with pytest.raises(InvalidInput, match="simulated 1 to 4"):
            plan.people_for(epsilon)
    with pytest.raises(InvalidInput, match="keep was 2"):
        plan.people_for(2.0, 2.0)
    with pytest.raises(InvalidInput, match="simulated 1, 2, 4"):
        plan.line(3.0)


def test_the_advice_is_the_smallest_epsilon_that_clearly_loses_little() -> None:
    plan = known(8, 0.001)
    loss = {epsilon: plan.loss_for(epsilon, plan.people) for epsilon in plan.epsilons}
    assert loss[4.0].high < 0.4 < loss[2.0].high
    advice = replace(plan, lose_at_most=0.4).advice()
    assert (advice.epsilon, advice.people) == (4.0, plan.people)
    strict = replace(plan, lose_at_most=0.01).advice()
    assert strict.epsilon is None
    assert strict.best == 4.0


def test_an_epsilon_below_one_that_fails_is_not_recommended() -> None:
    """Chance put a small epsilon ahead of a larger one, which fails."""
    good, poor = np.tile(growing(0.05, 0.5), (6, 1)), np.tile(growing(5.0, POWER), (6, 1))
    plan = forecast({1.0: good, 2.0: poor, 4.0: good}, good)
    assert plan.advice().epsilon == 4.0


def test_the_interval_of_a_loss_agrees_with_students_test_of_the_difference() -> None:
    """Fieller's interval holds the shares that the paired test does not reject."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        whole = 1.0 + 0.3 * rng.standard_normal(7)
        part = 0.8 * whole + 0.2 * rng.standard_normal(7)
        shares = ratio(part, whole)
        for end in (shares.low, shares.high):
            off = student(part - end * whole)
            assert min(abs(off.low), abs(off.high)) < 1e-9
        for share in (0.5, 0.8, 1.1):
            off = student(part - share * whole)
            assert (shares.low <= share <= shares.high) == (off.low <= 0.0 <= off.high)
    unclear = ratio(np.ones(3), np.array([-1.0, 1.0, 3.0]))
    assert (unclear.low, unclear.high) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    "people", [HORIZONS[-1], pytest.param(2 * HORIZONS[-1], marks=pytest.mark.slow)]
)
def test_verdicts_err_as_rarely_as_is_written(people: int) -> None:
    """Of plans whose losses are at the bar: above it at epsilon 1, below it at 2 and 4."""
    plans = 200 if people == HORIZONS[-1] else 10
    bar, wrong, decided = 0.2, 0, 0
    true = {1.0: 0.799, 2.0: 0.801, 4.0: 0.801}
    for seed in range(400 - plans, 400):
        free = drawn(np.full(5, 0.3), 8, 0.05, 10 * seed)
        private = {
            epsilon: kept * free + drawn(np.zeros(5), 8, 0.02, 10 * seed + place)
            for place, (epsilon, kept) in enumerate(true.items(), start=1)
        }
        plan = forecast(private, free, expected=people, lose_at_most=bar)
        words = [each.word for each in plan.verdicts.values()]
        wrong += words[0] == "yes" or "no" in words[1:]
        decided += set(words) != {"cannot tell yet"}
    if people > HORIZONS[-1]:
        assert decided == 0, "no verdict without a simulation"
    else:
        assert 0 < wrong <= 19  # 5% of 200 and three standard errors


def test_a_verdict_takes_six_replicates() -> None:
    """Three that agree by chance are no verdict, whatever their interval."""
    clear = np.array([0.050, 0.051, 0.049])
    assert verdict(clear).word == verdict(-clear).word == "cannot tell yet"
    assert verdict(clear).replicates == FEWEST == 6
    assert verdict(np.tile(clear, 2)).word == "yes"
    assert verdict(-np.tile(clear, 2)).word == "no"
    assert verdict(np.zeros(6)).word == "no"
    wide = drawn(np.array([0.02]), 8, 0.1, 2)[:, 0]
    needed = verdict(wide).replicates
    assert needed is not None
    assert needed > 8
    assert verdict(np.array([-1.0, 1.0] * 4)).replicates is None
    plan = known(3)
    assert {each.word for each in plan.verdicts.values()} == {"cannot tell yet"}
    assert plan.advice().epsilon is None


def test_tables_prose_and_verdicts_agree() -> None:
    plan = replace(known(8, 0.004), lose_at_most=0.3)
    for epsilon, told in plan.verdicts.items():
        loss = plan.loss_for(epsilon, plan.people)
        side = "yes" if loss.high < 0.3 else "no" if loss.low > 0.3 else "cannot tell yet"
        assert told.word == side
        row = plan.frame[(plan.frame["epsilon"] == epsilon) & (plan.frame["people"] == plan.people)]
        assert row["verdict"].item() == side


def test_without_a_gain_there_is_nothing_to_keep() -> None:
    nothing = drawn(np.zeros(5), 6, 0.01, 1)
    plan = forecast({1.0: drawn(np.full(5, -0.02), 6, 0.01, 2)}, nothing)
    assert not plan.worthwhile
    assert plan.people_for(1.0).value is None
    assert plan.people_until_gain(1.0).value is None
    assert plan.loss_for(1.0, 1000).value is None
    assert plan.epsilon_for(1000, 0.1).value is None
    assert plan.advice().epsilon is None
    assert plan.frame["loss"].isna().all()


def test_a_gain_of_rounding_errors_is_none() -> None:
    rounding = np.full((4, 5), 1e-17)
    assert not forecast({1.0: rounding}, rounding).worthwhile


def test_the_frame_has_a_row_for_each_line_and_horizon() -> None:
    plan = known()
    assert list(plan.frame.columns) == list(PLANNED)
    assert len(plan.frame) == 6 * len(HORIZONS)
    last = plan.frame[(plan.frame["epsilon"] == 4.0) & (plan.frame["people"] == 4000)].iloc[0]
    assert last["gain"] == pytest.approx(growing(1.2, POWER)[-1])
    assert last["per_person"] == pytest.approx(FIXED - last["gain"])  # regret
    assert last["loss"] == pytest.approx(1.0 - last["gain"] / FREE[-1])


def test_students_interval() -> None:
    told = student(np.array([1.0, 2.0, 3.0]))
    assert (told.mean, told.high - told.mean) == pytest.approx((2.0, 2.484138), rel=1e-5)


# Curves.


PEOPLE = np.asarray(HORIZONS, dtype=np.float64)


@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 0.9])
def test_regret_that_grows_as_a_power_goes_on_so(power: float) -> None:
    means = np.stack([growing(2.0, power)] * 3)
    curve = curve_of(means, PEOPLE, FIXED)
    for people in (4000, 7000, 15_999):
        truth = FIXED - 2.0 * people ** (power - 1.0)
        assert curve.at(people) == pytest.approx(truth, abs=2e-4)


def test_a_curve_meets_every_horizon_and_ends_at_its_reach() -> None:
    means = growing(3.0, 0.6)[None]
    curve = curve_of(means, PEOPLE, FIXED)
    assert [curve.at(people)[0] for people in HORIZONS] == pytest.approx(means[0])
    assert curve.grid[0] == HORIZONS[0]
    assert curve.grid[-1] == pytest.approx(REACH * HORIZONS[-1])
    assert (np.diff(grid_of(PEOPLE)) > 0.0).all()


def test_nobody_unlearns_or_rises_above_the_ceiling() -> None:
    falling = np.array([[-0.03, -0.03, -0.04, -0.03, -0.05]])
    curve = curve_of(falling, PEOPLE, FIXED)
    assert curve.gain[0][curve.grid > 4000] == pytest.approx(-0.05)
    means = np.array([[0.1, 0.2, 0.3, 0.39, 0.399], [0.1, 0.2, 0.3, 0.39, 0.41]])
    beyond = curve_of(means, PEOPLE, FIXED).gain[:, curve.grid > 4000]
    assert (beyond[0] <= FIXED).all()
    assert beyond[1] == pytest.approx(0.41)  # above it by chance, and stays


def test_privacy_makes_nobody_learn_faster() -> None:
    """One mean that is high by chance would let the private curve overtake the other."""
    free, private = growing(1.0, 0.5)[None], growing(1.2, 0.5)[None].copy()
    private[0, -1] += 0.002
    assert power_of(private, PEOPLE, FIXED) < power_of(free, PEOPLE, FIXED)
    without = curve_of(free, PEOPLE, FIXED)
    beyond = without.grid > PEOPLE[-1]
    with_privacy = curve_of(private, PEOPLE, FIXED, without)
    for gain in (with_privacy.gain, with_privacy.best):
        assert (gain[0, beyond] < without.gain[0, beyond]).all()


def test_at_best_people_miss_no_more_than_without_privacy() -> None:
    free = curve_of(growing(1.0, 0.5)[None], PEOPLE, FIXED)
    slow = curve_of(growing(0.4, 1.0)[None], PEOPLE, FIXED, free)  # has learnt nothing
    assert (slow.gain == pytest.approx(0.0, abs=1e-12)) is True
    missed = FIXED * 4000 + 1.0 * (16_000**0.5 - 4000**0.5)
    assert slow.best[0, -1] == pytest.approx(FIXED - missed / 16_000)
    inside = slow.grid <= 4000
    assert np.array_equal(slow.best[:, inside], slow.gain[:, inside])


def test_the_bend_of_a_take_off_is_followed() -> None:
    """Regret that grows in step with people at first and as their root later, halves far apart."""

    def gain(people: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return FIXED - np.minimum(FIXED, (FIXED / 700.0) * np.sqrt(700.0 * people) * 700.0 / people)

    curve = curve_of(gain(PEOPLE)[None], PEOPLE, FIXED)
    inside = curve.grid <= PEOPLE[-1]
    straight = np.interp(np.log(curve.grid[inside]), np.log(PEOPLE), gain(PEOPLE))
    truth = gain(curve.grid[inside])
    error, before = (np.abs(each - truth).mean() for each in (curve.gain[0, inside], straight))
    assert error < 0.7 * before


def test_a_single_horizon_goes_on_as_it_is() -> None:
    curve = curve_of(np.array([[0.2]]), np.array([100.0]), FIXED)
    assert curve.gain[0] == pytest.approx(0.2)
    assert steady_ceiling(np.array([[0.2]]), np.array([100.0])) == pytest.approx(0.2)


def test_the_ceiling_of_steady_learning() -> None:
    gain = (0.4 - 2.0 * PEOPLE**-0.5)[None]
    assert steady_ceiling(gain, PEOPLE) == pytest.approx(0.4)
    assert steady_ceiling(gain[:, ::-1], PEOPLE) == pytest.approx(gain[0, 0])  # no rise, no more


def test_the_place_from_which_on() -> None:
    places = np.array([1.0, 2.0, 4.0, 8.0])
    rows = np.array(
        [
            [0.0, 0.0, 1.0, 2.0],
            [1.0, 0.0, 0.5, 1.0],
            [1.0, 1.0, 1.0, 1.0],
            [2.0, 2.0, 2.0, 0.0],
            [np.nan, np.nan, 3.0, 3.0],
        ]
    )
    crossed = first_from(places, rows, 0.5)
    assert crossed == pytest.approx([2.0 * 2**0.5, 4.0, 1.0, np.inf, 4.0])


def test_reading_along_a_curve() -> None:
    places, rows = np.array([1.0, 4.0, 16.0]), np.array([[0.0, 1.0, 3.0]])
    assert [along(places, rows, at)[0] for at in (1.0, 2.0, 8.0, 16.0)] == [0.0, 0.5, 2.0, 3.0]


def test_intervals_of_what_may_be_infinite() -> None:
    values = np.concatenate([np.arange(90.0), np.full(10, np.inf)])
    assert interval(values) == (2.0, np.inf)


def test_resamples_are_stretched_as_students_t() -> None:
    assert stretch(1) == 0.0
    assert stretch(4) == pytest.approx(3.182446 / 1.959964 * (4 / 3) ** 0.5, rel=1e-6)
    gain = drawn(np.zeros(1), 8, 1.0, 2)
    low, high = interval(resampled_means(gain, resamples(8, 1))[1:, 0])
    half = 2.364624 * gain.std(ddof=1) / 8**0.5
    assert high - low == pytest.approx(2.0 * half, rel=0.15)


def test_intervals_of_means_cover_as_often_as_they_say() -> None:
    """Of 400 samples of 6 replicates each; the bootstrap alone would cover 86% of them."""
    covered = 0
    for seed in range(400):
        low, high = interval(
            resampled_means(drawn(np.zeros(1), 6, 1.0, seed), resamples(6, seed))[1:, 0]
        )
        covered += low <= 0.0 <= high
    assert 0.92 <= covered / 400 <= 0.99
