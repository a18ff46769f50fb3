"""What a curator promises to the people in a table, derived from what was drawn.

The certificate travels with the release. Everything in it is public, and every figure that it
promises is worked out from the mechanisms that it lists: `Certificate.from_json` does so again and
refuses a file that promises more than follows from its facts. Its sentences are for people to read;
whoever shows them works them out anew. A certificate is not signed: that its facts are true is the
curator's word.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from discreet.codec import decode_array, encode_array
from discreet.outsourcing.answer_noise import AnswerNoise, sensible_number
from discreet.outsourcing.bounds import PublicBounds
from discreet.outsourcing.projection import Projection
from discreet.outsourcing.release import Mechanism, stretch
from discreet.privacy import (
    Adjacency,
    Guarantee,
    Outsourced,
    Release,
    Rounds,
    SimulatedNoise,
    derive_guarantee,
)
from discreet.privacy.accounting import composed_epsilon
from discreet.privacy.guarantee import rounded_up
from discreet.privacy.noise import NO_NOISE, check_noise_name
from discreet.validation import (
    InvalidInput,
    whole_number,
)

SCHEMA = 1
# What reading a file that somebody edited may run into.
DAMAGE = (ValueError, LookupError, ArithmeticError, TypeError, AttributeError)
FILES = ("rows.csv", "rows.parquet")
_ID = re.compile(r"[0-9a-f]{32}")
# What reading a certificate forgives: OpenDP may be absent here and present there, and its grid
# changes the last digits.
_FORGIVEN = 1e-6
_ROW, _ROW_AND_OUTCOME = "row", "row and outcome"


@dataclass(frozen=True)
class Certificate:
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
    rows: int
    bounds: PublicBounds
    budget: Outsourced
    mechanism: Mechanism
    earlier: tuple[Mechanism, ...]
    projection: Projection | None
    answers: AnswerNoise | None
    repeats: int
    file: str
    sha256: str

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.release):
            raise InvalidInput(f"the release was {self.release!r:.80}; it must be 32 hex digits.")
        whole_number(self.rows, "rows", minimum=1)
        whole_number(self.repeats, "repeats", minimum=1)
        if self.answers is not None and self.answers.repeats != self.repeats:
            raise InvalidInput(
                f"a row may be asked for {self.repeats} times, but the noise on answers is for "
                f"{self.answers.repeats}; they must be equal."
            )
        if self.file not in FILES:
            raise InvalidInput(f"the file was {self.file!r:.80}; it must be one of {FILES}.")

    @property
    def radius(self) -> float:
        """How far apart neighbours may be: what was asked for, or any two rows."""
        diameter = self.bounds.diameter
        return diameter if self.budget.radius is None else min(self.budget.radius, diameter)

    @property
    def simulated(self) -> bool:
        """Whether this and all earlier releases were simulated, so that they protect nobody."""
        return all(one.noise == SimulatedNoise.name for one in (*self.earlier, self.mechanism))

    @property
    def names(self) -> tuple[str, ...]:
        """What the released numbers are called."""
        if self.projection is None:
            return tuple(column.name for column in self.bounds.columns)
        return tuple(f"z{place + 1}" for place in range(self.projection.matrix.shape[1]))

    @cached_property
    def guarantee(self) -> Guarantee:
        """What all releases of the table so far promise for neighbours within the radius."""
        return self._derived(self.radius, answers=False)

    @cached_property
    def full_replacement(self) -> Guarantee:
        """The same for any other row that the public bounds allow."""
        return self._derived(self.bounds.diameter, answers=False)

    @cached_property
    def with_answers(self) -> Guarantee | None:
        """What is promised if also the outcome may be any other; None without such a promise."""
        return None if self.answers is None else self._derived(self.radius, answers=True)

    @cached_property
    def alone(self) -> Guarantee:
        """What this release would promise if it were the only one."""
        return replace(self, earlier=()).guarantee

    @property
    def sentences(self) -> tuple[str, ...]:
        """The promise in plain English."""
        told = [self.guarantee.sentence]
        if self.budget.delta * self.rows > 1.0:
            told.append(
                f"Its delta is above 1 / {self.rows}: a release that shows someone's row as it is "
                "would be allowed now and then."
            )
        if self.budget.radius is not None and self.radius < self.bounds.diameter:
            full = self.full_replacement
            told.append(
                f"Any two rows are at most {rounded_up(self.bounds.diameter)} apart; for a row "
                f"that is replaced by any other, the same release holds {_worth(full)}."
            )
        if self.earlier:
            told.append(
                f"This table was released {len(self.earlier) + 1} times, and the promise covers "
                "all of them together; this release alone would hold "
                f"{_worth(self.alone)}."
            )
        both = self.with_answers
        if both is None:
            told.append(
                "Answers are not protected: whoever reads them learns the outcome of every row "
                "that was asked for."
            )
        else:
            told.append(
                "Answers carry noise of their own: with a row and its outcome both replaced, "
                f"everything together holds {_worth(both)}."
            )
        return tuple(told)

    def _derived(self, distance: float, answers: bool) -> Guarantee:
        releases = [self._release(one, distance) for one in (*self.earlier, self.mechanism)]
        if answers and self.answers is not None:
            releases.append(self.answers.release)
        any_row = distance >= self.bounds.diameter
        adjacency = Adjacency(
            _ROW_AND_OUTCOME if answers else _ROW, radius=None if any_row else distance
        )
        return derive_guarantee(releases, "outsourced", adjacency, self.budget.delta)

    def _release(self, mechanism: Mechanism, distance: float) -> Release:
        return Release(
            mechanism="Gaussian noise on every number of a row",
            event=mechanism.event(distance),
            sensitivity=mechanism.sensitivity(distance),
            sensitivity_source="the distance of rows times the largest singular value of the "
            "projection in use, and rounding",
            scale=mechanism.scale,
            people=Rounds(0, 1),
            data="the released columns of a row",
            noise=mechanism.noise,
        )

    def to_json(self) -> str:
        """The certificate as JSON, figures included."""
        both = self.with_answers
        fields = {
            "kind": "outsourced release",
            "schema": SCHEMA,
            **self._facts(),
            "promise": {
                "sentences": list(self.sentences),
                "guarantee": json.loads(self.guarantee.to_json()),
                "full_replacement": json.loads(self.full_replacement.to_json()),
                "with_answers": None if both is None else json.loads(both.to_json()),
            },
        }
        return json.dumps(fields, indent=1, allow_nan=False) + "\n"

    def _facts(self) -> dict[str, Any]:
        projection = None if self.projection is None else encode_array(self.projection.matrix)
        return {
            "release": self.release,
            "rows": self.rows,
            "columns": list(self.names),
            "bounds": self.bounds.to_dict(),
            "budget": {
                "epsilon": self.budget.epsilon,
                "delta": self.budget.delta,
                "radius": self.budget.radius,
            },
            "diameter": self.bounds.diameter,
            "mechanism": asdict(self.mechanism),
            "earlier": [asdict(one) for one in self.earlier],
            "projection": projection,
            "answers": None if self.answers is None else asdict(self.answers),
            "repeats": self.repeats,
            "file": self.file,
            "sha256": self.sha256,
        }

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The inverse of `to_json`.

        Raises:
            InvalidInput: for a text that is no certificate, or one that promises more than follows
                from the mechanisms it lists.
        """
        try:
            fields = json.loads(text)
            if not isinstance(fields, dict) or fields.get("kind") != "outsourced release":
                raise InvalidInput("this is not the certificate of an outsourced release.")
            if fields.get("schema") != SCHEMA:
                raise InvalidInput(
                    f"the certificate has schema {fields.get('schema')!r}; this version reads "
                    f"schema {SCHEMA}."
                )
            found = cls._read(fields)
            found._check_facts(fields)
            found._check_promises(fields["promise"])
        except InvalidInput:
            raise
        except (*DAMAGE, RecursionError) as error:
            raise InvalidInput(
                f"the certificate is damaged ({error!r:.200}); take it as the curator wrote it."
            ) from error
        return found

    @classmethod
    def _read(cls, fields: Mapping[str, Any]) -> Certificate:
        matrix = fields["projection"]
        return cls(
            release=fields["release"],
            rows=fields["rows"],
            bounds=PublicBounds.from_dict(fields["bounds"]),
            budget=Outsourced(**fields["budget"]),
            mechanism=_mechanism(fields["mechanism"]),
            earlier=tuple(map(_mechanism, fields["earlier"])),
            projection=None
            if matrix is None
            else Projection(decode_array(matrix, "the projection", 2)),
            answers=None if fields["answers"] is None else _answers(fields["answers"]),
            repeats=fields["repeats"],
            file=fields["file"],
            sha256=fields["sha256"],
        )

    def _check_facts(self, fields: Mapping[str, Any]) -> None:
        """Refuse facts that do not fit each other."""
        if self.projection is not None and len(self.projection.matrix) != len(self.bounds.columns):
            raise InvalidInput(
                f"the projection has {len(self.projection.matrix)} rows for "
                f"{len(self.bounds.columns)} columns."
            )
        if tuple(fields["columns"]) != self.names:
            raise InvalidInput(
                f"the certificate names the columns {fields['columns']}; they are {self.names}."
            )
        gain, rounding = stretch(self.bounds.extent, self.projection)
        for name, claimed, least in (
            ("gain", self.mechanism.gain, gain),
            ("rounding", self.mechanism.rounding, rounding),
            ("diameter", fields["diameter"], self.bounds.diameter),
        ):
            if not claimed >= least * (1.0 - 2.0**-40):
                raise InvalidInput(
                    f"the certificate claims the {name} {claimed:g}, but it is {least:g}; do not "
                    "trust this release."
                )

    def _check_promises(self, claims: Mapping[str, Any]) -> None:
        """Refuse promises that do not follow."""
        achieved = {"epsilon of the release": (self.budget.epsilon, self.alone.epsilon)}
        if self.answers is not None:
            cost = composed_epsilon([self.answers.event], self.answers.delta)
            achieved["epsilon of the answers"] = (self.answers.epsilon, cost)
        for name, (wanted, epsilon) in achieved.items():
            # Where mu is beyond all sense epsilon is infinite, and nothing is promised.
            if math.isfinite(epsilon) and not wanted >= epsilon * (1.0 - _FORGIVEN):
                raise InvalidInput(
                    f"the certificate says that the {name} is {wanted:g}, but it is {epsilon:g}; "
                    "do not trust this release."
                )
        for name, guarantee in (
            ("guarantee", self.guarantee),
            ("full_replacement", self.full_replacement),
            ("with_answers", self.with_answers),
        ):
            claimed = claims[name] and Guarantee.from_json(json.dumps(claims[name]))
            if not (claimed is None if guarantee is None else _follows(claimed, guarantee)):
                raise InvalidInput(
                    f"the certificate claims {_figures(claimed)} ({name}), but its mechanisms give "
                    f"{_figures(guarantee)}; do not trust this release."
                )


