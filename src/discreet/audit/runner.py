"""Makes checks: exact replay first, then trials, in parallel.

Trials: a threshold is chosen on trials of its own, then come the trials that count. Every check may
fail by chance. So that all verdicts of a table hold together with the confidence asked for, each
check that is decided by trials gets an equal share of what may go wrong (Bonferroni): with m of
them, confidence 1 - (1 - c) / m each. Exact replay needs no share.

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

from discreet.audit.games import Bound, Check, Claim, Exact, Game, Kind, NotAudited, Seed
from discreet.audit.gaussian_bound import gaussian_lower_bound
from discreet.audit.lower_bound import Attack, attack, best_threshold
from discreet.privacy.budget import TrustModel
from discreet.validation import FloatArray, InvalidInput, probability, whole_number

TRIALS = 100_000
CONFIDENCE = 0.999
SEED = 2024

# Whole runs are dear, but fewer than this many say nothing.
_LEAST_TRIALS = 40
# Portions of trials that one process plays at a time, in trials of the usual kind.
_PORTION = 25_000
# For the threshold one trial in so many is played besides.
_CHOOSING = 4
_PREPARING, _CHOICE, _COUNTED = range(3)
# Trials that prove less than this share of the certificate are too weak to tell.
WEAK = 0.5

Verdict = Literal[
    "holds", "BROKEN", "caught", "NOT CAUGHT", "too weak to tell", "not audited", "FAILED"
]


@dataclass(frozen=True)
class Finding:
    """What the audit says about one check.

    Attributes:
        name: of the check.
        kind: of the check.
        trust_model: of the check.
        verdict: `holds` or `BROKEN`; for a specimen `caught` or `NOT CAUGHT`; `too weak to tell`
            where trials alone prove little; `not audited` where nothing is promised; `FAILED` where
            what is promised could not be audited.
        claim: what is promised, the smaller of budget and certificate; None where nothing is.
        exact: epsilon by exact replay at the claim's delta; NaN where there is none.
        replayed: state and neighbours of exact replay in words.
        fault: what breaks the promise for sure, or why nothing was audited.
        epsilon: the lower bound on epsilon by trials; NaN where there were none.
        bound: `counts` or `gaussian` (games.py), or `none`.
        attack: neighbours and score of the trials in words.
        trials: on each of the two data sets.
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
    exact: float = math.nan
    replayed: str = ""
    fault: str = ""
    epsilon: float = math.nan
    bound: Bound | Literal["none"] = "none"
    attack: str = ""
    trials: int = 0
    true_positive_rate: float = math.nan
    false_positive_rate: float = math.nan
    confidence: float = math.nan
    about: str = ""

    @property
    def failed(self) -> bool:
        """Whether an honest promise was broken or not audited, or a broken one not noticed."""
        return self.verdict in ("BROKEN", "NOT CAUGHT", "FAILED")

    @property
    def weak(self) -> bool:
        """Whether its trials prove little of what is promised."""
        return self.claim is not None and self.epsilon < WEAK * self.claim.epsilon


