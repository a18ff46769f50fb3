"""A study before it runs: what is wrong with it, or what its data can show (`discreet check`).

Counts of rows and of arms and the mean rate of rewards are read off the table. No guarantee covers
them, so a preflight is for readers who may see the table.

A line's *worth* bounds what it can learn: the number of people without privacy whose data show at
least as much, for everybody together and arms given equally often; where rewards are 0 or 1, at the
table's own mean rate. Guarantees under local privacy are derived from a learner's first policy.
Under joint privacy nothing is drawn before there are people, so the budget stands in for the
guarantee.

Notes
-----
Noise bounds what can be learnt, whatever a learner does with what it gets. Let theta be what the
rewards of an arm depend on, and I(n) what n people tell about it without privacy (Fisher
information, n times that of one). What n people tell through noise is worth m people if it is no
more than I(m): no learner does better than with m people whose data it sees. Contexts that are
hidden as well, and questions that did not help, leave less.

*Local.* A report is a channel K from a person's data, and what data tell about theta shrinks in a
channel by its chi^2-contraction coefficient at most, which is the largest that two of its inputs
reach (Ordentlich and Polyanskiy, "Strong data processing constant is achieved by binary inputs"):
with densities p and q, sup over b of

    b (1 - b) int (p - q)^2 / (b p + (1 - b) q)  =  int p + q - w - p q / w,  w = b p + (1 - b) q.

Any two inputs of a private report are a processing of a worst pair, which can only lower this:
randomised response for a pure report (Kairouz, Oh and Viswanath 2017), N(0, 1) and N(mu, 1) for a
Gaussian one (Dong, Roth and Su 2022). Both pairs are symmetric, so with v = b (1 - b), L the log of
p / q and t = tanh^2(L / 2) this is the mean under p of

    kept(t, v) = t v / (1/4 - t (1/4 - v)):

    pure       kept(tanh^2(epsilon / 2), v)
    Gaussian   E kept(tanh^2(mu X / 2), v),  X ~ N(mu / 2, 1),  mu = 1 / noise multiplier

It grows with v, so the supremum is at b = 1/2, the mean of t. Where rewards are 0 or 1 at a mean
rate, the channel has these two inputs alone, and b is the rate: reports of rare rewards keep about
4 t v. It is concave in b, so where rates differ from person to person it holds for their mean.

*Joint.* Rewards of n people enter Gaussian releases C r + z, where replacing one person's reward by
another moves C r by 1 at least where its noise has the deviation m, the noise multiplier. Of all
such C a single sum tells most about a mean of normal rewards: n^2 / (n v + m^2), with v <= 1/4 the
variance of a reward in [0, 1]; without noise n / v. The ratio grows with v: n / (1 + m^2 / (v n))
people, at 1/4 if no rate is known. Rewards of 0 and 1 tell a little more, because little noise
leaves steps that can be seen: of a single person E kept as above, with mu = 1 / m, not
1 / (1 + m^2 / v). So noise counts as the normal noise that leaves of one person as much,

    n / (1 + a / n) people,  a = 1 / E kept(tanh^2(mu X / 2), v) - 1 <= m^2 / v,

which is exact for one person, and at v = 1/4 at most a fifth of a person above the other. That it
bounds what sums of such rewards tell is not proved for n > 1; a test works these out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeGuard

import numpy as np
from rich.table import Table
from rich.text import Text

from discreet.codec import OPTIONAL_FIELD, Serializable
from discreet.lab.environments.base import Problem
from discreet.lab.environments.tables import ClassificationProblem, TableProblem
from discreet.lab.experiments import Setting, learner_of
from discreet.lab.reporting.numbers import ABSENT, counted, listed, number_text, share_text
from discreet.lab.reporting.words import terminal_table
from discreet.lab.studies import Study
from discreet.lab.studies.serving import serving_sentence
from discreet.people.domain import arm_count
from discreet.privacy import Guarantee, SimulatedNoise
from discreet.privacy.accounting import Event, PureEvent
from discreet.validation import BoolArray, number_from, positive_number

# The grid for the mean over X: half-width in deviations, and number of steps. The sum is exact to
# rounding: tanh^2 is smooth over a step wherever it is not 1.
_FAR, _STEPS = 12.0, 4_000
# From so large a mu on the mean is 1 to rounding.
_LARGEST = 1e3
_VARIANCE = 0.25  # at most, of a reward in [0, 1]
_RAREST = 1e-9
# Of less, 1 / share is lost in rounding, and normal noise is what it is.
_LEAST = 1e-6


def worth_of_reports(event: Event, people: float, rate: float = 0.5) -> float:
    """At most how many people without privacy tell as much as reports of `people`.

    Args:
        event: what one report costs, as its release records it.
        people: how many report, one report each; at least 0.
        rate: the mean reward, in [0, 1], where rewards are 0 or 1; 1/2 bounds all others.
    """
    count, variance = number_from(people, "people", 0.0), _variance(rate)
    if isinstance(event, PureEvent):
        return count * float(_kept(math.tanh(event.epsilon / 2.0) ** 2, variance))
    return count * _gaussian_share(event.noise_multiplier, variance)


def worth_of_sums(noise_multiplier: float, people: float, rate: float = 0.5) -> float:
    """At most how many people without privacy tell as much as Gaussian releases about `people`.

    Args:
        noise_multiplier: the deviation of the noise over the sensitivity to one contribution, above
            0.
        people: how many enter the releases; at least 0.
        rate: as for reports.
    """
    count, variance = number_from(people, "people", 0.0), _variance(rate)
    multiplier = positive_number(noise_multiplier, "noise_multiplier")
    share = _gaussian_share(multiplier, variance)
    noise = multiplier**2 / variance if share < _LEAST else 1.0 / share - 1.0
    return count * count / (count + noise)


def difference_that_shows(people: float, rate: float = 0.5) -> float:
    """The difference of two arms' mean rewards that is two standard errors wide.

    Args:
        people: how many people without privacy each arm has, above 0.
        rate: as for reports.

    Returns:
        The difference for rewards in [0, 1], 1 at most: 2 sqrt(2 v / people).
    """
    variance = 2.0 * _variance(rate) / number_from(people, "people", 1e-300)
    return min(1.0, 2.0 * math.sqrt(variance))


def _variance(rate: float) -> float:
    """v = b (1 - b); rates of exactly 0 or 1 count as very rare ones."""
    mean = number_from(rate, "rate", 0.0, 1.0)
    return max(mean * (1.0 - mean), _RAREST)


def _gaussian_share(noise_multiplier: float, variance: float) -> float:
    """The mean of kept(tanh^2(mu X / 2), v) of the module."""
    mu = min(1.0 / noise_multiplier, _LARGEST)
    nodes = np.linspace(-_FAR, _FAR, _STEPS + 1)
    weights = np.exp(-0.5 * nodes**2)
    squares = np.tanh(mu * (nodes + mu / 2.0) / 2.0) ** 2
    return float(weights @ _kept(squares, variance) / weights.sum())


def _kept(squares: Any, variance: float) -> Any:
    """The share of information that is left, kept(t, v) of the module."""
    return squares * variance / (_VARIANCE - squares * (_VARIANCE - variance))


MOST_ROWS = 8  # of each table, where its details are not asked for
_MOST_NAMES = 12  # labels, and arms that nothing special is known of


@dataclass(frozen=True)
class Issue:
    """One thing that is wrong with a study file.

    Attributes:
        line: of the file, if it stands on one.
        text: what was given, what is allowed, what to do.
    """

    line: int | None
    text: str


@dataclass(frozen=True)
class ColumnPreflight:
    """One column that a learner sees.

    Attributes:
        name: the column's name.
        lower, upper: its bounds; of categories their numbers.
        levels: how many values it takes; None for any.
        categories: its labels, if it has some.
        missing: rows of the table without a value.
        outside: rows that are left out because of their value.
        clipped: rows whose value was moved to the nearest bound.
    """

    name: str
    lower: float
    upper: float
    levels: int | None
    categories: tuple[str, ...]
    missing: int
    outside: int
    clipped: int


@dataclass(frozen=True)
class ArmPreflight:
    """One arm.

    Attributes:
        name: the arm's name.
        people: of the table for whom it is the right one; None where unknown.
        hidden_at: the epsilons at which noise hides it: given equally often, it cannot be
            distinguished from an arm that is right for no one.
    """

    name: str
    people: int | None
    hidden_at: tuple[float, ...]


@dataclass(frozen=True)
class LinePreflight:
    """One line of the result.

    Attributes:
        label, learner: of the line, and the learner's registered name.
        trust_model, epsilon, delta, max_contributions: of the budget; None without privacy.
        reports: how many visits are learnt from.
        worth: people without privacy whose data show at least as much; None where unknown, and
            where nothing is learnt.
        worth_of_arm: the same for one arm, if all are given equally often.
        difference: the least difference of two arms' mean rewards that is two standard errors, in
            units of the reward.
        promise: the guarantee to a person; None without privacy.
        sentence: the same in words; "" without privacy.
    """

    label: str
    learner: str
    trust_model: str
    epsilon: float | None
    delta: float | None
    max_contributions: int | None
    reports: float
    worth: float | None
    worth_of_arm: float | None
    difference: float | None
    promise: Guarantee | None
    sentence: str


@dataclass(frozen=True)
class Preflight(Serializable):
    """What is wrong with a study, or what it asks for.

    Attributes:
        file: the study file.
        issues: what is wrong; the rest is there only where nothing is.
        title: the study's.
        people, replicates: people of each replicate, and how many replicates.
        rows: how many rows of the table take part and why others do not; "" without a table.
        people_of_arm: people for each arm, if all are given equally often; None without arms.
        columns, arms, lines: one of each.
        offer: what can be chosen, in words.
        choices: which learners were chosen because the file names none, and why.
        warnings: what to know though the study can run.
        served: what `discreet serve` would serve, in words; "" where the study does not say.
    """

    kind: ClassVar[str] = "study-preflight"

    file: str
    issues: tuple[Issue, ...] = ()
    title: str = ""
    people: int = 0
    replicates: int = 0
    rows: str = ""
    people_of_arm: float | None = None
    columns: tuple[ColumnPreflight, ...] = ()
    arms: tuple[ArmPreflight, ...] = ()
    lines: tuple[LinePreflight, ...] = ()
    offer: str = ""
    choices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    served: str = field(default="", metadata=OPTIONAL_FIELD)

    @property
    def can_run(self) -> bool:
        """Whether nothing is wrong."""
        return not self.issues

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantees of the lines with privacy."""
        return tuple(line.promise for line in self.lines if line.promise is not None)


