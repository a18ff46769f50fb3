"""The number to beat: every learner of arms, on twelve problems, under each trust model.

    python benchmarks/league.py --jobs 2 --out league       an hour
    python benchmarks/league.py --quick --jobs 2            five minutes
    python benchmarks/league.py --show league.jsonl         the tables again
    python benchmarks/league.py --learners mine             a learner of an installed package

Of a learner the score on a problem is the share of uniform choice's regret that it saves: 100% is
the best arm for every context, 0 uniform choice, less than that worse. Learners are ranked on each
problem by their mean score over the same people. Scores and ranks are means over problems; their
95% intervals are of a bootstrap over problems and, within each, over runs.

| column   | meaning                                                              |
|----------|----------------------------------------------------------------------|
| rank     | mean over problems; 1 is the best of those under one budget          |
| saved    | mean score                                                           |
| worst    | the least mean score on any problem                                  |
| first    | on how many problems it has the largest mean score                   |
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from zoo import read_runs, run
from zoo_cells import ARMS, DELTA, NO_PRIVACY, ON_ARMS, Cell, Model, cells

from discreet.validation import FloatArray

PROBLEMS = (
    *("exponential", "exponential (arms 20)", "symmetric", "waves", "checker", "strip"),
    *("corner", "band", "few_columns", "gaps", "lognormal", "uneven_noise"),
)
EPSILONS = (0.25, 1.0, 4.0)
MODELS: tuple[Model, ...] = ("local", "shuffled", "joint")
PEOPLE, RUNS = 10_000, 4
# Seeds that nothing was tuned on.
SEED = 730_000
_RESAMPLED = 1_000
_WIDE = (2.5, 97.5)


def chosen(people: int, own: list[str], epsilons: Sequence[float]) -> Iterator[Cell]:
    """The cells of the league: references and no privacy first."""
    places, seen = {place.problem for place in ARMS}, set[Any]()
    everything: tuple[Model, ...] = ("none", *MODELS)
    for model in everything:
        budgets = [NO_PRIVACY] if model == "none" else epsilons
        for cell in cells(budgets, people, models=[model]):
            if cell.problem not in places or cell.place not in PROBLEMS or cell.people != people:
                continue
            if (known := (model, cell.epsilon, cell.place, cell.learner)) in seen:
                continue  # problems that differ in their people alone
            seen.add(known)
            reference = cell.learner not in ON_ARMS[model]
            if not reference or model == "none":
                yield cell
            elif cell.learner == "uniform":  # once for each problem and model
                for learner in own:
                    for epsilon in budgets:
                        delta = DELTA if model == "joint" else None
                        yield replace(
                            cell, learner=learner, model=model, epsilon=epsilon, delta=delta
                        )


def scores(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs of learners, with the share of uniform choice's regret that each saved."""
    if "refused" in frame:
        frame = frame[frame["refused"].isna()]
    random = frame[frame["learner"] == "uniform"][["problem", "seed", "lost"]]
    frame = frame.merge(random.rename(columns={"lost": "random"}), on=["problem", "seed"])
    return frame.assign(saved=1.0 - frame["lost"] / frame["random"])


def means_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean scores, a row for each learner and a column for each problem; NaN where none ran."""
    return runs.pivot_table(index="learner", columns="problem", values="saved")


def table(runs: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The league of one budget: a row for each learner that ran on all problems."""
    full = means_of(runs).dropna().index
    by_learner = {name: runs[runs["learner"] == name] for name in full}
    pivots = [
        own.pivot_table(index="problem", columns="seed", values="saved")
        for own in by_learner.values()
    ]
    cube = np.stack(pivots)  # (L, P, R), in one order of problems and seeds
    drawn = [_resampled(cube, rng) for _ in range(_RESAMPLED)]
    ranks, shares = (np.stack(each) for each in zip(*map(_of_means, drawn), strict=True))
    rank, share = _of_means(cube.mean(axis=2))
    best = cube.mean(axis=2).argmax(axis=0)
    rows = [
        {
            "learner": name,
            "rank": rank[place],
            "ranks": np.percentile(ranks[:, place], _WIDE),
            "saved": share[place],
            "shares": np.percentile(shares[:, place], _WIDE),
            "worst": cube[place].mean(axis=1).min(),
            "first": int((best == place).sum()),
        }
        for place, name in enumerate(by_learner)
    ]
    return pd.DataFrame(rows).sort_values("rank")


