"""What to look at in each figure, for readers who do not work with privacy or bandits."""

from __future__ import annotations

from discreet.action_space import DecisionSets, arm_count
from discreet.experiments import BEST_FIXED, ORACLE, REFERENCES
from discreet.problems.decision_sets import DoseProblem
from discreet.problems.functions import FunctionProblem
from discreet.reporting.maps import cut_note, map_panels, named_arms
from discreet.reporting.plots import outside
from discreet.reporting.reward_maps import expects_rewards, line_report, on_a_line
from discreet.reporting.summary import UNIFORM, Summary
from discreet.studies import Study

# References that may lie above the chart.
_BEYOND = {
    UNIFORM: "uniform choice",
    BEST_FIXED: "the best single choice",
    ORACLE: "the oracle, which is fitted to chance where few people share a context,",
}


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
    return f"{text} {_outside(summary)}{_band(summary, 'bands')}"


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
    return f"{text} {_outside(summary)}{_band(summary, 'bars')}"


def maps(study: Study, summary: Summary) -> str:
    """Over the maps."""
    domain, report = study.problem.domain, study.report
    if arm_count(study.problem.space) is None:
        return f"{_models(study, summary)} {cut_note(domain, report)}".rstrip()
    shown = [line.learner for line in summary.lines if line.learner not in (UNIFORM, *REFERENCES)]
    expecting = {name for name in shown if on_a_line(study.problem) and expects_rewards(name)}
    text = f"Who is given what after {summary.rounds:,} people (replicate 0). "
    if expecting:
        text += f"{_rewards(study)} {cut_note(domain, line_report(study.problem, report))}".rstrip()
    if expecting and set(shown) - expecting:
        text += " The maps of the other learners show the arms alone. "
    if set(shown) - expecting:
        text += f"{_arms(study)} {cut_note(domain, report)}".rstrip()
    if summary.private:
        if set(shown) - expecting:
            text += " With more noise fewer and larger groups can be told apart."
        text += " But for the line of what was best, the" if expecting else " The"
        text += (
            " maps of private learners are drawn from what they publish, so the promise below "
            "covers them."
        )
    return text


def _rewards(study: Study) -> str:
    """Under maps of the rewards of arms on a line."""
    text = (
        "The colour is the reward that is expected of an arm in a context, on one scale for all "
        "maps. The line joins the arms that are expected to be best; dots show what people are "
        "given, the larger the more often."
    )
    if study.problem.metric == "regret":
        return f"{text} The other line is truly best, which only a simulation knows."
    return (
        f"{text} The other line was best in hindsight for the people of this table, where there "
        "are at least 20 of a kind."
    )


def _arms(study: Study) -> str:
    """Under maps of the arms alone."""
    single = len(map_panels(study.problem.domain, study.report)[0].axes) == 1
    if single:
        text = (
            "At each place the heights of the colours are the probabilities of the arms; white "
            "lines separate groups of people that the learner treats alike."
        )
    else:
        text = (
            "Each rectangle is a group of people that the learner treats alike. Its colour is the "
            "arm they are given most often, and the stronger the colour, the more often. Dots are "
            "the arms that are not ruled out there, where there is room: an arm is ruled out only "
            "when it is clearly behind, so one that is hardly ever chosen keeps its dot."
        )
    if len(named_arms(study.problem)) < study.problem.arms:
        text += " Of the arms only some are named: colours in between belong to arms in between."
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
    """The figures' numbers in words, for readers who cannot see them."""
    items = [f"{line.label}: {line.mean / summary.rounds:.3g}" for line in summary.lines]
    return f"Final {summary.metric} per person: {'; '.join(items)}."


def _outside(summary: Summary) -> str:
    names = [_BEYOND[line.learner] for line in outside(summary)]
    if not names:
        return ""
    text = " and ".join(names)
    verb = (
        "lie above the chart; their values stand"
        if len(names) > 1
        else ("lies above the chart; its value stands")
    )
    return f"{text[0].upper()}{text[1:]} {verb} beside it. "


def _band(summary: Summary, what: str) -> str:
    if all(line.half_width is None for line in summary.lines):
        return f"There is one replicate, so no {what} show how far chance reaches."
    subject = "Bands" if what == "bands" else "Bars"
    return (
        f"{subject}: 95% intervals of the mean over replicates (Student's t), as ± in the table; "
        "they go on where the border cuts them off."
    )
