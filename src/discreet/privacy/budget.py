"""Budgets: a trust model and the privacy parameters that a user requests.

A budget is a request; a `Guarantee` (guarantee.py) follows from the noise that was drawn.

    Local(epsilon, delta=0, max_contributions=1)   each person's reports are private when they leave
    their side
    Shuffled(epsilon, delta, group, honest=1)      private reports, of which the learner sees
    shuffled groups only
    Joint(epsilon, delta, max_contributions=1)     a trusted learner; everything others see is
    private
    Outsourced(epsilon, delta, radius)   a curator releases a table once to a modeler
    NonPrivate()                no promise: for baselines only

**Contributions.** (epsilon, delta) is what a *person* may pay in all, however many of their
`max_contributions` they use; later contributions act without reporting (learners/contributions.py).
Local reports draw noise of their own, so their costs compose; contributions to a learner that
releases sums may all be in one sum, which they move `max_contributions` times as far. A learner
sizes noise by `contribution_epsilon` and `noise_multiplier`, which are about one contribution. With
`protects="contribution"` the promise covers each contribution by itself, and does not limit what a
person pays in all.

Noise is drawn at each person (`is_local`), at the holder of the data (`is_central`),
or at either (`private`).
"""

from __future__ import annotations

import inspect
import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Self

from discreet.codec import Range, check_fields
from discreet.privacy.accounting import (
    MOST_SHUFFLED,
    GroupSize,
    Honest,
    MaxContributions,
    Protects,
    TrustModel,
    gaussian_epsilon,
)
from discreet.privacy.calibration import gaussian_noise_multiplier, pure_share
from discreet.validation import InvalidInput, one_of

Epsilon = Annotated[float, Range(above=0.0)]
Delta = Annotated[float, Range(0.0, below=1.0)]
# The number of people that the usual size of a shuffled group assumes where it is unknown.
USUAL_PEOPLE = 80_000
# So much more noise, as a part of it, makes up for an epsilon that is solved for and solved back.
_CLOSE = 1e-8


class Budget(ABC):
    """The protection requested; a frozen dataclass, equal by value and hashable.

    Attributes:
        trust_model: `local`, `shuffled`, `joint`, `outsourced` or `none`.
        is_local: whether reports are private when they leave a person.
        is_central: whether the holder of plain reports draws noise before publishing.
        epsilon: what one person may pay; infinity without a promise.
        delta: 0 for pure differential privacy.
        max_contributions: how many contributions of one person (epsilon, delta) covers.
        protects: whether it is promised to a person, or to each contribution by itself.
        group: how many reports the learner sees at once, in random order; 1 without a shuffler.
        honest: the least share of the others in a group who follow the protocol.
    """

    trust_model: ClassVar[TrustModel]
    is_local: ClassVar[bool] = False
    is_central: ClassVar[bool] = False
    epsilon: float
    delta: float
    max_contributions: int = 1
    protects: Protects = "person"
    group: int = 1
    honest: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.protects == "contribution" and self.max_contributions > 1:
            raise InvalidInput(
                f"max_contributions was {self.max_contributions} with protects = 'contribution', "
                "which promises epsilon to each contribution by itself, however many there are; "
                "leave out one of the two."
            )

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.to_fields().items())
        return f"{type(self).__name__}({', '.join(list(shown)[1:])})"

    @property
    def private(self) -> bool:
        """Whether any protection is requested."""
        return self.is_local or self.is_central

    @property
    def contribution_epsilon(self) -> float:
        """The epsilon of a pure mechanism on the data of one contribution."""
        return pure_share(self.epsilon, self.delta * self.is_local, self.max_contributions)

    @property
    def times_noise(self) -> float:
        """The factor on the Gaussian noise of one contribution that covers all of them."""
        return 1.0

    @property
    def noise_multiplier(self) -> float:
        """The least scale / sensitivity of Gaussian noise that keeps it, for the sensitivity to the
        data of one contribution; 0 without a promise.

        Raises:
            InvalidInput: at delta 0, where no Gaussian noise keeps any epsilon.
        """
        return self.times_noise * gaussian_noise_multiplier(self.epsilon, self.delta)

    def at(self, epsilon: float, people: int = USUAL_PEOPLE) -> Self:
        """The same budget at another epsilon; a group of the usual size for `people` follows it."""
        return replace(self, epsilon=epsilon)  # type: ignore[type-var]

    def to_fields(self) -> dict[str, Any]:
        """JSON values; the inverse is `budget_from_fields`."""
        given = {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)  # type: ignore[arg-type]
            if entry.init
        }
        usual = {"max_contributions": 1, "protects": "person", "honest": 1.0}
        shown = {n: value for n, value in given.items() if n not in usual or value != usual[n]}
        return {"trust_model": self.trust_model, **shown}


@dataclass(frozen=True, repr=False)
class Local(Budget):
    """Local differential privacy, sequentially interactive, one report a contribution.

    Attributes:
        epsilon: what all reports of a person may cost together.
        delta: learners with Gaussian reports need one above 0. Pure reports take none, unless they
            are several: at a delta k of them may cost more than epsilon / k each.
        max_contributions: k, how many reports a person makes at most.
        protects: `contribution` for a promise about each report by itself.
    """

    trust_model: ClassVar[TrustModel] = "local"
    is_local: ClassVar[bool] = True
    epsilon: Epsilon
    delta: Delta = 0.0
    max_contributions: MaxContributions = 1
    protects: Protects = "person"

    @property
    def times_noise(self) -> float:
        """Of k reports mu^2 adds: each has noise sqrt(k) times as large."""
        return math.sqrt(self.max_contributions)

    @property
    def gaussian_report(self) -> tuple[float, float]:
        """An epsilon and a delta of one report whose noise has at least `noise_multiplier`."""
        if self.max_contributions == 1:
            return self.epsilon, self.delta
        # At a k-th of delta epsilon is above 0, whatever the budget.
        delta = self.delta / self.max_contributions
        return gaussian_epsilon(self.noise_multiplier * (1.0 + _CLOSE), delta), delta


