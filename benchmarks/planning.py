"""How good plans are: plans of twelve problems against the truth, from runs with other seeds.

    python benchmarks/planning.py --quick --jobs 2               2,000 people at most, few runs
    python benchmarks/planning.py --middle --out plans.jsonl     1,000 people, 20 runs of the truth
    python benchmarks/planning.py --jobs 2 --out plans.jsonl     the whole; a night
    python benchmarks/planning.py --show plans.jsonl             what an earlier one measured
    python benchmarks/planning.py --time --jobs 2                from a CSV to a recommendation
    python benchmarks/planning.py --verdicts 60                  wrong yes and no, 60 tables
    python benchmarks/planning.py --verdicts 60 --quick          a third of the truth

Each problem gets a plan, as `discreet.plan` makes it, at one epsilon and without privacy, in which
learners race. Three things are asked of it:

1. **Learner**: the one that it names loses at most a tenth more than the best of those in the
   race, over the plan's number of people. "Loses" is regret; where rewards alone are known, what
   the oracle has more.
2. **People**: from how many people on it beats one choice for everyone, and keeps half of the gain
   without privacy, are both within a factor of 1.5 of the truth. Numbers are compared between the
   fewest people of the truth and the most; beyond these ends they count as the ends.
3. **Intervals**: its 95% intervals of loss, one for each of its numbers of people, hold the truth.

The truth is another plan with another seed, more replicates and twice as many people (with
--middle as many), of the learners that the plan named. It has an error of its own: `+-` is half of
its 95% interval of the loss at the end, and a plan whose interval is as narrow misses more of such
truths than 5%.

`--verdicts` plans random tables (two to four arms, a rule of random strength or none) and compares
each yes and no with the verdict of 100 replicates (30 with --quick) with another seed: whether
choosing by person gains anything, and whether each of two epsilons loses at most a fifth. Where
these cannot tell either, a yes or no is "unknown".

| column            | meaning                                                             |
|-------------------|---------------------------------------------------------------------|
| chose, best       | the learner that the plan named, and the one that lost least         |
| ratio, error      | what the named one lost beside that; standard error, over paired runs |
| gain, half        | people until: plan, truth                                            |
| loss, +-          | over all people of the plan: plan, truth                             |
| held, of          | intervals that held the truth, and how many there were               |
| cpu               | seconds of processor time that the plan took, its processes together |
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import zoo_problems
from scipy.special import betaincinv

import discreet
from discreet.lab.environments.base import Problem
from discreet.lab.experiments import ORACLE, Seed, Setting, run_trials, simulate
from discreet.lab.experiments.means import mean_and_error
from discreet.lab.planning.forecast import Forecast, PlanAnswer
from discreet.lab.studies import ReportEntry, Study
from discreet.privacy import Local, NonPrivate

ARMS = ("kernel", "partition")
KEEP = 0.5
_WITHIN, _FACTOR = 0.1, 1.5
_ASKED = {"learner": "10 of 12", "people": "10 of 12", "intervals": "90%"}
# Seeds of the truth lie this far from those of plans.
_APART = 1_000_000


@dataclass(frozen=True)
class Case:
    """A problem that is planned.

    Attributes:
        problem, given: its name and options.
        epsilon: of local privacy.
        people: of the plan.
        learners: that race.
    """

    problem: str
    epsilon: float = 2.0
    people: int = 4000
    learners: tuple[str, ...] = ARMS
    given: Mapping[str, Any] = field(default_factory=dict)

    def study(self, people: int, seed: int, learners: Sequence[str] | None = None) -> Study:
        """A study of so many people with these learners, or all of its own."""
        settings = []
        for name in learners or self.learners:
            settings.append(Setting(name, f"{name}, epsilon {self.epsilon:g}", Local(self.epsilon)))
            settings.append(Setting(name, f"{name} (non-private)", NonPrivate()))
        problem = self.load()
        entry = ReportEntry()
        return Study(self.problem, "", people, 1, seed, problem, tuple(settings), entry, "")

    def among(self, learners: Sequence[str]) -> Case:
        """The same with those of its learners that are named, or all if none of them is."""
        kept = tuple(name for name in self.learners if name in learners)
        return replace(self, learners=kept or self.learners)

    def load(self) -> Problem:
        return zoo_problems.load(self.problem, self.given)


CASES = (
    Case("exponential"),
    Case("symmetric"),
    Case("diagonal"),
    Case("strip", epsilon=8.0, people=8000),
    Case("three_points"),
    Case("dominating_arm"),
    Case("faint_contexts"),
    Case("few_columns"),
    Case("checker", epsilon=10.0, people=8000),
    Case("lognormal"),
    Case("earnings", epsilon=4.0, people=8000),
    Case("loan_quotes", epsilon=8.0, learners=("kernel", "capri")),
)


@dataclass(frozen=True)
class Size:
    """How much is run.

    Attributes:
        people: of a plan at most.
        replicates: of a plan.
        truth: replicates of the truth.
        beyond: how many times as many people as the plan the truth has.
    """

    people: int = 1_000_000
    replicates: int = 8
    truth: int = 40
    beyond: int = 2


QUICK = Size(people=2000, replicates=4, truth=8)
# What two processors do in an hour for all but `loan_quotes`, whose learners take far longer.
MIDDLE = Size(people=1000, replicates=6, truth=20, beyond=1)


def measured(case: Case, size: Size, seed: int, jobs: int) -> dict[str, Any]:
    """A plan of a case held against the truth, as one row."""
    people = min(case.people, size.people)
    started = _cpu()
    wall = time.perf_counter()
    plan = planned(case.study(people, seed), case.epsilon, size.replicates, jobs)
    taken, wall = _cpu() - started, time.perf_counter() - wall
    chosen = plan.line(case.epsilon).learner
    names = tuple(dict.fromkeys((chosen, plan.free.learner)))
    most = size.beyond * people
    most = most if plan.problem.size is None else min(most, plan.problem.size)
    truth = planned(case.study(most, seed + _APART, names), case.epsilon, size.truth, jobs)
    lost = regrets(case, people, size.truth, seed + _APART, jobs, truth)
    return {
        "problem": case.problem,
        "epsilon": case.epsilon,
        "people": people,
        "seed": seed,
        "replicates": size.replicates,
        "truth": size.truth,
        "seconds": wall,
        "cpu": taken,
        **beside_best(chosen, lost),
        **people_until(plan, truth, case.epsilon),
        **losses(plan, truth, case.epsilon),
    }


def planned(study: Study, epsilon: float, replicates: int, jobs: int) -> Forecast:
    """A plan at one epsilon."""
    return discreet.plan(study, epsilons=(epsilon,), replicates=replicates, jobs=jobs)


def regrets(
    case: Case, people: int, runs: int, seed: int, jobs: int, truth: Forecast | None = None
) -> dict[str, list[float]]:
    """What each learner loses in each run, all on the same people.

    What a plan with this seed and as many replicates ran is not run again.
    """
    lost: dict[str, list[float]] = {}
    if truth and truth.problem.metric == "regret" and people in truth.horizons:
        line = truth.line(case.epsilon)
        lost[line.learner] = (-people * line.worth[:, truth.horizons.index(people)]).tolist()
    rest = [learner for learner in case.learners if learner not in lost]
    settings = [{"case": case, "people": people, "learner": learner} for learner in rest]
    done = run_trials(regret, settings, runs, seed, jobs) if rest else ()
    for each in sorted(done, key=lambda each: each.trial):
        lost.setdefault(rest[each.case], []).append(each.result)
    return lost


def regret(seed: Seed, case: Case, people: int, learner: str) -> float:
    """What one run loses."""
    problem = case.load()
    budget = Local(case.epsilon)
    setting = Setting(learner, learner, budget)
    value = simulate(problem, setting, people, seed.base, seed.trial).record.value
    if problem.metric == "regret":
        return value
    best = simulate(problem, Setting(ORACLE, ORACLE), people, seed.base, seed.trial)
    return best.record.value - value


def beside_best(chosen: str, lost: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """What a learner lost beside the one that lost least.

    The standard error of the ratio of means m / b is that of the mean of (x - (m / b) y) / b over
    paired runs x and y.
    """
    best = min(lost, key=lambda name: float(np.mean(lost[name])))
    own, least = np.asarray(lost[chosen]), np.asarray(lost[best])
    # Where nothing can be lost, learners do not differ.
    ratio = float(own.mean() / least.mean()) if least.mean() > 0.0 else 1.0
    error = mean_and_error(own - ratio * least)[1] / max(float(least.mean()), 1e-300)
    right = ratio <= 1.0 + _WITHIN
    return {"chose": chosen, "best": best, "ratio": ratio, "error": error, "learner": right}


def people_until(plan: Forecast, truth: Forecast, epsilon: float) -> dict[str, Any]:
    """Both numbers of people of a plan beside the true ones."""
    least, most = float(truth.horizons[0]), float(truth.people)
    asked = {
        "gain": [each.people_until_gain(epsilon) for each in (plan, truth)],
        "half": [each.people_for(epsilon, KEEP) for each in (plan, truth)],
    }
    right = all(agree(*answers, least, most) for answers in asked.values())
    inside = any(least < (truth.value or 0.0) < most for _, truth in asked.values())
    return {
        **{name: [_finite(each) for each in answers] for name, answers in asked.items()},
        "people right": right,
        "inside": inside,
    }


def agree(answer: PlanAnswer, truth: PlanAnswer, least: float, most: float) -> bool:
    """Whether two numbers of people are within the factor; see the module for the ends."""
    if answer.value is None or truth.value is None:
        return answer.value is truth.value
    value, true = (min(max(each.value or 0.0, least), most) for each in (answer, truth))
    return max(value / true, true / value) <= _FACTOR


def _finite(answer: PlanAnswer) -> float | str | None:
    """A number of people for a file of JSON: None where there is no gain to keep."""
    if answer.value is None:
        return None
    return answer.value if math.isfinite(answer.value) else "more"


def losses(plan: Forecast, truth: Forecast, epsilon: float) -> dict[str, Any]:
    """How many intervals of loss hold the truth, and the losses over all people of the plan."""
    held = count = 0
    for people in plan.horizons:
        if people < truth.horizons[0]:
            continue
        said, true = plan.loss_for(epsilon, people), truth.loss_for(epsilon, people)
        if said.value is None or true.value is None:
            continue
        count += 1
        held += bool(said.low <= true.value <= said.high)
    said, true = (each.loss_for(epsilon, plan.people) for each in (plan, truth))
    half = None if true.value is None else 0.5 * (true.high - true.low)
    return {"loss": [said.value, true.value], "half width": half, "held": held, "of": count}


def _cpu() -> float:
    """Processor time of this process and those that it waited for; of worker processes that still
    run, what Linux says of them."""
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system + _workers()


def _workers() -> float:
    """Processor time of the children that run, in seconds; 0 where nobody says."""
    ticks = 0
    parents = Path(f"/proc/self/task/{os.getpid()}/children")
    if not parents.exists():
        return 0.0
    for child in parents.read_text().split():
        stat = Path(f"/proc/{child}/stat")
        if stat.exists():
            ticks += sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


# What is shown.


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """The table and the three shares."""
    print(
        f"{'problem':15} {'eps':>4} {'people':>6} {'chose':17} {'best':17} {'ratio':>11} "
        f"{'until gain':>15} {'until half':>15} {'loss':>12} {'+-':>5} {'held':>5} {'cpu':>6}"
    )
    for row in rows:
        print(_line(row), flush=True)
    for name, share, error, count in shares(rows):
        asked = f" (asked: {_ASKED[name]})" if name in _ASKED else ""
        around = "" if math.isnan(error) else f" +- {error:.0%}"
        print(f"{name:10} {share:.0%}{around} of {count}{asked}")


def _line(row: Mapping[str, Any]) -> str:
    loss = " ".join("-" if each is None else f"{each:.0%}" for each in row["loss"])
    half = "-" if row["half width"] is None else f"{row['half width']:.0%}"
    wrong = ("" if row["learner"] else " learner") + ("" if row["people right"] else " people")
    return (
        f"{row['problem']:15} {row['epsilon']:>4g} {row['people']:>6,} {row['chose']:17} "
        f"{row['best']:17} {row['ratio']:>5.2f}+-{row['error']:4.2f} {_until(row['gain']):>15} "
        f"{_until(row['half']):>15} {loss:>12} {half:>5} {row['held']:>3}/{row['of']} "
        f"{row['cpu']:>6.0f}{' not right:' if wrong else ''}{wrong}"
    )


def _until(answers: Sequence[float | str | None]) -> str:
    return " ".join(
        "-" if each is None else each if isinstance(each, str) else f"{each:,.0f}"
        for each in answers
    )


def shares(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float, float, int]]:
    """What was right: name, share, its standard error over problems, and of how many.

    Intervals of one problem move together, so that their share has the error of a ratio of sums
    over problems.
    """
    for name, key in (("learner", "learner"), ("people", "people right")):
        share, error = mean_and_error([float(row[key]) for row in rows])
        yield name, share, error, len(rows)
    inside = [float(row["people right"]) for row in rows if row["inside"]]
    if inside:
        share, error = mean_and_error(inside)
        yield "inside", share, error, len(inside)
    held, of = (np.array([row[key] for row in rows], dtype=float) for key in ("held", "of"))
    if of.sum() > 0.0:
        share = float(held.sum() / of.sum())
        error = mean_and_error(held - share * of)[1] / float(of.mean())
        yield "intervals", share, error, int(of.sum())


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, complete or not."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# Verdicts of tables whose truth is known.

_BAR = 0.2
_TRIED = (2.0, 8.0)


def random_study(number: int, learner: str) -> Study:
    """A study of a table whose size, arms and rule are random; a quarter have no rule."""
    rng = np.random.default_rng([number, 29])
    people = int(rng.choice([200, 400]))
    arms, width = int(rng.integers(2, 5)), int(rng.integers(2, 10))
    strength = 0.0 if rng.random() < 0.25 else float(rng.uniform(0.1, 1.0))
    place = rng.integers(0, width, people)
    right = rng.permutation(width)[place] * arms // width
    label = np.where(rng.random(people) < strength, right, rng.integers(0, arms, people))
    classes = [f"arm {each}" for each in range(arms)]
    table = pd.DataFrame({"x": place, "z": rng.random(people).round(2), "y": label})
    return Study.from_dict(
        {
            "name": f"table {number}",
            "rounds": people,
            "seed": 7000 + number,
            "problem": {
                "name": "table",
                "path": "people.csv",
                "label": {"column": "y", "classes": classes},
                "columns": [
                    {"name": "x", "lower": 0, "upper": width - 1},
                    {"name": "z", "lower": 0, "upper": 1},
                ],
            },
            "learners": [{"name": learner, "epsilon": 1.0, "non_private": True}],
        },
        tables={"people.csv": table.assign(y=[classes[each] for each in label])},
    )


def verdicts_of(study: Study, replicates: int, jobs: int) -> dict[str, str]:
    """The words of a plan, by what they are about."""
    plan = discreet.plan(
        study, epsilons=_TRIED, lose_at_most=_BAR, replicates=replicates, jobs=jobs
    )
    words = {f"epsilon {epsilon:g}": told.word for epsilon, told in plan.verdicts.items()}
    return {"gain": plan.gains.word, **words}


def compare_verdicts(tables: int, learner: str, size: Size, jobs: int) -> None:
    """Count wrong yes, wrong no and cannot tell yet over random tables."""
    counts: dict[str, int] = {}
    wrong_tables = 0
    for number in range(tables):
        study = random_study(number, learner)
        told = verdicts_of(study, size.replicates, jobs)
        other = replace(study, seed=study.seed + _APART)
        truth = verdicts_of(other, size.truth, jobs)
        found = {about: _judged(word, truth.get(about)) for about, word in told.items()}
        wrong_tables += any(each.startswith("wrong") for each in found.values())
        for each in found.values():
            counts[each] = counts.get(each, 0) + 1
        shown = ", ".join(
            f"{about}: {told[about]} ({truth.get(about, 'no gain')})" for about in told
        )
        print(f"{study.name:9} {study.rounds:5} people  {shown}", file=sys.stderr, flush=True)
    for name, count in sorted(counts.items()):
        print(f"{name:20} {count:4} of {sum(counts.values())}")
    share = wrong_tables / tables
    most = float(betaincinv(wrong_tables + 1, max(tables - wrong_tables, 1e-9), 0.95))
    error = math.sqrt(share * (1.0 - share) / tables)
    print(
        f"tables with a wrong yes or no: {wrong_tables} of {tables}, {share:.1%} +- {error:.1%} "
        f"(standard error; at most {most:.1%} with 95% confidence; asked: 5%)"
    )


def _judged(word: str, truth: str | None) -> str:
    """What a word is beside the truth; None where there is no gain of which to lose a share."""
    if word == "cannot tell yet":
        return word
    if truth == "cannot tell yet":
        return f"unknown {word}"
    return f"right {word}" if word == truth else f"wrong {word}"


# The way from a table to a recommendation.

_BOUNDS = {
    "age": (18, 90),
    "income": (0, 100_000),
    "distance": (0, 50),
    "visits": (0, 20),
    "score": (0, 1),
    "hours": (0, 60),
}
_OFFERS = ("letter", "call", "visit")


def write_table(path: Path, people: int, seed: int) -> None:
    """A table of people with six columns, and whether each of three arms would pay off."""
    rng = np.random.default_rng(seed)
    unit = rng.random((people, len(_BOUNDS)))
    low, high = np.array(list(_BOUNDS.values()), dtype=float).T
    table = pd.DataFrame(low + (high - low) * unit, columns=list(_BOUNDS))
    table = table.round({"age": 0, "income": 0, "distance": 1, "visits": 0, "score": 3, "hours": 1})
    older, richer, farther = (2.0 * unit[:, :3] - 1.0).T
    chances = 0.5 + np.stack([0.3 * older, -0.3 * older + 0.1 * richer, 0.15 * farther], axis=1)
    rewards = (rng.random(chances.shape) < chances).astype(int)
    table.assign(**dict(zip(_OFFERS, rewards.T, strict=True))).to_csv(path, index=False)


def state_bounds(path: Path) -> None:
    """Fill in what `discreet init` left for a person to say."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        name = next((each for each in _BOUNDS if f'"{each}"' in line), None)
        low, high = (0, 1) if line.startswith("rewards") else _BOUNDS.get(name or "", ("", ""))
        stated = line.replace('lower = "?"', f"lower = {low}")
        lines.append(stated.replace('upper = "?"', f"upper = {high}"))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def commands(table: Path, study: Path, jobs: int) -> dict[str, list[str]]:
    """What somebody types, in this order."""
    return {
        "init": ["init", str(table), "--rewards", ",".join(_OFFERS), "--out", str(study)],
        "check": ["check", str(study), "--jobs", str(jobs)],
        "plan": ["plan", str(study), "--jobs", str(jobs)],
    }


