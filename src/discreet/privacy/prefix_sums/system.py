"""Sums under continual release, as one linear system: what every strategy for them owes.

A stream of rows arrives, each row a sum over the people who came since the last one; each person
is in exactly one row, and replacing a person moves their row by at most `sensitivity` (l2). An
encoder, a lower-triangular matrix C, turns the rows into vectors that are released once each, as
soon as they are complete, with Gaussian noise of standard deviation `scale` on every coordinate:

    y = C x + z,   z ~ N(0, scale^2 I),   scale = sensitivity |C| noise_multiplier,

where |C| is the largest norm of a column of C. A decoder B works on the released y alone. For sums
over everybody so far, B C = A, the lower-triangular matrix of ones.

Privacy: given the same earlier outputs the other rows are the same, even if rows were chosen after
seeing them, so output e is a Gaussian mechanism of sensitivity |C_ej| sensitivity for a person in
row j; mu^2 adds over e, which makes the stream (1 / noise_multiplier)-GDP (Denisov, McMahan, Rush,
Smith and Thakurta 2022, Theorem 2.1; Dong, Roth and Su 2022, Corollary 2). How many people a row
has is public, and must be chosen from what is public.

A strategy (`PrefixMechanism`) is the pair (C, B) as arithmetic without state; `Encoder` and
`Decoder` hold the state, one secret and one public, and drive every strategy alike.

| name     | shape    | meaning                                                | symbol |
|----------|----------|--------------------------------------------------------|--------|
| row      | (dim,)   | sum over the people of one row; secret                 | x_j    |
| due      | (k, dim) | rows of C x that are complete now; secret              | C x    |
| noisy    | (k, dim) | the same with noise; public                            | y      |
| vectors  | (h, dim) | what an encoder (secret) or decoder (public) keeps     |        |
| values   | (dim,)   | the estimate; public                                   | B y    |
| weights  | (rows,)  | weight of each row in the estimate                     | B C    |
| variance | scalar   | squared norm of the last row of B, in units of scale^2 |        |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from discreet.validation import (
    FloatArray,
    InvalidInput,
    finite_number,
    freeze_arrays,
    read_array,
    whole_number,
)

# Counts of people enter floating-point arithmetic, which is exact up to here.
MOST_PEOPLE = 2**53


@dataclass(frozen=True, eq=False)
class Held:
    """The state of an encoder or a decoder after some rows. Replaced, never written into.

    Attributes:
        rows: how many rows have come.
        people: how many people were in them.
        vectors: (h, dim) what is kept; h is the strategy's. Zeros have width 1 before the first
            row and take its width by broadcasting.
        numbers: public numbers that a decoder keeps beside them.
    """

    rows: int
    people: int
    vectors: FloatArray
    numbers: tuple[float, ...] = ()

    @classmethod
    def nothing(cls, vectors: int, numbers: int) -> Held:
        """The state before the first row."""
        return cls(0, 0, np.zeros((vectors, 1)), (0.0,) * numbers)

    def after(self, people: int, vectors: FloatArray, numbers: tuple[float, ...] = ()) -> Held:
        """The state after one more row of so many people."""
        return Held(self.rows + 1, self.people + people, vectors, numbers)

    def to_fields(self) -> dict[str, Any]:
        """JSON values, float for float."""
        saved = {"rows": self.rows, "people": self.people, "vectors": self.vectors.tolist()}
        return {**saved, "numbers": list(self.numbers)}

    @classmethod
    def from_fields(cls, saved: Mapping[str, Any]) -> Held:
        """The inverse of `to_fields`; `InvalidInput` if it is damaged."""
        try:
            rows = whole_number(saved["rows"], "rows")
            vectors = saved["vectors"] or np.zeros((0, 1))
            return cls(
                rows,
                whole_number(saved["people"], "people", rows, MOST_PEOPLE),
                read_array(vectors, "vectors", "number", dimensions=2),
                tuple(finite_number(number, "numbers") for number in saved["numbers"]),
            )
        except (KeyError, TypeError) as error:
            raise InvalidInput(
                f"the saved stream is damaged ({error!r}); read it as to_fields() wrote it."
            ) from error

    def check(self, vectors: int, numbers: int) -> Held:
        """Itself, if it holds as much as the strategy keeps after as many rows."""
        if (len(self.vectors), len(self.numbers)) != (vectors, numbers):
            raise InvalidInput(
                f"the saved stream had {len(self.vectors)} vectors and {len(self.numbers)} "
                f"numbers; after {self.rows} rows this one keeps {vectors} and {numbers}. Read it "
                "as to_fields() wrote it."
            )
        return self


@dataclass(frozen=True)
class Estimate:
    """What can be read off the releases so far. Public; costs nothing to look at.

    Attributes:
        values: (dim,) sum over rows j of weights_j x_j, plus noise.
        variance: variance of the noise of each coordinate, as a multiple of scale^2.
        weights: (rows so far,) weight of each row in `values`; all 1 for prefix sums.
    """

    values: FloatArray
    variance: float
    weights: FloatArray

    def __post_init__(self) -> None:
        freeze_arrays(self)


class PrefixMechanism(ABC):
    """One pair (C, B): its facts, and what each half does with one more row.

    Strategies are frozen dataclasses. `encode`, `decode` and `estimate` are functions of the state
    that they are given, so a state that was not replaced is as if the row had never come.

    Attributes:
        name: what records and saved files call it.
        rows: how many rows it can take; None for any number.
        every: people in a row, as planned, where rows are equally long.
    """

    name: ClassVar[str]
    rows: int | None
    every: int

    @property
    @abstractmethod
    def column_norm(self) -> float:
        """Largest l2 norm of a column of the C in use, over all rows it can take."""

    @property
    @abstractmethod
    def entries(self) -> int:
        """How many released vectors one row can enter at most."""

    @property
    @abstractmethod
    def memory(self) -> int:
        """How many vectors of size dim the encoder and the decoder keep together, at most."""

    @abstractmethod
    def variances(self, rows: int) -> FloatArray:
        """(rows,) `Estimate.variance` after each row, from the decoder in use."""

    @abstractmethod
    def encoder_keeps(self, rows: int) -> int:
        """How many vectors the encoder keeps after that many rows."""

    @abstractmethod
    def decoder_keeps(self, rows: int) -> tuple[int, int]:
        """How many vectors, and how many numbers beside them, the decoder keeps."""

    @abstractmethod
    def encode(self, held: Held, row: FloatArray, people: int) -> tuple[Held, FloatArray]:
        """The encoder's state after one more row, and the rows of C x (k, dim) due then."""

    @abstractmethod
    def decode(self, held: Held, noisy: FloatArray, people: int) -> Held:
        """The decoder's state after the released vectors (k, dim) of one more row."""

    @abstractmethod
    def estimate(self, held: Held) -> Estimate:
        """What the decoder's state says; at least one row has come."""

    def due(self, people: int) -> int:
        """The number of people at which the next row is due, after rows with `people` people."""
        return people + self.every

    def encoder(self) -> Encoder:
        """A new encoder that has seen nothing."""
        return Encoder(self)

    def decoder(self) -> Decoder:
        """A new decoder that has seen nothing."""
        return Decoder(self)

    def check_row(self, rows: int, before: int, people: int) -> None:
        """Refuse a row that may not come now.

        Args:
            rows: rows so far.
            before: people in them.
            people: people in the new row.

        Raises:
            InvalidInput: if the horizon is used up or the row is not due.
        """
        whole_number(people, "people", minimum=1)
        if self.rows is not None and rows >= self.rows:
            raise InvalidInput(
                f"the horizon is used up: {self.name} was made for {self.rows} rows and all of "
                "them came; start a new stream with a horizon of its own (people in both pay for "
                "both), or use Doubling where the horizon is not known."
            )
        if before + people > MOST_PEOPLE:
            raise InvalidInput(f"the rows had more than {MOST_PEOPLE} people; start a new stream.")

    def check_rows(self, rows: int) -> int:
        """`rows` as an int that the horizon allows."""
        return whole_number(rows, "rows", minimum=1, maximum=self.rows)

    def check_plan(self, most_rows: int) -> None:
        """`InvalidInput` unless `rows`, if any, and `every` are whole numbers within bounds."""
        if self.rows is not None:
            whole_number(self.rows, "rows", minimum=1, maximum=most_rows)
        whole_number(self.every, "every", minimum=1)

    def to_fields(self) -> dict[str, Any]:
        """JSON values that name the strategy and its settings."""
        settings = [entry.name for entry in fields(self) if entry.init]  # type: ignore[arg-type]
        return {"name": self.name, **{name: getattr(self, name) for name in settings}}