def usual_group(epsilon: float, people: int = USUAL_PEOPLE) -> int:
    """The usual number of reports in a group, from 20 to 100,000, to two digits.

    Larger groups allow a larger e0, but the first of them acts before anything is learnt. The rule
    is a fit to regret with 10,000 and 80,000 people at epsilon .25 to 2, which is flat: half and
    twice its number are within a fifth.
    """
    wanted = 300.0 * epsilon**-0.4 * (people / USUAL_PEOPLE) ** 0.4
    return int(float(f"{min(max(wanted, 20.0), 100_000.0):.2g}"))


@dataclass(frozen=True, repr=False)
class Shuffled(Budget):
    """Local reports, of which the learner sees nothing but shuffled groups (shuffling.py).

    A shuffler with an operator of its own passes on the reports of `group` people under one policy
    in random order, without ids or times. The learner's view is (epsilon, delta) for each of them;
    a report by itself keeps `contribution_epsilon`, even if shuffler and learner conspire.

    Attributes:
        epsilon: above 0, at most 100.
        delta: strictly between 0 and 1; below 1 / people.
        group: n; 0 for the usual number at this epsilon.
        honest: the least share of the others in any group who do not conspire with the learner.
    """

    trust_model: ClassVar[TrustModel] = "shuffled"
    is_local: ClassVar[bool] = True
    epsilon: Annotated[float, Range(above=0.0, high=MOST_SHUFFLED)]
    delta: Annotated[float, Range(above=0.0, below=1.0)]
    group: GroupSize = 0
    honest: Honest = 1.0

    def __post_init__(self) -> None:
        number = isinstance(self.epsilon, int | float)
        if self.group == 0 and number and 0.0 < self.epsilon <= MOST_SHUFFLED:
            object.__setattr__(self, "group", usual_group(self.epsilon))
        super().__post_init__()

    @property
    def contribution_epsilon(self) -> float:
        from discreet.privacy.shuffling import report_epsilon_of

        if self.group == 1:
            return self.epsilon
        return report_epsilon_of(self.group, self.epsilon, self.delta, self.honest)

    def at(self, epsilon: float, people: int = USUAL_PEOPLE) -> Self:
        usual = self.group == usual_group(self.epsilon, people)
        group = usual_group(epsilon, people) if usual else self.group
        return replace(self, epsilon=epsilon, group=group)


@dataclass(frozen=True, repr=False)
class Joint(Budget):
    """(epsilon, delta)-joint differential privacy under replacement of one person's data.

    Attributes:
        epsilon: above 0.
        delta: 0 for learners whose releases are pure; Gaussian releases need one above 0.
        max_contributions: k, the contribution bound: at most k contributions of one person count.
            Above 1 a learner needs ids: `update(reports, people)`.
        protects: `contribution` for a promise about each contribution by itself.
    """

    trust_model: ClassVar[TrustModel] = "joint"
    is_central: ClassVar[bool] = True
    epsilon: Epsilon
    delta: Delta
    max_contributions: MaxContributions = 1
    protects: Protects = "person"

    @property
    def times_noise(self) -> float:
        """k contributions may be in one sum, which they move k times as far as one."""
        return float(self.max_contributions)


@dataclass(frozen=True)
class Outsourced(Budget):
    """(epsilon, delta) for a table released once; neighbours differ in one row.

    Attributes:
        epsilon: above 0.
        delta: strictly between 0 and 1.
        radius: how far (l2) that row may move; None for any other row that the public bounds
            allow, which is replace-one without a condition.
    """

    trust_model: ClassVar[TrustModel] = "outsourced"
    is_central: ClassVar[bool] = True
    epsilon: Epsilon
    delta: Annotated[float, Range(above=0.0, below=1.0)]
    radius: Annotated[float, Range(above=0.0)] | None = None


@dataclass(frozen=True)
class NonPrivate(Budget):
    """No protection at all; learners that accept it serve as references."""

    trust_model: ClassVar[TrustModel] = "none"
    epsilon: Annotated[float, Range(infinite=True)] = field(
        default=math.inf, init=False, repr=False
    )
    delta: float = field(default=0.0, init=False, repr=False)

    @property
    def noise_multiplier(self) -> float:
        return 0.0


_BUDGETS: dict[str, type[Budget]] = {
    kind.trust_model: kind for kind in (Local, Shuffled, Joint, Outsourced, NonPrivate)
}


def budget_from_fields(saved: Mapping[str, Any]) -> Budget:
    """The inverse of `Budget.to_fields`; `InvalidInput` for an unknown trust model or field."""
    settings = dict(saved)
    trust_model = one_of(settings.pop("trust_model", None), "the trust model", _BUDGETS)
    kind = _BUDGETS[trust_model]
    allowed = inspect.signature(kind).parameters
    needed = {name for name, given in allowed.items() if given.default is given.empty}
    if not needed <= set(settings) <= set(allowed):
        missing = sorted(needed - set(settings))
        example = ", such as 1e-6 (0 is for learners whose releases are pure)"
        advice = f" Give {' and '.join(missing)}{example if 'delta' in missing else ''}."
        raise InvalidInput(
            f"the trust model {trust_model} got {', '.join(sorted(settings)) or 'nothing'}; it "
            f"takes {', '.join(allowed) or 'nothing'}.{advice if missing else ''}"
        )
    return kind(**settings)
