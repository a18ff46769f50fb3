"""The algebra of guarantees on random compositions, held against three independent accounts.

* OpenDP: its privacy maps of Laplace and Gaussian measurements, and of their compositions;
* dp-accounting: its accountant with privacy loss distributions, numerically;
* closed forms: the hockey-stick divergence of randomised responses and of Gaussians, summed up.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from itertools import product
from typing import Any

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.audit.output_distributions import exact_epsilon
from discreet.privacy import (
    Adjacency,
    Guarantee,
    OnceEach,
    Release,
    Rounds,
    derive_guarantee,
)
from discreet.privacy.accounting import Event, GaussianEvent, PureEvent, composed_epsilon

RECORD = Adjacency(record="context, action and reward")
needs_opendp = pytest.mark.skipif(find_spec("opendp") is None, reason="`secure` is not installed")

epsilons = st.lists(st.floats(0.01, 3.0), min_size=1, max_size=5)
multipliers = st.lists(st.floats(0.4, 20.0), min_size=1, max_size=5)
deltas = st.sampled_from([1e-8, 1e-5, 1e-2, 0.1])
events = st.lists(
    st.one_of(
        st.floats(0.01, 2.0).map(PureEvent),
        st.floats(0.5, 20.0).map(GaussianEvent),
    ),
    min_size=1,
    max_size=3,
)
groups = st.one_of(
    st.sampled_from([OnceEach("a"), OnceEach("b")]),
    st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda at: Rounds(at[0], sum(at))),
)


def release(event: Event, people: Rounds | OnceEach, noise: str = "a source") -> Release:
    return Release("a mechanism", event, 1.0, "for the test", 1.0, people, "a number", noise)


def responses(chosen: list[float]) -> tuple[dict[tuple[bool, ...], float], ...]:
    """The laws of independent randomised responses on either data set."""

    def law(truth: bool) -> dict[tuple[bool, ...], float]:
        shares = [1.0 / (1.0 + math.exp(-one)) for one in chosen]
        return {
            said: math.prod(
                share if told == truth else 1.0 - share
                for told, share in zip(said, shares, strict=True)
            )
            for said in product((True, False), repeat=len(chosen))
        }

    return law(True), law(False)


class TestAgainstOpenDp:
    """OpenDP is an optional dependency: its maps say what its own samplers keep."""

    @staticmethod
    def measurement(kind: str, scale: float) -> Any:
        import opendp.prelude as opendp

        opendp.enable_features("contrib")
        domain = opendp.atom_domain(T=float, nan=False)
        metric = opendp.absolute_distance(T=float)
        make = opendp.m.make_laplace if kind == "laplace" else opendp.m.make_gaussian
        return make(domain, metric, scale=scale)

    @needs_opendp
    @settings(deadline=None, max_examples=25)
    @given(chosen=epsilons)
    def test_pure_events_are_composed_as_opendp_composes_laplace(self, chosen: list[float]) -> None:
        import opendp.prelude as opendp

        parts = [self.measurement("laplace", 1.0 / one) for one in chosen]
        theirs = opendp.c.make_composition(parts).map(1.0)
        ours = composed_epsilon([PureEvent(one) for one in chosen], 0.0)
        assert ours == pytest.approx(theirs, rel=1e-9)

    @needs_opendp
    @settings(deadline=None, max_examples=25)
    @given(chosen=multipliers, delta=deltas)
    def test_gaussian_events_never_cost_more_than_opendp_says(
        self, chosen: list[float], delta: float
    ) -> None:
        import opendp.prelude as opendp

        parts = [self.measurement("gaussian", one) for one in chosen]
        both = opendp.c.make_composition(parts)
        # Its unit is rho of zero-concentrated DP: mu^2 / 2, which adds like ours.
        mu = math.hypot(*(1.0 / one for one in chosen))
        assert both.map(1.0) == pytest.approx(0.5 * mu**2, rel=1e-6)
        theirs = opendp.c.make_zCDP_to_approxDP(both).map(1.0).epsilon(delta)
        ours = composed_epsilon([GaussianEvent(one) for one in chosen], delta)
        # The conversion from rho is an upper bound, about a tenth too large.
        assert ours <= theirs * (1.0 + 1e-9)
        assert theirs <= 1.5 * ours + 0.5


class TestAgainstDpAccounting:
    @settings(deadline=None, max_examples=5)
    @given(drawn=events, delta=deltas)
    def test_compositions_agree_with_its_accountant(self, drawn: list[Event], delta: float) -> None:
        accountant = PLDAccountant(
            dp_accounting.NeighboringRelation.REPLACE_ONE,
            value_discretization_interval=1e-3,
        )
        for event in drawn:
            # Its multiplier is for adding a record: a replaced one moves sums twice as far.
            accountant.compose(
                dp_accounting.GaussianDpEvent(2.0 * event.noise_multiplier)
                if isinstance(event, GaussianEvent)
                else dp_accounting.RandomizedResponseDpEvent(
                    2.0 / (1.0 + math.exp(event.epsilon)), 2
                )
            )
        theirs = accountant.get_epsilon(delta)
        ours = composed_epsilon(drawn, delta)
        # Ours is an upper bound too: exact for Gaussians; of pure events alone all are taken for as
        # dear as the dearest.
        assert ours >= theirs - 2e-3 * len(drawn)
        if any(isinstance(event, GaussianEvent) for event in drawn):
            assert ours <= theirs + 2e-3 * len(drawn)


class TestAgainstClosedForms:
    @settings(deadline=None, max_examples=40)
    @given(chosen=epsilons)
    def test_pure_composition_is_tight(self, chosen: list[float]) -> None:
        """Randomised responses reach the sum, so no smaller epsilon would be true."""
        laws = responses(chosen)
        ours = composed_epsilon([PureEvent(one) for one in chosen], 0.0)
        assert exact_epsilon(laws[0], laws[1]) == pytest.approx(ours, rel=1e-9)

    @settings(deadline=None, max_examples=40)
    @given(chosen=epsilons, delta=deltas)
    def test_at_a_delta_the_promise_is_still_true(self, chosen: list[float], delta: float) -> None:
        laws = responses(chosen)
        ours = composed_epsilon([PureEvent(one) for one in chosen], delta)
        assert exact_epsilon(laws[0], laws[1], delta) <= ours + 1e-9


class TestLaws:
    @settings(deadline=None, max_examples=5)
    @given(drawn=events, more=events, delta=deltas)
    def test_more_events_never_cost_less(
        self, drawn: list[Event], more: list[Event], delta: float
    ) -> None:
        # A grid of losses is as coarse as what is on it, and rounds up by its own amount.
        slack = 2e-3 * (len(drawn) + len(more))
        assert composed_epsilon([*drawn, *more], delta) >= composed_epsilon(drawn, delta) - slack

    @settings(deadline=None, max_examples=5)
    @given(drawn=events, share=st.floats(0.1, 1.0))
    def test_a_larger_delta_never_costs_more(self, drawn: list[Event], share: float) -> None:
        large, small = composed_epsilon(drawn, 0.1), composed_epsilon(drawn, 0.1 * share)
        assert large <= small + 2e-3 * len(drawn)

    @settings(deadline=None, max_examples=40)
    @given(chosen=multipliers, growth=st.floats(1.0, 3.0), delta=deltas)
    def test_more_noise_never_costs_more(
        self, chosen: list[float], growth: float, delta: float
    ) -> None:
        before = composed_epsilon([GaussianEvent(one) for one in chosen], delta)
        after = composed_epsilon([GaussianEvent(one * growth) for one in chosen], delta)
        assert after <= before + 1e-9

    @settings(deadline=None, max_examples=40)
    @given(
        drawn=st.lists(st.tuples(st.floats(0.4, 20.0), groups), max_size=5),
        delta=deltas,
        radius=st.one_of(st.none(), st.floats(0.01, 100.0)),
        times=st.integers(1, 4),
        trust=st.sampled_from(["local", "joint", "outsourced", "none"]),
    )
    def test_guarantees_survive_json(
        self, drawn: list[Any], delta: float, radius: float | None, times: int, trust: Any
    ) -> None:
        releases = [release(GaussianEvent(one), people) for one, people in drawn]
        made = derive_guarantee(releases, trust, Adjacency("row", radius=radius), delta)
        repeated = made.repeated(times)
        assert Guarantee.from_json(repeated.to_json()) == repeated
        assert repeated.epsilon >= made.epsilon
        assert repeated.delta >= made.delta
