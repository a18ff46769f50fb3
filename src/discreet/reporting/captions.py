"""What to look at in each figure, for readers who do not work with privacy or bandits."""

from __future__ import annotations

from discreet.action_space import DecisionSets, arm_count
from discreet.problems.decision_sets import DoseProblem
from discreet.problems.functions import FunctionProblem
from discreet.reporting.maps import map_panels, named_arms
from discreet.reporting.summary import UNIFORM, Summary
from discreet.studies import Study


def progress(summary: Summary) -> str:
    """Under the curves."""
    text = "Each line is one learner as more and more people are served. "
    if summary.metric == "reward":
        text += (
            "Higher is better: a line that rises has begun to learn, and the sooner it rises the "
            "fewer people are needed."
        )
    else:
        text += (
            "Regret is what was lost against the best choice for each person, so lower is better, "
            "and a line that turns flat has learnt what there is to learn."
        )
    if summary.private:
        text += " Less epsilon means more noise, and learning later."
    return f"{text} {_band(summary, 'bands')}"


def tradeoff(summary: Summary) -> str:
    """Under the metric against epsilon."""
    better = "higher" if summary.metric == "reward" else "lower"
    text = (
        "What each privacy budget costs: points further left promise more to each person. "
        f"{better.capitalize()} is better."
    )
    if summary.references:
        text += " The horizontal lines have no privacy budget"
        uniform = any(line.learner == UNIFORM for line in summary.references)
        text += "; uniform is the level of choosing at random." if uniform else "."
    return f"{text} {_band(summary, 'bars')}"


def maps(study: Study, summary: Summary) -> str:
    """Under the maps."""
    if arm_count(study.problem.space) is None:
        return _models(study, summary)
    single = len(map_panels(study.problem.domain, study.report)[0].axes) == 1
    text = f"Who is given what after {summary.rounds:,} people (replicate 0). "
    if single:
        text += (
            "At each place the heights of the colours are the probabilities of the arms; white "
            "lines separate groups of people that the learner treats alike."
        )
    else:
        text += (
            "Each rectangle is a group of people that the learner treats alike. Its colour is the "
            "arm they are given most often, and the stronger the colour, the more often. Dots are "
            "the arms that are not ruled out there, where there is room: an arm is ruled out only "
            "when it is clearly behind, so one that is hardly ever chosen keeps its dot."
        )
    if len(named_arms(study.problem)) < study.problem.arms:
        text += " Of the arms only some are named: colours in between belong to arms in between."
    if summary.private:
        text += (
            " With more noise fewer and larger groups can be told apart. The maps of private "
            "learners are drawn from what they publish, so the promise below covers them."
        )
    return text


def _models(study: Study, summary: Summary) -> str:
    """Under the maps of kernel learners."""
    problem = study.problem
    axes = map_panels(problem.domain, study.report)[0].axes
    single = len(axes) == 1
    text = f"What is expected after {summary.rounds:,} people (replicate 0). "
    if single:
        text += "The line is the expected reward, the band one standard deviation around it."
    else:
        text += (
            "The colour is the expected reward, on one scale for all maps; a pointed end of the "
            "scale stands for values beyond what a reward can be. White lines say how far the "
            "expected reward may be off (one standard deviation)."
        )
    if isinstance(problem, DoseProblem) and 0 in axes:
        best = "Star" if single else "White curve"
        text += (
            f" Dots: what some patients of this kind are given. {best}: the best of their doses, "
            "which only a simulation knows."
        )
    elif isinstance(problem.space, DecisionSets):
        text += " Where nobody's points lie, or where few are chosen, the map stays unsure."
    else:
        text += " Dots: where people are sent, the larger the more of them."
        if isinstance(problem, FunctionProblem):
            text += " Star: a true optimum, which only a simulation knows."
    if summary.private:
        text += (
            " The maps of private learners are drawn from what they publish, so the promise "
            "below covers them."
        )
    return text


def values(summary: Summary) -> str:
    """The figures' numbers in words, for who cannot see them."""
    items = [f"{line.label}: {line.mean / summary.rounds:.3g}" for line in summary.lines]
    return f"Final {summary.metric} per person: {'; '.join(items)}."


def _band(summary: Summary, what: str) -> str:
    if all(line.standard_error is None for line in summary.lines):
        return f"There is one replicate, so no {what} show how far chance reaches."
    subject = "Bands" if what == "bands" else "Bars"
    return f"{subject}: mean ± 1.96 standard errors over replicates."
