"""What a modeler knows of the rows of a table: an independent normal belief about each number.

A curator releases Z = X + N(0, s^2). Z and s are public, so is the box in which the rows of X lie,
and whatever is made of them is post-processing. With a flat prior on the box each number of X has a
normal distribution cut to its interval; its mean and variance are in closed form. Near the border
they know more than Z alone: the variance shrinks and the mean moves inwards.

| array    | shape            | meaning                                        | symbol  |
|----------|------------------|------------------------------------------------|---------|
| mean     | (n, r)           | where each row is believed to be               | m       |
| variance | (n, r) or (1, r) | how uncertain that is; one row for all the same| s^2     |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from discreet.codec import Range, Serializable, Shape
from discreet.validation import FloatArray, InvalidInput, finite_matrix, number_from

_LOG_ROOT_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))
# In standard deviations of the noise: intervals narrower than the first count as narrow; those
# further away than the second as far out.
_NARROW, _FAR = 1e-2, 150.0
# Rows worked on together: 2^18 rows of three columns take six megabytes for each temporary array.
_AT_ONCE = 2**18


@dataclass(frozen=True, eq=False)
class RowBeliefs(Serializable):
    """Independent normal beliefs about the rows of a table (see the module)."""

    mean: Annotated[FloatArray, Shape("n", "r")]
    variance: Annotated[FloatArray, Shape("n or 1", "r"), Range(0.0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mean.size == 0 or len(self.variance) not in (1, len(self.mean)):
            raise InvalidInput(
                f"the rows had shape {self.mean.shape} and their variances {self.variance.shape}; "
                "give at least one row and column, and variances for all rows together or for each."
            )
        for name in ("mean", "variance"):
            # Column by column is how priors read them.
            array = np.asfortranarray(getattr(self, name)).view()
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def count(self) -> int:
        """How many rows there are, n."""
        return len(self.mean)

    @property
    def columns(self) -> int:
        """How many numbers a row has, r."""
        return int(self.mean.shape[1])

    @classmethod
    def exact(cls, points: ArrayLike) -> RowBeliefs:
        """Rows (n, r) that are known, as in a search without privacy."""
        return cls.noisy(points, 0.0)

    @classmethod
    def noisy(cls, points: ArrayLike, scale: float) -> RowBeliefs:
        """Rows (n, r) released with normal noise of standard deviation `scale` on each number."""
        mean, s = _checked(points, scale)
        return cls(mean, np.full((1, mean.shape[1]), s**2))

    @classmethod
    def within(
        cls, points: ArrayLike, scale: float, lower: ArrayLike, upper: ArrayLike
    ) -> RowBeliefs:
        """The same, of rows that lie between `lower` and `upper` (r,), wherever `points` lie.

        With a flat prior on [a, b], alpha = (a - z) / s, beta = (b - z) / s and
        Z = Phi(beta) - Phi(alpha):

            mean = z + s (phi(alpha) - phi(beta)) / Z
            variance = s^2 (1 + (alpha phi(alpha) - beta phi(beta)) / Z - ((mean - z) / s)^2)
        """
        observed, s = _checked(points, scale)
        low = np.broadcast_to(np.asarray(lower, dtype=np.float64), observed.shape[1:])
        high = np.broadcast_to(np.asarray(upper, dtype=np.float64), observed.shape[1:])
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise InvalidInput(
                f"the bounds of the rows were {low} and {high}; each lower bound must be below its "
                "upper bound, and both finite."
            )
        if s == 0.0:
            return cls.exact(np.clip(observed, low, high))
        mean, variance = np.empty_like(observed), np.empty_like(observed)
        for start in range(0, len(observed), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            mean[some], variance[some] = _truncated(observed[some], s, low, high)
        return cls(mean, variance)


def _checked(points: ArrayLike, scale: float) -> tuple[FloatArray, float]:
    """Rows as a matrix of their own, and the scale of their noise."""
    shape = np.shape(points)
    columns = int(shape[1]) if len(shape) == 2 else 1
    s = number_from(scale, "the scale of the noise", 0.0)
    return finite_matrix(points, "the rows", columns), s


def _truncated(
    points: FloatArray, s: float, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of N(points, s^2) cut to [low, high], in logarithms against underflow."""
    from scipy.special import log_ndtr

    alpha, beta = (low - points) / s, (high - points) / s
    # log(Phi(b) - Phi(a)) loses everything in the upper tail: look at it from the lower one.
    flip = alpha + beta > 0.0
    a, b = np.where(flip, -beta, alpha), np.where(flip, -alpha, beta)
    mass = log_ndtr(b) + np.log1p(-np.exp(np.minimum(log_ndtr(a) - log_ndtr(b), -1e-300)))
    with np.errstate(over="ignore", invalid="ignore"):  # where it overflows it is not used
        density_a = np.exp(-0.5 * a * a - _LOG_ROOT_TWO_PI - mass)
        density_b = np.exp(-0.5 * b * b - _LOG_ROOT_TWO_PI - mass)
        shift = density_a - density_b
        spread = 1.0 + a * density_a - b * density_b - shift**2
    narrow, far = (b - a) < _NARROW, b < -_FAR
    # On an interval much narrower than the noise the density is flat, with a slight slope; far out
    # it falls off like an exponential. The differences above would leave only rounding errors.
    centre, width = 0.5 * (a + b), b - a
    flat = np.maximum(a, np.minimum(b, centre - width**2 * centre / 12.0))
    tail, tail_spread = _exponential_tail(np.where(far, -b, _FAR), width)
    shift = np.where(far, b - tail, np.where(narrow, flat, shift))
    spread = np.where(far, tail_spread, np.where(narrow, width**2 / 12.0, spread))
    mean = np.clip(points + s * np.where(flip, -shift, shift), low, high)
    # No distribution on an interval that falls or rises all along varies more than a flat one.
    variance = np.clip(s * s * spread, 0.0, (high - low) ** 2 / 12.0)
    return mean, variance


def _exponential_tail(rate: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of an exponential of that rate, cut off at `width`."""
    reach = rate * width
    small = reach < 1e-3
    gone = np.exp(-np.where(small, 1.0, reach))
    share = np.where(small, 0.5 * width, 1.0 / rate - width * gone / (1.0 - gone))
    spread = np.where(small, width**2 / 12.0, 1.0 / rate**2 - width**2 * gone / (1.0 - gone) ** 2)
    return share, np.maximum(spread, 0.0)
