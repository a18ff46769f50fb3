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

A strategy (`PrefixMechanism`) is the pair (C, B) as arithmetic without state. A `LinearStream`
holds the state of both halves, one secret and one public, and drives every strategy alike; in a
`PrivateStream` there is noise between them. The noise source is given the vectors of C x and hands
back noisy ones: noise added to finished sums in floating point would show them in the last bits
(Mironov 2012), while everything done to y afterwards is post-processing.

**Scale.** It is the least at which the noise source achieves the multiplier that was asked for. A
source that draws on a grid first rounds values to it, which moves a vector by at most an r of its
own, so that one release of sensitivity s costs mu = (s + r) / scale. A person in row j enters at
most m = `entries` vectors, with sensitivities a_e = |C_ej| sensitivity, and by Minkowski

    mu^2 = sum_e ((a_e + r) / scale)^2 <= ((sensitivity |C| + r sqrt(m)) / scale)^2.

(Vectors that are released in one call are rounded together: k of them move by r sqrt(k).)

| name     | shape    | meaning                                                | symbol |
|----------|----------|--------------------------------------------------------|--------|
| row      | (dim,)   | sum over the people of one row; secret                 | x_j    |
| due      | (k, dim) | rows of C x that are complete now; secret              | C x    |
| noisy    | (k, dim) | the same with noise; public                            | y      |
| vectors  | (h, dim) | what the encoder (secret) or decoder (public) keeps    |        |
| values   | (dim,)   | the estimate; public                                   | B y    |
| weights  | (rows,)  | weight of each row in the estimate                     | B C    |
| variance | scalar   | squared norm of the last row of B, in units of scale^2 |        |
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.codec import Range, Shape, check_fields, from_json, to_json
from discreet.privacy.accounting import GaussianEvent, OnceEach, Release, Rounds
from discreet.privacy.calibration import SLACK, least_scale
from discreet.privacy.noise import NoiseSource
from discreet.validation import (
    FloatArray,
    InvalidInput,
    finite_vector,
    freeze_arrays,
    positive_number,
    whole_number,
)

_LOG = logging.getLogger(__name__)
# Counts of people enter floating-point arithmetic, which is exact up to here.
MOST_PEOPLE = 2**53
# C x is computed in floating point, so two streams that differ in one row may differ in y by a
# rounding error more than |C_ej| times the row's change: about 2^-53 of the sums, which are
# themselves many times as large as one person's share. This part of the sensitivity pays for sums
# of up to a million people or so; it also covers the rounding of |C| itself.
_MARGIN = 1e-9

# People in a row, as planned.
People = Annotated[int, Range(1)]


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

    rows: Annotated[int, Range(0)]
    people: Annotated[int, Range(0, MOST_PEOPLE)]
    vectors: Annotated[FloatArray, Shape("h", "dim")] = field(repr=False)
    numbers: tuple[float, ...] = ()

    def after(self, people: int, vectors: FloatArray, numbers: tuple[float, ...] = ()) -> Held:
        """The state after one more row, the sum over `people`."""
        return Held(self.rows + 1, self.people + people, vectors, numbers)


@dataclass(frozen=True)
class Estimate:
    """The estimate from the releases so far; public.

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

    Strategies are frozen dataclasses whose annotations say what settings may be (codec). `encode`,
    `decode` and `estimate` are functions of the state that they are given, so a state that was not
    replaced is as if the row had never come.

    Attributes:
        name: what records and saved files call it.
        rows: how many rows it can take; None for any number.
        every: people in a row, as planned, where rows are equally long.
    """

    name: ClassVar[str]
    rows: int | None
    every: int

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    @abstractmethod
    def column_norm(self) -> float:
        """Largest l2 norm of a column of the C in use, over all rows it can take."""

    @property
    @abstractmethod
    def entries(self) -> int:
        """The largest number of released vectors that one row enters."""

    @abstractmethod
    def keeps(self, rows: int) -> tuple[int, int, int]:
        """After that many rows: how many vectors the encoder keeps, how many the decoder, and how
        many numbers beside them."""

    @abstractmethod
    def encode(self, held: Held, row: FloatArray, people: int) -> tuple[Held, FloatArray]:
        """The encoder's state after one more row, and the rows of C x (k, dim) due then."""

    @abstractmethod
    def decode(self, held: Held, noisy: FloatArray, people: int) -> Held:
        """The decoder's state after the released vectors (k, dim) of one more row."""

    @abstractmethod
    def estimate(self, held: Held) -> Estimate:
        """The estimate of a decoder's state, after at least one row."""

    def due(self, people: int) -> int:
        """The number of people at which the next row is due, after rows with `people` people."""
        return people + self.every

    def start(self) -> tuple[Held, Held]:
        """The states of the encoder and of the decoder before the first row."""
        encoder, decoder, numbers = self.keeps(0)
        nothing = Held(0, 0, np.zeros((decoder, 1)), (0.0,) * numbers)
        return Held(0, 0, np.zeros((encoder, 1))), nothing

    def check_row(self, held: Held, people: int) -> None:
        """Refuse a row of that many people that may not come after those before.

        Raises:
            InvalidInput: if the horizon is used up or the row is not due.
        """
        whole_number(people, "people", minimum=1)
        if self.rows is not None and held.rows >= self.rows:
            raise InvalidInput(
                f"the horizon is used up: {self.name} was made for {self.rows} rows and all of "
                "them came; start a new stream with a horizon of its own (people in both pay for "
                "both)."
            )
        if held.people + people > MOST_PEOPLE:
            raise InvalidInput(f"the rows had more than {MOST_PEOPLE} people; start a new stream.")


