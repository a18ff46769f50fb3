"""What an audit checks, and the games of trials that are its second line.

A game has two neighbouring data sets. A trial runs what is audited on one of them, and gives the
adversary a score of everything that the trust model lets them see:

| trust model | the adversary sees                                                              |
|-------------|---------------------------------------------------------------------------------|
| local       | one person's report; all that came before it, the policy and the ticket         |
| joint       | all releases and policies, and everybody else's actions                         |
| outsourced  | the release, with the place of the row that may have moved                      |

A high score means "the first data set". Neighbours come from exact replay, and classifiers and
thresholds from trials of their own, before the trials that count. A score is

- the likelihood ratio, for code that adds noise, many trials in one run (`ratios`), and for whole
  runs of a subject (`run_game`);
- a statistic of what a design releases, where a simple one is as good or more telling (`Design`);
- a classifier trained on everything in a report (`report_game`).

A likelihood ratio is worked out from what was handed to the noise on one data set, what came out,
and what is handed in on the other when that is played back:

    log p(y | data) = sum over draws of  -|y - v|^2 / (2 s^2) - size log s      (Gaussian)
                                         -|y - v|_1 / s - size log s            (Laplace)
                                         log P(option)                          (selection)

Ratios are rounded to 10^-9: what the last bits of noise show that was added in floating point
(Mironov 2012) is no property of a mechanism; SimulatedNoise does not hide it, SecureNoise does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.audit.exact import (
    Claim,
    Exact,
    Facts,
    Promise,
    Value,
    exact_of,
)
from discreet.audit.ledger import Ledger
from discreet.audit.lower_bound import Bound
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.accounting import TrustModel
from discreet.validation import FloatArray, IntArray

Kind = Literal["mechanism", "learner", "surface", "specimen"]
Seed = np.random.SeedSequence
Score = Callable[[bool, int, Seed], FloatArray]
# Of data, so many independent trials, with this noise.
Release = Callable[[Any, int, NoiseSource], Any]
Arrays = Mapping[str, NDArray[np.generic]]

_DIGITS = 9
# A classifier is trained on so many reports of each.
_TRAINING = 10_000
# Whole numbers of more values than this are read as numbers.
_MOST_TOKENS = 4096
_LEFT_OUT = ("tickets",)
# Steps of the regression.
_STEPS = 300


@dataclass(frozen=True)
class Game:
    """Two neighbouring data sets, and an adversary (see the module).

    Attributes:
        claim: what is promised.
        attack: the score and the neighbours, in a few words.
        scores: (trials,) scores of so many independent trials on the first data set, or on the
            second, with that seed.
        bound: what counts of guesses are turned into: `counts` for any promise, `gaussian` for one
            of Gaussian DP (lower_bound.py).
    """

    claim: Claim
    attack: str
    scores: Score
    bound: Bound = "counts"

    @property
    def threshold(self) -> float | None:
        """Above which "first" is guessed; None to choose it on trials of their own.

        A log-ratio of 0 parts two Gaussian laws evenly (Neyman and Pearson).
        """
        return 0.0 if self.bound == "gaussian" else None


@dataclass(frozen=True)
class Check:
    """One line of the audit.

    Attributes:
        name: as `discreet audit NAME` takes it.
        kind: `mechanism`, `learner`, `surface`, or `specimen` for a design known to be broken.
        trust_model: who sees what.
        exact: replays it exactly; None where only trials can tell. Called in the process that
            prepares the check, as is `game`.
        game: makes the game of the second line, trials, from what exact replay said and a seed of
            its own; None for none.
        cost: how many trials of the usual kind one of these counts for; whole runs are dear.
        about: what is audited, in one line.
        promises_nothing: whether there is no promise to break.
    """

    name: str
    kind: Kind
    trust_model: TrustModel
    exact: Callable[[], Exact] | None = field(default=None, repr=False)
    game: Callable[[Any, Seed], Game] | None = field(default=None, repr=False)
    cost: int = 1
    about: str = ""
    promises_nothing: bool = False


# Likelihood ratios.


def log_ratio(
    mine: Callable[[], object],
    theirs: Callable[[], object],
    rows: int = 1,
    axis: int = 0,
    seed: int | Seed = 0,
) -> FloatArray:
    """(rows,) log p(what comes out of `mine` | own data) - log p(the same | data of `theirs`).

    Args:
        mine: the run that happens.
        theirs: the run on the other data set, for which the same outcomes are played back.
        rows: how many independent trials that axis of every draw holds.
        axis: the first or the last.
        seed: of what the ledger draws itself.

    Returns:
        Infinity where the runs differ in the number, the kind or the shape of what was drawn.
    """
    seen, other = Ledger(seed), Ledger(seed)
    with seen.recording():
        mine()
    with other.playing(seen):
        theirs()
    if other.astray:
        return np.full(rows, np.inf)
    ratio = np.zeros(rows)
    for draw, played in zip(seen.draws, other.draws, strict=True):
        ratio += draw.log_density(rows, axis) - played.log_density(rows, axis)
    return np.round(ratio, _DIGITS)


def ratios(release: Release, pair: Sequence[Any], axis: int = 0) -> Score:
    """Likelihood ratios of what is released of two data sets, trials along that axis."""

    def scores(first: bool, trials: int, seed: Seed) -> FloatArray:
        mine, theirs = pair if first else pair[::-1]
        noise = SimulatedNoise(seed)
        ratio = log_ratio(
            lambda: release(mine, trials, noise),
            lambda: release(theirs, trials, noise),
            trials,
            axis,
        )
        return ratio if first else -ratio

    return scores


def run_game(exact: Exact, seed: Seed, bound: Bound = "gaussian") -> Game:
    """Likelihood ratios of whole runs on the worst neighbours; `gaussian` where all noise is."""

    def scores(first: bool, trials: int, seed: Seed) -> FloatArray:
        ratio = np.empty(trials)
        mine, theirs = exact.pair if first else exact.pair[::-1]
        for trial, child in enumerate(seed.spawn(trials)):
            subject = replace(exact.subject, seed=int(child.generate_state(1)[0]))
            run = partial(subject.run, facts=Facts(wanted=False))
            ratio[trial] = log_ratio(partial(run, mine), partial(run, theirs), seed=child)[0]
        return ratio if first else -ratio

    words = f"likelihood ratio of whole runs; {exact.pair[0]} or {exact.pair[1]}"
    return Game(exact.claim, words, scores, bound)


# Designs.


@dataclass(frozen=True, kw_only=True)
class Design:
    """A mechanism, or a design that is known to be broken: a function of data and noise.

    Attributes:
        name: see `Check`, as for `kind`, `trust_model`, `cost` and `about`.
        release: runs it; trials lie along the first axis of what is handed to the noise.
        promise: of data and what was released of it (None if nothing was).
        neighbours: groups of data sets, with words, of which every two are neighbours; empty for
            trials alone.
        pair: the data sets of trials; those that exact replay found worst if left out.
        score: of the trials, in words; empty for no trials.
        statistic: (trials,) scores of what was released; None for the likelihood ratio.
        bound: see `Game`; `gaussian` only where the score is normal with one variance on either
            side, and symmetrical.
        source: makes the noise of a portion of trials.
        axis: of the trials, in what is handed to the noise.
        shown: what is released, in words.
    """

    name: str
    kind: Kind = "mechanism"
    trust_model: TrustModel
    release: Release
    promise: Callable[[Any, Any], Promise]
    neighbours: Sequence[Sequence[tuple[str, Any]]] = ()
    pair: Sequence[tuple[str, Any]] = ()
    score: str = ""
    statistic: Callable[[Any], FloatArray] | None = None
    bound: Bound = "counts"
    source: Callable[[Seed], NoiseSource] = SimulatedNoise
    axis: int = 0
    shown: str = "the release"
    cost: int = 1
    about: str = ""

    @property
    def check(self) -> Check:
        """By exact replay and by trials."""
        exact = self.exact if self.neighbours else None
        game = self.game if self.score else None
        return Check(self.name, self.kind, self.trust_model, exact, game, self.cost, self.about)

    def exact(self) -> Exact:
        """The exact loss between the worst neighbours."""
        return exact_of(self._run, *self.neighbours)

    def _run(self, data: Any, facts: Facts) -> Promise:
        released = self.release(data, 1, self.source(Seed(1)))
        facts.add(self.shown, released)
        return self.promise(data, released)

    def game(self, exact: Exact | None, seed: Seed) -> Game:
        """The trials."""
        pair: Sequence[Value] = [Value(*value) for value in self.pair] or exact.pair  # type: ignore[union-attr]
        # A source that cannot be had is refused before any trial.
        self.source(seed)
        claim = exact.claim if exact else self.promise(pair[0].data, None).claim
        words = f"{self.score}; {pair[0]} or {pair[1]}"
        data = [value.data for value in pair]
        if self.statistic is None:
            return Game(claim, words, ratios(self.release, data, self.axis), self.bound)
        return Game(claim, words, partial(self._statistics, data), self.bound)

    def _statistics(self, pair: Sequence[Any], first: bool, trials: int, seed: Seed) -> FloatArray:
        assert self.statistic is not None
        noise = self.source(seed)
        return self.statistic(self.release(pair[0 if first else 1], trials, noise))


# Trained scores.


def report_game(exact: Exact, seed: Seed) -> Game:
    """A classifier of reports of the worst neighbours, with simulated noise."""
    subject = replace(exact.subject, terms=None, secure=False)

    def drawn(first: bool, trials: int, seed: Seed) -> Arrays:
        person = exact.pair[0 if first else 1]
        return arrays_of(subject.copies(person, trials, SimulatedNoise(seed)))

    classifier = Classifier.trained(
        *(drawn(first, _TRAINING, seed.spawn(1)[0]) for first in (True, False))
    )
    words = f"trained classifier of a report; {exact.pair[0]} or {exact.pair[1]}"
    return Game(exact.claim, words, lambda *trials: classifier.scores(drawn(*trials)))


def arrays_of(report: Any) -> dict[str, NDArray[np.generic]]:
    """The arrays of a batch of reports by name, without tickets, which are public."""
    arrays = {name: getattr(report, name) for name in (field.name for field in fields(report))}
    return {
        name: value
        for name, value in arrays.items()
        if name not in _LEFT_OUT and isinstance(value, np.ndarray)
    }


@dataclass(frozen=True)
class Classifier:
    """A logistic regression on everything in a report, as features (n, p).

    Arrays of whole numbers with the same shape are read together, so a reported bin with its sign
    is one token, with a feature for each. Other arrays are read as numbers. For reports over a
    finite alphabet whose log-likelihood ratio is a sum over tokens, as it is for subset selection
    and randomised response, the best linear score is that ratio.

    Attributes:
        numbers: the names of the arrays that are read as numbers.
        tokens: of each group of whole-number arrays their names and the sorted token codes.
        weights: (p,) of the features.
    """

    numbers: Sequence[str]
    tokens: Sequence[tuple[Sequence[str], IntArray]]
    weights: FloatArray

    @classmethod
    def trained(cls, first: Arrays, second: Arrays) -> Classifier:
        """A score that is high for reports like `first` and low for those like `second`."""
        from sklearn.linear_model import LogisticRegression

        joined = {name: np.concatenate([first[name], second[name]]) for name in first}
        whole = [name for name, values in joined.items() if values.dtype.kind in "iub"]
        shapes = dict.fromkeys(joined[name].shape[1:] for name in whole)
        groups = [[name for name in whole if joined[name].shape[1:] == shape] for shape in shapes]
        coded = [(names, np.unique(_codes(joined, names))) for names in groups]
        tokens = [(names, codes) for names, codes in coded if len(codes) <= _MOST_TOKENS]
        read = {name for names, _ in tokens for name in names}
        untrained = cls([name for name in joined if name not in read], tokens, np.empty(0))
        features = untrained._features(joined)
        count = len(next(iter(first.values())))
        truth = np.repeat([1, 0], [count, len(features) - count])
        spread = features.std(axis=0)
        scale = 1.0 / np.where(spread > 0.0, spread, 1.0)
        fitted = LogisticRegression(max_iter=_STEPS).fit(features * scale, truth)
        return replace(untrained, weights=fitted.coef_[0] * scale)

    def scores(self, arrays: Arrays) -> FloatArray:
        """(n,) scores of reports."""
        scores: FloatArray = self._features(arrays) @ self.weights
        return scores

    def _features(self, arrays: Arrays) -> FloatArray:
        rows = len(next(iter(arrays.values())))
        parts = [
            np.asarray(arrays[name], dtype=np.float64).reshape(rows, -1) for name in self.numbers
        ]
        for names, known in self.tokens:
            codes = _codes(arrays, names).reshape(rows, -1)
            places = np.minimum(np.searchsorted(known, codes), len(known) - 1)
            hit = known[places] == codes
            counted = np.zeros((rows, len(known)))
            np.add.at(counted, (np.nonzero(hit)[0], places[hit]), 1.0)
            parts.append(counted)
        return np.hstack(parts)


def _codes(arrays: Arrays, names: Sequence[str]) -> IntArray:
    """One code for the values that several whole-number arrays have in a place."""
    code = np.zeros(arrays[names[0]].shape, dtype=np.int64)
    for name in names:
        code = code * 1_000_003 + np.asarray(arrays[name], dtype=np.int64)
    return code
