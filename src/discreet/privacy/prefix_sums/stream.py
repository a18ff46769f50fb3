"""A stream of rows that is released with noise, each row once.

`PrivateStream` joins an encoder, a noise source and a decoder. The noise source is given the
vectors of C x and hands back noisy ones: noise added to finished sums in floating point would show
them in the last bits (Mironov 2012), while everything done to y afterwards is post-processing.

The scale is the least at which the noise source achieves the multiplier that was asked for. A
source that draws on a grid first rounds values to it, which moves a vector by at most an r of its
own, so that one release of sensitivity s costs mu = (s + r) / scale. A person in row j enters at
most m = `entries` vectors, with sensitivities a_e = |C_ej| sensitivity, and by Minkowski

    mu^2 = sum_e ((a_e + r) / scale)^2 <= ((sensitivity |C| + r sqrt(m)) / scale)^2.

(Vectors that are released in one call are rounded together: k of them move by r sqrt(k).)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.privacy.accounting import GaussianEvent
from discreet.privacy.calibration import SLACK, least_scale
from discreet.privacy.guarantee import OnceEach, Release, Rounds
from discreet.privacy.noise import NoiseSource
from discreet.privacy.prefix_sums.system import Decoder, Encoder, Estimate, PrefixMechanism
from discreet.validation import FloatArray, InvalidInput, positive_number, read_array, whole_number

# C x is computed in floating point, so two streams that differ in one row may differ in y by a
# rounding error more than |C_ej| times the row's change: about 2^-53 of the sums, which are
# themselves many times as large as one person's share. This part of the sensitivity pays for sums
# of up to a million people or so; it also covers the rounding of |C| itself.
_MARGIN = 1e-9


def _achieved(
    mechanism: PrefixMechanism, size: int, sensitivity: float, scale: float, noise: NoiseSource
) -> float:
    """The multiplier of the whole stream, as the noise source really achieves it."""
    # r is read off a small sensitivity, where it is not lost beside it.
    small = sensitivity * 2.0**-20
    rounding = max(0.0, scale / noise.gaussian_multiplier(small, scale, size) - small)
    moved = sensitivity * mechanism.column_norm * (1.0 + _MARGIN)
    return scale / (moved + rounding * math.sqrt(mechanism.entries))


def _calibrated(
    mechanism: PrefixMechanism, size: int, sensitivity: float, asked: float, noise: NoiseSource
) -> float:
    """The scale at which `_achieved` is at least `asked`, and hardly more."""
    if not noise.gaussian_multiplier(1.0, 1.0, 1) > 0.0:
        raise InvalidInput(
            f"noise was {type(noise).__name__}(), which adds none; a stream is released with "
            "noise, so pass SecureNoise()."
        )
    target = asked * (1.0 + SLACK)

    def achieved(scale: float) -> float:
        return _achieved(mechanism, size, sensitivity, scale, noise)

    start = sensitivity * mechanism.column_norm * (1.0 + _MARGIN) * target
    return least_scale(target, start, achieved)


class PrivateStream:
    """Encoder, noise source and decoder together: each row is released once.

    Args:
        mechanism: how rows are combined before noise is added.
        size: numbers in a row, dim.
        sensitivity: how far (l2) a row may move when one of its people is replaced.
        noise_multiplier: the stream is (1 / noise_multiplier)-GDP for each person.
        noise: where the noise comes from.

    Attributes:
        scale: standard deviation of the noise on every number that is released.
        achieved_multiplier: the multiplier that the noise source achieves at `scale`, at least
            `noise_multiplier`.
        estimate: the last estimate, None before the first row. It is never redrawn.

    Raises:
        InvalidInput: for a size below 1, numbers that are not positive, or a source without noise.
    """

    def __init__(
        self,
        mechanism: PrefixMechanism,
        size: int,
        sensitivity: float,
        noise_multiplier: float,
        noise: NoiseSource,
    ) -> None:
        self.mechanism = mechanism
        self.size = whole_number(size, "size", minimum=1)
        self.sensitivity = positive_number(sensitivity, "sensitivity")
        self.noise_multiplier = positive_number(noise_multiplier, "noise_multiplier")
        self._noise = noise
        self._encoder = mechanism.encoder()
        self._decoder = mechanism.decoder()
        self.scale = _calibrated(
            mechanism, self.size, self.sensitivity, self.noise_multiplier, noise
        )
        self.achieved_multiplier = self._achieved()
        self.estimate: Estimate | None = None

    def _achieved(self) -> float:
        return _achieved(self.mechanism, self.size, self.sensitivity, self.scale, self._noise)

    @property
    def rows(self) -> int:
        """How many rows have come."""
        return self._encoder.held.rows

    @property
    def people(self) -> int:
        """How many people were in them."""
        return self._encoder.held.people

    @property
    def due(self) -> int:
        """The number of people at which the next row is due."""
        return self.mechanism.due(self.people)

    def release(self, row: ArrayLike, people: int = 1) -> Estimate:
        """Take one more row, release what is due of it, and return the new estimate.

        Args:
            row: (size,) the sum over the people of this row.
            people: how many they are; public.

        Raises:
            InvalidInput: if the row has another shape or is not finite, if people is below 1, if
                the horizon is used up, or if an epoch ends too early. Nothing has changed then.
        """
        values = self._row(row)
        # Both halves work on copies that replace the old ones at the end: if the noise source
        # fails, nothing was shown and the row can be given again.
        encoder, decoder = copy(self._encoder), copy(self._decoder)
        due = encoder.push(values, people)
        estimate = decoder.take(self._noise.add_gaussian(due, self.scale), people)
        self._encoder, self._decoder, self.estimate = encoder, decoder, estimate
        return estimate

    def _row(self, row: ArrayLike) -> FloatArray:
        values: FloatArray = read_array(row, "row", "number", dimensions=1)
        if values.shape != (self.size,):
            raise InvalidInput(
                f"row had shape {values.shape}; it must have shape ({self.size},), the sum over "
                "the people of this row."
            )
        return values

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
        """The stream as JSON values: `secret` is for the holder of the data, `public` for all."""
        return {
            "secret": self._encoder.to_fields(),
            "public": {
                "mechanism": self.mechanism.to_fields(),
                "size": self.size,
                "sensitivity": self.sensitivity,
                "noise_multiplier": self.noise_multiplier,
                "scale": self.scale,
                "noise": self._noise.name,
                "decoder": self._decoder.to_fields(),
            },
        }

    @classmethod
    def from_fields(
        cls, mechanism: PrefixMechanism, saved: Mapping[str, Any], noise: NoiseSource
    ) -> PrivateStream:
        """The stream that `to_fields` described; it goes on with the scale that it began with.

        Raises:
            InvalidInput: if the fields are damaged or belong to another mechanism or noise source.
        """
        try:
            secret, public = saved["secret"], saved["public"]
            began_with = public["mechanism"], public["noise"]
            asked = public["size"], public["sensitivity"], public["noise_multiplier"]
            scale, decoder = public["scale"], public["decoder"]
        except (KeyError, TypeError) as error:
            raise InvalidInput(
                f"the saved stream is damaged ({error!r}); read it as to_fields() wrote it."
            ) from error
        if began_with != (mechanism.to_fields(), noise.name):
            raise InvalidInput(
                f"the stream was saved with mechanism and noise source {began_with!r:.200}, and "
                f"{mechanism!r:.200} with {noise.name!r} was given; go on with those that it "
                "began with."
            )
        stream = cls(mechanism, *asked, noise)
        stream.scale = positive_number(scale, "scale")
        stream.achieved_multiplier = stream._achieved()
        if stream.achieved_multiplier < stream.noise_multiplier:
            raise InvalidInput(
                f"the saved scale, {stream.scale}, gives noise_multiplier "
                f"{stream.achieved_multiplier}, less than the {stream.noise_multiplier} asked for; "
                "the saved stream is damaged."
            )
        stream._encoder = Encoder.from_fields(mechanism, secret)
        stream._decoder = Decoder.from_fields(mechanism, decoder)
        halves = stream._encoder.held, stream._decoder.held
        if len({(held.rows, held.people) for held in halves}) > 1:
            raise InvalidInput(
                "the secret and the public part were saved at different rows; restore both from "
                "one save."
            )
        stream.estimate = stream._decoder.estimate
        if stream.estimate is not None and np.shape(stream.estimate.values) != (stream.size,):
            raise InvalidInput("the saved vectors have another size than the stream.")
        return stream
