"""Somebody who comes k times: what noise is sized for, against every way in which contributions
fall."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.audit.output_distributions import exact_epsilon
from discreet.privacy import Adjacency, Joint, Local, OnceEach, Release, Rounds
from discreet.privacy.accounting import (
    Event,
    GaussianEvent,
    PureEvent,
    composed_epsilon,
    gaussian_epsilon,
    repeated_epsilon,
)
from discreet.privacy.calibration import gaussian_noise_multiplier, pure_share
from discreet.privacy.guarantee import derive_guarantee
from discreet.validation import InvalidInput

DELTA = 1e-5
RECORD = Adjacency("number")


def of(event: Event, people: Rounds | OnceEach) -> Release:
    return Release("a mechanism", event, 1.0, "given", 1.0, people, "a number", "a source")


class TestComposition:
    @settings(deadline=None, max_examples=30)
    @given(
        epsilon=st.floats(0.01, 4.0),
        times=st.integers(2, 7),
        delta=st.sampled_from([1e-6, 1e-3, 0.1]),
    )
    def test_repeated_responses_cost_what_their_law_says(
        self, epsilon: float, times: int, delta: float
    ) -> None:
        share = 1.0 / (1.0 + math.exp(-epsilon))

        def law(truth: bool) -> dict[tuple[bool, ...], float]:
            said = product((True, False), repeat=times)
            return {s: math.prod(share if t == truth else 1.0 - share for t in s) for s in said}

        exact = exact_epsilon(law(True), law(False), delta)
        held = repeated_epsilon(epsilon, times, delta)
        assert exact <= held + 1e-12
        assert held == pytest.approx(exact, rel=1e-8, abs=1e-9)

    def test_many_small_ones_cost_far_less_than_their_sum(self) -> None:
        assert repeated_epsilon(0.05, 1000, 1e-6) < 0.2 * 50.0
        # And about what a Gaussian of the same mean and variance of the loss does.
        mu = math.sqrt(1000) * 0.05
        assert repeated_epsilon(0.05, 1000, 1e-6) == pytest.approx(
            gaussian_epsilon(1.0 / mu, 1e-6), rel=0.02
        )

    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    @pytest.mark.parametrize("times", [2, 3, 7, 200])
    def test_a_share_is_the_largest_that_keeps_the_whole(self, times: int, delta: float) -> None:
        share = pure_share(1.3, delta, times)
        assert composed_epsilon([PureEvent(share)] * times, delta) <= 1.3
        assert composed_epsilon([PureEvent(share * (1.0 + 1e-9))] * times, delta) > 1.3
        assert share >= 1.3 / times * (1.0 - 1e-12)


class TestBudgets:
    def test_one_contribution_is_what_it_was(self) -> None:
        assert Local(2.0).to_fields() == {"trust_model": "local", "epsilon": 2.0, "delta": 0.0}
        assert Local(2.0).contribution_epsilon == Joint(2.0, 0.0).contribution_epsilon == 2.0
        # Pure shares add up; only reports, which are releases of their own, profit from a delta.
        for budget in (Local(2.0, 0.0, 400), Joint(2.0, 0.0, 400), Joint(2.0, 1e-6, 400)):
            assert budget.contribution_epsilon == 2.0 / 400
        assert Local(2.0, 1e-6, 400).contribution_epsilon > 2.0 / 400
        multiplier = gaussian_noise_multiplier(1.0, DELTA)
        assert (
            Local(1.0, DELTA).noise_multiplier == Joint(1.0, DELTA).noise_multiplier == multiplier
        )

    @pytest.mark.parametrize("visits", [2, 10, 1000])
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
    def test_reports_of_a_person_compose_to_the_budget(self, epsilon: float, visits: int) -> None:
        budget = Local(
            epsilon, 1e-2, max_contributions=visits
        )  # a delta at which a report alone costs none
        one = GaussianEvent(budget.noise_multiplier)
        assert composed_epsilon([one] * visits, 1e-2) == pytest.approx(epsilon, rel=1e-8)
        again = GaussianEvent(gaussian_noise_multiplier(*budget.gaussian_report))
        assert composed_epsilon([again] * visits, 1e-2) <= epsilon
        assert composed_epsilon([again] * visits, 1e-2) == pytest.approx(epsilon, rel=1e-6)

    @pytest.mark.parametrize(
        "fields",
        [{"max_contributions": 0}, {"max_contributions": 1.5}, {"max_contributions": True}],
    )
    def test_what_is_no_number_of_contributions_is_refused(self, fields: dict[str, int]) -> None:
        with pytest.raises(InvalidInput, match="max_contributions was"):
            Local(1.0, **fields)

    def test_a_contribution_is_protected_by_itself_only_if_asked_for_by_name(self) -> None:
        with pytest.raises(InvalidInput, match="leave out one of the two"):
            Joint(1.0, DELTA, max_contributions=2, protects="contribution")
        with pytest.raises(InvalidInput, match="protects"):
            Local(1.0, protects="event")  # type: ignore[arg-type]
        unit = Adjacency("number", unit=Local(1.0, protects="contribution").protects)
        release = of(PureEvent(1.0), OnceEach("g", apart=True))
        sentence = derive_guarantee([release], "local", unit).sentence
        assert "each contribution by itself and not about a person" in sentence
        assert "two contributions make it epsilon = 2, ten epsilon = 10" in sentence


@settings(deadline=None, max_examples=30)
@given(
    multipliers=st.lists(st.floats(0.5, 5.0), min_size=1, max_size=4),
    max_contributions=st.integers(1, 4),
    apart=st.booleans(),
)
def test_a_certificate_is_the_worst_over_all_placements(
    multipliers: list[float], max_contributions: int, apart: bool
) -> None:
    """k contributions divided between releases: those in one sum add up, mu^2 of separate draws
    does."""
    people = OnceEach("one row", max_contributions, apart)
    releases = [of(GaussianEvent(m), people) for m in multipliers]
    pure = [of(PureEvent(1.0 / m), people) for m in multipliers]
    worst = worst_pure = 0.0
    for placed in combinations_with_replacement(multipliers, max_contributions):
        counts = Counter(placed)
        powers = [c if apart else c**2 for c in counts.values()]
        mu = math.sqrt(sum(p / m**2 for m, p in zip(counts, powers, strict=True)))
        worst = max(worst, gaussian_epsilon(1.0 / mu, DELTA))
        worst_pure = max(worst_pure, sum(1.0 / m for m in placed))
    held = derive_guarantee(releases, "joint", RECORD, DELTA)
    assert held.epsilon == pytest.approx(worst, rel=1e-9)
    assert held.reports_per_person == max_contributions
    assert derive_guarantee(pure, "joint", RECORD).epsilon == pytest.approx(worst_pure, rel=1e-12)


def test_contributions_in_several_rounds_cost_no_more_than_in_one() -> None:
    spans = [(0, 4, 2.0), (2, 6, 3.0), (5, 9, 1.5)]
    releases = [of(GaussianEvent(m), Rounds(a, b, max_contributions=3)) for a, b, m in spans]
    worst = 0.0
    for placed in combinations_with_replacement(range(9), 3):
        inside = [(sum(a <= at < b for at in placed), m) for a, b, m in spans]
        worst = max(worst, gaussian_epsilon(1.0 / math.hypot(*(c / m for c, m in inside)), DELTA))
    assert derive_guarantee(releases, "joint", RECORD, DELTA).epsilon == pytest.approx(worst)


def test_contributions_to_two_kinds_of_releases_are_divided_in_the_worst_way() -> None:
    people = OnceEach("a group", 3)
    both = [of(PureEvent(0.5), people), of(GaussianEvent(2.0), people)]
    divided = [
        composed_epsilon(
            [PureEvent(0.5 * j), *[GaussianEvent(2.0 / max(3 - j, 1))] * (j < 3)], DELTA
        )
        for j in range(4)
    ]
    held = derive_guarantee(both, "joint", RECORD, DELTA).epsilon
    assert held == max(divided) > derive_guarantee(both[:1], "joint", RECORD, DELTA).epsilon
    spans = [of(PureEvent(0.5), Rounds(0, 5, 2)), of(GaussianEvent(2.0), Rounds(5, 9, 2))]
    apart = composed_epsilon([PureEvent(0.5), GaussianEvent(2.0)], DELTA)
    assert derive_guarantee(spans, "joint", RECORD, DELTA).epsilon >= apart
