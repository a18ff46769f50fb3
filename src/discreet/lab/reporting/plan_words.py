"""A plan in words: the recommendation, the answer to an inverse question, and what the numbers rest
on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from discreet.lab.planning.curves import REACH
from discreet.lab.planning.facts import Answer, Interval, PlanLine, Word, student
from discreet.lab.planning.forecast import Forecast
from discreet.lab.planning.odds import chance_text
from discreet.lab.planning.race import ERROR
from discreet.lab.reporting.numbers import about_time, decimals, listed, number_text, unsigned_zero

ONE_CHOICE, CHANCE = "one choice for everyone", "choosing at random"


@dataclass(frozen=True)
class Recommendation:
    """What a plan recommends, in three sentences.

    Attributes:
        word: the verdict: yes, no, or cannot tell yet.
        epsilon: the one recommended; None unless the verdict is yes.
        learner: that goes with it or with the epsilon that loses least; None where there is nothing
            to learn.
        sentences: the verdict and what it rests on, or what a verdict would take; what it means to
            people; how many people it takes, and what it means for one person's privacy.
    """

    word: Word
    epsilon: float | None
    learner: str | None
    sentences: tuple[str, str, str]

    @property
    def text(self) -> str:
        """The sentences as one paragraph."""
        return " ".join(self.sentences)

    def __str__(self) -> str:
        return self.text


def rival(forecast: Forecast) -> str:
    """What gains are measured from, in words."""
    return ONE_CHOICE if forecast.fixed else CHANCE


def recommendation(forecast: Forecast) -> Recommendation:
    """The three sentences of a plan."""
    if not forecast.worthwhile:
        return _without_gain(forecast)
    advice = forecast.advice()
    epsilon = advice.best if advice.epsilon is None else advice.epsilon
    line = forecast.line(epsilon)
    most = percent(advice.lose_at_most)
    with_people = f"with {advice.people:,} people{_of_expected(forecast)}"
    gain = "of what choosing by person gains"
    lost = loss_text(forecast.loss_for(epsilon, advice.people))
    if advice.verdict.word == "yes":
        first = (
            f"Yes: {with_people}, {line.learner} at epsilon = {epsilon:g} loses at most {most} "
            f"{gain}: {lost}. It is the smallest epsilon tried for which this holds."
        )
    elif advice.verdict.word == "no":
        until = people_text(forecast.people_for(epsilon, 1.0 - advice.lose_at_most))
        first = (
            f"No: {with_people}, no epsilon that was tried loses at most {most} {gain}. "
            f"{line.learner} at epsilon = {epsilon:g} loses least, {lost}; to lose no more than "
            f"{most} it takes {until}."
        )
    else:
        first = (
            f"Cannot tell yet: whether an epsilon that was tried loses at most {most} {gain}. "
            f"{with_people[0].upper()}{with_people[1:]}, {line.learner} at epsilon = {epsilon:g} "
            f"loses least, {lost}{_extrapolated(forecast, epsilon)}. {takes_text(forecast)}"
        )
    last = (
        f"It takes {people_text(forecast.people_until_gain(epsilon))} until it beats "
        f"{rival(forecast)}, and {_privacy(forecast, line)}."
    )
    sentences = (first, _to_people(forecast, line), last)
    return Recommendation(advice.verdict.word, advice.epsilon, line.learner, sentences)


def _of_expected(forecast: Forecast) -> str:
    return "" if forecast.people >= forecast.wished else f" (of {forecast.wished:,} expected)"


def _extrapolated(forecast: Forecast, epsilon: float) -> str:
    if not forecast.people < forecast.wished <= forecast.limit:
        return ""
    lost = loss_text(forecast.loss_for(epsilon, forecast.wished))
    return f"; with {forecast.wished:,} people it would lose {lost}"


def _without_gain(forecast: Forecast) -> Recommendation:
    gained = f"{signed(forecast.gain(forecast.free))} per person"
    with_people = f"{forecast.people:,} people{_of_expected(forecast)}"
    over = rival(forecast)
    last = "What each epsilon would promise stands below; none is recommended."
    if forecast.gains.word == "no":
        first = (
            f"No: with {with_people}, choosing by person gains nothing over {over}, even without "
            f"privacy ({gained})."
        )
        second = f"Keep to {over}, or plan again with more people, other columns or other arms."
    else:
        first = (
            f"Cannot tell yet: whether choosing by person gains anything over {over}, even without "
            f"privacy. With {with_people} it gained {gained}."
        )
        second = takes_text(forecast)
    return Recommendation(forecast.gains.word, None, None, (first, second, last))


def takes_text(forecast: Forecast) -> str:
    """What it takes to tell where a plan cannot."""
    size, found = forecast.problem.size, forecast.advice().verdict
    if size is not None and forecast.wished > size:
        return (
            f"A yes or a no takes a table of {forecast.wished:,} people, or a plan for no more "
            f"than the {size:,} of this one."
        )
    if found.replicates is None:
        return (
            "More than 1,000 replicates would be needed: it is too close to call at this number of "
            "people."
        )
    seconds = found.replicates * forecast.seconds_each
    with_all = "" if forecast.people >= forecast.wished else f" with all {forecast.wished:,} people"
    return f"About {found.replicates:,} replicates{with_all} would tell, in {about_time(seconds)}."


def _to_people(forecast: Forecast, line: PlanLine) -> str:
    """What a line means to people, beside the reference and no privacy."""
    gained = forecast.gain(line)
    missed = student(line.gain[:, -1] - forecast.free.gain[:, -1])
    unit = _unit(forecast)
    among = "" if forecast.wished == forecast.people else f" of the {forecast.people:,} simulated"
    return (
        f"Each person{among} then has {compared(gained, unit)} than under {rival(forecast)}, and "
        f"{compared(missed, unit)} than without privacy."
    )


def _privacy(forecast: Forecast, line: PlanLine) -> str:
    """What the line's epsilon means for one person, in half a sentence."""
    moved = forecast.explanations[line.setting.budget.epsilon].odds[0]
    return (
        "somebody who thinks the chance that something is true of a person is 50 out of 100 can "
        f"get to {chance_text(moved.most)}"
    )


