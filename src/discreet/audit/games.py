"""What an audit checks: by exact replay, and by distinguishing games.

A game has two neighbouring data sets. A trial runs what is audited on one of them, and gives the
adversary a score of everything that the trust model lets them see:

| trust model | the adversary sees                                                              |
|-------------|---------------------------------------------------------------------------------|
| local       | one person's report; all that came before it, the policy and the ticket         |
| joint       | all releases and policies, and everybody else's actions                         |
| outsourced  | the release, with the place of the row that may have moved                      |

A high score means "the first data set". Neighbours come from exact replay, and classifiers and
thresholds from trials of their own, before the trials that count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from discreet.privacy.budget import TrustModel
from discreet.validation import FloatArray, InvalidInput

Kind = Literal["mechanism", "learner", "specimen"]
Bound = Literal["counts", "gaussian"]
Seed = np.random.SeedSequence

# What is proved may exceed a certificate by the rounding of either.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Claim:
    """What is promised.

    Attributes:
        epsilon: the certified epsilon; for a specimen, the one it claims.
        delta: 0 for a pure promise.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not self.epsilon >= 0.0 or not 0.0 <= self.delta < 1.0:
            raise InvalidInput(
                f"a claim was epsilon = {self.epsilon}, delta = {self.delta}; epsilon must be at "
                "least 0, and delta at least 0 and below 1."
            )

    def exceeded_by(self, epsilon: float) -> bool:
        """Whether that epsilon, at this delta, breaks the promise."""
        return epsilon > self.epsilon * (1.0 + ROUNDING) + ROUNDING


class Game(ABC):
    """Two neighbouring data sets, and an adversary (see the module).

    Attributes:
        bound: what counts of guesses are turned into: `counts` for any promise (lower_bound.py),
            `gaussian` for one of Gaussian DP (gaussian_bound.py).
        threshold: above which "first" is guessed, where it is known beforehand; None to choose it
            on trials of their own.
    """

    bound: Bound = "counts"
    threshold: float | None = None

    @property
    @abstractmethod
    def claim(self) -> Claim:
        """What is promised."""

    @property
    @abstractmethod
    def attack(self) -> str:
        """The neighbours and the score, in a few words."""

    def prepared(self, seed: Seed) -> Game:
        """The game that is played, its classifier trained."""
        return self

    @abstractmethod
    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        """(trials,) scores of independent trials on the first data set, or on the second."""


@dataclass(frozen=True)
class Exact:
    """A promise whose epsilon is known exactly, for these neighbours.

    Attributes:
        claim: what is promised.
        epsilon: of the laws of everything that can come out, on the two data sets.
        attack: the neighbours, in a few words.
        fault: what breaks the promise for sure; empty if nothing does.
        subject: the code in the state in which it is worst; None where laws were enumerated.
        pair: the neighbours.
    """

    claim: Claim
    epsilon: float
    attack: str
    fault: str = ""
    subject: Any = None
    pair: tuple[Any, Any] = (None, None)

    @property
    def broken(self) -> bool:
        """Whether the promise is."""
        return bool(self.fault) or self.claim.exceeded_by(self.epsilon)


class NotAudited(InvalidInput):
    """There is nothing to audit: no promise, or no such noise here. Anything else is a failure."""


@dataclass(frozen=True)
class Check:
    """One line of the audit.

    Attributes:
        name: as `discreet audit NAME` takes it.
        kind: `mechanism`, `learner`, or `specimen` for a design that is known to be broken.
        trust_model: who sees what.
        exact: replays it exactly; None where only trials can tell. Called in the process that
            prepares the check, as is `game`.
        game: makes the game of the second line, trials, from what exact replay said; None for none.
        cost: how many trials of the usual kind one of these counts for; whole runs are dear.
        about: what is audited, in one line.
    """

    name: str
    kind: Kind
    trust_model: TrustModel
    exact: Callable[[], Exact] | None = field(default=None, repr=False)
    game: Callable[[Any], Game] | None = field(default=None, repr=False)
    cost: int = 1
    about: str = ""
