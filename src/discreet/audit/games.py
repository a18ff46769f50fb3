"""Distinguishing games: what is promised, who attacks, and how many trials it takes.

A game has two neighbouring data sets. A trial runs what is audited on one of them, and gives the
adversary a score of everything that the trust model lets them see:

| trust model | the adversary sees                                                              |
|-------------|---------------------------------------------------------------------------------|
| local       | one person's report; all that came before it, the policy and the ticket         |
| joint       | all releases and policies, and everybody else's actions                         |
| outsourced  | the release, with the place of the row that may have moved                      |

A high score means "the first data set". Neighbours, classifiers and thresholds are chosen in
`prepared`, and on trials of their own, before the trials that count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from discreet.privacy.guarantee import TrustModel
from discreet.validation import FloatArray, InvalidInput

Kind = Literal["mechanism", "learner", "specimen"]
Bound = Literal["counts", "gaussian"]
Seed = np.random.SeedSequence


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
        """What is promised; known once the game is prepared."""

    @property
    @abstractmethod
    def attack(self) -> str:
        """The neighbours and the score, in a few words."""

    def prepared(self, seed: Seed) -> Playable:
        """The game that is played, its neighbours chosen and its classifier trained."""
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
    """

    claim: Claim
    epsilon: float
    attack: str


Playable = Game | Exact


@dataclass(frozen=True)
class Check:
    """One line of the audit.

    Attributes:
        name: as `discreet audit NAME` takes it.
        kind: `mechanism`, `learner`, or `specimen` for a design that is known to be broken.
        trust_model: who sees what.
        make: makes the game; called in the process that prepares it.
        cost: so many trials of the usual kind are one of this one; whole runs are dear.
        about: what is audited, in one line.
    """

    name: str
    kind: Kind
    trust_model: TrustModel
    make: Callable[[], Playable] = field(repr=False)
    cost: int = 1
    about: str = ""

    def prepared(self, seed: Seed) -> Playable:
        """The game, ready to be played, or its exact answer."""
        made = self.make()
        return made.prepared(seed) if isinstance(made, Game) else made
