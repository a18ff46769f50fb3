"""Certificates: what they promise follows from what was drawn, and forged ones are refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.mechanisms import AnswerNoise, AnswerRules, Mechanism, mechanism_for
from discreet.privacy import Guarantee, NoiseSource, Outsourced, SecureNoise, SimulatedNoise
from discreet.privacy.accounting import gaussian_epsilon
from discreet.validation import InvalidInput
from tests.outsourcing.cases import bounds
from tests.outsourcing.cases import projection as gaussian

SIMULATED = SimulatedNoise(0)
DELTA = 1e-5


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
        assert any("this run protects no one" in one for one in simulated.sentences)
        assert not any("this run protects no one" in one for one in secure.sentences)
        mixed = replace(secure, earlier=(simulated.mechanism,))
        assert set(mixed.guarantee.noise) == {SimulatedNoise.name, SecureNoise.name}
        assert any("this run protects no one" in one for one in mixed.sentences)
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
        assert beyond(far).endswith(", which protects no one.")
        near = certificate(0.2)
        assert near.full_replacement.epsilon < 30.0
        assert "protects no one" not in beyond(near)
        assert not far.sentences[0].startswith("This protects no one")

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
        assert again.promises == found.promises
        assert (again.wish, again.mechanism) == (found.wish, found.mechanism)

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
        assert " ".join(sorted(fields)) == (
            "answers bounds budget columns diameter earlier file kind mechanism projection promise "
            "release repeats rows schema sha256"
        )
        # Neither the names of the secret columns nor the seed.
        assert set(fields["bounds"]) == {"columns"}
        assert set(fields["mechanism"]) == {"scale", "gain", "rounding", "numbers", "noise"}


def changed(name: str, path: str, to: Any = None, by: float | None = None) -> dict[str, Any]:
    """The fields of a certificate with one of them replaced, or multiplied."""
    fields = json.loads(ALL_SORTS[name].to_json())
    inner: Any = fields
    *outer, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in outer:
        inner = inner[part]
    inner[last] = to if by is None else inner[last] * by
    return fields


def refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Certificate.from_json(json.dumps(fields))


class TestForgeries:
    @pytest.mark.parametrize(
        ("name", "path", "by", "message"),
        [
            ("plain", "mechanism.scale", 0.99, "claims the epsilon .* 2, but it is 2.0"),
            ("plain", "mechanism.rounding", 0.5, "claims the rounding"),
            ("plain", "mechanism.gain", 0.9, "claims the gain 0.9"),
            ("projected", "mechanism.gain", 1.0 - 1e-9, "claims the gain"),
            ("projected", "projection.matrix.0.0", 50.0, "claims the gain"),
            ("again", "earlier.0.scale", 0.5, "mechanisms give"),
            ("again", "earlier.1.gain", 2.0, "mechanisms give"),
            ("plain", "budget.epsilon", 0.5, "claims the epsilon"),
            ("plain", "budget.delta", 0.1, "claims the epsilon"),
            ("plain", "budget.radius", 2.0, "claims the epsilon"),
            ("protected answers", "answers.scale", 0.9, "epsilon of the answers"),
            ("protected answers", "answers.epsilon", 0.9, "epsilon of the answers"),
            ("protected answers", "answers.upper", 2.0, "epsilon of the answers"),
        ],
    )
    def test_facts_that_promise_too_little_noise(
        self, name: str, path: str, by: float, message: str
    ) -> None:
        refused(changed(name, path, by=by), message)

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
        fields = changed("protected answers", f"promise.{figure}.{field}", to)
        refused(fields, "mechanisms give|is damaged")

    @pytest.mark.parametrize(
        ("field", "to"),
        [
            ("radius", 1.01),
            ("radius", None),
            ("record", "row and outcome"),
            ("relation", "add-remove"),
        ],
    )
    def test_promises_for_other_neighbours(self, field: str, to: Any) -> None:
        refused(changed("plain", f"promise.guarantee.adjacency.{field}", to), "mechanisms give")

    def test_a_promise_where_there_is_none(self) -> None:
        both = json.loads(ALL_SORTS["protected answers"].to_json())["promise"]["with_answers"]
        refused(changed("plain", "promise.with_answers", both), "give nothing")
        refused(changed("no promise", "promise.guarantee.epsilon", 1e9), "epsilon")

    def test_promising_less_is_allowed(self) -> None:
        fields = json.loads(ALL_SORTS["protected answers"].to_json())
        fields["promise"]["guarantee"]["epsilon"] = 5.0
        fields["promise"]["guarantee"]["adjacency"]["radius"] = 0.5
        fields["promise"]["full_replacement"]["epsilon"] = None
        fields["promise"]["with_answers"] = None
        read = Certificate.from_json(json.dumps(fields))
        assert read.guarantee == ALL_SORTS["protected answers"].guarantee

    @pytest.mark.parametrize(
        ("path", "to", "message"),
        [
            ("kind", "certificate", "not the certificate"),
            ("schema", 2, "schema 2"),
            ("release", "../../etc/passwd", "32 hex digits"),
            ("release", "A" * 32, "32 hex digits"),
            ("release", 5, "must be text"),
            ("file", "../rows.csv", "must be 'rows.csv' or"),
            ("file", "/etc/passwd", "must be 'rows.csv' or"),
            ("file", "rows.csv\0", "must be 'rows.csv' or"),
            ("file", ["rows.csv"], "must be 'rows.csv' or"),
            ("file", "certificate.json", "must be 'rows.csv' or"),
            ("rows", 0, "rows was 0"),
            ("rows", 1.5, "rows was 1.5"),
            ("repeats", 0, "repeats was 0"),
            ("columns", ["b", "a", "c"], "names the columns"),
            ("columns", ["a", "b"], "names the columns"),
            ("diameter", 1.0, "claims the diameter"),
            ("diameter", "17", "damaged"),
            ("mechanism.scale", 0.0, "scale was 0"),
            ("mechanism.scale", 1e-320, "number from 1e-60 to 1e"),
            ("mechanism.scale", math.inf, "scale was inf"),
            ("mechanism.gain", 1e300, "number from 1e-60 to 1e"),
            ("mechanism.numbers", 2**70, "numbers was"),
            ("mechanism.numbers", 0, "numbers was 0"),
            ("mechanism.noise", "dice", "noise source was 'dice'"),
            ("mechanism.noise", "none", "nothing protects"),
            ("mechanism.more", 1, "must have exactly scale, gain,"),
            ("mechanism", None, "must be an object"),
            ("earlier", 5, "must be a list"),
            ("earlier", [{}], "lacks the field 'scale'"),
            ("budget.radius", None, "claims the epsilon"),
            ("budget.epsilon", -2.0, "epsilon was -2"),
            ("budget.more", 1, "it takes epsilon, delta, radius"),
            ("budget.trust_model", "joint", "it takes epsilon, delta"),
            ("budget", {"trust_model": "joint", "epsilon": 2.0, "delta": 1e-5}, "budget was Joint"),
            ("bounds.columns", [], "at least one"),
            ("bounds.columns.0.lower", "0", "it must be a number"),
            ("bounds.columns.0.upper", -1.0, "must be below"),
            ("bounds.columns.0.name", 3, "name was 3; it must be a text"),
            ("projection", {"matrix": [[1.0], [1.0]]}, "has 2 rows for 3"),
            ("projection", {"matrix": [[1.0], [math.nan], [1.0]]}, "matrix had nan"),
            ("projection", "x", "projection"),
            ("answers", {"epsilon": 1.0}, "lacks the field 'delta'"),
            ("promise", {}, "damaged"),
            ("promise.guarantee.delta", 10**400, "damaged"),
            ("promise.guarantee.releases", math.inf, "damaged"),
            ("promise.guarantee", "all", "guarantee"),
        ],
    )
    def test_damage(self, path: str, to: Any, message: str) -> None:
        refused(changed("plain", path, to), message)

    @pytest.mark.parametrize(
        ("path", "to", "message"),
        [
            ("answers.repeats", 1, "must be equal"),
            ("repeats", 30, "must be equal"),
            ("answers", None, "with_answers"),
        ],
    )
    def test_facts_about_answers_that_do_not_fit(self, path: str, to: Any, message: str) -> None:
        refused(changed("protected answers", path, to), message)

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", "[" * 100_000, '{"kind": 1}'])
    def test_other_texts(self, text: str) -> None:
        with pytest.raises(InvalidInput):
            Certificate.from_json(text)

    @pytest.mark.parametrize("name", ALL_SORTS)
    def test_every_field_is_needed(self, name: str) -> None:
        fields = json.loads(ALL_SORTS[name].to_json())
        for field in fields:
            refused({key: value for key, value in fields.items() if key != field}, ".")
