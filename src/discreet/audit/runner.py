"""Makes checks: exact replay first, then trials, in parallel; and all checks by name.

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
from dataclasses import dataclass, field, replace
from typing import Literal

import joblib
import numpy as np

from discreet.audit import CONFIDENCE, SEED, TRIALS
from discreet.audit.exact import Claim, Exact, NotAudited
from discreet.audit.games import Bound, Check, Game, Kind, Seed
from discreet.audit.lower_bound import (
    Attack,
    attack,
    best_threshold,
    counts_lower_bound,
    gaussian_lower_bound,
)
from discreet.experiments.engine import in_parallel
from discreet.privacy.budget import TrustModel
from discreet.validation import FloatArray, InvalidInput, probability, whole_number

# Whole runs are dear, but fewer than this many say nothing.
_LEAST_TRIALS = 40
# Portions of trials that one process plays at a time, in trials of the usual kind.
_PORTION = 25_000
# For the threshold one trial in so many is played besides.
_CHOOSING = 4
_PREPARING, _CHOICE, _COUNTED = range(3)
# Trials that prove less than this share of the certificate are too weak to tell.
WEAK = 0.5

ALL = "all"
_KINDS = {"mechanisms": "mechanism", "learners": "learner", "specimens": "specimen"}

Verdict = Literal[
    "holds", "BROKEN", "caught", "NOT CAUGHT", "too weak to tell", "not audited", "FAILED"
]


def all_checks() -> list[Check]:
    """Mechanisms, learners and specimens, in this order."""
    # Learners take seconds to import, which whoever makes other checks need not wait for.
    from discreet.audit.learners import learner_checks
    from discreet.audit.mechanisms import mechanism_checks
    from discreet.audit.outsourced import outsourced_checks
    from discreet.audit.releases import composition_checks
    from discreet.audit.specimens import specimen_checks

    mechanisms = [*mechanism_checks(), *composition_checks(), *outsourced_checks()]
    return [*mechanisms, *learner_checks(), *specimen_checks()]


def checks_named(name: str) -> list[Check]:
    """The checks that a name means.

    Args:
        name: `all`; `mechanisms`, `learners` or `specimens`; a check's whole name; or what stands
            before its first comma, as `gp_ucb`.

    Raises:
        InvalidInput: for a name that means none.
    """
    known = all_checks()
    named = [
        check
        for check in known
        if name in (ALL, check.name, check.name.split(",")[0]) or _KINDS.get(name) == check.kind
    ]
    if not named:
        groups = dict.fromkeys(check.name.split(",")[0] for check in known)
        raise InvalidInput(
            f"there is nothing called {name!r} to audit; name a study file (.toml), {ALL}, "
            f"{', '.join(_KINDS)}, or one of {', '.join(groups)}."
        )
    return named


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


@dataclass
class _Course:
    """What is known of a check by now.

    Attributes:
        check: the check.
        exact: what exact replay says; None where there is none.
        game: of the trials; None for none.
        problem: why nothing was audited; empty if something was.
        benign: whether that is as it should be.
        scores: by stage, data set (is it the first?) and number of the portion.
    """

    check: Check
    exact: Exact | None = None
    game: Game | None = None
    problem: str = ""
    benign: bool = False
    scores: dict[tuple[int, bool, int], FloatArray] = field(default_factory=dict)

    def joined(self, stage: int) -> tuple[FloatArray, FloatArray]:
        """All scores of a stage, on the first data set and on the second."""

        def side(first: bool) -> FloatArray:
            numbers = sorted(key[2] for key in self.scores if key[:2] == (stage, first))
            return np.concatenate([self.scores[stage, first, number] for number in numbers])

        return side(True), side(False)


@dataclass(frozen=True)
class _Portion:
    """Some of the trials of a check on one of its data sets."""

    stage: int
    first: bool
    number: int
    trials: int


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
    chosen = [check for check in checks if total or check.exact is not None]
    return _audit(chosen, total, chance, entropy, whole_number(jobs, "jobs", minimum=1))


def steps(checks: Sequence[Check], trials: int = TRIALS) -> int:
    """The largest number of names that `audit` yields."""
    return sum(1 + len(_portions(check, trials, choosing=True)) for check in checks)


def _audit(
    checks: list[Check], trials: int, confidence: float, seed: int, jobs: int
) -> Iterator[Finding | str]:
    courses = [_Course(check) for check in checks]
    dear_first = sorted(range(len(checks)), key=lambda place: -checks[place].cost)
    preparing = (
        joblib.delayed(_prepared)(place, checks[place], trials > 0, seed) for place in dear_first
    )
    for place, course in in_parallel(preparing, jobs):
        courses[place] = course
        yield checks[place].name
    playing = (
        joblib.delayed(_played)(place, game, portion, _seed(seed, checks[place].name, portion))
        for place in dear_first
        if (game := courses[place].game) is not None
        for portion in _portions(checks[place], trials, game.threshold is None)
    )
    for place, portion, scores in in_parallel(playing, jobs):
        course = courses[place]
        if isinstance(scores, str):
            courses[place] = replace(course, game=None, problem=scores)
        else:
            course.scores[portion.stage, portion.first, portion.number] = scores
        yield checks[place].name
    share = sum(course.game is not None for course in courses)
    each = 1.0 - (1.0 - confidence) / max(1, share)
    for course in courses:
        yield _finding(course, each)


def _prepared(place: int, check: Check, trials: bool, seed: int) -> tuple[int, _Course]:
    try:
        exact = None if check.exact is None else check.exact()
        game = None
        # Learners that are broken for sure need no trials: their runs may have no likelihood.
        broken = exact is not None and bool(exact.fault) and check.kind != "specimen"
        if trials and check.game is not None and not broken:
            game = check.game(exact).prepared(_seed(seed, check.name))
    except NotAudited as error:
        return place, _Course(check, problem=str(error), benign=True)
    except InvalidInput as error:
        return place, _Course(check, problem=str(error))
    except Exception as error:
        # Code that breaks under audit has not been audited, whatever the reason.
        return place, _Course(check, problem=f"{type(error).__name__}: {error}")
    return place, _Course(check, exact, game)


def _played(
    place: int, game: Game, portion: _Portion, seed: Seed
) -> tuple[int, _Portion, FloatArray | str]:
    try:
        return place, portion, game.scores(portion.first, portion.trials, seed)
    except Exception as error:
        return place, portion, f"its trials failed with {type(error).__name__}: {error}"


def _seed(seed: int, name: str, portion: _Portion | None = None) -> Seed:
    """Of a portion of a check's trials, or of their preparation."""
    key = (_PREPARING, 0)
    if portion is not None:
        key = (portion.stage, 2 * portion.number + int(portion.first))
    return Seed([seed, zlib.crc32(name.encode())], spawn_key=key)


