"""Games: the second line of the audit, which counts guesses.

| class       | score of a trial                                                            |
|-------------|-----------------------------------------------------------------------------|
| `Additive`  | the likelihood ratio, for code that adds noise; many trials in one run      |
| `Runs`      | the likelihood ratio of a whole run of a subject                            |
| `Reports`   | a classifier trained on everything in a report                              |
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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.audit.classifier import Arrays, Classifier, arrays_of
from discreet.audit.exact import Facts
from discreet.audit.games import Bound, Claim, Game, Seed
from discreet.audit.ledger import Draw, Ledger
from discreet.audit.reports import LocalReport
from discreet.audit.runs import JointRun
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.validation import FloatArray

# Runs so many independent trials on the first or the second data set, with this noise.
Side = Callable[[bool, int, NoiseSource], Any]

_DIGITS = 9
# A classifier is trained on so many reports of each.
_TRAINING = 10_000


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
        ratio += _log_density(mine, rows) - _log_density(theirs, rows)
    return np.round(ratio, _DIGITS)


def _log_density(draw: Draw, rows: int) -> FloatArray:
    if draw.kind == "selection":
        logs = draw.mechanism.log_probabilities(draw.value, draw.public)
        chosen: FloatArray = logs[np.arange(len(logs)), draw.outcome].reshape(rows, -1).sum(axis=1)
        return chosen
    away = (np.asarray(draw.outcome) - draw.value).reshape(rows, -1)
    scale = draw.mechanism
    lost = (
        np.square(away).sum(axis=1) / (2.0 * scale**2)
        if draw.kind == "gaussian"
        else np.abs(away).sum(axis=1) / scale
    )
    density: FloatArray = -lost - away.shape[1] * np.log(scale)
    return density


@dataclass(frozen=True)
class Additive(Game):
    """Code that adds Gaussian or Laplace noise, many trials at once (see the module).

    Attributes:
        held: what is promised.
        words: the neighbours.
        side: runs trials on the first or the second data set.
        trials_last: whether trials are the last axis of what is handed to the noise.
        bound: `gaussian` for Gaussian noise.
        threshold: 0 for Gaussian noise, by symmetry; None to choose it.
    """

    held: Claim
    words: str
    side: Side
    trials_last: bool = False
    bound: Bound = "gaussian"
    threshold: float | None = 0.0

    @property
    def claim(self) -> Claim:
        return self.held

    @property
    def attack(self) -> str:
        return f"likelihood ratio; {self.words}"

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        mine, theirs, noise = Ledger(), Ledger(), SimulatedNoise(seed)
        with mine.recording():
            self.side(first, trials, noise)
        with theirs.playing(mine):
            self.side(not first, trials, noise)
        ratio = log_ratio(self._rows(mine.draws), self._rows(theirs.draws), trials)
        return ratio if first else -ratio

    def _rows(self, draws: list[Draw]) -> list[Draw]:
        if not self.trials_last:
            return draws
        return [
            replace(
                draw,
                value=np.moveaxis(draw.value, -1, 0),
                outcome=np.moveaxis(np.asarray(draw.outcome), -1, 0),
            )
            for draw in draws
        ]


@dataclass(frozen=True)
class Runs(Game):
    """Whole runs under joint privacy (see the module).

    Attributes:
        held: what is promised.
        subject: the run.
        pair: of people.
        bound: `gaussian` where all noise is.
        threshold: by Neyman and Pearson a log-ratio of 0 parts two Gaussian laws evenly.
    """

    held: Claim
    subject: JointRun
    pair: tuple[Any, Any]
    bound: Bound = "gaussian"
    threshold: float | None = 0.0

    @property
    def claim(self) -> Claim:
        return self.held

    @property
    def attack(self) -> str:
        return f"likelihood ratio of whole runs; {self.pair[0]} or {self.pair[1]}"

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        found = np.empty(trials)
        sides = self.pair if first else self.pair[::-1]
        for trial, child in enumerate(seed.spawn(trials)):
            subject = replace(self.subject, seed=int(child.generate_state(1)[0]))
            mine, theirs = Ledger(child), Ledger(child)
            with mine.recording():
                subject.run(sides[0], Facts(wanted=False))
            with theirs.playing(mine):
                subject.run(sides[1], Facts(wanted=False))
            ratio = np.inf if theirs.astray else float(log_ratio(mine.draws, theirs.draws)[0])
            found[trial] = ratio if first else -ratio
        return found


@dataclass(frozen=True)
class Reports(Game):
    """One person's report under local privacy (see the module).

    Attributes:
        held: what is promised.
        subject: the report.
        pair: of people.
        classifier: None until prepared.
        bound: for any mechanism.
        threshold: chosen.
    """

    held: Claim
    subject: LocalReport
    pair: tuple[Any, Any]
    classifier: Classifier | None = None
    bound: Bound = "counts"
    threshold: float | None = None

    @property
    def claim(self) -> Claim:
        return self.held

    @property
    def attack(self) -> str:
        return f"trained classifier of a report; {self.pair[0]} or {self.pair[1]}"

    def prepared(self, seed: Seed) -> Game:
        first, second = (self._drawn(side, _TRAINING, seed.spawn(1)[0]) for side in (True, False))
        return replace(self, classifier=Classifier.trained(first, second))

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        assert self.classifier is not None
        return self.classifier.scores(self._drawn(first, trials, seed))

    def _drawn(self, first: bool, trials: int, seed: Seed) -> Arrays:
        person = self.pair[0 if first else 1]
        return arrays_of(self.subject.copies(person, trials, SimulatedNoise(seed)))


@dataclass(frozen=True)
class Stated(Game):
    """A mechanism with a statistic for its score.

    Attributes:
        held: what is promised.
        statistic: (trials,) scores of a run.
        words: neighbours and statistic.
        source: makes the noise of a portion of trials.
        bound: `gaussian` only where the statistic is normal with one variance on either side.
        threshold: None to choose it.
    """

    held: Claim
    statistic: Callable[[bool, int, NoiseSource], FloatArray]
    words: str
    source: Callable[[Seed], NoiseSource] = SimulatedNoise
    bound: Bound = "counts"
    threshold: float | None = None

    @property
    def claim(self) -> Claim:
        return self.held

    @property
    def attack(self) -> str:
        return self.words

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        return self.statistic(first, trials, self.source(seed))