class LinearStream:
    """Encoder and decoder with nothing between them: for rows that are public.

    Attributes:
        mechanism: how rows are combined.
        size: numbers in a row, where that is known before the first.
        estimate: the last estimate, None before the first row.
    """

    size: int | None = None

    def __init__(self, mechanism: PrefixMechanism) -> None:
        self.mechanism = mechanism
        self._secret, self._public = mechanism.start()
        self.estimate: Estimate | None = None

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self._secret.rows

    @property
    def people(self) -> int:
        """The number of people in these rows."""
        return self._secret.people

    @property
    def due(self) -> int:
        """The number of people at which the next row is due."""
        return self.mechanism.due(self.people)

    def release(self, row: FloatArray, people: int = 1) -> Estimate:
        """Take one more row, release what is due of it, and return the new estimate.

        Args:
            row: (dim,) the sum over the people of this row.
            people: how many they are; public.

        Raises:
            InvalidInput: if people is below 1, if the horizon is used up, or if an epoch ends too
                early. Nothing has changed then.
        """
        self.mechanism.check_row(self._secret, people)
        # Both halves are replaced at the end: if the noise source fails, nothing was shown and the
        # row can be given again.
        secret, complete = self.mechanism.encode(self._secret, row, people)
        public = self.mechanism.decode(self._public, self._shown(complete), people)
        estimate = self.mechanism.estimate(public)
        self._secret, self._public, self.estimate = secret, public, estimate
        return estimate

    def _shown(self, complete: FloatArray) -> FloatArray:
        """The released rows of C x (k, dim), for the decoder."""
        return complete

    def to_fields(self) -> dict[str, Any]:
        """The stream as JSON values: `secret` is for the holder of the data, the rest for all."""
        return {"secret": to_json(self._secret), "public": to_json(self._public)}

    def restore(self, saved: Any) -> None:
        """Go on from what `to_fields` gave; `InvalidInput` if it is damaged."""
        self._secret = from_json(saved["secret"], Held, "the saved stream")
        self._public = from_json(saved["public"], Held, "the saved stream")
        if self._public.rows:
            self.estimate = self.mechanism.estimate(self._public)


@dataclass(frozen=True)
class _Began:
    """With what a saved stream began."""

    mechanism: str
    noise: str
    size: int
    scale: Annotated[float, Range(above=0.0)]

    def __str__(self) -> str:
        settings = f"{self.mechanism}, rows of {self.size} numbers, noise source {self.noise}"
        return f"{settings}, scale {self.scale}"