def preflight(file: str, study: Study) -> Preflight:
    """What a study asks for.

    Args:
        file: the name of its file.
        study: which can run.
    """
    problem = study.problem
    count = arm_count(problem.space)
    lines = tuple(_line(study, setting) for setting in study.settings)
    local = [
        (each.epsilon or 0.0, each.reports)
        for each in lines
        if each.trust_model == "local" and each.worth
    ]
    return Preflight(
        file=file,
        title=study.title,
        people=study.rounds,
        replicates=study.replicates,
        rows="" if problem.rows is None else problem.rows.sentence,
        people_of_arm=None if count is None else study.rounds / count,
        columns=tuple(_columns(problem)),
        arms=tuple(_arms(problem, lines)),
        lines=lines,
        offer=problem.offer,
        choices=study.choices,
        warnings=(*study.warnings, *wide_range(problem, local)),
        served=serving_sentence(study.settings, study.serve, study.rounds) or "",
    )


def _columns(problem: Problem) -> Iterator[ColumnPreflight]:
    box, rows = problem.domain, problem.rows
    kinds = ((), (), ()) if rows is None else (rows.lacking, rows.outside, rows.clipped)
    counts = [dict(kind) for kind in kinds]
    facts = zip(box.names, box.lower, box.upper, box.levels, box.categories, strict=True)
    for name, lower, upper, levels, categories in facts:
        gone = [count.get(name, 0) for count in counts]
        yield ColumnPreflight(name, lower, upper, levels, tuple(categories), *gone)