def _follows(claimed: Guarantee | None, derived: Guarantee) -> bool:
    """Whether a claim promises no more than what was derived."""
    if claimed is None:
        return True
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
    return f"{text}, which protects nobody" if guarantee.protects_nobody else text


def _figures(guarantee: Guarantee | None) -> str:
    if guarantee is None:
        return "nothing"
    reach = "any" if guarantee.adjacency.radius is None else f"{guarantee.adjacency.radius:g}"
    return (
        f"epsilon = {guarantee.epsilon:g}, delta = {guarantee.delta:g}, radius = {reach}, noise = "
        f"{', '.join(guarantee.noise)}"
    )


def _mechanism(fields: Mapping[str, Any]) -> Mechanism:
    made = Mechanism(
        scale=sensible_number(fields["scale"], "scale"),
        gain=sensible_number(fields["gain"], "gain"),
        rounding=sensible_number(fields["rounding"], "rounding"),
        numbers=whole_number(fields["numbers"], "numbers", minimum=1, maximum=2**31 - 1),
        noise=_noise(fields["noise"]),
    )
    if len(fields) != 5:
        raise InvalidInput(f"a mechanism had the fields {sorted(fields)}; it has five.")
    return made


def _answers(fields: Mapping[str, Any]) -> AnswerNoise:
    _noise(fields["noise"])
    sensible_number(fields["scale"], "the scale of the answers")
    return AnswerNoise(**fields)


def _noise(name: Any) -> str:
    if name == NO_NOISE:
        raise InvalidInput("the certificate names no noise source; nothing protects this release.")
    return check_noise_name(name)