@dataclass
class Encoder:
    """Turns rows into the vectors to release. Its state is SECRET."""

    mechanism: PrefixMechanism
    held: Held = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.held = Held.nothing(self.mechanism.encoder_keeps(0), 0)

    def push(self, row: FloatArray, people: int = 1) -> FloatArray:
        """The vectors that are due once `row`, with its people, has come.

        Args:
            row: (dim,) the sum over the people of this row.
            people: how many they are.

        Returns:
            (k, dim) rows of C x, still without noise: secret.

        Raises:
            InvalidInput: if this row may not come now; nothing has changed.
        """
        held = self.held
        self.mechanism.check_row(held.rows, held.people, people)
        self.held, due = self.mechanism.encode(held, row, people)
        return due

    def to_fields(self) -> dict[str, Any]:
        """JSON values that `from_fields` turns into the same encoder again."""
        return self.held.to_fields()

    @classmethod
    def from_fields(cls, mechanism: PrefixMechanism, saved: Mapping[str, Any]) -> Encoder:
        """The encoder that `to_fields` described; `InvalidInput` if it is damaged."""
        encoder, held = cls(mechanism), Held.from_fields(saved)
        encoder.held = held.check(mechanism.encoder_keeps(held.rows), 0)
        return encoder


@dataclass
class Decoder:
    """Turns released vectors into estimates. Its state is PUBLIC."""

    mechanism: PrefixMechanism
    held: Held = field(init=False)

    def __post_init__(self) -> None:
        self.held = Held.nothing(*self.mechanism.decoder_keeps(0))

    def take(self, noisy: FloatArray, people: int = 1) -> Estimate:
        """The estimate after one more row.

        Args:
            noisy: (k, dim) what `Encoder.push` gave for this row, with noise.
            people: people in this row.
        """
        self.held = self.mechanism.decode(self.held, noisy, people)
        return self.mechanism.estimate(self.held)

    @property
    def estimate(self) -> Estimate | None:
        """The last estimate; None before the first row."""
        return self.mechanism.estimate(self.held) if self.held.rows else None

    def to_fields(self) -> dict[str, Any]:
        """JSON values that `from_fields` turns into the same decoder again."""
        return self.held.to_fields()

    @classmethod
    def from_fields(cls, mechanism: PrefixMechanism, saved: Mapping[str, Any]) -> Decoder:
        """The decoder that `to_fields` described; `InvalidInput` if it is damaged."""
        decoder, held = cls(mechanism), Held.from_fields(saved)
        decoder.held = held.check(*mechanism.decoder_keeps(held.rows))
        return decoder


def ones(rows: int) -> FloatArray:
    """(rows,) ones that take no memory: the weights of a prefix sum."""
    return np.broadcast_to(np.float64(1.0), (rows,))
