"""Tables and figures of searches and attacks of Kharkovskii et al. (2020).

All take the frames of `PaperResults`. Methods without a guarantee never share a colour with methods
that have one; references are grey.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Group
from rich.table import Table

from discreet.lab.reporting.figures import Axis, lines
from discreet.lab.reporting.layout import (
    BLUE,
    GREEN,
    PURPLE,
    SOLID,
    VERMILLION,
    Dashes,
    Stroke,
    tint,
)
from discreet.lab.reporting.numbers import ABSENT
from discreet.lab.reporting.words import terminal_table
from discreet.papers.kharkovskii2020.published import LIKELIHOOD_RATIO, RECONSTRUCTION
from discreet.papers.kharkovskii2020.searches import (
    ABOVE,
    NON_PRIVATE_EI,
    OURS_UCB,
    RANDOM,
    RAW_REGRET,
    REGRET,
    power,
)
from discreet.papers.report import (
    Cell,
    Presentation,
    Row,
    held,
    printed,
    promised,
    rows_of,
    sections,
    trials_of,
)
from discreet.papers.reproduction import NON_PRIVATE, OURS, PaperResults

_GREY, _DARK = "#8A8A8A", "#3A3A3A"
_REFERENCES = {
    NON_PRIVATE: Stroke(_DARK, (0, (5, 2)), 1.3),
    NON_PRIVATE_EI: Stroke(_DARK, (0, (5, 2, 1, 2)), 1.3),
    RANDOM: Stroke(_GREY, (0, (1, 1.5)), 1.5),
}
_OURS = {OURS: BLUE, OURS_UCB: GREEN}
_BRANCHES = {"if": PURPLE, "else": VERMILLION}
# Marks go with hues, for readers who cannot distinguish hues.
_MARKS = {"if": "D", "else": "^"}
# Regret below this share of the largest is at the bottom of a logarithmic axis.
_LEAST_SHARE = 3e-3
# A terminal has 80 columns.
_SHORT = {LIKELIHOOD_RATIO: "likelihood", RECONSTRUCTION: "known rows"}


def search_table(what: Any, results: PaperResults) -> Group:
    """One row for each method under a heading for its table or figure, and what it searches."""
    ends = results.ends
    rows = rows_of(ends[ends["metric"] == REGRET])
    first: dict[str, str] = {}
    for row in rows:
        first.setdefault(row["dataset"], row["panel"])

    def heading(row: Row) -> str:
        about = f"\n{row['data'].source}" if first[row["dataset"]] == row["panel"] else ""
        return f"{row['panel']}, {row['rounds']} questions{about}"

    headed = [(heading(row), row) for row in rows]
    return sections(_columns(ends), headed, collapse_padding=True)


def _columns(ends: pd.DataFrame) -> dict[str, Cell]:
    """What is written under each heading; columns that would be empty are left out."""
    columns: dict[str, Cell] = {"method": lambda row: row["label"]}
    # A terminal has 80 columns: figures do without r, which is the same in all of them.
    figure = _of_figure(ends)
    if not figure:
        columns["r"] = lambda row: ABSENT if row["r"] is None else f"{row['r']:g}"
    columns["epsilon\npromised"] = promised
    columns["epsilon\nheld"] = held
    columns["regret"] = lambda row: _number(row["mean"])
    columns["±"] = lambda row: _number(row["standard_error"])
    if (ends["sigma_y"] != 1.0).any() and not figure:
        columns["own\nunit"] = lambda row: _number(row["sigma_y"] * row["mean"])
    if figure:
        above = ends[ends["metric"] == ABOVE].set_index("case")
        columns["above non-\nprivate"] = lambda row: _number(above["mean"].get(row["case"]))
        columns["± "] = lambda row: _number(above["standard_error"].get(row["case"]))
    beside = ends.dropna(subset="paper").groupby("case")
    papers = {case: rows_of(rows) for case, rows in beside}
    if papers:
        columns["paper"] = lambda row: _paper(papers.get(row["case"], ()))
    if not figure:
        columns["s"] = lambda row: f"{row['seconds']:.2f}"
    return columns


def search_note(what: Any, results: PaperResults) -> str:
    """The meaning of the columns."""
    ends = results.ends
    runs = trials_of(ends[ends["metric"] == REGRET], "run")
    words = [
        f"Regret: simple regret in units of sigma_y, mean of {runs}, ± its standard error.",
        "Above non-private: how much more it is than that of GP-UCB on the rows, run by run."
        if _of_figure(ends)
        else "Own unit: the same in the unit of the outcome. s: seconds of one search.",
        "Epsilon held: what the noise guarantees at the delta asked for; none: no epsilon at all. "
        "(if), (else): the branch of Algorithm 1 that was taken. EI: expected improvement.",
    ]
    return " ".join(words)


def _paper(rows: Sequence[Row]) -> str:
    """The paper's number, which agrees if it does so in one of the units it may have."""
    if not rows:
        return ABSENT
    verdicts = [row["agrees"] for row in rows]
    agrees = True if True in verdicts else verdicts[0]
    return printed({**rows[0], "agrees": agrees}, ".3f")


