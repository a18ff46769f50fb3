"""The report of a study: one HTML file (page.py) that anybody can open."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.action_space import arm_count
from discreet.experiments import REFERENCES, Outcome, people_of
from discreet.learners.epochs.policy import EpochPolicy
from discreet.learners.messages import ArmPolicy
from discreet.privacy import Adjacency, Guarantee
from discreet.problems.base import Problem
from discreet.records import check_path
from discreet.reporting import captions
from discreet.reporting.maps import map_figure, map_panels
from discreet.reporting.model_maps import model_figure, model_map, predictor, shared_scale
from discreet.reporting.page import Image, image, render, unbroken, write_page
from discreet.reporting.plots import NARROW, WIDE, epsilon_figure, progress_figure
from discreet.reporting.reward_maps import (
    on_a_line,
    reward_figure,
    reward_map,
    reward_panels,
    reward_scale,
)
from discreet.reporting.summary import UNIFORM, Line, Summary, summarise, with_best_fixed
from discreet.reporting.table import ABSENT, has_best_fixed, listed, promise, table_note, table_rows
from discreet.reporting.words import protection, verdict
from discreet.studies import Study

_HALF = 4.5  # inches: two maps beside each other


@dataclass(frozen=True)
class Certificate:
    """What one private setting promises."""

    label: str
    sentence: str
    facts: tuple[tuple[str, str], ...]
    json: str


def write_report(study: Study, outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the report of a study's outcomes, which may be incomplete.

    The file appears whole or not at all.

    Raises:
        InvalidInput: no outcome, or a folder that does not exist.
    """
    check_path(path)
    write_page(render_report(study, outcomes), path)


def render_report(study: Study, outcomes: Sequence[Outcome]) -> str:
    """The report as HTML."""
    finished = len(outcomes)
    outcomes = with_best_fixed(study, outcomes)
    summary = summarise(outcomes, study.settings)
    found = verdict(summary, study.problem)
    return render(
        "report.html.j2",
        study=study,
        summary=summary,
        headline=unbroken(found.headline),
        findings=[unbroken(text) for text in found.findings],
        basis=found.basis,
        rows_used=rows_used(study.problem),
        missing=_missing(study, finished),
        overridden=_overridden(study),
        rows=table_rows(summary),
        compared=has_best_fixed(summary),
        absent=ABSENT,
        note=table_note(summary),
        promise=unbroken(promise(summary)),
        protection=protection(summary, study.problem.space),
        progress=_progress(outcomes, summary),
        progress_caption=captions.progress(summary),
        tradeoff=_tradeoff(summary),
        tradeoff_caption=captions.tradeoff(summary),
        maps=_maps(study, outcomes, summary),
        maps_caption=captions.maps(study, summary),
        maps_in_pairs=_in_pairs(study),
        certificates=[_certificate(a) for a in summary.private if a.guarantee is not None],
        columns=_columns(study),
        glossary=_glossary(summary),
    )


def _in_pairs(study: Study) -> bool:
    """Whether two maps stand beside each other."""
    if arm_count(study.problem.space) is None:
        return True
    panels = [map_panels(study.problem.domain, study.report)]
    if on_a_line(study.problem):
        panels.append(reward_panels(study.problem, study.report))
    return all(len(cuts) == 1 for cuts in panels)


def _progress(outcomes: Sequence[Outcome], summary: Summary) -> Image:
    return image(
        progress_figure(outcomes, summary, WIDE),
        progress_figure(outcomes, summary, NARROW),
        f"Line chart of the {summary.metric} as people are served. {captions.values(summary)}",
    )


def _tradeoff(summary: Summary) -> Image | None:
    if not summary.private:
        return None
    return image(
        epsilon_figure(summary, WIDE, 3.4),
        epsilon_figure(summary, NARROW, 3.4),
        f"Chart of the {summary.metric} against epsilon. {captions.values(summary)}",
    )


def _maps(study: Study, outcomes: Sequence[Outcome], summary: Summary) -> list[Image]:
    """The maps of replicate 0: private learners first; uniform choice has nothing to show."""
    last = {outcome.setting.label: outcome.policy for outcome in outcomes if outcome.policy}
    order = [line for line in [*summary.private, *summary.references] if line.label in last]
    if arm_count(study.problem.space) is None:
        return _model_maps(study, [(line.label, last[line.label]) for line in order])
    wide = _HALF if _in_pairs(study) else WIDE
    expecting = {
        line.label: policy
        for line in order
        if isinstance(policy := last[line.label], EpochPolicy) and on_a_line(study.problem)
    }
    images = _reward_maps(study, expecting, wide)
    for line in order:
        policy = last[line.label]
        if not isinstance(policy, ArmPolicy) or line.learner == UNIFORM:
            continue
        if line.label in expecting:
            continue
        figures = [
            map_figure(policy, study.problem, study.report, line.label, width)
            for width in (wide, NARROW)
        ]
        alt = f"Map over {_shown(study)} of the arm that {line.label} gives to whom."
        images.append(image(figures[0], figures[1], alt))
    return images


