"""Makes checks: exact replay first, then trials of whole runs, in parallel; and all checks by name.

Every check may fail by chance in its trials. So that all verdicts of a table hold together with the
confidence asked for, each check that is tried gets an equal share of what may go wrong
(Bonferroni): with m of them, confidence 1 - (1 - c) / m each. Exact replay needs no share.

Trials are drawn from the seed, the name of the check and the number of their portion, so results do
not depend on how many processes shared the work, nor on which other checks are made.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import joblib
import numpy as np

from discreet.audit import CONFIDENCE, SEED, TRIALS
from discreet.audit.checks import Check
from discreet.audit.replay import Exact, NotAudited
from discreet.audit.trials import Seed, attack, run_scores
from discreet.parallel import in_parallel
from discreet.records import Finding
from discreet.validation import FloatArray, InvalidInput, probability, whole_number

# Whole runs that one process makes at a time.
_PORTION = 50

ALL, SERVICE = "all", "service"
_KINDS = {
    **{f"{kind}s": kind for kind in ("mechanism", "learner", "surface")},
    "known-broken": "known-broken",
}


def all_checks() -> list[Check]:
    """Mechanisms, learners, surfaces and known-broken designs, in this order."""
    # Learners take seconds to import, which other checks need not wait for.
    from discreet.audit.known_broken import known_broken_checks
    from discreet.audit.learners import learner_checks
    from discreet.audit.mechanisms import mechanism_checks
    from discreet.audit.outsourced import outsourced_checks
    from discreet.audit.surfaces import surface_checks

    return [
        *mechanism_checks(),
        *outsourced_checks(),
        *learner_checks(),
        *surface_checks(),
        *known_broken_checks(),
    ]


def checks_named(name: str) -> list[Check]:
    """The checks that a name means.

    Args:
        name: `all`; `mechanisms`, `learners`, `surfaces` or `known-broken`; a check's whole name;
            what stands before its first comma, as `gp_ucb`; the `module:Class` of a learner; or
            `service`, which is not among all, as it takes longer and packages of its own.

    Raises:
        InvalidInput: for a name that means none.
        ImportError: for `service` without its packages.
    """
    if ":" in name:
        from discreet.audit.learners import checks_of

        return list(checks_of(name))
    head = name.split(",")[0]
    if head == SERVICE:
        from discreet.audit.observers import service_checks

        known = service_checks()
    else:
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


class _Replayed(NamedTuple):
    """What exact replay found.

    Attributes:
        exact: None where nothing was audited.
        problem: why nothing was audited; empty if something was.
        verdict: of a check with such a problem.
    """

    exact: Exact | None = None
    problem: str = ""
    verdict: str = "FAILED"


class _Portion(NamedTuple):
    """Some runs of a check on one of its two data sets."""

    first: bool
    number: int
    trials: int


# By data set (is it the first?) and number of the portion.
_Scores = dict[tuple[bool, int], FloatArray]


def audit(
    checks: Sequence[Check],
    trials: int = TRIALS,
    confidence: float = CONFIDENCE,
    seed: int = SEED,
    jobs: int = 1,
) -> Iterator[Finding | str]:
    """Make all checks; yields the name of what was just replayed or tried, and findings at last.

    Args:
        checks: to make.
        trials: whole runs on each of two neighbouring data sets; 0 for exact replay alone.
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
    return sum(1 + len(_portions(trials)) * (check.bound is not None) for check in checks)


