"""Certificates: what they promise follows from what was drawn, and forged ones are refused."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from discreet.outsourcing.answers import AnswerNoise, AnswerRules
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.release import Mechanism, mechanism_for
from discreet.privacy import Guarantee, NoiseSource, Outsourced, SecureNoise, SimulatedNoise
from discreet.privacy.accounting import gaussian_epsilon
from discreet.validation import InvalidInput
from tests.outsourcing.cases import bounds
from tests.outsourcing.cases import projection as gaussian

SIMULATED = SimulatedNoise(0)
DELTA = 1e-5
Change = Callable[[dict[str, Any]], None]


def certificate(
    epsilon: float = 2.0,
    radius: float | None = 1.0,
    *,
    columns: int = 3,
    projected: int | None = None,
    earlier: tuple[Mechanism, ...] = (),
    answers: AnswerNoise | None = None,
    noise: NoiseSource = SIMULATED,
) -> Certificate:
    public = bounds(columns)
    budget = Outsourced(epsilon, DELTA, radius)
    projection = None
    if projected is not None:
        projection = gaussian(columns, projected, "gaussian", seed=1)
    reach = public.diameter if radius is None else min(radius, public.diameter)
    return Certificate(
        release="0123456789abcdef" * 2,
        rows=40,
        bounds=public,
        budget=budget,
        mechanism=mechanism_for(budget, reach, public.extent, 40, projection, noise),
        earlier=earlier,
        projection=projection,
        answers=answers,
        repeats=1 if answers is None else answers.repeats,
        file="rows.csv",
        sha256="ab" * 32,
    )


def answer_noise(epsilon: float = 1.0, repeats: int = 1) -> AnswerNoise:
    noise = AnswerRules(repeats, epsilon, 1e-6, (0.0, 5.0)).calibrated(SIMULATED)
    assert noise is not None
    return noise


def mu(made: Mechanism, distance: float) -> float:
    """Sensitivity over scale, from first principles."""
    return (distance * made.gain + made.rounding) / made.scale


ALL_SORTS = {
    "plain": certificate(),
    "any row": certificate(radius=None),
    "projected": certificate(projected=2),
    "many columns, projected": certificate(columns=12, projected=11),
    "again": certificate(earlier=(certificate(1.0).mechanism, certificate(projected=2).mechanism)),
    "protected answers": certificate(answers=answer_noise(0.5, 3)),
    "no promise": replace(
        certificate(),
        budget=Outsourced(1e14, DELTA, 1.0),
        mechanism=replace(certificate().mechanism, scale=1e-8),
    ),
}


class TestFigures:
    @pytest.mark.parametrize("epsilon", [0.1, 2.0, 30.0])
    @pytest.mark.parametrize("radius", [0.01, 1.0, None])
    @pytest.mark.parametrize("projected", [None, 2])
    def test_what_was_asked_for_is_what_is_held(
        self, epsilon: float, radius: float | None, projected: int | None
    ) -> None:
        found = certificate(epsilon, radius, projected=projected)
        assert found.guarantee.epsilon == pytest.approx(epsilon, rel=1e-6)
        assert found.guarantee.epsilon <= epsilon * (1.0 + 1e-9)
        assert found.guarantee.delta == DELTA
        assert found.guarantee.adjacency.radius == radius
        assert found.guarantee.trust_model == "outsourced"
        assert found.alone == found.guarantee

    def test_full_replacement_is_counted_with_the_diameter(self) -> None:
        found = certificate()
        diameter = math.sqrt(3.0) * 10.0
        assert found.bounds.diameter == pytest.approx(diameter)
        expected = gaussian_epsilon(1.0 / mu(found.mechanism, diameter), DELTA)
        assert found.full_replacement.epsilon == pytest.approx(expected, rel=1e-6)
        assert found.full_replacement.epsilon > 17.0 * found.guarantee.epsilon
        assert found.full_replacement.adjacency.radius is None
        everything = certificate(radius=None)
        assert everything.full_replacement == everything.guarantee

    @pytest.mark.parametrize("radius", [18.0, 1e6])
    def test_a_radius_beyond_the_box_is_any_row(self, radius: float) -> None:
        found = certificate(radius=radius)
        assert found.radius == found.bounds.diameter
        assert found.guarantee.adjacency.radius is None
        assert found.mechanism.scale == certificate(radius=None).mechanism.scale

    def test_releases_of_one_table_compose(self) -> None:
        """Squared multipliers add, each with the gain of its own projection."""
        one, two, three = (
            certificate(1.0, projected=2).mechanism,
            certificate(3.0).mechanism,
            certificate(2.0, 0.5).mechanism,
        )
        found = replace(certificate(2.0, 0.5), earlier=(one, two))
        for guarantee, distance in (
            (found.guarantee, 0.5),
            (found.full_replacement, found.bounds.diameter),
        ):
            total = math.sqrt(sum(mu(made, distance) ** 2 for made in (one, two, three)))
            assert guarantee.epsilon == pytest.approx(gaussian_epsilon(1.0 / total, DELTA))
            assert guarantee.releases == 3
        assert found.alone.epsilon == pytest.approx(2.0)
        assert found.alone.releases == 1

    def test_what_row_and_outcome_cost_together(self) -> None:
        answers = answer_noise(0.5, 3)
        found = certificate(answers=answers)
        each = 5.0 / answers.scale
        total = math.sqrt(mu(found.mechanism, 1.0) ** 2 + 3.0 * each**2)
        both = found.with_answers
        assert both is not None
        assert both.epsilon == pytest.approx(gaussian_epsilon(1.0 / total, DELTA))
        assert both.adjacency.record == "row and outcome"
        assert both.epsilon > found.guarantee.epsilon
        assert certificate().with_answers is None

    @pytest.mark.parametrize("secure", [False, True])
    @pytest.mark.parametrize("repeats", [1, 2, 7, 100])
    def test_answers_keep_their_budget_over_all_repeats(self, repeats: int, secure: bool) -> None:
        if secure:
            pytest.importorskip("opendp")
        noise: NoiseSource = SecureNoise() if secure else SIMULATED
        found = AnswerRules(repeats, 0.7, 1e-6, (-1.0, 5.0)).calibrated(noise)
        one = noise.gaussian_multiplier(6.0, found.scale, 1)
        epsilon = gaussian_epsilon(one / math.sqrt(repeats), 1e-6)
        assert epsilon == pytest.approx(0.7, rel=1e-6)
        assert epsilon <= 0.7 * (1.0 + 1e-12)
        assert found.event.noise_multiplier == pytest.approx(one / math.sqrt(repeats))
        single = AnswerRules(1, 0.7, 1e-6, (-1.0, 5.0)).calibrated(noise)
        assert found is not None
        assert single is not None
        assert found.scale == pytest.approx(math.sqrt(repeats) * single.scale)

    def test_noise_sources_are_told(self) -> None:
        pytest.importorskip("opendp")
        simulated, secure = certificate(), certificate(noise=SecureNoise())
        assert any("this run protects nobody" in one for one in simulated.sentences)
        assert not any("this run protects nobody" in one for one in secure.sentences)
        mixed = replace(secure, earlier=(simulated.mechanism,))
        assert set(mixed.guarantee.noise) == {SimulatedNoise.name, SecureNoise.name}
        assert any("this run protects nobody" in one for one in mixed.sentences)
        assert (simulated.simulated, secure.simulated, mixed.simulated) == (True, False, False)


class TestSentences:
    def test_what_is_said(self) -> None:
        found = " ".join(certificate(3.0).sentences)
        for words in (
            "epsilon = 3, delta = 1e-05",
            "within distance 1",
            "two rows are at most 17.33",
        ):
            assert words in found
        assert "Answers are not protected" in found
        assert "released" not in certificate(3.0).sentences[-1]

    def test_numbers_are_never_rounded_down(self) -> None:
        found = certificate()
        full = found.full_replacement.epsilon
        (sentence,) = (one for one in found.sentences if "replaced by any other" in one)
        shown = float(sentence.split("epsilon = ")[1].split(",")[0])
        assert full <= shown <= 1.001 * full
        apart = float(sentence.split("at most ")[1].split(" ")[0])
        assert apart >= found.bounds.diameter

    def test_where_the_radius_ends_it_is_said_that_nobody_is_protected(self) -> None:
        def beyond(one: Certificate) -> str:
            return next(said for said in one.sentences if "replaced by any other" in said)

        far = certificate(3.0)
        assert far.full_replacement.epsilon > 30.0
        assert beyond(far).endswith(", which protects nobody.")
        near = certificate(0.2)
        assert near.full_replacement.epsilon < 30.0
        assert "protects nobody" not in beyond(near)
        assert not far.sentences[0].startswith("This protects nobody")

    def test_any_row_needs_no_second_figure(self) -> None:
        found = " ".join(certificate(radius=None).sentences)
        assert "within distance" not in found
        assert "replaced by any other" not in found

    def test_earlier_releases_and_answers_are_mentioned(self) -> None:
        again = " ".join(ALL_SORTS["again"].sentences)
        assert "released 3 times" in again
        assert "this release alone would hold epsilon = 2," in again
        answered = " ".join(ALL_SORTS["protected answers"].sentences)
        assert "row and its outcome both replaced" in answered
        assert "not protected" not in answered

    def test_without_a_promise_it_says_so(self) -> None:
        assert "No privacy is promised" in ALL_SORTS["no promise"].sentences[0]


class TestJson:
    @pytest.mark.parametrize("name", ALL_SORTS)
    def test_round_trip(self, name: str) -> None:
        found = ALL_SORTS[name]
        text = found.to_json()
        again = Certificate.from_json(text)
        assert again.to_json() == text
        assert again.guarantee == found.guarantee
        assert again.full_replacement == found.full_replacement
        assert again.with_answers == found.with_answers
        assert (again.mechanism, again.earlier) == (found.mechanism, found.earlier)
        assert (again.answers, again.budget, again.names) == (
            found.answers,
            found.budget,
            found.names,
        )
        if found.projection is not None:
            assert again.projection is not None
            np.testing.assert_array_equal(again.projection.matrix, found.projection.matrix)

    def test_secure_round_trip(self) -> None:
        pytest.importorskip("opendp")
        found = certificate(0.3, noise=SecureNoise(), projected=2)
        assert Certificate.from_json(found.to_json()).guarantee == found.guarantee

    def test_a_certificate_is_read_without_opendp(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The modeler need not have it: the closed form differs in the last digits only."""
        pytest.importorskip("opendp")
        texts = [
            certificate(epsilon, radius, noise=SecureNoise()).to_json()
            for epsilon in (0.01, 3.0)
            for radius in (0.001, None)
        ]

        def absent(self: SecureNoise) -> None:
            raise InvalidInput("OpenDP is not installed")

        monkeypatch.setattr(SecureNoise, "__init__", absent)
        for text in texts:
            assert Certificate.from_json(text).to_json() != ""

    def test_figures_are_there_for_everybody_to_read(self) -> None:
        fields = json.loads(ALL_SORTS["protected answers"].to_json())
        promise = fields["promise"]
        assert promise["sentences"] == list(ALL_SORTS["protected answers"].sentences)
        for name in ("guarantee", "full_replacement", "with_answers"):
            assert Guarantee.from_json(json.dumps(promise[name])).epsilon > 0.0
        assert fields["diameter"] == ALL_SORTS["protected answers"].bounds.diameter
        assert fields["columns"] == ["a", "b", "c"]
        assert json.loads(ALL_SORTS["projected"].to_json())["columns"] == ["z1", "z2"]

    def test_nothing_private_has_a_place_in_it(self) -> None:
        fields = json.loads(ALL_SORTS["again"].to_json())
        assert set(fields) == {
            "kind",
            "schema",
            "release",
            "rows",
            "columns",
            "bounds",
            "budget",
            "diameter",
            "mechanism",
            "earlier",
            "projection",
            "answers",
            "repeats",
            "file",
            "sha256",
            "promise",
        }
        # Neither the names of the secret columns nor the seed.
        assert set(fields["bounds"]) == {"columns"}
        assert set(fields["mechanism"]) == {"scale", "gain", "rounding", "numbers", "noise"}


