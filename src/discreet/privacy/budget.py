"""What a user asks for: a trust model and its parameters.

A budget is a wish; a `Guarantee` (guarantee.py) is what the noise that was drawn really gives.

    Local(epsilon, delta=0)     each person's report is private when it leaves their side
    Joint(epsilon, delta)       a trusted learner; everything others see is private
    Outsourced(epsilon, delta, radius)   a curator releases a table once to a modeler
    NonPrivate()                no promise: for baselines only

Where noise is drawn is what callers ask a budget: `protects_reports` (at each person),
`protects_releases` (at whoever holds the data), `private` (anywhere at all).
"""

from __future__ import annotations

import inspect
import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Literal, Self

from discreet.codec import Range, check_fields
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.validation import InvalidInput, one_of

TrustModel = Literal["local", "joint", "outsourced", "none"]
Epsilon = Annotated[float, Range(above=0.0)]
Delta = Annotated[float, Range(0.0, below=1.0)]


class Budget(ABC):
    """What is asked for. Budgets are frozen dataclasses: equal by value and usable as keys.

    Attributes:
        trust_model: `local`, `joint`, `outsourced` or `none`.
        protects_reports: whether reports are private when they leave a person.
        protects_releases: whether whoever holds plain reports draws noise before publishing.
        epsilon: what one participation may cost; infinity without a promise.
        delta: 0 for pure differential privacy.
    """

    trust_model: ClassVar[TrustModel]
    protects_reports: ClassVar[bool] = False
    protects_releases: ClassVar[bool] = False
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return self.protects_reports or self.protects_releases

    @property
    def noise_multiplier(self) -> float:
        """The least scale / sensitivity of Gaussian noise that keeps it; 0 without a promise.

        Raises:
            InvalidInput: at delta 0, where no Gaussian noise keeps any epsilon.
        """
        return gaussian_noise_multiplier(self.epsilon, self.delta)

    def at(self, epsilon: float) -> Self:
        """The same promise with another epsilon."""
        return replace(self, epsilon=epsilon)  # type: ignore[type-var]

    def to_fields(self) -> dict[str, Any]:
        """JSON values; the inverse is `budget_from_fields`."""
        given = [entry.name for entry in fields(self) if entry.init]  # type: ignore[arg-type]
        return {"trust_model": self.trust_model, **{name: getattr(self, name) for name in given}}


@dataclass(frozen=True)
class Local(Budget):
    """Local differential privacy, sequentially interactive, one report a person.

    Attributes:
        epsilon: what one report may cost.
        delta: 0 for learners with pure reports; learners with Gaussian reports need one above 0.
    """

    trust_model: ClassVar[TrustModel] = "local"
    protects_reports: ClassVar[bool] = True
    epsilon: Epsilon
    delta: Delta = 0.0


@dataclass(frozen=True)
class Joint(Budget):
    """(epsilon, delta)-joint differential privacy under replacement of one person's data.

    Attributes:
        epsilon: above 0.
        delta: 0 for learners whose releases are pure; Gaussian releases need one above 0.
    """

    trust_model: ClassVar[TrustModel] = "joint"
    protects_releases: ClassVar[bool] = True
    epsilon: Epsilon
    delta: Delta


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
    protects_releases: ClassVar[bool] = True
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
    kind.trust_model: kind for kind in (Local, Joint, Outsourced, NonPrivate)
}


def budget_from_fields(saved: Mapping[str, Any]) -> Budget:
    """The inverse of `Budget.to_fields`; `InvalidInput` for an unknown trust model or field."""
    settings = dict(saved)
    trust_model = one_of(settings.pop("trust_model", None), "the trust model", _BUDGETS)
    kind = _BUDGETS[trust_model]
    allowed = inspect.signature(kind).parameters
    needed = {name for name, given in allowed.items() if given.default is given.empty}
    if not needed <= set(settings) <= set(allowed):
        raise InvalidInput(
            f"the trust model {trust_model} got {', '.join(sorted(settings)) or 'nothing'}; it "
            f"takes {', '.join(allowed) or 'nothing'}, and "
            f"{' and '.join(sorted(needed - set(settings))) or 'none of them'} is missing (a delta "
            "of 0 is for learners whose releases are pure)."
        )
    return kind(**settings)