def question_text(forecast: Forecast) -> str:
    """The answer to the inverse question that was put; "" where none was."""
    if forecast.question is None:
        return ""
    asked, first, second = forecast.question
    if asked == "people":
        answer = forecast.people_for(first, 1.0 - second)
        start = f"At epsilon = {first:g}, to lose at most {percent(second)} of the gain takes"
        return f"{start} {people_text(answer)}."
    if asked == "epsilon":
        count = min(first, float(forecast.limit))
        answer = forecast.epsilon_for(count, second)
        start = f"With {count:,.0f} people, to lose at most {percent(second)} of the gain takes"
        return f"{start} {epsilon_text(answer)}{_as_far(forecast, first)}."
    count = min(second, float(forecast.limit))
    lost = loss_text(forecast.loss_for(first, count))
    return (
        f"At epsilon = {first:g} with {count:,.0f} people, the loss is {lost}"
        f"{_as_far(forecast, second)}."
    )


def _as_far(forecast: Forecast, people: float) -> str:
    """Says that fewer people were asked about than is known."""
    if people <= forecast.limit:
        return ""
    return f" (about {people:,.0f} people nothing can be said: {forecast.people:,} were simulated)"


# Numbers.


def people_text(answer: Answer) -> str:
    """about 5,400 people (95% interval 4,000 to 7,100)."""
    if answer.value is None:
        return "people without end, as there is no gain to keep"
    if answer.value <= answer.least:
        start = f"at most {answer.least:,.0f} people"
    elif not answer.reached:
        start = f"more than {answer.most:,.0f} people"
    else:
        start = f"about {number_text(answer.value, 2)} people"
    beyond = "extrapolated; " if answer.extrapolated else ""
    between = ends_text(answer)
    return f"{start} ({beyond}95% interval {between})" if between else start


def ends_text(answer: Answer) -> str:
    """The ends of an interval of people; "" where it says no more than the estimate."""
    low, high = answer.low, answer.high
    if math.isnan(low) or (high <= answer.least) or (low > answer.most):
        return ""
    least = f"{answer.least:,.0f} or fewer"
    most = f"more than {answer.most:,.0f}"
    texts = [
        least if end <= answer.least else most if end > answer.most else number_text(end, 2)
        for end in (low, high)
    ]
    return " to ".join(texts)


def epsilon_text(answer: Answer) -> str:
    """epsilon = 2.6 (95% interval 2.5 to 2.8)."""
    if answer.value is None:
        return "no epsilon, as there is no gain to keep"
    if answer.value <= answer.least:
        return f"epsilon = {answer.least:g} at most, the smallest that was tried"
    if not answer.reached:
        return f"an epsilon above {answer.most:g}, the largest that was tried"
    ends = [
        f"{answer.least:g} or less" if end <= answer.least
        else f"more than {answer.most:g}" if end > answer.most
        else f"{end:.2g}"
        for end in (answer.low, answer.high)
    ]  # fmt: skip
    return f"epsilon = {answer.value:.2g} (95% interval {' to '.join(ends)})"


def loss_text(answer: Answer) -> str:
    """12% (95% interval 8% to 17%)."""
    if answer.value is None:
        return "not known, as there is no gain to keep"
    beyond = "extrapolated; " if math.isinf(answer.simulated) and answer.simulated < 0.0 else ""
    if not math.isfinite(answer.high):
        return f"{percent(answer.value)} ({beyond}how far chance reaches cannot be told)"
    return (
        f"{percent(answer.value)} ({beyond}95% interval {percent(answer.low)} to "
        f"{percent(answer.high)})"
    )