@dataclass(frozen=True)
class _Prepared:
    """What is known of a check before its trials.

    Attributes:
        exact: what exact replay says; None where there is none.
        game: of the trials; None for none.
        problem: why nothing was audited; empty if something was.
        benign: whether that is as it should be.
    """

    exact: Exact | None = None
    game: Game | None = None
    problem: str = ""
    benign: bool = False


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
        trials: on each data set, for checks of the usual cost; dear ones get fewer. 0 for exact
            replay alone, without the checks that have none.
        confidence: that all verdicts hold together.
        seed: of everything that is drawn.
        jobs: processes.

    Yields:
        `steps(checks, trials)` names at most, as work is done, and then one `Finding` for each
        check, in their order.

    Raises:
        InvalidInput: for numbers that are not allowed.
    """
    total = whole_number(trials, "trials", minimum=0)
    chance = probability(confidence, "confidence")
    entropy = whole_number(seed, "seed")
    made = [check for check in checks if total or check.exact is not None]
    return _audit(made, total, chance, entropy, whole_number(jobs, "jobs", minimum=1))


def steps(checks: Sequence[Check], trials: int = TRIALS) -> int:
    """The largest number of names that `audit` yields."""
    return sum(1 + len(_jobs(0, check, trials, 0, True)) for check in checks)


def _audit(
    checks: list[Check], trials: int, confidence: float, seed: int, jobs: int
) -> Iterator[Finding | str]:
    import joblib

    pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs")
    known: dict[int, _Prepared] = {}
    dear_first = sorted(range(len(checks)), key=lambda place: -checks[place].cost)
    for place, prepared in pool(
        joblib.delayed(_prepare)(
            place, checks[place], trials > 0, _seed(seed, checks[place].name, _PREPARING)
        )
        for place in dear_first
    ):
        known[place] = prepared
        yield checks[place].name
    played = [
        job
        for place in dear_first
        if (game := known[place].game) is not None
        for job in _jobs(place, checks[place], trials, seed, game.threshold is None)
    ]
    scores: dict[tuple[int, int, bool], dict[tuple[int, ...], FloatArray]] = {}
    for job, found in pool(joblib.delayed(_play)(job, known[job.check].game) for job in played):
        if isinstance(found, str):
            known[job.check] = _Prepared(known[job.check].exact, problem=found)
        else:
            scores.setdefault((job.check, job.stage, job.first), {})[job.seed.spawn_key] = found
        yield checks[job.check].name
    share = sum(prepared.game is not None for prepared in known.values())
    each = 1.0 - (1.0 - confidence) / max(1, share)
    for place, check in enumerate(checks):
        counted = None if known[place].game is None else _counted(known[place], place, scores, each)
        yield _finding(check, known[place], counted)


def _prepare(place: int, check: Check, trials: bool, seed: Seed) -> tuple[int, _Prepared]:
    try:
        exact = None if check.exact is None else check.exact()
        game = None
        # Learners that are broken for sure need no trials: their runs may have no likelihood.
        broken = exact is not None and bool(exact.fault) and check.kind != "specimen"
        if trials and check.game is not None and not broken:
            game = check.game(exact).prepared(seed)
    except NotAudited as error:
        return place, _Prepared(problem=str(error), benign=True)
    except InvalidInput as error:
        return place, _Prepared(problem=str(error))
    except Exception as error:
        # Code that breaks under audit has not been audited, whatever the reason.
        return place, _Prepared(problem=f"{type(error).__name__}: {error}")
    return place, _Prepared(exact, game)


def _play(job: _Job, game: Game | None) -> tuple[_Job, FloatArray | str]:
    if game is None:
        return job, "its trials failed"
    try:
        return job, game.scores(job.first, job.trials, job.seed)
    except Exception as error:
        return job, f"its trials failed with {type(error).__name__}: {error}"


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


@dataclass(frozen=True)
class _Counted:
    """What trials proved."""

    guesses: Attack
    epsilon: float
    game: Game


def _counted(
    prepared: _Prepared,
    place: int,
    scores: dict[tuple[int, int, bool], dict[tuple[int, ...], FloatArray]],
    confidence: float,
) -> _Counted:
    game = prepared.game
    assert game is not None
    proved = gaussian_lower_bound if game.bound == "gaussian" else _epsilon
    delta, threshold = game.claim.delta, game.threshold
    if threshold is None:
        one, two = (_joined(scores[place, _CHOICE, first]) for first in (True, False))
        threshold = best_threshold(one, two, delta, proved)
    one, two = (_joined(scores[place, _COUNTED, first]) for first in (True, False))
    guesses = attack(one, two, threshold, delta, confidence)
    return _Counted(guesses, proved(guesses), game)


def _finding(check: Check, prepared: _Prepared, counted: _Counted | None) -> Finding:
    exact = prepared.exact
    claim = exact.claim if exact else counted.game.claim if counted else None
    shown = {} if exact is None else {"exact": exact.epsilon, "replayed": exact.attack}
    if counted is not None:
        shown |= {
            "epsilon": counted.epsilon,
            "bound": counted.game.bound,
            "attack": counted.game.attack,
            "trials": counted.guesses.trials,
            "true_positive_rate": counted.guesses.true_positive_rate,
            "false_positive_rate": counted.guesses.false_positive_rate,
            "confidence": counted.guesses.confidence,
        }
    return Finding(
        check.name,
        check.kind,
        check.trust_model,
        _verdict(check, prepared, counted),
        claim,
        fault=prepared.problem or (exact.fault if exact else ""),
        about=check.about,
        **shown,  # type: ignore[arg-type]
    )


def _epsilon(counted: Attack) -> float:
    return counted.epsilon


def _joined(parts: dict[tuple[int, ...], FloatArray]) -> FloatArray:
    return np.concatenate([parts[key] for key in sorted(parts)])


def _verdict(check: Check, prepared: _Prepared, counted: _Counted | None) -> Verdict:
    exact = prepared.exact
    if prepared.problem:
        return "not audited" if prepared.benign else "FAILED"
    broken = exact is not None and exact.broken
    broken = broken or (counted is not None and counted.game.claim.exceeded_by(counted.epsilon))
    if check.kind == "specimen":
        return "caught" if broken else "NOT CAUGHT"
    if broken:
        return "BROKEN"
    if exact is None and counted is not None:
        weak = counted.epsilon < WEAK * counted.game.claim.epsilon
        return "too weak to tell" if weak else "holds"
    return "holds"