def _of_figure(ends: pd.DataFrame) -> bool:
    return "figure" in ends


def _number(value: float | None) -> str:
    """Three decimals, as in the paper."""
    return ABSENT if value is None or not np.isfinite(value) else f"{value:.3f}"


def questions_figure(what: Any, results: PaperResults, log_scale: bool = True) -> Figure:
    """Simple regret in units of sigma_y over questions: a row for each data set.

    Published methods are on the left and ours on the right, references on both sides; both share
    the vertical axis.
    """
    ends = results.ends.drop_duplicates("case").set_index("case")
    curves = results.curves.assign(branch=results.curves["case"].map(ends["branch"]))
    sides = []
    for name, group in curves.groupby("panel", sort=False):
        if log_scale:
            group = group.assign(mean=group["mean"].clip(lower=_LEAST_SHARE * group["mean"].max()))
        ours = group["method"].isin(list(_OURS))
        published = group["branch"].notna()
        for hidden, title in (
            (ours, f"{name}, published (no guarantee)"),
            (published, f"{name}, ours (epsilon held)"),
        ):
            sides.append(group[~hidden].assign(panel=title))
    frame = pd.concat(sides)
    epsilons = frame["epsilon"].map(_epsilon)
    frame = frame.assign(
        name=frame["case"].map(str), x=frame["at"], label=frame["label"] + epsilons
    )
    # References have no band, which would hide the others.
    frame = frame.assign(half_width=frame["half_width"].where(frame["epsilon"].notna(), 0.0))
    return lines(
        frame,
        _strokes(frame.drop_duplicates("case")),
        x=Axis("questions", whole=True),
        y=Axis("simple regret / sigma_y", log=log_scale),
        height=1.75,
        columns=2,
        same="row",
        note=f"mean of {trials_of(frame, 'run')}; bands: 95% intervals",
    )


def _epsilon(epsilon: float | None) -> str:
    return "" if epsilon is None or math.isnan(epsilon) else f", {power(epsilon)}"


def _strokes(cases: pd.DataFrame) -> dict[str, Stroke]:
    """By name: hues by method, darker for a larger epsilon; references are grey."""
    strokes = {}
    for row in rows_of(cases):
        if row["epsilon"] is None:
            strokes[row["name"]] = _REFERENCES[row["method"]]
            continue
        alike = cases[(cases["method"] == row["method"]) & (cases["panel"] == row["panel"])]
        larger = int((alike["epsilon"] > row["epsilon"]).sum())
        hue = _hue(row)
        dashes: Dashes = (0, (4, 1)) if hue in (PURPLE, GREEN) else SOLID
        strokes[row["name"]] = Stroke(tint(hue, max(1.0 - 0.3 * larger, 0.35)), dashes)
    return strokes


