"""The report of a study: one HTML file (page.py) that anybody can open."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discreet.action_space import DecisionSets, arm_count
from discreet.experiments import REFERENCES, UNIFORM, Outcome
from discreet.problems.base import Problem
from discreet.records import check_path
from discreet.reporting.cuts import cut_note, cuts, first_column
from discreet.reporting.layout import NARROW, WIDE
from discreet.reporting.maps import ArmMap, PolicyMaps, RewardMap, named_arms, policy_maps
from discreet.reporting.page import Image, image, render, write_page
from discreet.reporting.study_figures import epsilon_figure, outside, progress_figure
from discreet.reporting.summary import Summary, summarise, with_best_fixed
from discreet.reporting.table import ABSENT, has_best_fixed, table_note, table_rows
from discreet.reporting.words import listed, promise, protection, verdict
from discreet.studies import Study

_HALF = 4.5  # inches: two maps beside each other


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
    maps = _maps(study, outcomes, summary)
    pairs = all(len(drawn.maps) == 1 for drawn in maps)
    return render(
        "study.html.j2",
        study=study,
        summary=summary,
        verdict=verdict(summary, study.problem),
        rows_used=rows_used(study.problem),
        finished=finished,
        overridden=_overridden(study),
        rows=table_rows(summary),
        compared=has_best_fixed(summary),
        absent=ABSENT,
        note=table_note(summary),
        promise=promise(summary),
        protection=protection(summary, study.problem.space),
        outside=outside(summary),
        single_replicate=all(line.half_width is None for line in summary.lines),
        progress=image(
            progress_figure(outcomes, summary, WIDE),
            progress_figure(outcomes, summary, NARROW),
            f"Line chart of the {summary.metric} as people are served. {_values(summary)}",
        ),
        tradeoff=_tradeoff(summary),
        maps=[_map_image(study, drawn, _HALF if pairs else WIDE) for drawn in maps],
        shown=_shown(study, maps),
        maps_in_pairs=pairs,
        columns=_columns(study),
        glossary=_glossary(summary),
    )


def rows_used(problem: Problem) -> str:
    """How many rows of a table take part and what the others lack; empty where all of them do."""
    rows = problem.rows
    return "" if rows is None or rows.used == rows.read else rows.sentence


def _tradeoff(summary: Summary) -> Image | None:
    if not summary.private:
        return None
    return image(
        epsilon_figure(summary, WIDE),
        epsilon_figure(summary, NARROW),
        f"Chart of the {summary.metric} against epsilon. {_values(summary)}",
    )


def _values(summary: Summary) -> str:
    """The figures' numbers in words, for readers who cannot see them."""
    items = [f"{line.label}: {line.mean / summary.rounds:.3g}" for line in summary.lines]
    return f"Final {summary.metric} per person: {'; '.join(items)}."


def _maps(study: Study, outcomes: Sequence[Outcome], summary: Summary) -> list[PolicyMaps]:
    """The maps of the last policies of replicate 0, in the order of the table.

    Choosing at random has none.
    """
    last = {
        outcome.setting.label: outcome.policy
        for outcome in outcomes
        if outcome.policy is not None and outcome.setting.learner != UNIFORM
    }
    order = [line.label for line in (*summary.private, *summary.references)]
    return policy_maps(study, {label: last[label] for label in order if label in last})


def _map_image(study: Study, drawn: PolicyMaps, width: float) -> Image:
    domain = study.problem.domain
    columns = " and ".join(domain.names[axis] for axis in drawn.maps[0].cut.axes)
    alt = {
        ArmMap: f"Map over {columns} of the arm that {drawn.label} gives to whom.",
        RewardMap: f"Map over {columns} and arms of the reward that {drawn.label} expects.",
    }.get(type(drawn.maps[0]), f"Map over {columns} of the reward that {drawn.label} expects.")
    return image(drawn.figure(width), drawn.figure(NARROW), alt)


def _shown(study: Study, maps: Sequence[PolicyMaps]) -> dict[str, Any]:
    """What the maps show, as far as the words below them depend on it."""
    problem, report = study.problem, study.report
    panels = cuts(problem.domain, report)
    middle = problem.domain.from_unit(panels[0].point[None])
    own_sets = problem.decision_sets(middle) is not None
    return {
        "points": arm_count(problem.space) is None,
        "flat": len(panels[0].axes) == 1,
        "own_sets": own_sets and 0 in panels[0].axes,
        "others_sets": isinstance(problem.space, DecisionSets),
        "truth": problem.truth(middle) is not None,
        "expecting": any(isinstance(drawn.maps[0], RewardMap) for drawn in maps),
        "arms": any(isinstance(drawn.maps[0], ArmMap) for drawn in maps),
        "some_named": len(named_arms(problem)) < problem.arms,
        "cut": cut_note(problem.domain, report),
        "line_cut": cut_note(problem.domain, first_column(problem.domain, report)),
    }


def _overridden(study: Study) -> str:
    """Says where the run was asked for something other than its file says."""
    file = tomllib.loads(study.text)
    asked = [
        f"{name} = {used:,} instead of {file[name]:,}"
        for name, used in (("rounds", study.rounds), ("replicates", study.replicates))
        if file.get(name, used) != used
    ]
    return f"This run had {listed(asked)}." if asked else ""


def _columns(study: Study) -> list[dict[str, str]]:
    """The declared columns, their bounds and values."""
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
    known = {UNIFORM: "every choice equally likely for everyone, whatever came of it", **REFERENCES}
    return [(line.label, known[line.learner]) for line in summary.lines if line.learner in known]
