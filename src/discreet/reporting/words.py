"""The answer of a study in plain words, for a reader who reads one paragraph only."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.action_space import ActionSpace, DecisionSets, arm_count
from discreet.reporting.summary import UNIFORM, Line, Summary
from discreet.reporting.table import listed, percent
from discreet.simulation import BEST_FIXED


def answer(summary: Summary) -> str:
    """What privacy cost, in one paragraph."""
    families = list(dict.fromkeys(line.family for line in summary.private))
    if not families:
        return (
            "This study has no private learner: it says how well the people could be served "
            f"without privacy. {_levels(summary.lines, summary)}"
        )
    sentences = [_family(name, summary, alone=len(families) == 1) for name in families]
    return " ".join([*sentences, _context(summary)]).strip()


def protection(summary: Summary, space: ActionSpace) -> str:
    """Whom people trust with what; empty where that is nobody, and choices are not points.

    Args:
        summary: of the study.
        space: what people can be given.
    """
    models = {line.trust_model for line in summary.private}
    if not models:
        return ""
    trusted = models == {"joint"}
    if arm_count(space) is not None:
        return _trusted_with_arms(every=trusted) if "joint" in models else ""
    if isinstance(space, DecisionSets):
        text = (
            "Protected is all that a person brings and what came of it: their decision set, which "
            "of its points they were given, and the reward."
        )
        if trusted:
            text += (
                " The learner is trusted with these. What a person is given depends on their own "
                "decision set, so the promise holds as long as only that person is told."
            )
        return text
    text = (
        "Only the reward of a person is protected, because the points are public: everyone can be "
        "given the same ones, and which one a person is given follows from earlier releases and "
        "from a public random number, not from anything about that person."
    )
    return f"{text} The learner is trusted with the rewards." if trusted else text


def _trusted_with_arms(every: bool) -> str:
    """What joint privacy of arms in contexts asks of people."""
    who = "The learner is" if every else "Learners under joint privacy are"
    return (
        f"{who} trusted with context, action and reward. What a person is given depends on their "
        "own context, so the promise to them holds as long as only that person is told."
    )


def _family(name: str, summary: Summary, alone: bool) -> str:
    """One learner at each of its budgets, smallest epsilon first."""
    lines = [line for line in summary.private if line.family == name]
    lines.sort(key=lambda line: line.epsilon or 0.0)
    who = "the private learner" if alone else f"the private learner {name}"
    if any(line.share_kept is None for line in lines):
        parts = [f"{_per_person(line, summary)} at epsilon = {line.epsilon:g}" for line in lines]
        text = f"Per person, {who} had a {summary.metric} of {listed(parts)}."
        free = [line for line in summary.references if line.learner == lines[0].learner]
        if free and any(line.learner == UNIFORM for line in summary.references):
            text += (
                " The learner without privacy did not clearly beat choosing at random here, so "
                "there is no gain of which privacy could keep a share; more people or replicates, "
                "or other columns, may change that."
            )
        return text
    first, *rest = [_kept(line) for line in lines]
    gains = (
        "of what the same learner without privacy gains over choosing at random"
        if summary.metric == "reward"
        else "of the improvement over choosing at random that the same learner has without privacy"
    )
    text = f"At epsilon = {lines[0].epsilon:g} {who} kept {first} {gains}"
    if rest:
        later = zip(lines[1:], rest, strict=True)
        text += "; " + listed([f"at epsilon = {line.epsilon:g} it kept {k}" for line, k in later])
    return text + "."


def _kept(line: Line) -> str:
    share = line.share_kept or 0.0
    if share <= 0.0:
        return f"nothing ({percent(share)})"
    return percent(share) if share < 0.995 else f"all ({percent(share)})"


def _context(summary: Summary) -> str:
    """Where the scale begins and ends."""
    private = {line.learner for line in summary.private}
    free = [line for line in summary.references if line.learner in private]
    shown = [line for line in summary.references if line.learner in (UNIFORM, BEST_FIXED)]
    return _levels([*shown, *free], summary) if shown or free else ""


def _levels(lines: Sequence[Line], summary: Summary) -> str:
    names = {UNIFORM: "choosing at random", BEST_FIXED: "the best single choice for everyone"}
    parts = [
        f"{names.get(line.learner, f'{line.family} without privacy')} has "
        f"{_per_person(line, summary)}"
        for line in lines
    ]
    better = "higher" if summary.metric == "reward" else "lower"
    return f"For scale, the {summary.metric} per person ({better} is better): {listed(parts)}."


def _per_person(line: Line, summary: Summary) -> str:
    return f"{line.mean / summary.rounds:.3f}"
