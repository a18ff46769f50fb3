"""A study in words: the verdict, for a reader who reads one paragraph only, and the promise."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from discreet.action_space import ActionSpace, DecisionSets, arm_count
from discreet.privacy import Guarantee
from discreet.problems.base import Metric, Problem
from discreet.reporting.summary import Difference, Line, Rival, Summary

_RIVALS: dict[Rival, str] = {
    "fixed": "giving everyone the best single choice",
    "uniform": "choosing at random",
    "free": "itself without privacy",
}
# What better and worse are called.
_DIRECTIONS: dict[Metric, tuple[str, str]] = {
    "reward": ("more", "less"),
    "regret": ("less regret", "more regret"),
}
# What a guarantee's sentence says at another epsilon (there numbers are rounded up).
_NUMBERS = re.compile(
    r"more than (?P<factor>\S+) times .*?\(epsilon = (?P<epsilon>[^,;)]+)"
    r"(?:.*?at most (?P<sure>\S+) sure)?"
)


@dataclass(frozen=True)
class Verdict:
    """What a decision needs.

    Attributes:
        headline: whether the private learners beat what needs no learner.
        findings: by how much, and what privacy cost, a sentence for each learner.
        basis: what the numbers rest on.
    """

    headline: str
    findings: tuple[str, ...]
    basis: str


def verdict(summary: Summary, problem: Problem) -> Verdict:
    """Whether the private learners are worth having, and what privacy cost them."""
    if not summary.private:
        return Verdict(
            "This study has no private learner: it says how well the people could be served "
            "without privacy.",
            (),
            "",
        )
    rival: Rival = "uniform" if arm_count(problem.space) is None else "fixed"
    families = list(dict.fromkeys(line.family for line in summary.private))
    findings = []
    for family in families:
        lines = [line for line in summary.private if line.family == family]
        lines.sort(key=lambda line: line.epsilon or 0.0)
        findings += [_compared(family, lines, each, summary) for each in (rival, "free")]
    if rival == "fixed":
        findings.append(_no_better_than_chance(summary))
    return Verdict(
        _headline(summary, rival),
        tuple(text for text in findings if text),
        " ".join(text for text in _basis(summary, problem, rival) if text),
    )


def _headline(summary: Summary, rival: Rival) -> str:
    """Which private learners did more than chance better, worse, or neither."""
    named = _RIVALS[rival]
    compared = [line for line in summary.private if rival in line.over]
    if not compared:
        return f"Nothing was run that says whether the private learners beat {named}."
    signs = {line.label: line.over[rival].sign for line in compared}
    everyone = "The private learner" if len(compared) == 1 else "Every private learner"
    nobody = "The private learner" if len(compared) == 1 else "No private learner"
    kinds = set(signs.values())
    if kinds == {None}:
        return (
            f"One repetition cannot tell whether the private learners beat {named}: what follows "
            "may be chance."
        )
    if kinds == {1}:
        return f"{everyone} did better than {named}, by more than chance."
    if kinds == {-1}:
        return f"{everyone} did worse than {named}, by more than chance."
    if 1 not in kinds and len(compared) > 1:
        start = f"{nobody} did better than {named} by more than chance"
        worse = _settings([line for line in compared if signs[line.label] == -1])
        return f"{start}, and worse did {worse}." if worse else f"{start}."
    if kinds == {0}:
        return f"{everyone} and {named} are too close to call."
    parts = [
        (1, f"Better than {named}, by more than chance: "),
        (-1, "Worse, by more than chance: "),
        (0, "Too close to call: "),
        (None, "Run only once, so it cannot be told: "),
    ]
    named_settings = [
        (text, _settings([line for line in compared if signs[line.label] == sign]))
        for sign, text in parts
    ]
    return " ".join(f"{text}{which}." for text, which in named_settings if which)


def _settings(lines: Sequence[Line]) -> str:
    """Learners with their budgets: partition at epsilon = 1 and 2, and mine at epsilon = 1."""
    families = list(dict.fromkeys(line.family for line in lines))
    texts = []
    for family in families:
        epsilons = sorted(line.epsilon or 0.0 for line in lines if line.family == family)
        texts.append(f"{family} at epsilon = {listed([f'{epsilon:g}' for epsilon in epsilons])}")
    return "; ".join(texts)


def _compared(family: str, lines: Sequence[Line], rival: Rival, summary: Summary) -> str:
    """By how much one learner beat a rival, smallest epsilon first."""
    lines = [line for line in lines if rival in line.over]
    if not lines:
        return ""
    verb = "earned" if summary.metric == "reward" else "had"
    items = [_item(line, line.over[rival], summary, first=line is lines[0]) for line in lines]
    cost = "The cost of privacy: compared" if rival == "free" else "Compared"
    return f"{cost} with {_RIVALS[rival]}, {family} {verb}, per person, {listed(items)}."


def _item(line: Line, difference: Difference, summary: Summary, first: bool) -> str:
    """0.124 more at epsilon = 1 (95% interval 0.118 to 0.130)."""
    better, worse = _DIRECTIONS[summary.metric]
    half = difference.half_width
    digits = _digits(abs(difference.mean) if half is None else half, 3 if half is None else 2)

    def amount(value: float) -> str:
        return f"{abs(value):,.{digits}f}"

    text = f"{amount(difference.mean)} {better if difference.mean >= 0.0 else worse}"
    text += f" at epsilon = {line.epsilon:g}"
    if half is None:
        return text
    low, high = difference.mean - half, difference.mean + half
    near, far = sorted((low, high), key=abs)
    interval = f"{amount(near)} to {amount(far)}"
    if low < 0.0 < high:
        interval = f"{amount(low)} {worse} to {amount(high)} {better}"
    chance = "; may be chance" if difference.sign == 0 else ""
    return f"{text} ({'95% interval ' if first else ''}{interval}{chance})"


def _no_better_than_chance(summary: Summary) -> str:
    """Names the private learners that are not clearly better than choosing at random."""
    compared = [line for line in summary.private if "uniform" in line.over]
    worse = _settings([line for line in compared if line.over["uniform"].sign == -1])
    equal = _settings([line for line in compared if line.over["uniform"].sign == 0])
    text = f"Worse than choosing at random: {worse}." if worse else ""
    if equal:
        text += f" Too close to choosing at random to call: {equal}."
    return text.strip()


def _basis(summary: Summary, problem: Problem, rival: Rival) -> list[str]:
    """What the best single choice is, how chance was judged, and for whom it holds."""
    if rival == "fixed":
        choice = (
            "The best single choice is the one that proved best for these very people, which "
            "nobody knew beforehand."
        )
    elif isinstance(problem.space, DecisionSets):
        choice = "Everyone brings other points here, so there is no single choice for everyone."
    else:
        choice = (
            "Everyone can be given the same point here, so the best single choice is what learners "
            "search for and cannot be beaten."
        )
    replicates = max(line.replicates for line in summary.private)
    if replicates == 1:
        return [choice, "There is one repetition, so there are no intervals."]
    chance = (
        f"Settings are compared within each of {replicates} repetitions, in which they meet the "
        "same people in the same order; intervals are those of Student's t, each by itself. What "
        f"is called chance allows for all {summary.comparisons} comparisons of private learners "
        "together (Holm's method at 5%), so an interval without 0 may not be enough."
    )
    people = (
        "Each repetition draws new people."
        if problem.size is None
        else "Repetitions take people of one table, so the intervals do not say how people who "
        "are not in it would fare."
    )
    close = any(
        difference.sign == 0 for line in summary.private for difference in line.over.values()
    )
    more = "More replicates narrow the intervals." if close else ""
    return [choice, chance, more, people]


def _digits(value: float, significant: int) -> int:
    """Decimals that show this many digits of a value."""
    if value == 0.0:
        return 3
    return min(6, max(0, significant - 1 - math.floor(math.log10(value))))


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


def promise(summary: Summary) -> str:
    """What the private learners promise, said once for guarantees that differ only in epsilon."""
    groups: dict[Guarantee, set[float]] = {}
    for line in summary.private:
        if line.guarantee is not None:
            kind = replace(line.guarantee, epsilon=0.0, data=(), releases=1)
            groups.setdefault(kind, set()).add(line.guarantee.epsilon)
    if not groups:
        return "No learner shown here is private: each person's data is used as it is."
    return "\n".join(_promise(kind, sorted(values)) for kind, values in groups.items())


def _promise(kind: Guarantee, epsilons: Sequence[float]) -> str:
    """The sentence of the smallest epsilon, and the numbers of the others as theirs has them."""
    first, *rest = [replace(kind, epsilon=epsilon) for epsilon in epsilons]
    text = replace(first, noise=()).sentence
    warning = first.sentence.removeprefix(text)
    numbers = [_NUMBERS.search(other.sentence) for other in rest]
    if not all(numbers):
        return "\n".join(promised.sentence for promised in (first, *rest))
    if rest:
        values = listed([match["epsilon"] for match in numbers if match])
        factors = listed([match["factor"] for match in numbers if match])
        text += f" At epsilon = {values} the factor is {factors}"
        sure = [match["sure"] for match in numbers if match and match["sure"]]
        text += f", and the certainty at most {listed(sure)}." if sure else "."
    return text + warning


def listed(items: Sequence[str]) -> str:
    """1, 2 and 4."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