def _audit(
    checks: list[Check], trials: int, confidence: float, seed: int, jobs: int
) -> Iterator[Finding | str]:
    # Longest first: whole runs of learners; last the mechanisms, which take little.
    order = sorted(
        range(len(checks)),
        key=lambda place: (checks[place].bound is None, checks[place].kind == "mechanism"),
    )
    replayed: dict[int, _Replayed] = {}
    tasks = (joblib.delayed(_replayed)(place, checks[place]) for place in order)
    for place, known in in_parallel(tasks, jobs):
        replayed[place] = known
        yield checks[place].name
    scores: defaultdict[int, _Scores] = defaultdict(dict)
    # Broken learners need no trials: their runs may have no likelihood.
    tried = [
        place
        for place in order
        if trials and checks[place].bound and (exact := replayed[place].exact) and not exact.fault
    ]
    playing = (
        joblib.delayed(_played)(place, replayed[place].exact, portion, seed, checks[place].name)
        for place in tried
        for portion in _portions(trials)
    )
    for place, portion, result in in_parallel(playing, jobs):
        if isinstance(result, str):
            replayed[place] = _Replayed(replayed[place].exact, result)
        else:
            scores[place][portion[:2]] = result
        yield checks[place].name
    each = 1.0 - (1.0 - confidence) / max(1, len(tried))
    for place, check in enumerate(checks):
        yield _finding(check, replayed[place], scores[place], each, confidence)


def _replayed(place: int, check: Check) -> tuple[int, _Replayed]:
    if check.exact is None:
        return place, _Replayed(problem="it promises nothing.", verdict="no promise")
    try:
        return place, _Replayed(check.exact())
    except NotAudited as error:
        return place, _Replayed(problem=str(error), verdict="not audited")
    except InvalidInput as error:
        return place, _Replayed(problem=str(error))
    except Exception as error:
        # Code that breaks under audit has not been audited, whatever the reason.
        return place, _Replayed(problem=f"{type(error).__name__}: {error}")


def _played(
    place: int, exact: Exact, portion: _Portion, seed: int, name: str
) -> tuple[int, _Portion, FloatArray | str]:
    key = (2 * portion.number + int(portion.first),)
    try:
        own = Seed([seed, zlib.crc32(name.encode())], spawn_key=key)
        return place, portion, run_scores(exact, portion.first, portion.trials, own)
    except Exception as error:
        return place, portion, f"its trials failed with {type(error).__name__}: {error}"


def _portions(trials: int) -> list[_Portion]:
    """All trials of a check."""
    return [
        _Portion(first, number, min(_PORTION, trials - start))
        for first in (True, False)
        for number, start in enumerate(range(0, trials, _PORTION))
    ]


def _finding(
    check: Check, known: _Replayed, scores: _Scores, confidence: float, overall: float
) -> Finding:
    finding = Finding(
        check.name,
        check.kind,
        check.trust_model,
        "holds",
        overall_confidence=overall,
        about=check.about,
    )
    exact = known.exact
    if exact is not None:
        finding = replace(
            finding,
            epsilon=exact.claim.epsilon,
            delta=exact.claim.delta,
            exact=exact.epsilon,
            replayed=exact.attack,
            fault=exact.fault,
        )
    if known.problem or exact is None:
        return replace(finding, verdict=known.verdict, fault=known.problem)
    broken = exact.broken
    if scores:
        assert check.bound is not None
        first, second = (
            np.concatenate([scores[key] for key in sorted(scores) if key[0] is side])
            for side in (True, False)
        )
        # A log-ratio of 0 parts two Gaussian laws evenly (Neyman and Pearson).
        guesses = attack(first, second, 0.0, exact.claim.delta, confidence)
        proved = guesses.proved(check.bound)
        broken = broken or exact.claim.exceeded_by(proved)
        finding = replace(
            finding,
            lower_bound=proved,
            bound=check.bound,
            attack=f"likelihood ratio of whole runs; {exact.pair[0]} or {exact.pair[1]}",
            trials=guesses.trials,
            true_positive_rate=guesses.true_positive_rate,
            false_positive_rate=guesses.false_positive_rate,
            confidence=confidence,
        )
    if check.kind == "known-broken":
        return replace(finding, verdict="caught" if broken else "NOT CAUGHT")
    if broken:
        return replace(finding, verdict="BROKEN")
    if exact.unaudited:
        return replace(finding, verdict="not audited", fault=exact.unaudited)
    return finding