def time_commands(people: int, seed: int, jobs: int) -> None:
    """Run and time all three; then what the plan recommends."""
    with tempfile.TemporaryDirectory() as folder:
        table, study = Path(folder, "people.csv"), Path(folder, "people.toml")
        write_table(table, people, seed)
        print(f"{'command':8} {'wall s':>7} {'cpu s':>7}", flush=True)
        total, said = np.zeros(2), ""
        for name, arguments in commands(table, study, jobs).items():
            taken, said = _timed(arguments)
            total += taken
            print(f"{name:8} {taken[0]:7.1f} {taken[1]:7.1f}", flush=True)
            if name == "init":
                state_bounds(study)
        print(f"{'all':8} {total[0]:7.1f} {total[1]:7.1f}   asked: 120 on two cores")
        print(said)


def _timed(arguments: Sequence[str]) -> tuple[np.ndarray[Any, Any], str]:
    """Wall and processor seconds of a command, and what it printed."""
    start, before = time.perf_counter(), _cpu()
    program = "import sys; from discreet.cli import main; sys.argv[0] = 'discreet'; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    return np.array([time.perf_counter() - start, _cpu() - before]), done.stdout


def main() -> None:
    """Measure plans, show them, or time the way to one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [case.problem for case in CASES]
    parser.add_argument("--problems", nargs="*", choices=names, help="all if left out")
    parser.add_argument("--learners", nargs="*", help="of those that race; all if left out")
    parser.add_argument("--quick", action="store_true", help="2,000 people at most, fewer runs")
    parser.add_argument("--middle", action="store_true", help="1,000 people at most, fewer runs")
    parser.add_argument("--seed", type=int, default=7000, help="of plans")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="FILE.jsonl, which grows by a row a problem")
    parser.add_argument("--show", type=Path, help="a file of rows that is to be shown again")
    parser.add_argument(
        "--verdicts", type=int, metavar="TABLES", help="yes and no of random tables"
    )
    parser.add_argument("--learner", default="partition", help="of --verdicts")
    parser.add_argument("--time", action="store_true", help="from a CSV to a recommendation")
    parser.add_argument("--people", type=int, default=50_000, help="in the table of --time")
    given = parser.parse_args()
    if given.time:
        time_commands(given.people, given.seed, given.jobs)
        return
    if given.verdicts:
        size = Size(truth=30) if given.quick else Size(truth=100)
        compare_verdicts(given.verdicts, given.learner, size, given.jobs)
        return
    if given.show:
        show(read_rows(given.show))
        return
    rows = []
    for case in CASES:
        if given.problems and case.problem not in given.problems:
            continue
        case = case.among(given.learners or case.learners)
        size = QUICK if given.quick else MIDDLE if given.middle else Size()
        row = measured(case, size, given.seed, given.jobs)
        rows.append(row)
        print(_line(row), file=sys.stderr, flush=True)
        if given.out:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    show(rows)


if __name__ == "__main__":
    main()
