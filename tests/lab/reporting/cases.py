"""Outcomes made by hand, and small studies that really ran."""

from __future__ import annotations

import re
from html import unescape
from itertools import combinations
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

from discreet.lab.environments.base import Metric
from discreet.lab.experiments import Outcome, Setting, simulate_all
from discreet.lab.reporting.provenance import Provenance
from discreet.lab.studies import Study, load_study
from discreet.learners.base import LOCAL_RECORD
from discreet.privacy import Budget, Guarantee, Local, NonPrivate
from discreet.records import RunRecord

ROUNDS = 100
ORIGIN = Provenance(
    "2026-01-02 03:04:05 UTC", "study", "ab12", (("people.csv", "cd34"),), True, ("partition",), 1,
    "discreet 0.1.0",
)  # fmt: skip
_RUN: dict[tuple[object, ...], list[Outcome]] = {}
SIMULATED = "SimulatedNoise (NumPy, for simulation only)"


def setting(learner: str, epsilon: float | None = None, label: str | None = None) -> Setting:
    """A setting labelled as a study file labels it."""
    budget: Budget = NonPrivate() if epsilon is None else Local(epsilon)
    suffix = "" if epsilon is None else f", epsilon {epsilon:g}"
    if epsilon is None and learner == "partition":
        suffix = " (non-private)"
    return Setting(learner, (label or learner) + suffix, budget)


def promised(epsilon: float, noise: str = SIMULATED) -> Guarantee:
    """What a local learner promises."""
    return Guarantee("local", epsilon, 0.0, LOCAL_RECORD, ("the bin",), (noise,), 1, 5)


def outcome(
    ran: Setting,
    value: float,
    replicate: int = 0,
    metric: Metric = "reward",
    noise: str = SIMULATED,
) -> Outcome:
    """One replicate that reached `value` along a straight line."""
    at = np.arange(1, ROUNDS + 1)
    guarantee = promised(ran.budget.epsilon, noise) if ran.private else None
    record = RunRecord(
        study="study",
        learner=ran.learner,
        trust_model=ran.budget.trust_model,
        epsilon=ran.budget.epsilon if ran.private else None,
        delta=ran.budget.delta if ran.private else None,
        replicate=replicate,
        rounds=ROUNDS,
        metric=metric,
        value=value,
        seconds=2.0,
        label=ran.label,
        seed=1,
    )
    return Outcome(ran, record, at, value * at / ROUNDS, guarantee)


LEARNERS = """
[[learners]]
name = "partition"
epsilon = [1.0, 4.0]
non_private = true

[[learners]]
name = "uniform"

[[learners]]
name = "best_fixed"
"""

TABLE = """
[problem]
name = "table"
path = "people.csv"
columns = [
  {name = "age", lower = 20, upper = 60},
  {name = "cost ($) now ($)", lower = 0, upper = 10, levels = 11},
  {name = "sex", values = ["f", "m"]},
]
rewards = {columns = ["$1_{", "$2"], lower = 0, upper = 5}
"""


def run_study(
    folder: Path,
    problem: str,
    learners: str = LEARNERS,
    report: str = "",
    title: str = "A study",
    replicates: int = 2,
) -> tuple[Study, list[Outcome]]:
    """Write a study file and run it with 300 people; what ran before is not run again."""
    path = folder / "study.toml"
    head = f"name = 'small'\ntitle = '{title}'\nrounds = 300\nreplicates = {replicates}\nseed = 3\n"
    path.write_text(head + problem + learners + report)
    study = load_study(path)
    table = folder / "people.csv"
    key = (problem, learners, replicates, table.read_text() if table.exists() else "")
    if key not in _RUN:
        arguments = (study.problem, study.settings, study.rounds, study.replicates, study.seed)
        _RUN[key] = list(simulate_all(*arguments))
    return study, list(_RUN[key])


def exponential(dimension: int) -> str:
    """A synthetic problem, whose metric is regret."""
    return f"[problem]\nname = 'exponential'\ndimension = {dimension}\n"


def write_table(folder: Path) -> None:
    """300 people for `TABLE`: three columns, two arms, rewards known only as drawn."""
    rng = np.random.default_rng(5)
    age, cost, sex = rng.uniform(20, 60, 300), rng.integers(0, 11, 300), rng.integers(0, 2, 300)
    better = (age < 40) == (sex == 0)
    rows = ["age,cost ($) now ($),sex,$1_{,$2"] + [
        f"{a:.2f},{c},{'fm'[s]},{5 * b:d},{5 * (not b):d}"
        for a, c, s, b in zip(age, cost, sex, better, strict=True)
    ]
    (folder / "people.csv").write_text("\n".join(rows))


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Texts of a figure that lie on each other, or reach beyond its borders."""
    figure.canvas.draw()
    hidden = {
        label
        for axes in figure.axes
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim()))
        for at, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
        if not min(low, high) <= at <= max(low, high)
    }
    boxes = [
        # Not the leader that the name of a line has.
        (artist.get_text(), Text.get_window_extent(artist))
        for artist in figure.findobj(Text)
        if isinstance(artist, Text) and artist not in hidden and artist.get_text().strip()
        if artist.get_visible()
    ]
    page = figure.bbox
    beyond = [
        (text, "the border")
        for text, box in boxes
        if box.x0 < page.x0 - 1.0
        or box.x1 > page.x1 + 1.0
        or box.y0 < page.y0 - 1.0
        or box.y1 > page.y1 + 1.0
    ]
    collisions = [
        (text, other)
        for (text, box), (other, beside) in combinations(boxes, 2)
        if box.x0 < beside.x1 - 1.0
        and beside.x0 < box.x1 - 1.0
        and box.y0 < beside.y1 - 1.0
        and beside.y0 < box.y1 - 1.0
    ]
    return beyond + collisions


def words_of(page: str) -> str:
    """What a reader of a page sees, in one line."""
    text = unescape(re.sub(r"<[^>]+>", " ", page)).replace("\u00a0", " ")
    return " ".join(text.split())


def lines_of(page: str) -> str:
    """The words of a page, a line for each of its blocks."""
    page = re.sub(
        r"(?s)<(style|script|footer)\b.*?</\1>|<details class=.raw.*?</details>", "", page
    )
    page = re.sub(r"</t[dh]><t[dh][^>]*>", " | ", page)
    page = re.sub(r'<img[^>]*?alt="([^"]*)"[^>]*>', r"[\1]", page)
    page = re.sub(
        r"<(?!/?(?:p|li|h\d|tr|dt|pre|summary|figcaption|br|title|div|footer)\b)[^>]+>", "", page
    )
    page = re.sub(r"(?<=</dt>)|\s*\n\s*(?=[^<])", " ", page)
    text = unescape(re.sub(r"<[^>]+>", "\n", page)).replace("\u00a0", " ")
    return "\n".join(line for part in text.splitlines() if (line := " ".join(part.split())))
