"""Certificates of outsourced releases, derived from the mechanisms that drew them.

A certificate holds facts: the public bounds, what was asked for, the mechanisms that drew. The
file that travels with the release also has the figures and sentences that follow from them, for
people to read. A reader derives the figures anew and refuses a file whose figures promise more than
follows; sentences are not compared. A certificate is not signed: the curator vouches for its facts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

from discreet import codec
from discreet.codec import Range, Serializable
from discreet.outsourcing.bounds import PublicBounds
from discreet.outsourcing.mechanisms import AnswerNoise, Mechanism, RowProjection, stretch
from discreet.privacy import (
    Adjacency,
    Guarantee,
    Outsourced,
    SimulatedNoise,
    derive_guarantee,
)
from discreet.privacy.accounting import composed_epsilon
from discreet.privacy.budget import budget_from_fields
from discreet.privacy.guarantee import rounded_up
from discreet.validation import InvalidInput

SCHEMA = 1
# Errors that reading an edited file may raise.
DAMAGE = (ValueError, LookupError, ArithmeticError, TypeError, AttributeError)
_HEADER = {"kind": "outsourced release", "schema": SCHEMA}
# What reading a certificate forgives: OpenDP may be absent here and present there, and its grid
# changes the last digits.
_FORGIVEN = 1e-6
codec.register(Outsourced, Outsourced.to_fields, budget_from_fields, "budget of a release")  # type: ignore[arg-type]


@dataclass(frozen=True)
class Certificate(Serializable):
    """A release and what it promises.

    Attributes:
        release: its name, drawn at random.
        rows: how many rows there are.
        bounds: the public bounds and units.
        budget: what was asked for, with the radius of neighbours.
        mechanism: how the rows were drawn.
        earlier: how earlier releases of the same table were drawn.
        projection: of the columns; None if all of them were released.
        answers: how answers are protected; None if they are not.
        repeats: how often one row may be asked for.
        file: the name of the file with the rows.
        sha256: of that file.
    """

    release: str
    rows: Annotated[int, Range(1)]
    bounds: PublicBounds
    budget: Outsourced
    mechanism: Mechanism
    earlier: tuple[Mechanism, ...]
    projection: RowProjection | None
    answers: AnswerNoise | None
    repeats: Annotated[int, Range(1)]
    file: Literal["rows.csv", "rows.parquet"]
    sha256: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[0-9a-f]{32}", self.release):
            raise InvalidInput(f"the release was {self.release!r:.80}; it must be 32 hex digits.")
        if self.answers is not None and self.answers.repeats != self.repeats:
            raise InvalidInput(
                f"a row may be asked for {self.repeats} times, but the noise on answers is for "
                f"{self.answers.repeats}; they must be equal."
            )
        if self.projection is not None and len(self.projection.matrix) != len(self.bounds.columns):
            raise InvalidInput(
                f"the projection has {len(self.projection.matrix)} rows for "
                f"{len(self.bounds.columns)} columns."
            )

    @property
    def radius(self) -> float:
        """The largest distance of neighbours: the radius requested, or the diameter."""
        return self.bounds.reach(self.budget.radius)

    @property
    def simulated(self) -> bool:
        """Whether this and all earlier releases were simulated, without protection."""
        return all(each.noise == SimulatedNoise.name for each in (*self.earlier, self.mechanism))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the released columns."""
        if self.projection is None:
            return tuple(column.name for column in self.bounds.columns)
        return tuple(f"z{place + 1}" for place in range(self.projection.matrix.shape[1]))

    @property
    def wish(self) -> tuple[object, ...]:
        """The request: equal for releases that are drawn alike."""
        columns = None if self.projection is None else len(self.names)
        answers = None if self.answers is None else replace(self.answers, scale=1.0)
        return self.budget, self.mechanism.noise, columns, answers, self.repeats, self.file

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee of all releases so far, for neighbours within the radius."""
        return self._derived(self.radius, answers=False)

    @cached_property
    def full_replacement(self) -> Guarantee:
        """The same for any other row that the public bounds allow."""
        return self._derived(self.bounds.diameter, answers=False)

    @cached_property
    def with_answers(self) -> Guarantee | None:
        """The guarantee if the outcome is replaced too; None where answers are unprotected."""
        return None if self.answers is None else self._derived(self.radius, answers=True)

    @cached_property
    def alone(self) -> Guarantee:
        """The guarantee of this release alone."""
        return replace(self, earlier=()).guarantee

    @property
    def sentences(self) -> tuple[str, ...]:
        """The promise in plain English."""
        sentences = [self.guarantee.sentence]
        if self.budget.delta * self.rows > 1.0:
            sentences.append(
                f"Its delta is above 1 / {self.rows}: a release that shows someone's row as it is "
                "would be allowed now and then."
            )
        if self.budget.radius is not None and self.radius < self.bounds.diameter:
            full = self.full_replacement
            sentences.append(
                f"Any two rows are at most {rounded_up(self.bounds.diameter)} apart; for a row "
                f"that is replaced by any other, the same release holds {_worth(full)}."
            )
        if self.earlier:
            sentences.append(
                f"This table was released {len(self.earlier) + 1} times, and the promise covers "
                "all of them together; this release alone would hold "
                f"{_worth(self.alone)}."
            )
        both = self.with_answers
        if both is None:
            sentences.append(
                "Answers are not protected: a reader learns the outcome of every row "
                "that was asked for."
            )
        else:
            sentences.append(
                "Answers carry noise of their own: with a row and its outcome both replaced, "
                f"everything together holds {_worth(both)}."
            )
        return tuple(sentences)

    def _derived(self, distance: float, answers: bool) -> Guarantee:
        releases = [each.release(distance) for each in (*self.earlier, self.mechanism)]
        if answers and self.answers is not None:
            releases.append(self.answers.release)
        radius = None if distance >= self.bounds.diameter else distance
        adjacency = Adjacency("row and outcome" if answers else "row", radius=radius)
        return derive_guarantee(releases, "outsourced", adjacency, self.budget.delta)

    @property
    def promises(self) -> dict[str, Guarantee | None]:
        """The guarantees, by their names in the file."""
        return {
            "guarantee": self.guarantee,
            "full_replacement": self.full_replacement,
            "with_answers": self.with_answers,
        }

    def to_json(self) -> str:
        """The certificate as JSON: facts, and the figures that follow from them."""
        promise: dict[str, Any] = {"sentences": self.sentences}
        for name, guarantee in self.promises.items():
            promise[name] = None if guarantee is None else json.loads(guarantee.to_json())
        figures = {"columns": self.names, "diameter": self.bounds.diameter, "promise": promise}
        fields = {**_HEADER, **codec.to_json(self), **figures}
        return json.dumps(fields, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The inverse of `to_json`.

        Raises:
            InvalidInput: for a text that is no certificate, or one whose figures promise more than
                follows from the mechanisms it lists.
        """
        try:
            fields = json.loads(text)
            if not isinstance(fields, dict) or fields.pop("kind", None) != _HEADER["kind"]:
                raise InvalidInput("this is not the certificate of an outsourced release.")
            schema = fields.pop("schema", None)
            if schema != SCHEMA:
                raise InvalidInput(
                    f"the certificate has schema {schema!r}; this version reads schema {SCHEMA}."
                )
            figures = {name: fields.pop(name) for name in ("columns", "diameter", "promise")}
            certificate: Certificate = codec.from_json(fields, cls, "the certificate")
            certificate._check_figures(figures)
        except InvalidInput:
            raise
        except (*DAMAGE, RecursionError) as error:
            raise InvalidInput(
                f"the certificate is damaged ({error!r:.200}); take it as the curator wrote it."
            ) from error
        return certificate

    def _check_figures(self, figures: Mapping[str, Any]) -> None:
        """Refuse figures that do not follow from the facts."""
        if tuple(figures["columns"]) != self.names:
            raise InvalidInput(
                f"the certificate names the columns {figures['columns']}; they are {self.names}."
            )
        gain, rounding = stretch(self.bounds.extent, self.projection)
        # Where mu is beyond all sense epsilon is infinite, and nothing is promised.
        alone = self.alone.epsilon
        least = {
            "gain": (self.mechanism.gain, gain, 2.0**-40),
            "rounding": (self.mechanism.rounding, rounding, 2.0**-40),
            "diameter": (figures["diameter"], self.bounds.diameter, 2.0**-40),
            "epsilon of the release": (self.budget.epsilon, alone, _FORGIVEN),
        }
        if self.answers is not None:
            cost = composed_epsilon([self.answers.event], self.answers.delta)
            least["epsilon of the answers"] = (self.answers.epsilon, cost, _FORGIVEN)
        for name, (claimed, true, forgiven) in least.items():
            if math.isfinite(true) and not claimed >= true * (1.0 - forgiven):
                raise InvalidInput(
                    f"the certificate claims the {name} {claimed:g}, but it is {true:g}; do not "
                    "trust this release."
                )
        for name, guarantee in self.promises.items():
            claim = figures["promise"][name]
            read = claim and Guarantee.from_json(json.dumps(claim))
            if read is not None and (guarantee is None or not _follows(read, guarantee)):
                raise InvalidInput(
                    f"the certificate claims {_figures(read)} ({name}), but its mechanisms give "
                    f"{_figures(guarantee)}; do not trust this release."
                )


