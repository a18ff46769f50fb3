"""Guarantees: derived from releases, never from what was asked for, and never too small."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from discreet.privacy import (
    Adjacency,
    Budget,
    Guarantee,
    Joint,
    Local,
    NonPrivate,
    OnceEach,
    Outsourced,
    Release,
    Rounds,
    SimulatedNoise,
    check_protects,
    derive_guarantee,
)
from discreet.privacy.accounting import (
    Event,
    GaussianEvent,
    PureEvent,
    composed_epsilon,
    gaussian_epsilon,
)
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.guarantee import PROTECTS_NOBODY
from discreet.validation import InvalidInput

RECORD = Adjacency(record="context, action and reward")
SECURE = "SecureNoise"


def release(event: Event, people: Rounds | OnceEach, noise: str = SECURE) -> Release:
    return Release("a mechanism", event, 1.0, "for the test", 1.0, people, "a number", noise)


def pure(epsilon: float, people: Rounds | OnceEach) -> Release:
    return release(PureEvent(epsilon), people)


def gaussian(multiplier: float, people: Rounds | OnceEach) -> Release:
    return release(GaussianEvent(multiplier), people)


def promised(releases: list[Release], delta: float = 0.0) -> float:
    return derive_guarantee(releases, "joint", RECORD, delta).epsilon


def rounds(last: int = 12) -> st.SearchStrategy[Rounds]:
    start = st.integers(0, last - 1)
    return start.flatmap(lambda a: st.integers(a + 1, last).map(lambda b: Rounds(a, b)))


def people() -> st.SearchStrategy[Rounds | OnceEach]:
    return st.one_of(rounds(), st.sampled_from([OnceEach("a"), OnceEach("b")]))


def by_enumeration(releases: list[Release], delta: float) -> float:
    """The worst over every person who could exist: any round, any choice within each group."""
    groups: dict[str, list[Release | None]] = {}
    for one in releases:
        if isinstance(one.people, OnceEach):
            groups.setdefault(one.people.group, [None]).append(one)
    last = max((r.people.stop for r in releases if isinstance(r.people, Rounds)), default=1)
    worst = 0.0
    for arrival, chosen in product(range(last + 1), product(*groups.values())):
        events = [one.event for one in chosen if one is not None]
        events += [
            one.event
            for one in releases
            if isinstance(one.people, Rounds) and one.people.start <= arrival < one.people.stop
        ]
        worst = max(worst, composed_epsilon(events, delta))
    return worst


class TestWhoPays:
    @pytest.mark.parametrize(
        ("releases", "expected"),
        [
            ([], 0.0),
            # Of disjoint rounds the worst counts, of rounds that overlap the sum.
            ([pure(1.0, Rounds(0, 10)), pure(3.0, Rounds(10, 20)), pure(2.0, Rounds(20, 30))], 3.0),
            ([pure(1.0, Rounds(0, 11)), pure(3.0, Rounds(10, 20)), pure(2.0, Rounds(10, 11))], 6.0),
            # No round lies in all three of a chain.
            ([pure(1.0, Rounds(5 * i, 5 * i + 10)) for i in range(3)], 2.0),
            # Of a group the worst counts; groups add to each other and to rounds.
            ([pure(epsilon, OnceEach("a")) for epsilon in (1.0, 2.0, 1.5)], 2.0),
            ([pure(1.0, OnceEach("a")), pure(2.0, OnceEach("a")), pure(4.0, OnceEach("b"))], 6.0),
            ([pure(1.0, OnceEach("a")), pure(4.0, Rounds(3, 4))], 5.0),
            ([pure(math.inf, OnceEach("a"))], math.inf),
        ],
    )
    def test_pure_releases(self, releases: list[Release], expected: float) -> None:
        assert promised(releases) == expected
        assert derive_guarantee(releases, "joint", RECORD).releases == len(releases)
        assert derive_guarantee(releases, "none", RECORD).epsilon == math.inf

    def test_kinds_do_not_compare_so_both_are_tried(self) -> None:
        """At delta = 0.1 the Gaussian is the worse of the two, at 0.5 the pure one."""
        releases = [pure(2.0, OnceEach("a")), gaussian(0.5, OnceEach("a"))]
        assert promised(releases, 0.1) == pytest.approx(gaussian_epsilon(0.5, 0.1))
        assert gaussian_epsilon(0.5, 0.5) < 2.0 < gaussian_epsilon(0.5, 0.1)
        assert promised(releases, 0.5) == 2.0

    @settings(deadline=None, max_examples=60)
    @given(st.lists(st.tuples(st.floats(0.1, 3.0), people()), max_size=6))
    def test_pure_releases_against_enumeration(
        self, drawn: list[tuple[float, Rounds | OnceEach]]
    ) -> None:
        releases = [pure(epsilon, who) for epsilon, who in drawn]
        assert promised(releases) == pytest.approx(by_enumeration(releases, 0.0))

    @settings(deadline=None, max_examples=25)
    @given(st.lists(st.tuples(st.floats(0.5, 10.0), people()), max_size=5))
    def test_gaussian_releases_against_enumeration(
        self, drawn: list[tuple[float, Rounds | OnceEach]]
    ) -> None:
        releases = [gaussian(multiplier, who) for multiplier, who in drawn]
        assert promised(releases, 1e-3) == pytest.approx(by_enumeration(releases, 1e-3))

    @pytest.mark.slow
    @settings(deadline=None, max_examples=10)
    @given(st.lists(st.tuples(st.booleans(), people()), min_size=2, max_size=4))
    def test_mixed_releases_against_enumeration(
        self, drawn: list[tuple[bool, Rounds | OnceEach]]
    ) -> None:
        releases = [(pure if is_pure else gaussian)(1.0, who) for is_pure, who in drawn]
        assert promised(releases, 1e-3) == pytest.approx(by_enumeration(releases, 1e-3))

    @settings(deadline=None, max_examples=60)
    @given(
        st.lists(st.tuples(st.floats(0.1, 3.0), people()), max_size=5),
        st.tuples(st.floats(0.1, 3.0), people()),
        st.booleans(),
    )
    def test_another_release_never_lowers_epsilon(
        self,
        drawn: list[tuple[float, Rounds | OnceEach]],
        more: tuple[float, Rounds | OnceEach],
        is_pure: bool,
    ) -> None:
        make, delta = (pure, 0.0) if is_pure else (gaussian, 1e-3)
        releases = [make(number, who) for number, who in drawn]
        before, after = promised(releases, delta), promised([*releases, make(*more)], delta)
        assert after >= before - 1e-9

    @settings(deadline=None, max_examples=30)
    @given(st.permutations([pure(float(i), Rounds(i, 2 * i + 1)) for i in range(1, 6)]))
    def test_order_plays_no_part(self, releases: list[Release]) -> None:
        assert promised(releases) == by_enumeration(releases, 0.0)

    def test_a_gaussian_needs_a_delta(self) -> None:
        with pytest.raises(InvalidInput, match="delta was 0"):
            promised([gaussian(1.0, Rounds(0, 1))])

    @pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 3), (4, 2)])
    def test_rounds_hold_somebody(self, start: int, stop: int) -> None:
        with pytest.raises(InvalidInput, match="0 <= start < stop"):
            Rounds(start, stop)


GROUP = OnceEach("one report a person")


def local(epsilon: float, noise: str = SECURE) -> Guarantee:
    return derive_guarantee([release(PureEvent(epsilon), GROUP, noise)], "local", RECORD)


class TestReading:
    def test_reading_changes_nothing(self) -> None:
        releases = [pure(1.0, Rounds(0, 5)), pure(2.0, GROUP)]
        before = copy.deepcopy(releases)
        first = derive_guarantee(releases, "joint", RECORD)
        sentence = first.sentence
        first.repeated(3).to_json()
        assert releases == before
        assert derive_guarantee(releases, "joint", RECORD) == first
        assert first.sentence == sentence

    def test_it_lists_data_and_noise_once(self) -> None:
        guarantee = derive_guarantee([pure(1.0, GROUP)] * 3, "local", RECORD)
        assert guarantee.data == ("a number",)
        assert guarantee.noise == (SECURE,)
        assert guarantee.releases == 3

    def test_repeated_reports_add(self) -> None:
        twice = local(1.5).repeated(2)
        assert (twice.epsilon, twice.delta, twice.reports_per_person) == (3.0, 0.0, 2)
        assert twice.repeated(3) == local(1.5).repeated(6)
        assert local(1.5).repeated(1) == local(1.5)

    @pytest.mark.parametrize("reports", [0, -1, 1.5, True])
    def test_reports_are_counted(self, reports: object) -> None:
        with pytest.raises(InvalidInput, match="times was"):
            local(1.0).repeated(reports)  # type: ignore[arg-type]


class TestSentence:
    def test_epsilon_factor_and_the_cost_of_another_report(self) -> None:
        sentence = local(1.0).sentence
        assert "epsilon = 1;" in sentence
        assert "2.719 times as likely" in sentence  # e = 2.71828.., rounded up
        assert "context, action and reward" in sentence
        assert "at most 73.2% sure" in sentence  # e / (1 + e) = 0.7311, rounded up
        assert "one report by a person; two make it epsilon = 2." in sentence

    @pytest.mark.parametrize(
        ("epsilon", "factor", "certainty"),
        [(4.0, "54.6", "98.3%"), (8.0, "2,981", "99.97%"), (12.0, "162,800", "99.9994%")],
    )
    def test_no_certainty_is_rounded_up_to_100(
        self, epsilon: float, factor: str, certainty: str
    ) -> None:
        sentence = local(epsilon).sentence
        assert f"more than {factor} times as likely" in sentence
        assert f"at most {certainty} sure" in sentence

    def test_after_three_reports(self) -> None:
        sentence = local(0.5).repeated(3).sentence
        assert "epsilon = 1.5;" in sentence
        assert "This holds for 3 reports by a person." in sentence

    def test_delta_and_radius_are_named(self) -> None:
        near = Adjacency(record="row", radius=0.5)
        guarantee = derive_guarantee([gaussian(1.0, Rounds(0, 9))], "outsourced", near, 1e-5)
        assert "delta = 1e-05" in guarantee.sentence
        assert "within distance 0.5" in guarantee.sentence

    @pytest.mark.parametrize("epsilon", [1e-9, 12.9, 13.1, 709.0, 711.0, 1024.0, 1e6])
    def test_every_epsilon_has_a_sentence(self, epsilon: float) -> None:
        said = float(local(epsilon).sentence.split("epsilon = ")[1].split(";")[0])
        assert epsilon * (1.0 - 1e-9) <= said <= epsilon * 1.001

    def test_simulated_noise_protects_nobody(self) -> None:
        assert "protects no one" in local(1.0, SimulatedNoise.name).sentence
        assert "protects no one" not in local(1.0).sentence

    def test_no_privacy_is_said_plainly(self) -> None:
        nothing = derive_guarantee([pure(math.inf, GROUP)], "none", RECORD)
        for guarantee in (local(math.inf), nothing):
            assert guarantee.sentence.startswith("No privacy is promised")

    def test_it_is_shown_in_a_few_words(self) -> None:
        held = local(1.0)
        assert repr(held) == "Guarantee(epsilon = 1; local differential privacy, replace-one)"
        assert str(held) == held.sentence
        each = replace(local(31.5), adjacency=replace(RECORD, unit="contribution"))
        assert each.held.endswith(
            "replace-one, for each contribution by itself, which protects no one"
        )
        assert local(1.0, SimulatedNoise.name).held.endswith(", with simulated noise")
        assert local(math.inf).held == "no privacy"
        assert derive_guarantee([], "local", RECORD).held.startswith("nothing drawn")

    def test_a_notebook_shows_its_sentence_and_its_facts(self) -> None:
        page = replace(local(1.0), data=("a <b> & c",))._repr_html_()
        assert "a &lt;b&gt; &amp; c" in page
        assert "epsilon = 1; local" in page
        assert "derived from</td>" in page
        assert "1 release</td>" in page
        assert "color:" not in page  # in any theme

    def test_before_anything_is_drawn(self) -> None:
        assert derive_guarantee([], "local", RECORD).sentence.startswith("Nothing has been drawn")


class TestProtectsNobody:
    def test_the_limit_is_where_everyone_alive_no_longer_hides_anyone(self) -> None:
        def sure(epsilon: float) -> float:
            return 1.0 / (1.0 + 2.0**33 * math.exp(-epsilon))

        assert sure(PROTECTS_NOBODY) > 0.999 > sure(PROTECTS_NOBODY - 0.5)

    @pytest.mark.parametrize("epsilon", [30.1, 400.0, 1e9])
    def test_a_sentence_says_so_in_words(self, epsilon: float) -> None:
        sentence = local(epsilon).sentence
        assert sentence.startswith("This protects no one (epsilon = ")
        assert "10^" not in sentence
        assert local(epsilon).protects_nobody

    @pytest.mark.parametrize("epsilon", [0.1, 20.1, 30.0, 30.0 * (1.0 + 1e-12)])
    def test_not_below_the_limit(self, epsilon: float) -> None:
        assert not local(epsilon).protects_nobody
        assert "protects no one" not in local(epsilon).sentence
        check_protects(local(epsilon))

    def test_a_delta_of_1_allows_anything(self) -> None:
        guarantee = derive_guarantee([gaussian(0.2, Rounds(0, 9))], "joint", RECORD, 1e-3)
        many = guarantee.repeated(2)
        assert many.delta == 1.0
        assert many.protects_nobody
        assert many.sentence.startswith("This protects no one: a delta of 1 allows anything (")

    @pytest.mark.parametrize("budget", [Local(1e9), Joint(31.0, 1e-6), Outsourced(1e9, 1e-6)])
    def test_it_must_be_asked_for_by_name(self, budget: Budget) -> None:
        with pytest.raises(InvalidInput, match=r"above 30 it protects no one.*--protects-nobody"):
            check_protects(budget)
        check_protects(budget, allowed=True)

    def test_no_privacy_at_all_says_so_by_its_name(self) -> None:
        check_protects(NonPrivate())
        assert derive_guarantee([], "none", RECORD).protects_nobody


class TestJson:
    def test_it_is_strict_json_with_the_sentence(self) -> None:
        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        text = local(math.inf).to_json()
        fields = json.loads(text, parse_constant=refuse)
        assert fields["epsilon"] is None
        assert fields["sentence"] == local(math.inf).sentence

    @pytest.mark.parametrize("change", [{"kind": "policy"}, {"schema": 2}, {"schema": None}])
    def test_another_kind_or_schema_is_refused(self, change: dict[str, object]) -> None:
        fields = {**json.loads(local(1.0).to_json()), **change}
        with pytest.raises(InvalidInput, match=r"kind|schema"):
            Guarantee.from_json(json.dumps(fields))


class TestFaultsOnceFound:
    """Each was a fault of an earlier version, found by an adversarial reading."""

    @pytest.mark.parametrize("delta", [0.1, 1e-5])
    def test_a_person_with_two_rows_in_one_gaussian_release(self, delta: float) -> None:
        """Two rows move the sum twice as far: mu doubles (group privacy)."""
        multiplier = gaussian_noise_multiplier(1.0, delta)
        releases = [gaussian(multiplier, Rounds(0, 100))]
        twice = derive_guarantee(releases, "joint", RECORD, delta).repeated(2)
        mu, epsilon = 2.0 / multiplier, twice.epsilon
        tail = math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        assert twice.delta >= norm.cdf(mu / 2 - epsilon / mu) - tail

    @pytest.mark.parametrize("delta", [-1.0, 2.0, math.nan])
    def test_an_impossible_delta_is_refused(self, delta: float) -> None:
        with pytest.raises(InvalidInput):
            derive_guarantee([pure(1.0, GROUP)], "local", RECORD, delta)

    def test_the_sentence_never_says_less_than_epsilon(self) -> None:
        assert "epsilon = 1;" not in local(1.00004).sentence

    @pytest.mark.parametrize("text", ["", "[]", '{"kind": "guarantee", "schema": 1}'])
    def test_damaged_json_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInput):
            Guarantee.from_json(text)