def trials_of(check: Check, trials: int) -> int:
    """How many trials on each data set a check gets."""
    return max(min(_LEAST_TRIALS, trials), trials // check.cost)


def _portions(check: Check, trials: int, choosing: bool) -> list[_Portion]:
    """All trials of a check; those on which a threshold is chosen only where it is."""
    counted = trials_of(check, trials)
    stages = [(_COUNTED, counted)] + [(_CHOICE, max(1, counted // _CHOOSING))] * choosing
    most = max(1, _PORTION // check.cost)
    return [
        _Portion(stage, first, number, min(most, count - number * most))
        for stage, count in stages
        for first in (True, False)
        for number in range(math.ceil(count / most))
    ]


def _finding(course: _Course, confidence: float) -> Finding:
    check, exact, game = course.check, course.exact, course.game
    finding = Finding(check.name, check.kind, check.trust_model, "holds", about=check.about)
    if exact is not None:
        finding = replace(finding, claim=exact.claim, exact=exact.epsilon, replayed=exact.attack)
        finding = replace(finding, fault=exact.fault)
    if game is not None:
        guesses, epsilon = _counted(course, game, confidence)
        finding = replace(
            finding,
            claim=finding.claim or game.claim,
            epsilon=epsilon,
            bound=game.bound,
            attack=game.attack,
            trials=guesses.trials,
            true_positive_rate=guesses.true_positive_rate,
            false_positive_rate=guesses.false_positive_rate,
            confidence=guesses.confidence,
        )
    fault = course.problem or finding.fault
    return replace(finding, verdict=_verdict(course, finding), fault=fault)


def _counted(course: _Course, game: Game, confidence: float) -> tuple[Attack, float]:
    """The guesses on the trials that count, and the epsilon that they prove."""
    proved = gaussian_lower_bound if game.bound == "gaussian" else counts_lower_bound
    threshold = game.threshold
    if threshold is None:
        threshold = best_threshold(*course.joined(_CHOICE), game.claim.delta, proved)
    guesses = attack(*course.joined(_COUNTED), threshold, game.claim.delta, confidence)
    return guesses, proved(guesses)


def _verdict(course: _Course, finding: Finding) -> Verdict:
    exact, game = course.exact, course.game
    if course.problem:
        return "not audited" if course.benign else "FAILED"
    broken = exact is not None and exact.broken
    broken = broken or (game is not None and game.claim.exceeded_by(finding.epsilon))
    if course.check.kind == "specimen":
        return "caught" if broken else "NOT CAUGHT"
    if broken:
        return "BROKEN"
    return "too weak to tell" if exact is None and finding.weak else "holds"