def _hue(row: Mapping[str, Any]) -> str:
    """The colour of a method; published ones have one for each branch of Algorithm 1."""
    return _OURS.get(row["method"]) or _BRANCHES[row["branch"]]


def columns_figure(what: Any, results: PaperResults, log_scale: bool = True) -> Figure:
    """Simple regret in the outcome's unit by the columns of the published release, r.

    A panel for each table of the paper; methods without r are horizontal lines.
    """
    ends = results.ends[results.ends["metric"] == RAW_REGRET]
    names = [row["label"] for row in rows_of(ends)]
    frame = ends.assign(
        x=ends["r"].astype(float),
        name=names,
        panel=[_short(panel) for panel in ends["panel"]],
        half_width=ends["half_width"].where(ends["epsilon"].notna(), 0.0),
    )
    if log_scale:
        largest = frame.groupby("panel")["mean"].transform("max")
        frame = frame.assign(mean=frame["mean"].clip(lower=_LEAST_SHARE * largest))
        frame = frame.assign(paper=frame["paper"].clip(lower=_LEAST_SHARE * largest))
    strokes = {}
    for row in rows_of(frame.drop_duplicates("name")):
        if row["epsilon"] is None:
            strokes[row["name"]] = _REFERENCES[row["method"]]
        else:
            mark = _MARKS.get(row["branch"], "")
            strokes[row["name"]] = Stroke(_hue(row), width=1.5, mark=mark)
    crosses = "; crosses: printed in the paper" if frame["paper"].notna().any() else ""
    return lines(
        frame,
        strokes,
        x=Axis("columns of the published release, r", whole=True),
        y=Axis("simple regret", log=log_scale),
        intervals="bars",
        height=1.75,
        same="row",
        note=f"mean of {trials_of(frame, 'run')}; bars: 95% intervals{crosses}",
    )


def _short(group: str) -> str:
    """A heading that fits over a third of the width."""
    return group.replace("Not in the paper: ", "").replace("epsilon ", "")


def attack_table(what: Any, results: PaperResults) -> Table:
    """One row for each attack: what is promised, what is held, and what the attack proves."""
    table = terminal_table(
        (
            *("release", "attack", "epsilon\nclaimed", "epsilon\nheld", "epsilon\nproved"),
            *("right\non X", "wrong\non X'", "largest\nerror"),
        ),
        left=("release", "attack"),
        collapse_padding=True,
    )
    for row in rows_of(results.ends):
        branch = f" ({row['branch']})" if row["branch"] else ""
        proved = [f"{row['mean']:.2f}"]
        proved += [f"{row[f'{kind}_positive_rate'] or 0.0:.3f}" for kind in ("true", "false")]
        by_rows = row["attack"] == RECONSTRUCTION
        table.add_row(
            row["release"] + branch,
            _SHORT.get(row["attack"], row["attack"]),
            promised(row),
            held(row),
            *([ABSENT] * 3 if by_rows else proved),
            f"{row['mean']:.1e}" if by_rows else ABSENT,
        )
    return table


def attack_note(what: Any, results: PaperResults) -> str:
    """What the columns mean."""
    trials = results.ends.loc[results.ends["attack"] != RECONSTRUCTION, "trials"]
    releases = f" of {max(trials):,} releases" if len(trials) else ""
    return (
        f"Right on X, wrong on X': the share{releases} of each of two neighbouring tables for "
        "which the adversary says X. Epsilon proved: what epsilon is at least, by these counts, "
        "with 95% confidence. Subspace: how far the release lies from the columns of either table. "
        "Likelihood: the best possible test against Gaussian noise. Known rows: all rows "
        "reconstructed from d + 1 of them. (if), (else): the branch of Algorithm 1."
    )


FORMS = {
    "columns": Presentation(search_table, search_note, columns_figure),
    "questions": Presentation(search_table, search_note, questions_figure),
    "attacks": Presentation(attack_table, attack_note),
}