def _resampled(cube: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(L, P) mean scores on problems drawn anew, over runs drawn anew."""
    _, problems, runs = cube.shape
    places = rng.integers(problems, size=problems)
    seeds = rng.integers(runs, size=(problems, runs))
    means: FloatArray = np.take_along_axis(cube[:, places], seeds[None], axis=2).mean(axis=2)
    return means


def _of_means(means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(L,) mean ranks and (L,) mean scores, from mean scores (L, P)."""
    ranks = 1.0 + (means[:, None, :] < means[None, :, :]).sum(axis=1)
    return ranks.mean(axis=1), means.mean(axis=1)


def show(frame: pd.DataFrame) -> None:
    """A table for each budget, and the number to beat under each."""
    rng = np.random.default_rng(0)
    runs = scores(frame)
    fixed = runs[runs["learner"] == "best_fixed"]["saved"].mean()
    print(f"{runs['problem'].nunique()} problems, {runs['people'].max():,} people, ", end="")
    print(f"{runs['seed'].nunique()} runs; the best arm for everyone saves {fixed:.0%}")
    runs, beat = runs[~runs["learner"].isin(["uniform", "best_fixed"])], []
    for (model, epsilon), own in runs.groupby(["model", "epsilon"], sort=False):
        budget = "no privacy" if model == "none" else f"{model}, epsilon {epsilon:g}"
        league = table(own, rng)
        print(f"\n{budget}")
        print(
            f"{'learner':18} {'rank':>5}  {'95%':>9} {'saved':>6}  {'95%':>13} {'worst':>6} first"
        )
        for row in league.itertuples(index=False):
            ends = "-".join(f"{end:.1f}" for end in row.ranks)
            shares = " to ".join(f"{end:.0%}" for end in row.shares)
            print(
                f"{row.learner:18} {row.rank:>5.2f}  {ends:>9} {row.saved:>6.0%}  {shares:>13} "
                f"{row.worst:>6.0%} {row.first:>5}"
            )
        top = league.sort_values("saved").iloc[-1]
        means = means_of(own)
        for name in means.index.difference(league["learner"]):
            there = means.loc[name].dropna()
            best = means.loc[top["learner"], there.index].mean()
            print(
                f"{name} ran on {len(there)} of them: {there.mean():.0%} there, where "
                f"{top['learner']} saves {best:.0%}"
            )
        beat.append(f"{budget}: {top['saved']:.1%} ({top['learner']})")
    print("\nTo beat\n" + "\n".join(beat))


def main() -> None:
    """Run the league, or show one that was run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learners", nargs="*", default=[], help="more learners, by name")
    parser.add_argument("--people", type=int, default=PEOPLE, help="of a run")
    parser.add_argument("--replicates", type=int, default=RUNS, help="runs of a cell")
    parser.add_argument("--quick", action="store_true", help="epsilon 1, 1,000 people, 1 run")
    parser.add_argument("--seed", type=int, default=SEED, help="of the first run")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", help="FILE of FILE.jsonl, which grows")
    parser.add_argument("--show", type=Path, help="a file of runs that is to be shown again")
    given = parser.parse_args()
    if given.show:
        show(read_runs(given.show))
        return
    people, runs, epsilons = given.people, given.replicates, EPSILONS
    if given.quick:
        people, runs, epsilons = 1_000, 1, (1.0,)
    settings = [{"cell": cell} for cell in chosen(people, given.learners, epsilons)]
    show(run(settings, given, runs))


if __name__ == "__main__":
    main()