def _reward_maps(study: Study, policies: Mapping[str, EpochPolicy], wide: float) -> list[Image]:
    """A map for each policy that expects rewards of arms on a line, all in the same colours."""
    if not policies:
        return []
    panels = reward_panels(study.problem, study.report)
    # What is truly best, or was best in hindsight, is known of the people of replicate 0.
    crowd = people_of(study.problem, study.rounds, study.seed, 0)
    made = {
        label: [reward_map(policy, study.problem, panel, crowd) for panel in panels]
        for label, policy in policies.items()
    }
    scale = reward_scale([one for maps in made.values() for one in maps], study.problem)
    hindsight = study.problem.metric == "reward"
    images = []
    for label, maps in made.items():
        figures = [reward_figure(maps, scale, label, width, hindsight) for width in (wide, NARROW)]
        shown = study.problem.domain.names[panels[0].axes[0]]
        alt = f"Map over {shown} and arms of the reward that {label} expects."
        images.append(image(figures[0], figures[1], alt))
    return images


def _model_maps(study: Study, policies: Sequence[tuple[str, object]]) -> list[Image]:
    """A map for each policy that predicts and each cut, all in the same colours."""
    panels = map_panels(study.problem.domain, study.report)
    made = []
    for label, policy in policies:
        model = predictor(policy)
        if model is not None:
            cuts = [model_map(model, policy, study.problem, panel) for panel in panels]
            made += [(label, cut) for cut in cuts if cut is not None]
    scale = shared_scale([shown for _, shown in made], study.problem) if made else (0.0, 1.0)
    images = []
    for label, shown in made:
        figures = [model_figure(shown, scale, label, width) for width in (_HALF, NARROW)]
        where = f" where {shown.panel.title}" if shown.panel.title else ""
        alt = f"Map over {_shown(study)}{where} of the reward that {label} expects."
        images.append(image(figures[0], figures[1], alt))
    return images


def _shown(study: Study) -> str:
    """The columns of the maps."""
    axes = map_panels(study.problem.domain, study.report)[0].axes
    return " and ".join(study.problem.domain.names[axis] for axis in axes)


def _certificate(line: Line) -> Certificate:
    guarantee = line.guarantee
    assert guarantee is not None
    return Certificate(
        label=line.label,
        sentence=unbroken(guarantee.sentence),
        facts=_facts(line, guarantee),
        json=json.dumps(json.loads(guarantee.to_json()), indent=2),
    )


def _facts(line: Line, guarantee: Guarantee) -> tuple[tuple[str, str], ...]:
    asked = f"{line.epsilon:g} asked for" if line.epsilon is not None else "none asked for"
    trust = {
        "local": "local: privacy is added on each person's side, nobody else need be trusted",
        "joint": "joint: the learner is trusted with the data, what others see is private",
        "outsourced": "outsourced: a curator holds the data and releases a private table",
        "none": "none",
    }
    noun = "participations" if guarantee.trust_model == "joint" else "reports"
    return (
        ("trust model", trust[guarantee.trust_model]),
        ("epsilon", f"{_upward(guarantee.epsilon)} ({asked})"),
        ("delta", _delta(guarantee.delta)),
        ("adjacency", _adjacency(guarantee.adjacency)),
        ("data used", "; ".join(guarantee.data) or "none"),
        (f"{noun} a person", f"{guarantee.reports_per_person}"),
        ("noise source", "; ".join(guarantee.noise) or "none"),
        ("derived from", _derived(guarantee)),
    )


def _derived(guarantee: Guarantee) -> str:
    if guarantee.trust_model == "joint":
        noun = "stream" if guarantee.releases == 1 else "streams"
        return f"{guarantee.releases:,} {noun} of releases, with all that are still to come"
    return f"{guarantee.releases:,} published policies; the promise is the weakest"


def _delta(value: float) -> str:
    return "0: the promise has no exceptions" if value == 0.0 else _upward(value)


def _upward(value: float) -> str:
    """A few digits where they do not understate the value, otherwise all of them."""
    short = f"{value:g}"
    return short if float(short) >= value else repr(value)


def _adjacency(adjacency: Adjacency) -> str:
    reach = "any other" if adjacency.radius is None else f"one within {adjacency.radius:g}"
    return f"{adjacency.relation}: one person's {adjacency.record} is replaced by {reach}"


def _missing(study: Study, finished: int) -> str:
    """Says how much of the study is there, if not all of it is."""
    planned = len(study.settings) * study.replicates
    if finished >= planned:
        return ""
    return (
        f"This run was stopped early: {finished} of {planned} simulations were finished. "
        "Averages are over those that were, so learners may not have met the same people."
    )


def _overridden(study: Study) -> str:
    """Says where the run was asked for something other than its file says."""
    file = tomllib.loads(study.text)
    asked = [
        f"{name} = {used:,} instead of {file[name]:,}"
        for name, used in (("rounds", study.rounds), ("replicates", study.replicates))
        if file.get(name, used) != used
    ]
    return f"This run had {listed(asked)}." if asked else ""


def rows_used(problem: Problem) -> str:
    """How many rows of a table take part and what the others lack; empty where all of them do."""
    rows = getattr(problem, "rows", None)
    return "" if rows is None or rows.used == rows.read else str(rows.sentence)


def _columns(study: Study) -> list[dict[str, Any]]:
    domain = study.problem.domain
    return [
        {
            "name": name,
            "lower": f"{low:g}",
            "upper": f"{high:g}",
            "levels": ", ".join(labels)
            or ("any value" if levels is None else f"{levels} equally spaced values"),
        }
        for name, low, high, levels, labels in zip(
            domain.names,
            domain.lower,
            domain.upper,
            domain.levels,
            domain.categories,
            strict=True,
        )
    ]


def _glossary(summary: Summary) -> list[tuple[str, str]]:
    """What the references of this study are."""
    known = {UNIFORM: "every choice equally likely for everyone, whatever came of it"}
    known |= REFERENCES
    return [(line.label, known[line.learner]) for line in summary.lines if line.learner in known]
