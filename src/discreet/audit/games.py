"""What an audit checks, and the games of trials that are its second line.

A game has two neighbouring data sets. A trial runs what is audited on one of them, and gives the
adversary a score of everything that the trust model lets them see:

| trust model | the adversary sees                                                              |
|-------------|---------------------------------------------------------------------------------|
| local       | one person's report; all that came before it, the policy and the ticket         |
| joint       | all releases and policies, and everybody else's actions                         |
| outsourced  | the release, with the place of the row that may have moved                      |

A high score means "the first data set". Neighbours come from exact replay, and classifiers and
thresholds from trials of their own, before the trials that count.

| class       | score of a trial                                                            |
|-------------|-----------------------------------------------------------------------------|
| `AdditiveGame`  | the likelihood ratio, for code that adds noise; many trials in one run      |
| `Runs`      | the likelihood ratio of a whole run of a subject                            |
| `ReportGame`   | a classifier trained on everything in a report                              |
| `Stated`    | a statistic of what comes out, which a function computes                    |

A likelihood ratio is worked out from what was handed to the noise on one data set, what came out,
and what is handed in on the other when that is played back:

    log p(y | data) = sum over draws of  -|y - v|^2 / (2 s^2) - size log s      (Gaussian)
                                         -|y - v|_1 / s - size log s            (Laplace)
                                         log P(option)                          (selection)

Ratios are rounded to 10^-9: what the last bits of noise show that was added in floating point
(Mironov 2012) is no property of a mechanism; SimulatedNoise does not hide it, SecureNoise does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discreet.audit.classifier import Arrays, Classifier, arrays_of
from discreet.audit.exact import Claim, Exact, Facts
from discreet.audit.ledger import Ledger
from discreet.audit.losses import Draw
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.budget import TrustModel
from discreet.validation import FloatArray

if TYPE_CHECKING:
    from discreet.audit.joint import JointRun
    from discreet.audit.local import LocalReport

Kind = Literal["mechanism", "learner", "specimen"]
Bound = Literal["counts", "gaussian"]
Seed = np.random.SeedSequence
# Runs so many independent trials on the first or the second data set, with this noise.
Side = Callable[[bool, int, NoiseSource], Any]

_DIGITS = 9
# A classifier is trained on so many reports of each.
_TRAINING = 10_000


@dataclass(frozen=True, kw_only=True)
class Game(ABC):
    """Two neighbouring data sets, and an adversary (see the module).

    Attributes:
        claim: what is promised.
        attack: the neighbours and the score, in a few words.
        bound: what counts of guesses are turned into: `counts` for any promise, `gaussian` for one
            of Gaussian DP (lower_bound.py).
        threshold: above which "first" is guessed, where it is known beforehand; None to choose it
            on trials of their own.
    """

    claim: Claim
    attack: str
    bound: Bound = "counts"
    threshold: float | None = None

    def prepared(self, seed: Seed) -> Game:
        """The game that is played, its classifier trained."""
        return self

    @abstractmethod
    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        """(trials,) scores of independent trials on the first data set, or on the second."""


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


def log_ratio(seen: Sequence[Draw], other: Sequence[Draw], rows: int = 1) -> FloatArray:
    """(rows,) log p(seen | own data) - log p(seen | other data).

    Args:
        seen: the draws of the run that happened.
        other: the draws of the run on the other data set with the same outcomes.
        rows: how many independent trials the first axis of every draw holds.

    Returns:
        Infinity where the runs differ in the number, the kind or the shape of what was drawn.
    """

    def outline(draws: Sequence[Draw]) -> list[tuple[str, tuple[int, ...]]]:
        return [(draw.kind, draw.value.shape) for draw in draws]

    if outline(seen) != outline(other):
        return np.full(rows, np.inf)
    ratio = np.zeros(rows)
    for mine, theirs in zip(seen, other, strict=True):
        ratio += mine.log_density(rows) - theirs.log_density(rows)
    return np.round(ratio, _DIGITS)


@dataclass(frozen=True, kw_only=True)
class AdditiveGame(Game):
    """Code that adds Gaussian or Laplace noise, many trials at once (see the module).

    For Gaussian noise the threshold is 0, by symmetry.

    Attributes:
        side: runs trials on the first or the second data set.
        trials_last: whether trials are the last axis of what is handed to the noise.
    """

    side: Side
    trials_last: bool = False
    bound: Bound = "gaussian"
    threshold: float | None = 0.0

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        mine, theirs, noise = Ledger(), Ledger(), SimulatedNoise(seed)
        with mine.recording():
            self.side(first, trials, noise)
        with theirs.playing(mine):
            self.side(not first, trials, noise)
        ratio = log_ratio(self._rows(mine.draws), self._rows(theirs.draws), trials)
        return ratio if first else -ratio

    def _rows(self, draws: list[Draw]) -> list[Draw]:
        """The draws with trials as their first axis."""

        def first(values: Any) -> FloatArray:
            return np.moveaxis(np.asarray(values), -1, 0)

        if not self.trials_last:
            return draws
        return [
            replace(draw, value=first(draw.value), outcome=first(draw.outcome)) for draw in draws
        ]


@dataclass(frozen=True, kw_only=True)
class Runs(Game):
    """Whole runs under joint privacy (see the module).

    By Neyman and Pearson a log-ratio of 0 parts two Gaussian laws evenly.

    Attributes:
        subject: the run.
        pair: of people.
    """

    subject: JointRun
    pair: tuple[Any, Any]
    bound: Bound = "gaussian"
    threshold: float | None = 0.0

    @classmethod
    def of(cls, exact: Exact, gaussian: bool = True) -> Runs:
        """On the neighbours of exact replay; `gaussian` where all noise is."""
        words = f"likelihood ratio of whole runs; {exact.pair[0]} or {exact.pair[1]}"
        runs = cls(claim=exact.claim, attack=words, subject=exact.subject, pair=exact.pair)
        return runs if gaussian else replace(runs, bound="counts", threshold=None)

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        scores = np.empty(trials)
        sides = self.pair if first else self.pair[::-1]
        for trial, child in enumerate(seed.spawn(trials)):
            subject = replace(self.subject, seed=int(child.generate_state(1)[0]))
            mine, theirs = Ledger(child), Ledger(child)
            with mine.recording():
                subject.run(sides[0], Facts(wanted=False))
            with theirs.playing(mine):
                subject.run(sides[1], Facts(wanted=False))
            ratio = np.inf if theirs.astray else float(log_ratio(mine.draws, theirs.draws)[0])
            scores[trial] = ratio if first else -ratio
        return scores


@dataclass(frozen=True, kw_only=True)
class ReportGame(Game):
    """One person's report under local privacy, by any mechanism (see the module).

    Attributes:
        subject: the report.
        pair: of people.
        classifier: None until prepared.
    """

    subject: LocalReport
    pair: tuple[Any, Any]
    classifier: Classifier | None = None

    @classmethod
    def of(cls, exact: Exact) -> ReportGame:
        """On the neighbours of exact replay, with simulated noise."""
        words = f"trained classifier of a report; {exact.pair[0]} or {exact.pair[1]}"
        subject = replace(exact.subject, terms=None, secure=False)
        return cls(claim=exact.claim, attack=words, subject=subject, pair=exact.pair)

    def prepared(self, seed: Seed) -> Game:
        first, second = (self._drawn(side, _TRAINING, seed.spawn(1)[0]) for side in (True, False))
        return replace(self, classifier=Classifier.trained(first, second))

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        assert self.classifier is not None
        return self.classifier.scores(self._drawn(first, trials, seed))

    def _drawn(self, first: bool, trials: int, seed: Seed) -> Arrays:
        person = self.pair[0 if first else 1]
        return arrays_of(self.subject.copies(person, trials, SimulatedNoise(seed)))


@dataclass(frozen=True, kw_only=True)
class Stated(Game):
    """A mechanism with a statistic for its score.

    The bound is `gaussian` only where the statistic is normal with one variance on either side.

    Attributes:
        statistic: (trials,) scores of a run.
        source: makes the noise of a portion of trials.
    """

    statistic: Callable[[bool, int, NoiseSource], FloatArray]
    source: Callable[[Seed], NoiseSource] = SimulatedNoise

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        return self.statistic(first, trials, self.source(seed))
