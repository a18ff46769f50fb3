"""Plays games: threshold on trials of its own, then the trials that count, in parallel.

Every check of a table may fail by chance. So that all verdicts of a table hold together with the
confidence asked for, each check that is decided by trials gets an equal share of what may go wrong
(Bonferroni): with m of them, confidence 1 - (1 - c) / m each. Exact answers need no share.

Trials are drawn from the seed, the name of the check and the number of their portion, so results do
not depend on how many processes shared the work, nor on which other checks are made.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from discreet.audit.games import Bound, Check, Claim, Exact, Game, Kind, Playable, Seed
from discreet.audit.gaussian_bound import gaussian_lower_bound
from discreet.audit.lower_bound import Attack, attack, best_threshold
from discreet.privacy.guarantee import TrustModel
from discreet.validation import FloatArray, InvalidInput, probability, whole_number

TRIALS = 100_000
CONFIDENCE = 0.95
SEED = 2024

# Whole runs are dear, but fewer than this many say nothing.
_LEAST_TRIALS = 40
# Portions of trials that one process plays at a time, in trials of the usual kind.
_PORTION = 25_000
# For the threshold one trial in so many is played besides.
_CHOOSING = 4
_PREPARING, _CHOICE, _COUNTED = range(3)
# What is proved may exceed a certificate by the rounding of either.
_ROUNDING = 1e-9

Verdict = Literal["holds", "BROKEN", "caught", "NOT CAUGHT", "not audited"]


@dataclass(frozen=True)
class Finding:
    """What the audit says about one check.

    Attributes:
        name: of the check.
        kind: of the check.
        trust_model: of the check.
        verdict: `holds` or `BROKEN`; for a specimen `caught` or `NOT CAUGHT`; `not audited`.
        claim: what is promised; None where nothing was audited.
        epsilon: the lower bound on epsilon at the claim's delta.
        bound: `counts` or `gaussian` (games.py), or `exact`.
        attack: neighbours and score in words; why not, where nothing was audited.
        trials: on each of the two data sets; 0 where the answer is exact.
        true_positive_rate: how often the first data set was recognised.
        false_positive_rate: how often the second was taken for the first.
        confidence: of this bound.
        about: what was audited.
    """

    name: str
    kind: Kind
    trust_model: TrustModel
    verdict: Verdict
    claim: Claim | None = None
    epsilon: float = 0.0
    bound: Bound | Literal["exact", "none"] = "none"
    attack: str = ""
    trials: int = 0
    true_positive_rate: float = math.nan
    false_positive_rate: float = math.nan
    confidence: float = math.nan
    about: str = ""

    @property
    def failed(self) -> bool:
        """Whether an honest promise was broken, or a broken one not noticed."""
        return self.verdict in ("BROKEN", "NOT CAUGHT")


@dataclass(frozen=True)
class _Job:
    """One portion of the trials of a check."""

    check: int
    stage: int
    first: bool
    trials: int
    seed: Seed


def audit(
    checks: Sequence[Check],
    trials: int = TRIALS,
    confidence: float = CONFIDENCE,
    seed: int = SEED,
    jobs: int = 1,
) -> Iterator[Finding | str]:
    """Make all checks; yields the name of what was just prepared or played, and findings at last.

    Args:
        checks: to make.
        trials: on each data set, for checks of the usual cost; dear ones get fewer.
        confidence: with which all verdicts hold together.
        seed: of everything that is drawn.
        jobs: processes.

    Yields:
        `steps(checks, trials)` names at most, as work is done, and then one `Finding` for each
        check, in their order.

    Raises:
        InvalidInput: for numbers that are not allowed.
    """
    total = whole_number(trials, "trials", minimum=1)
    chance = probability(confidence, "confidence")
    entropy = whole_number(seed, "seed")
    return _audit(list(checks), total, chance, entropy, whole_number(jobs, "jobs", minimum=1))


def steps(checks: Sequence[Check], trials: int = TRIALS) -> int:
    """The largest number of names that `audit` yields."""
    return sum(1 + len(_jobs(0, check, trials, 0, True)) for check in checks)


def _audit(
    checks: list[Check], trials: int, confidence: float, seed: int, jobs: int
) -> Iterator[Finding | str]:
    import joblib

    pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs")
    games: dict[int, Playable | str] = {}
    dear_first = sorted(range(len(checks)), key=lambda place: -checks[place].cost)
    for place, game in pool(
        joblib.delayed(_prepare)(place, checks[place], _seed(seed, checks[place].name, _PREPARING))
        for place in dear_first
    ):
        games[place] = game
        yield checks[place].name
    played = [
        job
        for place in dear_first
        if isinstance(game := games[place], Game)
        for job in _jobs(place, checks[place], trials, seed, game.threshold is None)
    ]
    scores: dict[tuple[int, int, bool], dict[tuple[int, ...], FloatArray]] = {}
    for job, found in pool(joblib.delayed(_play)(job, games[job.check]) for job in played):
        scores.setdefault((job.check, job.stage, job.first), {})[job.seed.spawn_key] = found
        yield checks[job.check].name
    share = sum(isinstance(game, Game) for game in games.values())
    each = 1.0 - (1.0 - confidence) / max(1, share)
    for place, check in enumerate(checks):
        yield _finding(check, games[place], place, scores, each)


def _prepare(place: int, check: Check, seed: Seed) -> tuple[int, Playable | str]:
    try:
        return place, check.prepared(seed)
    except InvalidInput as error:
        return place, str(error)


def _play(job: _Job, game: Playable | str) -> tuple[_Job, FloatArray]:
    assert isinstance(game, Game)
    return job, game.scores(job.first, job.trials, job.seed)


def _seed(seed: int, name: str, stage: int, portion: int = 0) -> Seed:
    return Seed([seed, zlib.crc32(name.encode())], spawn_key=(stage, portion))


def trials_of(check: Check, trials: int) -> int:
    """How many trials on each data set a check gets."""
    return max(min(_LEAST_TRIALS, trials), trials // check.cost)


def _jobs(place: int, check: Check, trials: int, seed: int, choosing: bool) -> list[_Job]:
    counted = trials_of(check, trials)
    stages = [(_COUNTED, counted)]
    if choosing:
        stages.append((_CHOICE, max(1, counted // _CHOOSING)))
    made = []
    for stage, number in stages:
        portion = max(1, _PORTION // check.cost)
        for first in (True, False):
            for start in range(0, number, portion):
                key = 2 * (start // portion) + int(first)
                own = _seed(seed, check.name, stage, key)
                made.append(_Job(place, stage, first, min(portion, number - start), own))
    return made


def _finding(
    check: Check,
    game: Playable | str,
    place: int,
    scores: dict[tuple[int, int, bool], dict[tuple[int, ...], FloatArray]],
    confidence: float,
) -> Finding:
    if isinstance(game, str):
        return Finding(
            check.name, check.kind, check.trust_model, "not audited", attack=game, about=check.about
        )
    if isinstance(game, Exact):
        return Finding(
            check.name,
            check.kind,
            check.trust_model,
            _verdict(check, game.claim, game.epsilon),
            game.claim,
            game.epsilon,
            "exact",
            game.attack,
            confidence=1.0,
            about=check.about,
        )
    proved = gaussian_lower_bound if game.bound == "gaussian" else _epsilon
    delta, threshold = game.claim.delta, game.threshold
    if threshold is None:
        one, two = (_joined(scores[place, _CHOICE, first]) for first in (True, False))
        threshold = best_threshold(one, two, delta, proved)
    one, two = (_joined(scores[place, _COUNTED, first]) for first in (True, False))
    counted = attack(one, two, threshold, delta, confidence)
    epsilon = proved(counted)
    return Finding(
        check.name,
        check.kind,
        check.trust_model,
        _verdict(check, game.claim, epsilon),
        game.claim,
        epsilon,
        game.bound,
        game.attack,
        counted.trials,
        counted.true_positive_rate,
        counted.false_positive_rate,
        confidence,
        check.about,
    )


def _epsilon(counted: Attack) -> float:
    return counted.epsilon


def _joined(parts: dict[tuple[int, ...], FloatArray]) -> FloatArray:
    return np.concatenate([parts[key] for key in sorted(parts)])


def _verdict(check: Check, claim: Claim, epsilon: float) -> Verdict:
    exceeded = epsilon > claim.epsilon * (1.0 + _ROUNDING) + _ROUNDING
    if check.kind == "specimen":
        return "caught" if exceeded else "NOT CAUGHT"
    return "BROKEN" if exceeded else "holds"