def _follows(claimed: Guarantee, derived: Guarantee) -> bool:
    """Whether a claim promises no more than what was derived."""
    claimed_radius, radius = claimed.adjacency.radius, derived.adjacency.radius
    if radius is not None and (claimed_radius is None or claimed_radius > radius * (1.0 + 1e-9)):
        return False
    return (
        claimed.epsilon >= derived.epsilon * (1.0 - _FORGIVEN)
        and claimed.delta >= derived.delta
        and set(claimed.noise) == set(derived.noise)
        and claimed.trust_model == derived.trust_model
        and claimed.reports_per_person <= derived.reports_per_person
        and replace(claimed.adjacency, radius=radius) == derived.adjacency
    )


def _worth(guarantee: Guarantee) -> str:
    """Epsilon and delta for a sentence."""
    text = f"epsilon = {rounded_up(guarantee.epsilon)}, delta = {rounded_up(guarantee.delta)}"
    return f"{text}, which protects no one" if guarantee.protects_nobody else text


def _figures(guarantee: Guarantee | None) -> str:
    if guarantee is None:
        return "nothing"
    reach = "any" if guarantee.adjacency.radius is None else f"{guarantee.adjacency.radius:g}"
    return (
        f"epsilon = {guarantee.epsilon:g}, delta = {guarantee.delta:g}, radius = {reach}, noise = "
        f"{', '.join(guarantee.noise)}"
    )
