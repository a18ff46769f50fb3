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
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import joblib
import numpy as np

from discreet.audit import CONFIDENCE, SEED, TRIALS
from discreet.audit.exact import Exact, NotAudited
from discreet.audit.games import Check, Game, Seed
from discreet.audit.lower_bound import attack, best_threshold
from discreet.parallel import in_parallel
from discreet.records import Finding
from discreet.validation import FloatArray, InvalidInput, probability, whole_number

# Whole runs are dear, but fewer than this many say nothing.
_LEAST_TRIALS = 40
# Portions of trials that one process plays at a time, in trials of the usual kind.
_PORTION = 25_000
# For the threshold one trial in so many is played besides.
_CHOOSING = 4
_PREPARING, _CHOICE, _COUNTED = range(3)

ALL = "all"
_KINDS = {f"{kind}s": kind for kind in ("mechanism", "learner", "surface", "specimen")}


def all_checks() -> list[Check]:
    """Mechanisms, learners, surfaces and specimens, in this order."""
    # Learners take seconds to import, which whoever makes other checks need not wait for.
    from discreet.audit.devices import device_checks
    from discreet.audit.learners import learner_checks
    from discreet.audit.mechanisms import mechanism_checks
    from discreet.audit.outsourced import outsourced_checks
    from discreet.audit.specimens import specimen_checks
    from discreet.audit.surfaces import surface_checks

    mechanisms = [*mechanism_checks(), *outsourced_checks()]
    learners = [*learner_checks(), *device_checks()]
    return [*mechanisms, *learners, *surface_checks(), *specimen_checks()]


def checks_named(name: str) -> list[Check]:
    """The checks that a name means.

    Args:
        name: `all`; `mechanisms`, `learners`, `surfaces` or `specimens`; a check's whole name;
            what stands before its first comma, as `gp_ucb`; or the `module:Class` of a learner.

    Raises:
        InvalidInput: for a name that means none.
    """
    if ":" in name:
        from discreet.audit.learners import checks_of

        return list(checks_of(name))
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
            f"{', '.join(_KINDS)}, the module:Class of a learner, or one of {', '.join(groups)}."
        )
    return named


class _Prepared(NamedTuple):
    """What is known of a check before its trials.

    Attributes:
        exact: what exact replay says; None where there is none.
        game: of the trials; None for none.
        problem: why nothing was audited; empty if something was.
        verdict: of a check with such a problem.
    """

    exact: Exact | None = None
    game: Game | None = None
    problem: str = ""
    verdict: str = "FAILED"


class _Portion(NamedTuple):
    """Some of the trials of a check on one of its data sets."""

    stage: int
    first: bool
    number: int
    trials: int


# By stage, data set (is it the first?) and number of the portion.
_Scores = dict[tuple[int, bool, int], FloatArray]


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
            replay alone; checks without it are then not audited.
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
    return _audit(list(checks), total, chance, entropy, whole_number(jobs, "jobs", minimum=1))


def steps(checks: Sequence[Check], trials: int = TRIALS) -> int:
    """The largest number of names that `audit` yields."""
    return sum(1 + len(_portions(check, trials, choosing=True)) for check in checks)


def _audit(
    checks: list[Check], trials: int, confidence: float, seed: int, jobs: int
) -> Iterator[Finding | str]:
    dear_first = sorted(range(len(checks)), key=lambda place: -checks[place].cost)
    prepared: dict[int, _Prepared] = {}
    tasks = (
        joblib.delayed(_prepared)(place, checks[place], trials > 0, seed) for place in dear_first
    )
    for place, known in in_parallel(tasks, jobs):
        prepared[place] = known
        yield checks[place].name
    scores: defaultdict[int, _Scores] = defaultdict(dict)
    playing = (
        joblib.delayed(_played)(place, game, portion, _seed(seed, checks[place].name, portion))
        for place in dear_first
        if (game := prepared[place].game) is not None
        for portion in _portions(checks[place], trials, game.threshold is None)
    )
    for place, portion, result in in_parallel(playing, jobs):
        if isinstance(result, str):
            prepared[place] = prepared[place]._replace(game=None, problem=result)
        else:
            scores[place][portion[:3]] = result
        yield checks[place].name
    share = sum(known.game is not None for known in prepared.values())
    each = 1.0 - (1.0 - confidence) / max(1, share)
    for place, check in enumerate(checks):
        yield _finding(check, prepared[place], scores[place], each, confidence)


def _prepared(place: int, check: Check, trials: bool, seed: int) -> tuple[int, _Prepared]:
    if check.promises_nothing:
        return place, _Prepared(problem="it promises nothing.", verdict="no promise")
    try:
        if check.exact is None and not trials:
            raise NotAudited("exact replay cannot tell here; leave out --trials 0.")
        exact = None if check.exact is None else check.exact()
        # Learners that are broken for sure need no trials: their runs may have no likelihood.
        broken = exact is not None and bool(exact.fault) and check.kind != "specimen"
        game = None
        if trials and check.game is not None and not broken:
            game = check.game(exact, _seed(seed, check.name))
    except NotAudited as error:
        return place, _Prepared(problem=str(error), verdict="not audited")
    except InvalidInput as error:
        return place, _Prepared(problem=str(error))
    except Exception as error:
        # Code that breaks under audit has not been audited, whatever the reason.
        return place, _Prepared(problem=f"{type(error).__name__}: {error}")
    return place, _Prepared(exact, game)


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


def _finding(
    check: Check, known: _Prepared, scores: _Scores, confidence: float, overall: float
) -> Finding:
    finding = Finding(
        check.name,
        check.kind,
        check.trust_model,
        "holds",
        overall_confidence=overall,
        about=check.about,
    )
    exact, game = known.exact, known.game
    if game is not None:
        claim, threshold = game.claim, game.threshold
        if threshold is None:
            threshold = best_threshold(*_joined(scores, _CHOICE), claim.delta, game.bound)
        guesses = attack(*_joined(scores, _COUNTED), threshold, claim.delta, confidence)
        finding = replace(
            finding,
            epsilon=claim.epsilon,
            delta=claim.delta,
            lower_bound=guesses.proved(game.bound),
            bound=game.bound,
            attack=game.attack,
            trials=guesses.trials,
            true_positive_rate=guesses.true_positive_rate,
            false_positive_rate=guesses.false_positive_rate,
            confidence=confidence,
        )
    if exact is not None:
        finding = replace(
            finding,
            epsilon=exact.claim.epsilon,
            delta=exact.claim.delta,
            exact=exact.epsilon,
            replayed=exact.attack,
            fault=exact.fault,
        )
    if known.problem:
        return replace(finding, verdict=known.verdict, fault=known.problem)
    broken = exact is not None and exact.broken
    broken = broken or (game is not None and game.claim.exceeded_by(finding.lower_bound))
    if check.kind == "specimen":
        return replace(finding, verdict="caught" if broken else "NOT CAUGHT")
    if broken:
        return replace(finding, verdict="BROKEN")
    if exact is not None and exact.unaudited:
        return replace(finding, verdict="not audited", fault=exact.unaudited)
    weak = exact is None and finding.weak
    return replace(finding, verdict="too weak to tell") if weak else finding


def _joined(scores: _Scores, stage: int) -> tuple[FloatArray, FloatArray]:
    """All scores of a stage, on the first data set and on the second."""
    first, second = (
        np.concatenate([scores[key] for key in sorted(scores) if key[:2] == (stage, side)])
        for side in (True, False)
    )
    return first, second