def setter(*path: str | int, to: Any) -> Change:
    def change(fields: dict[str, Any]) -> None:
        inner: Any = fields
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = to

    return change


def scaler(*path: str | int, by: float) -> Change:
    def change(fields: dict[str, Any]) -> None:
        inner: Any = fields
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] *= by

    return change


class TestForgeries:
    def refused(self, name: str, change: Change, message: str) -> None:
        fields = json.loads(ALL_SORTS[name].to_json())
        before = copy.deepcopy(fields)
        change(fields)
        assert fields != before
        with pytest.raises(InvalidInput, match=message):
            Certificate.from_json(json.dumps(fields))

    @pytest.mark.parametrize(
        ("name", "change", "message"),
        [
            (
                "plain",
                scaler("mechanism", "scale", by=0.99),
                "claims the epsilon .* 2, but it is 2.0",
            ),
            ("plain", scaler("mechanism", "rounding", by=0.5), "claims the rounding"),
            ("plain", scaler("mechanism", "gain", by=0.9), "claims the gain 0.9"),
            ("projected", scaler("mechanism", "gain", by=1.0 - 1e-9), "claims the gain"),
            ("projected", scaler("projection", "matrix", 0, 0, by=50.0), "claims the gain"),
            ("again", scaler("earlier", 0, "scale", by=0.5), "mechanisms give"),
            ("again", scaler("earlier", 1, "gain", by=2.0), "mechanisms give"),
            ("again", setter("earlier", 0, to={}), "lacks the field 'scale'"),
            ("plain", scaler("budget", "epsilon", by=0.5), "claims the epsilon"),
            ("plain", scaler("budget", "delta", by=0.1), "claims the epsilon"),
            ("plain", scaler("budget", "radius", by=2.0), "claims the epsilon"),
            ("plain", setter("budget", "radius", to=None), "claims the epsilon"),
            ("protected answers", scaler("answers", "scale", by=0.9), "epsilon of the answers"),
            ("protected answers", scaler("answers", "epsilon", by=0.9), "epsilon of the answers"),
            ("protected answers", scaler("answers", "upper", by=2.0), "epsilon of the answers"),
            ("protected answers", setter("answers", "repeats", to=1), "must be equal"),
            ("protected answers", setter("repeats", to=30), "must be equal"),
            ("protected answers", setter("answers", to=None), "with_answers"),
        ],
    )
    def test_facts_that_promise_too_little_noise(
        self, name: str, change: Change, message: str
    ) -> None:
        self.refused(name, change, message)

    @pytest.mark.parametrize("figure", ["guarantee", "full_replacement", "with_answers"])
    @pytest.mark.parametrize(
        ("field", "to"),
        [
            ("epsilon", 0.01),
            ("epsilon", 0.0),
            ("epsilon", -1.0),
            ("epsilon", math.nan),
            ("delta", 1e-9),
            ("delta", 0.0),
            ("noise", [SecureNoise.name]),
            ("noise", []),
            ("trust_model", "local"),
            ("reports_per_person", 2),
        ],
    )
    def test_promises_that_do_not_follow(self, figure: str, field: str, to: Any) -> None:
        change = setter("promise", figure, field, to=to)
        self.refused("protected answers", change, "mechanisms give|is damaged")

    def test_promises_for_a_larger_radius(self) -> None:
        for to in (1.01, None):
            change = setter("promise", "guarantee", "adjacency", "radius", to=to)
            self.refused("plain", change, "mechanisms give")

    def test_promises_about_more_than_a_row(self) -> None:
        for field, to in (("record", "row and outcome"), ("relation", "add-remove")):
            change = setter("promise", "guarantee", "adjacency", field, to=to)
            self.refused("plain", change, "mechanisms give")

    def test_a_promise_where_there_is_none(self) -> None:
        fields = json.loads(ALL_SORTS["protected answers"].to_json())
        both = fields["promise"]["with_answers"]
        self.refused("plain", setter("promise", "with_answers", to=both), "give nothing")
        self.refused("no promise", setter("promise", "guarantee", "epsilon", to=1e9), "epsilon")

    def test_promising_less_is_allowed(self) -> None:
        fields = json.loads(ALL_SORTS["protected answers"].to_json())
        fields["promise"]["guarantee"]["epsilon"] = 5.0
        fields["promise"]["guarantee"]["adjacency"]["radius"] = 0.5
        fields["promise"]["full_replacement"]["epsilon"] = None
        fields["promise"]["with_answers"] = None
        found = Certificate.from_json(json.dumps(fields))
        assert found.guarantee == ALL_SORTS["protected answers"].guarantee

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (setter("kind", to="certificate"), "not the certificate"),
            (setter("schema", to=2), "schema 2"),
            (setter("release", to="../../etc/passwd"), "32 hex digits"),
            (setter("release", to="A" * 32), "32 hex digits"),
            (setter("release", to=5), "must be text"),
            (setter("file", to="../rows.csv"), "must be 'rows.csv' or"),
            (setter("file", to="/etc/passwd"), "must be 'rows.csv' or"),
            (setter("file", to="rows.csv\0"), "must be 'rows.csv' or"),
            (setter("file", to=["rows.csv"]), "must be 'rows.csv' or"),
            (setter("file", to="certificate.json"), "must be 'rows.csv' or"),
            (setter("rows", to=0), "rows was 0"),
            (setter("rows", to=1.5), "rows was 1.5"),
            (setter("repeats", to=0), "repeats was 0"),
            (setter("columns", to=["b", "a", "c"]), "names the columns"),
            (setter("columns", to=["a", "b"]), "names the columns"),
            (setter("diameter", to=1.0), "claims the diameter"),
            (setter("diameter", to="17"), "damaged"),
            (setter("mechanism", "scale", to=0.0), "scale was 0"),
            (setter("mechanism", "scale", to=1e-320), "number from 1e-60 to 1e"),
            (setter("mechanism", "scale", to=math.inf), "scale was inf"),
            (setter("mechanism", "gain", to=1e300), "number from 1e-60 to 1e"),
            (setter("mechanism", "numbers", to=2**70), "numbers was"),
            (setter("mechanism", "numbers", to=0), "numbers was 0"),
            (setter("mechanism", "noise", to="dice"), "noise source was 'dice'"),
            (setter("mechanism", "noise", to="none"), "nothing protects"),
            (setter("mechanism", "more", to=1), "must have exactly scale, gain,"),
            (setter("mechanism", to=None), "must be an object"),
            (setter("earlier", to=5), "must be a list"),
            (setter("budget", "epsilon", to=-2.0), "epsilon was -2"),
            (setter("budget", "more", to=1), "it takes epsilon, delta, radius"),
            (setter("budget", "trust_model", to="joint"), "it takes epsilon, delta"),
            (
                setter("budget", to={"trust_model": "joint", "epsilon": 2.0, "delta": 1e-5}),
                "budget was Joint",
            ),
            (setter("bounds", "columns", to=[]), "at least one"),
            (setter("bounds", "columns", 0, "lower", to="0"), "it must be a number"),
            (setter("bounds", "columns", 0, "upper", to=-1.0), "must be below"),
            (setter("bounds", "columns", 0, "name", to=3), "name was 3; it must be a text"),
            (setter("projection", to={"matrix": [[1.0], [1.0]]}), "has 2 rows for 3"),
            (setter("projection", to={"matrix": [[1.0], [math.nan], [1.0]]}), "matrix had NaN"),
            (setter("projection", to="x"), "projection"),
            (setter("answers", to={"epsilon": 1.0}), "lacks the field 'delta'"),
            (setter("promise", to={}), "damaged"),
            (setter("promise", "guarantee", "delta", to=10**400), "damaged"),
            (setter("promise", "guarantee", "releases", to=math.inf), "damaged"),
            (setter("promise", "guarantee", to="all"), "guarantee"),
        ],
    )
    def test_damage(self, change: Change, message: str) -> None:
        self.refused("plain", change, message)

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", "[" * 100_000, '{"kind": 1}'])
    def test_other_texts(self, text: str) -> None:
        with pytest.raises(InvalidInput):
            Certificate.from_json(text)

    @pytest.mark.parametrize("name", ALL_SORTS)
    def test_every_field_is_needed(self, name: str) -> None:
        fields = json.loads(ALL_SORTS[name].to_json())
        for field in fields:
            less = {key: value for key, value in fields.items() if key != field}
            with pytest.raises(InvalidInput):
                Certificate.from_json(json.dumps(less))


class TestAnswerNoise:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"epsilon": 0.0}, "epsilon of answers was 0"),
            ({"delta": 1.0}, "delta of answers was 1"),
            ({"bounds": (1.0, 1.0)}, "lower must be below"),
            ({"bounds": (2.0, 1.0)}, "lower must be below"),
            ({"bounds": (0.0, math.nan)}, "a bound of answers was nan"),
            ({"bounds": (-1e308, 1e308)}, "lower must be below"),
            ({"repeats": 0}, "repeats was 0"),
            ({"repeats": 1.5}, "repeats was 1.5"),
        ],
    )
    def test_bad_rules(self, change: dict[str, Any], message: str) -> None:
        rules = {"epsilon": 1.0, "delta": 1e-6, "bounds": (0.0, 1.0), "repeats": 1, **change}
        with pytest.raises(InvalidInput, match=message):
            AnswerRules(**rules).calibrated(SIMULATED)