def percent(share: float) -> str:
    """12%, 3.1% or 0%."""
    value = 100.0 * share
    text = f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}".removesuffix(".0")
    return f"{unsigned_zero(text)}%"


def compared(interval: Interval, unit: tuple[str, str]) -> str:
    """0.14 more reward (95% interval 0.13 to 0.15).

    Args:
        interval: positive where there is more of the first unit.
        unit: what is more, and what is less, such as "more reward".
    """
    digits = _digits(interval)

    def amount(value: float) -> str:
        return f"{abs(value):,.{digits}f}"

    def word(value: float) -> str:
        return unit[0] if value >= 0.0 else unit[1]

    text = f"{amount(interval.mean)} {word(interval.mean)}"
    low, high = interval.low, interval.high
    if math.isnan(low):
        return text
    if low < 0.0 < high:
        sides = [f"{amount(end)} {word(end).split()[0]}" for end in (low, high)]
        return f"{text} (95% interval {' to '.join(sides)})"
    near, far = sorted((low, high), key=abs)
    return f"{text} (95% interval {amount(near)} to {amount(far)})"


def signed(interval: Interval) -> str:
    """0.140, 95% interval -0.010 to 0.290."""
    digits = _digits(interval)
    text = f"{interval.mean:.{digits}f}"
    if math.isnan(interval.low):
        return text
    return f"{text}, 95% interval {interval.low:.{digits}f} to {interval.high:.{digits}f}"


def _digits(interval: Interval) -> int:
    half = interval.high - interval.mean
    known = math.isfinite(half) and half > 0.0
    return decimals(half, 2) if known else decimals(interval.mean, 3)


def _unit(forecast: Forecast) -> tuple[str, str]:
    """What is more of it, and less of it, in the direction in which more is better."""
    reward = forecast.problem.metric == "reward"
    return ("more reward", "less reward") if reward else ("less regret", "more regret")


def basis(forecast: Forecast) -> Iterator[str]:
    """What the numbers rest on, a sentence or two each."""
    raced = [each for each in forecast.standings if each.replicates]
    if raced:
        count = max(each.replicates for each in raced)
        dropped = sum(each.dropped for each in raced)
        yield (
            f"Learners were chosen for each epsilon by a race of up to {count} replicates with "
            f"{raced[0].people:,} people, the same for all. {dropped} of {len(raced)} runners "
            "stopped early, clearly behind by Student's t on paired differences; the probability "
            f"that a true best was dropped anywhere is at most {percent(ERROR)}."
        )
        yield (
            "The best of several looks better than it is in the very replicates that chose it (the "
            f"winner's curse), so everything above was measured on {forecast.replicates} fresh "
            f"ones.{_flattery(forecast)}"
        )
    learnt = [line for line in forecast.lines if line.kind != "reference"]
    along = sorted({line.learner for line in learnt if line.traced})
    alone = sorted({line.learner for line in learnt if not line.traced})
    if along:
        yield (
            f"{_learners(along)} did the same whatever number of people was announced, as a "
            "try of both showed, so one long run tells about fewer people as well."
        )
    if alone and forecast.along:
        yield (
            f"{_learners(alone)} may plan for the number of people. There was no time to simulate "
            f"each number by itself, so fewer than {forecast.people:,} people are read along the "
            "run with as many: a learner that expects more of them does otherwise at first, so "
            "these numbers are rough, and further off than their intervals say."
        )
    elif alone:
        yield (
            f"{_learners(alone)} may plan for the number of people, so each number "
            f"({listed([f'{people:,}' for people in forecast.horizons])}) was simulated by itself."
        )
    noun = "person" if forecast.people == 1 else "people"
    yield (
        f"Beyond {forecast.people:,} {noun}, up to {REACH} times as many, regret goes on growing "
        "as over the last doubling, which promises too little; intervals reach up to "
        "missing no more than without privacy."
    )
    yield from forecast.left_out


def _flattery(forecast: Forecast) -> str:
    """By how much the winners' replicates flattered them, over all budgets."""
    gaps = []
    for line in (*forecast.private, forecast.free):
        won = next(each for each in forecast.standings if each.won and each.epsilon == line.epsilon)
        if won.replicates and won.people == forecast.people:
            gaps.append(won.mean - float(line.worth[:, -1].mean()))
    if not gaps:
        return ""
    mean = sum(gaps) / len(gaps)
    more = "more" if mean >= 0.0 else "less"
    in_race = f"{abs(mean):.2g} {more} per person in the race than in these, on average."
    return f" The winners had {in_race}"


def _learners(names: Sequence[str]) -> str:
    return f"The learner{'s' if len(names) > 1 else ''} {listed(names)}"