class PrivateStream(LinearStream):
    """A stream whose releases have noise: each row is released once.

    Args:
        mechanism: how rows are combined before noise is added.
        size: numbers in a row, dim.
        sensitivity: how far (l2) a row may move when one of its people is replaced.
        noise_multiplier: the stream is (1 / noise_multiplier)-GDP for each person.
        noise: where the noise comes from.

    Attributes:
        scale: standard deviation of the noise on every number that is released.
        estimate: the last estimate, None before the first row. It is never redrawn.

    Raises:
        InvalidInput: for a size below 1, numbers that are not positive, or a source without noise.
    """

    size: int

    def __init__(
        self,
        mechanism: PrefixMechanism,
        size: int,
        sensitivity: float,
        noise_multiplier: float,
        noise: NoiseSource,
    ) -> None:
        super().__init__(mechanism)
        self.size = whole_number(size, "size", minimum=1)
        self.sensitivity = positive_number(sensitivity, "sensitivity")
        self.noise_multiplier = positive_number(noise_multiplier, "noise_multiplier")
        self._noise = noise
        if not noise.gaussian_multiplier(1.0, 1.0, 1) > 0.0:
            raise InvalidInput(
                f"noise was {type(noise).__name__}(), which adds none; a stream is released with "
                "noise, so pass SecureNoise()."
            )
        target = self.noise_multiplier * (1.0 + SLACK)
        start = self.sensitivity * mechanism.column_norm * (1.0 + _MARGIN) * target
        self.scale = least_scale(target, start, self._achieved)

    def _achieved(self, scale: float) -> float:
        """The multiplier of the whole stream, as the noise source really achieves it."""
        # r is read off a small sensitivity, where it is not lost beside it.
        small = self.sensitivity * 2.0**-20
        multiplier = self._noise.gaussian_multiplier(small, scale, self.size)
        rounding = max(0.0, scale / multiplier - small)
        moved = self.sensitivity * self.mechanism.column_norm * (1.0 + _MARGIN)
        return scale / (moved + rounding * math.sqrt(self.mechanism.entries))

    @property
    def achieved_multiplier(self) -> float:
        """The multiplier that the noise source achieves at `scale`; at least that asked for."""
        return self._achieved(self.scale)

    def release(self, row: ArrayLike, people: int = 1) -> Estimate:
        """As of a `LinearStream`, with noise; also refuses rows of another shape, or not finite."""
        estimate = super().release(finite_vector(row, "row", self.size), people)
        how = self.mechanism.name, self.rows, self.size, self.scale, self._noise.name
        _LOG.debug("released by %s, row %d of %d numbers: Gaussian noise, scale %g, noise %s", *how)
        return estimate

    def _shown(self, complete: FloatArray) -> FloatArray:
        return self._noise.add_gaussian(complete, self.scale)

    def record(self, data: str, people: Rounds | OnceEach, source: str = "given") -> Release | None:
        """The release as a guarantee counts it; None before anything was released.

        It covers the whole horizon, because a person's row enters later releases too.

        Args:
            data: what of a person's data the rows hold.
            people: whose data they hold.
            source: how `sensitivity` was computed.
        """
        if self.rows == 0:
            return None
        return Release(
            mechanism=f"Gaussian noise on a stream ({self.mechanism.name})",
            event=GaussianEvent(self.achieved_multiplier),
            sensitivity=self.sensitivity * self.mechanism.column_norm,
            sensitivity_source=(
                f"sensitivity of a row, {self.sensitivity:g} ({source}), times the largest column "
                f"norm of the encoder, {self.mechanism.column_norm:.6g}"
            ),
            scale=self.scale,
            people=people,
            data=data,
            noise=self._noise.name,
        )

    def to_fields(self) -> dict[str, Any]:
        began = _Began(repr(self.mechanism), self._noise.name, self.size, self.scale)
        return {**super().to_fields(), "began": to_json(began)}

    def restore(self, saved: Any) -> None:
        """Go on from what `to_fields` gave, with the scale that the stream began with.

        Raises:
            InvalidInput: if it is damaged, or of another mechanism, size, noise source or scale.
        """
        given = saved.get("began") if isinstance(saved, dict) else saved
        began: _Began = from_json(given, _Began, "the saved stream")
        own = _Began(repr(self.mechanism), self._noise.name, self.size, began.scale)
        # Multipliers are solved for, and may differ in the last digits between machines.
        least, most = self.noise_multiplier * (1.0 - 1e-9), self.scale * (1.0 + 1e-6)
        if began != own or self._achieved(began.scale) < least or began.scale > most:
            raise InvalidInput(
                f"the saved stream began with {began}; asked for is {own}, or a scale of about "
                f"{self.scale}. Go on with what it began with, as save() wrote it, and with the "
                "same version of discreet."
            )
        super().restore(saved)
        self.scale = began.scale


def ones(rows: int) -> FloatArray:
    """(rows,) ones that take no memory: the weights of a prefix sum."""
    return np.broadcast_to(np.float64(1.0), (rows,))
