"""What every mechanism for sums under continual release owes.

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

| name     | shape    | meaning                                                | symbol |
|----------|----------|--------------------------------------------------------|--------|
| row      | (dim,)   | sum over the people of one row; secret                 | x_j    |
| due      | (k, dim) | rows of C x that are complete now; secret              | C x    |
| noisy    | (k, dim) | the same with noise; public                            | y      |
| values   | (dim,)   | the estimate; public                                   | B y    |
| weights  | (rows,)  | weight of each row in the estimate                     | B C    |
| variance | scalar   | squared norm of the last row of B, in units of scale^2 |        |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from discreet.validation import FloatArray, InvalidInput, freeze_arrays, read_array, whole_number

# Counts of people enter floating-point arithmetic, which is exact up to here.
MOST_PEOPLE = 2**53


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
    """The facts about one encoder and decoder. Subclasses are frozen dataclasses.

    Attributes:
        name: what records and saved files call it.
        rows: how many rows it can take; None for any number.
    """

    name: ClassVar[str]
    rows: int | None

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
    def due(self, people: int) -> int:
        """The number of people at which the next row is due, after rows with `people` people."""

    @abstractmethod
    def encoder(self) -> Encoder:
        """A new encoder that has seen nothing."""

    @abstractmethod
    def decoder(self) -> Decoder:
        """A new decoder that has seen nothing."""

    @abstractmethod
    def variances(self, rows: int) -> FloatArray:
        """(rows,) `Estimate.variance` after each row, from the decoder in use."""

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


class _Side(ABC):
    """What encoder and decoder share: two counts, and a form for saving.

    State is replaced and never written into, so a shallow copy is a snapshot.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.people = 0

    def to_fields(self) -> dict[str, Any]:
        """JSON values that `from_fields` turns into the same object again, float for float."""
        return {"rows": self.rows, "people": self.people, **self._state()}

    def _restored(self, fields: Mapping[str, Any]) -> Self:
        try:
            self.rows = whole_number(fields["rows"], "rows")
            self.people = whole_number(fields["people"], "people", self.rows, MOST_PEOPLE)
            self._restore(fields)
        except (KeyError, TypeError, IndexError) as error:
            raise InvalidInput(
                f"the saved stream is damaged ({error!r}); read it as to_fields() wrote it."
            ) from error
        return self

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """Everything but the counts."""

    @abstractmethod
    def _restore(self, fields: Mapping[str, Any]) -> None:
        """The inverse of `_state`; the counts are there already."""


class Encoder(_Side):
    """Turns rows into the vectors to release. Its state is SECRET."""

    def __init__(self, mechanism: PrefixMechanism) -> None:
        super().__init__()
        self.mechanism = mechanism

    @staticmethod
    def from_fields(mechanism: PrefixMechanism, fields: Mapping[str, Any]) -> Encoder:
        """The encoder that `to_fields` described."""
        return mechanism.encoder()._restored(fields)

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
        self.mechanism.check_row(self.rows, self.people, people)
        due = self._push(row, people)
        self.rows += 1
        self.people += people
        return due

    @abstractmethod
    def _push(self, row: FloatArray, people: int) -> FloatArray:
        """`push` for a row that is allowed; the counts are those before it."""


class Decoder(_Side):
    """Turns released vectors into estimates. Its state is PUBLIC."""

    def __init__(self, mechanism: PrefixMechanism) -> None:
        super().__init__()
        self.mechanism = mechanism

    @staticmethod
    def from_fields(mechanism: PrefixMechanism, fields: Mapping[str, Any]) -> Decoder:
        """The decoder that `to_fields` described."""
        return mechanism.decoder()._restored(fields)

    def take(self, noisy: FloatArray, people: int = 1) -> Estimate:
        """The estimate after one more row.

        Args:
            noisy: (k, dim) what `Encoder.push` gave for this row, with noise.
            people: people in this row.
        """
        self._take(noisy, people)
        self.rows += 1
        self.people += people
        return self._estimate()

    @property
    def estimate(self) -> Estimate | None:
        """The last estimate; None before the first row."""
        return self._estimate() if self.rows else None

    @abstractmethod
    def _take(self, noisy: FloatArray, people: int) -> None:
        """Bring the state up to date; the counts are those before this row."""

    @abstractmethod
    def _estimate(self) -> Estimate:
        """The estimate for the rows so far."""


def ones(rows: int) -> FloatArray:
    """(rows,) ones that take no memory: the weights of a prefix sum."""
    return np.broadcast_to(np.float64(1.0), (rows,))


def stored(values: Any, name: str, count: int) -> FloatArray:
    """(count, dim) vectors as they were saved.

    Raises:
        InvalidInput: if they are not that many or hold anything but finite numbers.
    """
    if count == 0 and values == []:
        return np.zeros((0, 1))
    array: FloatArray = read_array(values, name, "number", dimensions=2)
    if len(array) != count:
        raise InvalidInput(f"{name} had {len(array)} vectors; this stream keeps {count} by now.")
    return array
