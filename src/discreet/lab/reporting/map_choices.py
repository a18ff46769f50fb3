"""The maps of a report by the columns that they show, for a reader who chooses among them.

First come the columns that the study's `[report]` asks for; then the others, as long as there are
not too many figures. All choices cut through the same policies at the same places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from discreet.lab.experiments import UNIFORM, Outcome
from discreet.lab.reporting.cuts import cut_note, cuts, first_column
from discreet.lab.reporting.layout import WIDE
from discreet.lab.reporting.maps import PolicyMaps, named_arms, policy_maps, same_once
from discreet.lab.reporting.numbers import listed
from discreet.lab.reporting.page import Image, image, small_image
from discreet.lab.reporting.summary import Summary
from discreet.lab.studies import Study
from discreet.people.domain import DecisionSets, arm_count

_HALF = 4.5  # inches: two maps beside each other
_MOST = 16  # figures of further columns: a few seconds and megabytes


@dataclass(frozen=True)
class Choice:
    """The maps over some columns.

    Attributes:
        name: of the columns.
        maps: of each policy, with its figure; policies that do the same share one.
        pairs: whether figures stand beside each other where there is room.
        shown: what the maps show, as far as the words around them depend on it.
    """

    name: str
    maps: list[tuple[PolicyMaps, Image]]
    pairs: bool
    shown: dict[str, Any]


def map_choices(study: Study, outcomes: Sequence[Outcome], summary: Summary) -> list[Choice]:
    """The maps of the last policies of replicate 0, by columns; none where no policy has a map."""
    policies = _policies(outcomes, summary)
    first = same_once(policy_maps(study, policies))
    if not first:
        return []
    pairs = all(len(drawn.maps) == 1 for drawn in first)
    wide = _HALF if pairs else WIDE
    drawn = [(maps, image(maps.figure, wide)) for maps in first]
    choices = [Choice(_name(first), drawn, pairs, _shown(study, first))]
    for other in _others(study, first, _MOST // len(first)):
        maps = same_once(policy_maps(other, policies))
        small = [(each, small_image(each.figure)) for each in maps]
        choices.append(Choice(_name(maps), small, True, _shown(other, maps)))
    return choices


def maps_of(study: Study, outcomes: Sequence[Outcome], summary: Summary) -> list[PolicyMaps]:
    """The maps of the last policies of replicate 0 over the columns that the study asks for."""
    return policy_maps(study, _policies(outcomes, summary))


def _policies(outcomes: Sequence[Outcome], summary: Summary) -> Mapping[str, object]:
    """The last policies of replicate 0 by label, in the order of the table.

    Choosing at random has no map.
    """
    last = {
        outcome.setting.label: outcome.policy
        for outcome in outcomes
        if outcome.policy is not None and outcome.setting.learner != UNIFORM
    }
    order = [line.label for line in (*summary.private, *summary.references)]
    return {label: last[label] for label in order if label in last}


def _others(study: Study, first: Sequence[PolicyMaps], most: int) -> Iterator[Study]:
    """The study with other columns on its maps, as many at a time as on the first."""
    names = study.problem.domain.names
    count = max(len(maps.columns) for maps in first)
    shown = next(set(maps.columns) for maps in first if len(maps.columns) == count)
    rest = [columns for columns in combinations(names, count) if set(columns) != shown]
    for columns in rest[:most]:
        yield replace(study, report=replace(study.report, axes=list(columns)))


def _name(maps: Sequence[PolicyMaps]) -> str:
    """The columns of the maps that show most of them."""
    return listed(max((drawn.columns for drawn in maps), key=len))


def _shown(study: Study, maps: Sequence[PolicyMaps]) -> dict[str, Any]:
    """What the maps show, as far as the words around them depend on it."""
    problem, report = study.problem, study.report
    panels = cuts(problem.domain, report)
    middle = problem.domain.from_unit(panels[0].point[None])
    return {
        "points": arm_count(problem.space) is None,
        "flat": len(panels[0].axes) == 1,
        "own_sets": problem.decision_sets(middle) is not None and 0 in panels[0].axes,
        "others_sets": isinstance(problem.space, DecisionSets),
        "truth": problem.truth(middle) is not None,
        "kinds": {drawn.kind for drawn in maps},
        "some_named": len(named_arms(problem)) < problem.arms,
        "cut": cut_note(problem.domain, report),
        "line_cut": cut_note(problem.domain, first_column(problem.domain, report)),
    }
