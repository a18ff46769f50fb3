"""Every learner on problems that nobody tuned it for.

    python benchmarks/zoo.py --quick --jobs 2 --out zoo           the whole zoo, scaled down
    python benchmarks/zoo.py --jobs 2 --out zoo                   a night
    python benchmarks/zoo.py --only targets --rows corner waves   rows with a figure to reach

writes `zoo.jsonl` (a row for each run, as they finish), `zoo.png` (a page of maps) and a table on
the terminal; `--show zoo.jsonl` shows what there is of an earlier one. A run with seed s meets the
people of `simulate(problem, setting, people, s, 0)`.

| column         | meaning                                                                       |
|----------------|-------------------------------------------------------------------------------|
| problem ...    | the cell, as `zoo_cells.Cell.facts` has it                                    |
| seed           | of the run                                                                    |
| lost           | regret; where only rewards are known, what the oracle had more                |
| late           | the part of it that the last tenth of the people lost, a person               |
| value          | what the row of a target measures: regret, or the reward where that counts    |
| seconds        | of the run                                                                    |
| refused        | why it could not run                                                          |

**Stuck** is a run whose last tenth of people lost more than .15 of what uniform choice loses
there. **Flags**: `u` for a cell that lost more than uniform choice by over 2 standard errors of the
paired difference; `f`, at epsilon 4 and more and without privacy and from 20,000 people on, for one
whose last tenth lost more than under the best fixed arm by over 2 standard errors and .01 of the
range of rewards.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from zoo_cells import NO_PRIVACY, REFERENCES, TARGETS, Cell, Target, cells

from discreet.lab.experiments import ORACLE, Done, Seed, Setting, frame_of, run_trials, simulate
from discreet.lab.experiments.means import mean_and_error
from discreet.learners.registry import Declared, usual_learner
from discreet.validation import InvalidInput

_KEYS = ["problem", "people", "kernel", "learner", "model", "epsilon"]
_PLACE = ["problem", "people", "seed"]
_LATE = 0.1
_STUCK = 0.15
_TENTH = 0.1  # what the usual learner may lose more than another
_SLACK = 0.01  # of the range of rewards, a person
_ENOUGH = 20_000  # people after whom nobody should lose to the best fixed arm


def trial(seed: Seed, cell: Cell, measure: str = "all") -> list[dict[str, Any]]:
    """One run of one cell, as one row."""
    number = seed.base + seed.trial
    try:
        problem = cell.load()
        setting = Setting(cell.learner, cell.learner, cell.budget, cell.options)
        outcome = simulate(problem, setting, cell.people, number, 0)
    except InvalidInput as error:
        return [{"seed": number, "refused": str(error)}]
    at, trace = outcome.rounds, outcome.trace
    value = outcome.record.value
    if problem.metric == "reward":
        best = simulate(problem, Setting(ORACLE, ORACLE), cell.people, number, 0)
        trace = best.trace - trace
    start = (1.0 - _LATE) * cell.people
    late = (trace[-1] - np.interp(start, at, trace)) / (_LATE * cell.people)
    if measure == "second half":
        value = float(trace[-1] - np.interp(0.5 * cell.people, at, trace))
    bounds = problem.reward_bounds
    return [
        {
            "seed": number,
            "lost": float(trace[-1]),
            "late": float(late),
            "value": value,
            "range": bounds.upper - bounds.lower,
            "seconds": outcome.record.seconds,
        }
    ]


def run(settings: Sequence[dict[str, Any]], asked: argparse.Namespace, runs: int) -> pd.DataFrame:
    """All runs of some cells, as one frame; each is written to the file as soon as it is there."""
    facts = [each["cell"].facts() for each in settings]
    done = run_trials(trial, settings, runs, asked.seed, asked.jobs, "setting by setting")
    return frame_of(_kept(done, facts, asked.out, len(settings) * runs), facts)


def _kept(
    done: Iterable[Done[Any]], facts: Sequence[dict[str, Any]], out: str | None, total: int
) -> Iterator[Done[Any]]:
    """The same, each with a line in the file, and how many there were on the terminal."""
    for number, each in enumerate(done, 1):
        if sys.stderr.isatty() or number % 100 == 0:
            print(f"{number:,} of {total:,} runs", end="\r", file=sys.stderr, flush=True)
        if out:
            with Path(f"{out}.jsonl").open("a", encoding="utf-8") as file:
                for row in each.result:
                    file.write(json.dumps(facts[each.case] | row) + "\n")
        yield each


def read_runs(path: Path) -> pd.DataFrame:
    """The frame of a file of runs, complete or not."""
    return pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each cell: mean, standard error, worst, stuck, beside references, flags."""
    if "refused" not in frame:
        frame = frame.assign(refused=None)
    refused = frame[frame["refused"].notna()]
    frame = frame[frame["refused"].isna()]
    for reference in REFERENCES:
        own = frame[frame["learner"] == reference][[*_PLACE, "lost", "late"]]
        names = {"lost": f"lost {reference}", "late": f"late {reference}"}
        frame = frame.merge(own.rename(columns=names), on=_PLACE, how="left")
    rows = []
    for keys, cell in frame.groupby(_KEYS, sort=False, dropna=False):
        facts = dict(zip(_KEYS, keys, strict=True))
        mean, error = mean_and_error(cell["lost"])
        uniform, fixed = cell["lost uniform"].mean(), cell["lost best_fixed"].mean()
        stuck = cell["late"] > _STUCK * cell["late uniform"]
        rows.append(
            facts
            | {
                "mean": mean,
                "error": error,
                "worst": cell["lost"].max(),
                "stuck": (stuck & (cell["late uniform"] > 0)).mean(),
                "over uniform": mean / uniform if uniform > 0 else math.nan,
                "worst over uniform": cell["lost"].max() / uniform if uniform > 0 else math.nan,
                "over fixed": mean / fixed if fixed > 0 else math.nan,
                "flags": _flags(cell, facts),
                "seconds": cell["seconds"].mean(),
                "runs": len(cell),
            }
        )
    for keys, cell in refused.groupby(_KEYS, sort=False, dropna=False):
        facts = dict(zip(_KEYS, keys, strict=True))
        rows.append(facts | {"flags": f"refused: {cell['refused'].iloc[0]}", "runs": 0})
    return pd.DataFrame(rows)


