"""Sums of what the people of an epoch contribute, and their releases.

Contributions are whole multiples of 2^-30, so sums add exactly. A sum is released once, with
Gaussian noise in proportion to the l2 distance by which one replaced person moves it: that of two
contributions (`width`; 2 in the unit ball), and of their rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from discreet.codec import Range, Serializable, Shape
from discreet.learners.messages import Statistics
from discreet.privacy import NoiseSource, OnceEach, Release
from discreet.privacy.accounting import GaussianEvent
from discreet.privacy.prefix_sums import Independent, PrivateStream
from discreet.validation import FloatArray, IntArray, InvalidInput

# What of a person's data a report holds.
DATA = "the context, the action and the reward"
_BITS = 30
RESOLUTION = 2.0**_BITS
# Whole-number sums of this many people fit into 64 bits, with room for a second copy.
MOST_PEOPLE = 2 ** (61 - _BITS)
# Sums of this many fit into a float, too.
_EXACT_PEOPLE = 2 ** (53 - _BITS)
# l2 distance of two vectors in the unit ball.
BALL_WIDTH = 2.0
_IN_UNIT_BALL = "rows are cut to the unit ball and rounded to 2^-30"
# The noise of a release exceeds the one asked for by less than this part.
_CLOSE = 1e-6


def contribution_sensitivity(size: int, people: int = 1, width: float = BALL_WIDTH) -> float:
    """l2 distance that a sum of contributions of `size` numbers moves when a person is replaced.

    Args:
        size: numbers of a contribution.
        people: in the sum.
        width: distance between any two contributions, at most, before they are rounded.
    """
    # Each number of the sum is at most `people`, and rounded by 2^-53 of it, in both of two sums.
    rounding = people * 2.0**-52 if people > _EXACT_PEOPLE else 0.0
    return width + math.sqrt(size) * (1.0 / RESOLUTION + rounding)


def whole(contributions: FloatArray) -> IntArray:
    """Rows as whole multiples of 2^-30."""
    return np.rint(contributions * RESOLUTION).astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class EpochSum(Serializable):
    """The sum of contributions under one version of a policy.

    Attributes:
        people: number of people in it.
        total: (s,) the sum of their rows: whole multiples of 2^-30, or private numbers.
    """

    people: Annotated[int, Range(1)]
    total: Annotated[IntArray | FloatArray, Shape("s")]

    def __add__(self, other: EpochSum) -> EpochSum:
        if not self._alike(other):
            raise InvalidInput(
                f"sums had {len(self.total)} numbers of type {self.total.dtype}, and "
                f"{len(other.total)} of type {other.total.dtype}; they are of different learners."
            )
        return EpochSum(self.people + other.people, self.total + other.total)

    def after(self, earlier: EpochSum) -> EpochSum | None:
        """What was added after an earlier sum of the same version; None if nothing was."""
        more = self.people - earlier.people if self._alike(earlier) else -1
        if more < 0 or (more == 0 and not np.array_equal(self.total, earlier.total)):
            raise InvalidInput(
                f"a sum of {earlier.people} people that was released is no part of that of "
                f"{self.people} people; read the learner as save() wrote it."
            )
        return EpochSum(more, self.total - earlier.total) if more else None

    def _alike(self, other: EpochSum) -> bool:
        return (self.total.shape, self.total.dtype) == (other.total.shape, other.total.dtype)


@dataclass(frozen=True, eq=False, kw_only=True)
class EpochStatistics(Statistics):
    """Sums of contributions by version of the policy."""

    kind: ClassVar[str] = "epoch-statistics"
    handles_over_limit: ClassVar[bool] = True

    epochs: Mapping[Annotated[int, Range(0)], EpochSum]

    def __post_init__(self) -> None:
        super().__post_init__()
        counted = sum(added.people for added in self.epochs.values())
        if counted != self.reports:
            raise InvalidInput(
                f"statistics of {self.reports} reports held sums of {counted} people; send them as "
                "statistics() made them."
            )

    def __add__(self, other: EpochStatistics) -> EpochStatistics:
        joined = dict(self.epochs)
        for version, new in other.epochs.items():
            joined[version] = joined[version] + new if version in joined else new
        ordered = {version: joined[version] for version in sorted(joined)}
        return EpochStatistics(**self.tally(other), epochs=ordered)

    def check(self, people: int, check_sum: Callable[[int, EpochSum], None]) -> None:
        """Refuse a sum that `check_sum` refuses, and more than adds up exactly with `people`."""
        for version, added in self.epochs.items():
            check_sum(version, added)
        if people + self.reports > MOST_PEOPLE:
            raise InvalidInput(
                f"{people + self.reports} people would not add up exactly; the largest number is "
                f"{MOST_PEOPLE}."
            )

    def since(self, before: EpochStatistics) -> dict[int, EpochSum]:
        """Sums added after `before`, by version; `InvalidInput` if `before` is no part of this."""
        if not set(before.epochs) <= set(self.epochs):
            raise InvalidInput(
                f"versions {list(before.epochs)} were released, but people reported under "
                f"{list(self.epochs)}; read the learner as save() wrote it."
            )
        new = {
            version: added.after(before.epochs[version]) if version in before.epochs else added
            for version, added in self.epochs.items()
        }
        return {version: added for version, added in new.items() if added is not None}


@dataclass(frozen=True, eq=False)
class EpochRelease(Serializable):
    """A release of one sum: public, and never drawn again.

    Attributes:
        version: the version of the policy.
        people: number of people in the sum.
        total: (d,) the sum of their rows with noise.
        scale: standard deviation of the noise on each number; 0 without privacy.
        multiplier: scale / sensitivity, as the noise source achieves it.
        noise: the name of that source.
    """

    version: Annotated[int, Range(0)]
    people: Annotated[int, Range(1)]
    total: Annotated[FloatArray, Shape("d")]
    scale: Annotated[float, Range(0.0)]
    multiplier: Annotated[float, Range(0.0)]
    noise: str

    def sensitivity(self, width: float = BALL_WIDTH) -> float:
        """l2 distance that the sum moves when one of its people is replaced."""
        return contribution_sensitivity(len(self.total), self.people, width)

    @classmethod
    def noisy(
        cls,
        version: int,
        added: EpochSum,
        multiplier: float,
        noise: NoiseSource,
        width: float = BALL_WIDTH,
    ) -> EpochRelease:
        """The sum with noise of at least `multiplier` times its sensitivity."""
        size = len(added.total)
        moved = contribution_sensitivity(size, added.people, width)
        stream = PrivateStream(Independent(), size, moved, multiplier, noise)
        total = np.asarray(stream.release(added.total / RESOLUTION, added.people).values)
        held = stream.achieved_multiplier
        return cls(version, added.people, total, stream.scale, held, noise.name)

    def check(self, asked: float, size: int, width: float = BALL_WIDTH) -> None:
        """Reject a saved release of another size or noise.

        With less noise than the budget asks for it protects less; if it claims more noise, its
        certificate would promise too much.

        Args:
            asked: the noise multiplier of the budget.
            size: how many numbers the rows of its version have.
            width: l2 distance between any two of these rows.
        """
        held = min(self.multiplier, self.scale / self.sensitivity(width))
        if (
            len(self.total) != size
            or held < asked * (1.0 - 1e-9)
            or self.multiplier > asked * (1.0 + _CLOSE)
        ):
            raise InvalidInput(
                f"a saved release of {len(self.total)} numbers has the noise multiplier "
                f"{self.multiplier} and the scale {self.scale}; rows of version {self.version} "
                f"have {size} numbers, and this learner's budget asks for the multiplier {asked}. "
                "Read it as save() wrote it."
            )

    def record(
        self,
        people: OnceEach,
        width: float = BALL_WIDTH,
        source: str = _IN_UNIT_BALL,
        data: str = DATA,
    ) -> Release:
        """The release as a guarantee counts it; each contribution is in one release of the
        group."""
        return Release(
            mechanism="Gaussian noise on the sum of an epoch's rows",
            event=GaussianEvent(self.multiplier),
            sensitivity=self.sensitivity(width),
            sensitivity_source=source,
            scale=self.scale,
            people=people,
            data=data,
            noise=self.noise,
        )


@dataclass(frozen=True, eq=False)
class Released:
    """All releases and the sums they were drawn from, changed together in one assignment."""

    drawn: tuple[EpochRelease, ...]
    before: EpochStatistics

    def extended(
        self, sums: EpochStatistics, draw: Callable[[int, EpochSum], EpochRelease]
    ) -> Released:
        """With a release by `draw` of what each version added since the last ones.

        If the noise source fails, nothing was published, and the same sums can be released again.
        """
        new = [draw(version, added) for version, added in sums.since(self.before).items()]
        return Released((*self.drawn, *new), sums)

    def check(
        self,
        sums: EpochStatistics,
        asked: Callable[[int], tuple[float, int, float]],
        check_sum: Callable[[int, EpochSum], None],
    ) -> None:
        """Refuse saved releases of other people, or with other noise than is asked for a version:
        multiplier, size and width, as `EpochRelease.check` takes them."""
        people: dict[int, int] = {}
        for drawn in self.drawn:
            people[drawn.version] = people.get(drawn.version, 0) + drawn.people
            drawn.check(*asked(drawn.version))
        if people != {version: added.people for version, added in self.before.epochs.items()}:
            raise InvalidInput(
                "the saved releases are of other people than those marked as released; read the "
                "learner as save() wrote it."
            )
        for part in (sums.epochs, sums.since(self.before)):
            for version, added in part.items():
                check_sum(version, added)