def _arms(problem: Problem, lines: tuple[LinePreflight, ...]) -> Iterator[ArmPreflight]:
    if not isinstance(problem, ClassificationProblem):
        yield from (ArmPreflight(name, None, ()) for name in problem.arm_names)
        return
    people = np.bincount(problem.labels, minlength=problem.arms)
    # An arm that is right for no one pays 0 for certain: one deviation in place of two arms'.
    known = {
        line.epsilon: line.difference / math.sqrt(2.0)
        for line in lines
        if line.epsilon is not None and line.difference is not None
    }
    for name, right in zip(problem.arm_names, people.tolist(), strict=True):
        hidden = [epsilon for epsilon, least in known.items() if right / problem.size < least]
        yield ArmPreflight(name, right, tuple(sorted(hidden)))


def _line(study: Study, setting: Setting) -> LinePreflight:
    problem, budget = study.problem, setting.budget
    guarantee, event = _guarantee(problem, setting, study.rounds)
    reports = _reports(study, setting)
    count = arm_count(problem.space)

    def worth(people: float, rate: float = 0.5) -> float | None:
        """Of people whose data this line's noise covers."""
        if not setting.learns:
            return None
        if not budget.private:
            return people
        if event is not None:
            return worth_of_reports(event, people, rate)
        # Predictions are drawn one by one, from no Gaussian sum, and have no such bound.
        gaussian = budget.delta > 0.0 and "predictions" not in setting.options
        if budget.trust_model == "joint" and gaussian:
            return worth_of_sums(budget.noise_multiplier, people, rate)
        return None

    rate = _mean_rate(problem)
    of_arm = None if count is None else worth(reports / count, rate)
    bounds = problem.reward_bounds
    width = bounds.upper - bounds.lower
    return LinePreflight(
        label=setting.label,
        learner=setting.learner,
        trust_model=budget.trust_model,
        epsilon=budget.epsilon if budget.private else None,
        delta=budget.delta if budget.private else None,
        max_contributions=budget.max_contributions if budget.private else None,
        reports=reports,
        worth=worth(reports, rate),
        worth_of_arm=of_arm,
        difference=width * difference_that_shows(of_arm, rate) if of_arm else None,
        promise=guarantee,
        sentence="" if guarantee is None else guarantee.sentence,
    )


