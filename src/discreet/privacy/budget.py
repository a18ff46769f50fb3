"""What a user asks for: a trust model and its parameters.

A budget is a wish; a `Guarantee` (guarantee.py) is what the noise that was drawn really gives.

    Local(epsilon, delta=0)     each person's report is private when it leaves their side
    Joint(epsilon, delta)       a trusted learner; everything others see is private
    Outsourced(epsilon, delta, radius)   a curator releases a table once to a modeler
    NonPrivate()                no promise: for baselines only
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from discreet.validation import positive_number, probability


@dataclass(frozen=True)
class Local:
    """Local differential privacy, sequentially interactive, one report a person.

    Attributes:
        epsilon: what one report may cost.
        delta: 0 for learners with pure reports; learners with Gaussian reports need one above 0.
    """

    epsilon: float
    delta: float = 0.0
    trust_model: ClassVar[Literal["local"]] = "local"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_number(self.epsilon, "epsilon"))
        if isinstance(self.delta, bool) or self.delta != 0:
            object.__setattr__(self, "delta", probability(self.delta, "delta"))


@dataclass(frozen=True)
class Joint:
    """(epsilon, delta)-joint differential privacy under replacement of one person's data.

    Attributes:
        epsilon: above 0.
        delta: 0 for learners whose releases are pure; Gaussian releases need one above 0.
    """

    epsilon: float
    delta: float
    trust_model: ClassVar[Literal["joint"]] = "joint"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_number(self.epsilon, "epsilon"))
        if isinstance(self.delta, bool) or self.delta != 0:
            object.__setattr__(self, "delta", probability(self.delta, "delta"))


@dataclass(frozen=True)
class Outsourced:
    """(epsilon, delta) for a table released once; neighbours differ in one row.

    Attributes:
        epsilon: above 0.
        delta: strictly between 0 and 1.
        radius: how far (l2) that row may move; None for any other row that the public bounds
            allow, which is replace-one without a condition.
    """

    epsilon: float
    delta: float
    radius: float | None = None
    trust_model: ClassVar[Literal["outsourced"]] = "outsourced"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_number(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", probability(self.delta, "delta"))
        if self.radius is not None:
            object.__setattr__(self, "radius", positive_number(self.radius, "radius"))


@dataclass(frozen=True)
class NonPrivate:
    """No protection at all; learners that accept it serve as references."""

    trust_model: ClassVar[Literal["none"]] = "none"

    @property
    def epsilon(self) -> float:
        """Infinity: nothing is promised."""
        return float("inf")

    @property
    def delta(self) -> float:
        """0, beside an epsilon of infinity."""
        return 0.0


Budget = Local | Joint | Outsourced | NonPrivate