def _flags(cell: pd.DataFrame, facts: dict[str, Any]) -> str:
    if facts["learner"] in REFERENCES:
        return ""
    worse = "u" if _beyond(cell["lost"] - cell["lost uniform"]) else ""
    informed = facts["people"] >= _ENOUGH and facts["epsilon"] >= 4.0
    slack = _SLACK * cell["range"].iloc[0]
    beaten = informed and _beyond(cell["late"] - cell["late best_fixed"], slack)
    return worse + ("f" if beaten else "")


def _beyond(difference: pd.Series, slack: float = 0.0) -> bool:
    """Whether paired differences are above the slack by more than 2 standard errors.

    A single run has no standard error, so it flags nothing."""
    mean, error = mean_and_error(difference)
    return bool(mean - 2.0 * error > slack)


def print_zoo(table: pd.DataFrame) -> None:
    """The table of the terminal."""
    print(
        f"{'problem':32} {'people':>7} {'kernel':7} {'learner':18} {'model':6} {'eps':>4} "
        f"{'lost':>9} {'+-':>7} {'worst':>9} {'stuck':>6} {'/unif':>6} {'/fixed':>7} {'s':>6}"
    )
    for row in table.itertuples(index=False):
        each = dict(zip(table.columns, row, strict=True))
        shown = "none" if each["epsilon"] == NO_PRIVACY else f"{each['epsilon']:g}"
        print(
            f"{each['problem']:32} {each['people']:>7,} {each['kernel']:7} {each['learner']:18} "
            f"{each['model']:6} {shown:>4} {each['mean']:>9,.0f} {each['error']:>7,.0f} "
            f"{each['worst']:>9,.0f} {each['stuck']:>6.0%} {each['over uniform']:>6.2f} "
            f"{each['over fixed']:>7.2f} {each['seconds']:>6.1f}  {each['flags']}"
        )
    flagged = table["flags"].fillna("")
    worse, beaten = flagged.isin(["u", "uf"]).sum(), flagged.isin(["f", "uf"]).sum()
    print(f"{worse} cells worse than uniform choice, {beaten} late worse than the best fixed arm")