def _mean_rate(problem: Problem) -> float:
    """The mean of a table's rewards if all are 0 or 1; else 1/2, which bounds every other.

    What reports keep is concave in the rate, so arms of other rates tell no more on average.
    """
    return float(_paid(problem).mean()) if _binary(problem) else 0.5


def _paid(problem: TableProblem) -> BoolArray:
    paid: BoolArray = problem.rewards == problem.reward_bounds.upper
    return paid


def _binary(problem: Problem) -> TypeGuard[TableProblem]:
    """Whether it is a table whose rewards are the lowest or the highest."""
    return isinstance(problem, TableProblem) and bool(
        (_paid(problem) | (problem.rewards == problem.reward_bounds.lower)).all()
    )


def wide_range(problem: Problem, local: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Advice where local reports, by epsilon and number, would tell more in a narrower range.

    Noise is as wide as the range. Cut at C, an arm's mean falls at the rate S(C), the share of its
    rewards above C, and the noise of the mean of n / K reports at c = tanh(epsilon / 2) falls at
    the rate sqrt(K / n) / (2 c). Halving ends before the first is larger, or another arm is best:
    too low a bound misleads, too high a one only costs people.
    """
    if not isinstance(problem, TableProblem) or _binary(problem) or not local:
        return
    seen = min(math.tanh(epsilon / 2.0) * math.sqrt(reports) for epsilon, reports in local)
    allowed = 0.5 * math.sqrt(problem.arms) / seen
    rewards, bounds = problem.rewards, problem.reward_bounds
    means, lower, upper = rewards.mean(axis=0), bounds.lower, bounds.upper
    bound = upper
    while True:
        half = lower + 0.5 * (bound - lower)
        cut = np.minimum(rewards, half).mean(axis=0)
        above = (rewards > half).mean(axis=0).max()
        if above > allowed or cut.argmax() != means.argmax() or half == bound:
            break
        bound, share, fall = half, above, (means - cut).max()
    if bound < upper:
        yield (
            f"At most {share_text(share)} of an arm's rewards are above {number_text(bound)}, and "
            f"noise is as wide as the range {number_text(lower)} to {number_text(upper)}. If that "
            f"bound is plausible without this table, state upper = {number_text(bound)} and "
            f'outside = "clip": differences show that are {(upper - lower) / (bound - lower):g} '
            f"times smaller, and mean rewards fall by {number_text(fall, 2)} at most."
        )


def _reports(study: Study, setting: Setting) -> float:
    """How many visits a learner learns from; on average, where a replicate draws some of them."""
    visits, budget = study.problem.visits, setting.budget
    if visits is None or not budget.private or budget.protects == "contribution":
        return float(study.rounds // budget.group * budget.group)
    return study.rounds * float(np.minimum(visits, budget.max_contributions).sum() / visits.sum())


def _guarantee(
    problem: Problem, setting: Setting, rounds: int
) -> tuple[Guarantee | None, Event | None]:
    """The guarantee to a person, and the cost of each report where reports are private."""
    budget = setting.budget
    if not budget.private:
        return None, None
    learner = learner_of(problem, setting, rounds, 0, SimulatedNoise(0))
    if budget.is_local:
        learner.policy()
        return replace(learner.guarantee(), noise=()), learner.releases[0].event
    asked = Guarantee(
        trust_model=budget.trust_model,
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=replace(learner.adjacency, unit=budget.protects),
        data=(),
        noise=(),
        reports_per_person=budget.max_contributions,
        releases=1,
    )
    return asked, None


# On a terminal.

LINE_NOTE = (
    "worth at most: people without privacy whose data show as much.\n"
    "difference: the least of two arms' mean rewards that is two standard errors."
)
DETAILS_NOTE = "each arm and difference: with all arms given equally often."
COLUMN_NOTE = "Counts and rates are exact statistics of the table; no epsilon covers them."
ARM_NOTE = "hidden by noise: indistinguishable from an arm that is right for no one."


def issues_text(checked: Preflight) -> str:
    """Everything that is wrong, a line for each."""
    wrong = [
        each.text if each.line is None else f"line {each.line}: {each.text}"
        for each in checked.issues
    ]
    numbered = [f"{number}. {text}" for number, text in enumerate(wrong, start=1)]
    return "\n".join(numbered if len(wrong) > 1 else wrong)


def people_text(checked: Preflight) -> str:
    """Who takes part, and what can be chosen."""
    text = f"{checked.people:,} people, {counted(checked.replicates, 'replicate')}; {checked.offer}"
    if checked.people_of_arm is not None:
        text += f"; {checked.people_of_arm:,.0f} people for each arm"
    right = [arm.people for arm in checked.arms if arm.people is not None]
    return f"{text}; each is right for {min(right):,} or more." if right else f"{text}."


def column_table(checked: Preflight, most: int = MOST_ROWS) -> Table:
    """The columns that a learner sees, and what they cost in rows."""
    heads = ("column", "values", "missing", "outside", "clipped")
    table = terminal_table(heads, left=heads[:2])
    table.columns[1].no_wrap = False
    for column in checked.columns[:most]:
        names = ", ".join(column.categories[:_MOST_NAMES])
        more = ", ..." if len(column.categories) > _MOST_NAMES else ""
        levels = "" if column.levels is None else f", {column.levels} values"
        values = f"{number_text(column.lower)} to {number_text(column.upper)}{levels}"
        if names:
            values = f"{len(column.categories)}: {names}{more}"
        counts = (column.missing, column.outside, column.clipped)
        gone = [f"{count:,}" if count else "" for count in counts]
        table.add_row(Text(column.name), Text(values), *gone)
    if len(checked.columns) > most:
        table.add_row(f"... {len(checked.columns) - most} more: --details")
    return table


def arm_table(checked: Preflight, most: int = MOST_ROWS) -> Table | None:
    """The arms that noise hides, and for how many people of the table each is right."""
    arms = [arm for arm in checked.arms if arm.hidden_at]
    if not arms:
        return None
    total = sum(arm.people or 0 for arm in checked.arms)
    table = terminal_table(("arm", "right for", "share", "hidden by noise at epsilon"))
    for arm in arms[:most]:
        share, hidden = share_text((arm.people or 0) / total), [f"{e:g}" for e in arm.hidden_at]
        table.add_row(Text(arm.name), f"{arm.people or 0:,}", share, listed(hidden))
    if len(arms) > most:
        table.add_row(f"... {len(arms) - most} more: --details")
    return table


def line_table(checked: Preflight) -> Table:
    """What each line of the result can learn from, one row for all with the same numbers."""
    heads = ("learner", "epsilon", "worth\nat most", "each\narm", "differ-\nence")
    table = terminal_table(heads)

    def people(value: float) -> str:
        return f"{value:,.0f}" if value >= 10.0 else number_text(value, 2)

    labels: dict[tuple[str, ...], list[str]] = {}
    for line in checked.lines:
        if line.worth is None and line.promise is None:
            continue  # a reference: it learns from no one
        label = line.label.partition(", epsilon ")[0] if line.epsilon is not None else line.label
        cells = tuple(
            ABSENT if value is None else text(value)
            for value, text in (
                (line.epsilon, "{:g}".format),
                (line.worth, people),
                (line.worth_of_arm, people),
                (line.difference, lambda value: number_text(value, 2)),
            )
        )
        labels.setdefault(cells, []).append(label)
    for cells, names in labels.items():
        table.add_row(Text("; ".join(names)), *cells)
    return table


def budget_notes(checked: Preflight) -> Iterator[str]:
    """What budgets leave out: visits beyond the bound, and noise that is not drawn yet."""
    over: dict[tuple[int, float], list[str]] = {}
    for line in checked.lines:
        if line.max_contributions is not None and line.reports < checked.people:
            over.setdefault((line.max_contributions, line.reports), []).append(line.label)
    for (visits, reports), labels in over.items():
        yield (
            f"{listed(labels)}: {counted(visits, 'visit')} of a person are learnt from, in all "
            f"about {reports:,.0f} of {checked.people:,}; later ones are served."
        )
    if any(line.trust_model == "joint" for line in checked.lines):
        yield (
            "Under joint privacy this is the budget; the certificate of a run is derived from its "
            "noise."
        )