def usual_table(table: pd.DataFrame, settings: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """For each problem with arms and each budget, what the usual learner lost beside the best one.

    A row has the usual learner, the one that lost least, and the ratio of their means.
    """
    problems = {cell.place: cell.load() for cell in (s["cell"] for s in settings)}
    learners = table[~table["learner"].isin(REFERENCES) & (table["runs"] > 0)]
    rows = []
    for keys, own in learners.groupby(["problem", "people", "model", "epsilon"], sort=False):
        place, people, model, _ = keys
        problem = problems[place]
        if problem.arms == 0:
            continue
        declared = Declared(model, problem.space, problem.domain.dimension, people)
        mean = own.set_index("learner")["mean"]
        usual, best = usual_learner(declared).learner, mean.idxmin()
        if usual not in mean:
            continue
        # Where nothing can be lost, learners do not differ.
        ratio = mean[usual] / mean[best] if mean[best] > 0 else 1.0
        names = ("problem", "people", "model", "epsilon", "usual", "best", "ratio")
        rows.append(dict(zip(names, (*keys, usual, best, ratio), strict=True)))
    return pd.DataFrame(rows)


def print_usual(table: pd.DataFrame) -> None:
    """Where the usual learner lost more than a tenth more than another, and the share by budget."""
    behind = table[table["ratio"] > 1.0 + _TENTH]
    for row in behind.to_dict("records"):
        print(
            f"usual learner behind: {row['problem']}, {row['people']:,} people, {row['model']} "
            f"{row['epsilon']:g}: {row['usual']} lost {row['ratio']:.2f} of {row['best']}"
        )
    for (model, epsilon), own in table.groupby(["model", "epsilon"], sort=False):
        share = (own["ratio"] > 1.0 + _TENTH).mean()
        print(f"usual learner, {model} {epsilon:g}: behind on {share:.0%} of {len(own)} problems")


def print_target(target: Target, frame: pd.DataFrame, asked: dict[str, float]) -> None:
    """A row of the targets: what was measured, and what is asked for."""
    cell = target.cell
    shown = "no privacy" if cell.epsilon == NO_PRIVACY else f"{cell.model} {cell.epsilon:g}"
    start = f"{target.name:20} {cell.learner:18} {cell.people:>9,} {shown:11}"
    if "lost" not in frame or frame["lost"].isna().any():
        print(f"{start} refused: {frame['refused'].dropna().iloc[0]}", flush=True)
        return
    higher = cell.problem == "earnings"
    mean, error = mean_and_error(frame["value"])
    worst = frame["value"].min() if higher else frame["value"].max()
    stuck = (frame["late"] > _STUCK * frame["late uniform"]).mean()
    print(
        f"{start} {mean:>9,.0f} +- {error:<6,.0f} worst {worst:>9,.0f} stuck {stuck:>4.0%} "
        f"uniform {frame['lost uniform'].mean():>9,.0f} {frame['seconds'].mean():>6.1f} s | asked: "
        + (", ".join(f"{name} {figure:,g}" for name, figure in asked.items()) or "-"),
        flush=True,
    )


def run_targets(given: argparse.Namespace) -> None:
    """Run and print the rows that were chosen, each as soon as it is there."""
    known: dict[str, tuple[Cell, pd.DataFrame]] = {}
    for target in TARGETS:
        if given.rows and not any(target.name.startswith(row) for row in given.rows):
            continue
        if given.learners and target.cell.learner not in given.learners:
            continue
        runs = min(given.replicates or target.runs, 10_000)
        place = replace(
            target.cell, learner="uniform", model="none", epsilon=NO_PRIVACY, options={}
        )
        if place not in (each for each, _ in known.values()):
            known[target.name] = place, run([{"cell": place}], given, runs)
        uniform = next(frame for each, frame in known.values() if each == place)
        frame = run([{"cell": target.cell, "measure": target.measure}], given, runs)
        own = uniform[["seed", "lost", "late"]]
        names = {"lost": "lost uniform", "late": "late uniform"}
        frame = frame.merge(own.rename(columns=names), on="seed", how="left")
        asked = {"mean": target.mean, "worst": target.worst, "stuck": target.stuck}
        print_target(target, frame, {name: f for name, f in asked.items() if f is not None})


def chosen(given: argparse.Namespace) -> Iterable[Cell]:
    """The cells that the command line asks for."""
    epsilons = [NO_PRIVACY if e == "none" else float(e) for e in given.epsilons]
    people = given.people or (2000 if given.quick else 1_000_000)
    kernels = ("wide",) if given.quick else ("wide", "right", "narrow")
    for cell in cells(epsilons, people, kernels, given.models):
        if given.problems and cell.problem not in given.problems:
            continue
        if not given.learners or cell.learner in (*given.learners, *REFERENCES):
            yield cell


def main() -> None:
    """Run the zoo, or its targets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["zoo", "targets"], default="zoo")
    parser.add_argument("--rows", nargs="*", help="targets whose names begin like this")
    parser.add_argument("--problems", nargs="*", help="problems by name; all if left out")
    parser.add_argument("--learners", nargs="*", help="learners by name; all if left out")
    parser.add_argument("--epsilons", nargs="*", default=["none", "10", "4", "1"])
    parser.add_argument("--models", nargs="*", default=["none", "local", "joint"])
    parser.add_argument("--people", type=int, help="of a run at most")
    parser.add_argument("--replicates", type=int, help="runs of a cell; 20, of targets as asked")
    parser.add_argument("--quick", action="store_true", help="2,000 people, 2 runs, wide kernels")
    parser.add_argument("--seed", type=int, default=5000, help="of the first run")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", help="FILE of FILE.jsonl, which grows, and FILE.png")
    parser.add_argument("--show", type=Path, help="a file of runs that is to be shown again")
    given = parser.parse_args()
    if given.only == "targets":
        run_targets(given)
        return
    settings = [{"cell": cell} for cell in chosen(given)]
    if given.show:
        frame = read_runs(given.show)
    else:
        frame = run(settings, given, given.replicates or (2 if given.quick else 20))
    table = summary(frame)
    print_zoo(table)
    usual = usual_table(table, settings)
    if len(usual):
        print_usual(usual)
    if given.out:
        from zoo_page import page

        page(table).savefig(Path(f"{given.out}.png"), dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
