"""How often the interval of `learner.value()` holds the truth.

    python benchmarks/values.py [--replicates 40] [--seed 4711] [--jobs 1] [--only TEXT] [--quick]

A learner serves people of a problem whose mean rewards are known. Then it says what its own
recommendation earns, what the first arm earns given to everybody, by how much the one beats the
other, and what two policies of somebody else earn: a cut through the middle of the first column,
and the choice of somebody who knows all mean rewards. Further people of the same problem, whom
nobody served, say what is true. `surfaces` draws new functions in each replicate, and contexts
that crowd in a corner; the other problems are those of the zoo. Everything an interval of 95%
should hold is counted: with r replicates a count is off by about 100 sqrt(.05 x .95 / r) percent.

| column     | meaning                                                              |
|------------|----------------------------------------------------------------------|
| covered    | percent of replicates in which the interval held the truth           |
| off by     | root mean square of estimate less truth                              |
| half width | mean half width of the intervals                                     |
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import zoo_problems
from scipy.spatial import cKDTree

from discreet.lab.environments.base import People, Population, Problem
from discreet.lab.environments.functions import FunctionPopulation
from discreet.lab.environments.kernel_grid import GridPopulation
from discreet.lab.experiments.engine import Row, Seed, frame_of, run_trials
from discreet.lab.experiments.simulation import play
from discreet.learners.registry import make_learner
from discreet.learners.values import Value
from discreet.people.domain import DecisionSets, RewardBounds, arm_count, unit_cube
from discreet.privacy import Budget, Joint, Local, NonPrivate
from discreet.validation import FloatArray

Truth = Callable[[Any], float]

# People who judge, and how many contexts are given as a public sample.
_JUDGES, _SAMPLE = 20_000, 300


class Surfaces(Problem):
    """Three arms, each a sum of four waves of two columns, drawn anew in each replicate.

    Args:
        speed: how fast they vary.
        crowded: whether contexts crowd in a corner (a beta law) instead of being even.
        height: of rewards; below 1 most are near 0.
    """

    reward_bounds = RewardBounds(0.0, 1.0)
    arm_names = ("first", "second", "third")
    source = "Synthetic: random waves."

    def __init__(self, speed: float = 1.5, crowded: bool = False, height: float = 1.0) -> None:
        self.domain = unit_cube(2)
        self.speed, self.crowded, self.height = speed, crowded, height

    def sample(self, people: int, rng: np.random.Generator) -> People:
        waves = 2.0 * self.speed * rng.standard_normal((3, 4, 2))
        start, size = rng.uniform(0.0, 2.0 * math.pi, (3, 4)), 0.15 * rng.standard_normal((3, 4))
        level = rng.uniform(0.2, 0.8, 3)
        contexts = rng.beta(2.0, 6.0, (people, 2)) if self.crowded else rng.random((people, 2))
        phases = np.einsum("kmd,nd->nkm", waves, contexts) + start
        means = np.clip(level + np.einsum("km,nkm->nk", size, np.sin(phases)), 0.0, 1.0)
        return People.bernoulli(contexts, self.height * means, rng)


@dataclass(frozen=True)
class Line:
    """A learner under a budget on a problem.

    Attributes:
        problem: of the zoo, or a function that makes it.
        learner: its name.
        budget: what it keeps.
        people: who are served.
        options: of the learner.
        called: the problem in the table.
    """

    problem: str | Callable[[], Problem]
    learner: str
    budget: Budget
    people: int
    options: dict[str, Any] = field(default_factory=dict)
    called: str = ""

    @property
    def label(self) -> str:
        """What the table calls it."""
        name = self.problem if isinstance(self.problem, str) else self.called
        epsilon = f" {self.budget.epsilon:g}" if self.budget.private else ""
        return f"{name:14} {self.learner:18} {self.budget.trust_model}{epsilon}"

    def load(self) -> Problem:
        return zoo_problems.load(self.problem) if isinstance(self.problem, str) else self.problem()


def crowded() -> Problem:
    return Surfaces(crowded=True)


def rough() -> Problem:
    return Surfaces(speed=4.0)


def low() -> Problem:
    return Surfaces(height=0.1)


def lines() -> Iterator[Line]:
    """The lines of the table."""
    surfaces = {"surfaces": Surfaces, "crowded": crowded, "rough": rough, "low": low}
    local = (Local(1.0), Local(4.0))
    joint = (Joint(1.0, 1e-6), Joint(4.0, 1e-6))
    for name, make in surfaces.items():
        for budget in (*local, NonPrivate()):
            yield Line(make, "partition", budget, 10_000, called=name)
        for budget in local:
            yield Line(make, "kernel", budget, 4000, called=name)
        for budget in joint:
            yield Line(make, "kernel", budget, 5000, called=name)
        yield Line(make, "capri", joint[0], 5000, called=name)
    for name in ("exponential", "waves", "checker", "corner", "lognormal", "equal_arms"):
        yield Line(name, "partition", local[0], 10_000)
        yield Line(name, "kernel", local[0], 4000)
        yield Line(name, "kernel", joint[0], 5000)
    yield Line("kernel_grid", "usca", joint[0], 5000)
    for budget in (joint[0], local[1]):
        yield Line("kernel_grid", "kernel", budget, 5000, {"kernel": "RBF(0.3)"})
    for name in ("camelback", "four_humps"):
        yield Line(name, "gp_ucb", joint[0], 5000)
        yield Line(name, "gp_ucb", local[1], 5000)
    for name in ("dose", "random_sets"):
        yield Line(name, "gp_ucb", joint[0], 5000, {"error": 0.05} if name == "dose" else {})
        yield Line(name, "private_glm", local[1], 10_000)


def parted(crowd: Population, served: int) -> tuple[Population, Population]:
    """Those who are served, and those who judge."""
    if isinstance(crowd, FunctionPopulation):
        return crowd, crowd
    if isinstance(crowd, GridPopulation):
        means = crowd.function[crowd.cells]
        crowd = People(crowd.contexts, means + crowd.draws[:, None], means)
    assert isinstance(crowd, People)
    assert crowd.means is not None
    return (
        People(crowd.contexts[:served], crowd.rewards[:served], crowd.means[:served]),
        People(crowd.contexts[served:], crowd.rewards[served:], crowd.means[served:]),
    )


def trial(seed: Seed, line: Line) -> list[Row]:
    """A row for each policy that is asked about."""
    problem = line.load()
    rng = np.random.default_rng(seed.streams(1)[0])
    sets = isinstance(problem.space, DecisionSets)
    judges = 1000 if sets else _JUDGES
    if arm_count(problem.space) is None and not sets:
        judges = 0
    served, judging = parted(problem.sample(line.people + judges, rng), line.people)

    def make(public_seed: int, noise: Any) -> Any:
        return make_learner(
            line.learner,
            problem.domain,
            problem.space,
            line.budget,
            options=line.options,
            horizon=line.people,
            reward_bounds=problem.reward_bounds,
            public_seed=public_seed,
            noise=noise,
        )

    learner, _, _ = play(seed, served, make)
    if isinstance(judging, FunctionPopulation):
        asked = of_points(learner, judging.function)
    else:
        assert isinstance(judging, People)
        asked = of_sets(learner, judging) if sets else of_arms(learner, judging)
    width = problem.reward_bounds.upper - problem.reward_bounds.lower
    return [
        {
            "policy": name,
            "covered": 100.0 * (value.lower <= truth <= value.upper),
            "square": ((value.mean - truth) / width) ** 2,
            "half": value.half_width / width,
        }
        for name, value, truth in asked
    ]


def earned(means: FloatArray, arms: Any) -> float:
    return float(np.take_along_axis(means, np.asarray(arms)[:, None], axis=1).mean())


def of_arms(learner: Any, people: People) -> Iterator[tuple[str, Value, float]]:
    """What the learner says of policies, and what is true."""
    contexts, means = people.contexts, people.means
    assert means is not None
    # Epoch learners say what they do of the contexts that were declared, which are even.
    middle = learner.domain.from_unit(np.full((1, learner.domain.dimension), 0.5))[0, 0]

    def cut(rows: FloatArray) -> Any:
        return (np.asarray(rows)[:, 0] > middle).astype(np.int64)

    best = earned(means, learner.recommend(contexts))
    yield "recommended", learner.value(), best
    yield "first arm", learner.value(0), float(means[:, 0].mean())
    gained = best - float(means[:, 0].mean())
    yield "difference", learner.value(against=0), gained
    yield "cut", learner.value(cut), earned(means, cut(contexts))
    scale = np.asarray(learner.domain.upper) - np.asarray(learner.domain.lower)
    known = cKDTree(contexts / scale)

    def knowing(rows: FloatArray) -> Any:
        """The arm that is best for the nearest of the people who judge."""
        return means[known.query(np.asarray(rows) / scale)[1]].argmax(axis=1)

    yield "knowing", learner.value(knowing), float(means.max(axis=1).mean())


def of_sets(learner: Any, people: People) -> Iterator[tuple[str, Value, float]]:
    """The same for people's own decision sets, of the very sample that is given."""
    sets, means = people.contexts[:_SAMPLE], people.means
    assert means is not None
    means = means[:_SAMPLE]
    yield "recommended", learner.value(contexts=sets), earned(means, learner.recommend(sets))
    yield "first arm", learner.value(0, contexts=sets), float(means[:, 0].mean())
    truth = earned(means, learner.recommend(sets)) - float(means[:, 0].mean())
    yield "difference", learner.value(contexts=sets, against=0), truth
    best = means.argmax(axis=1)
    yield "knowing", learner.value(best, contexts=sets), float(means.max(axis=1).mean())


def of_points(learner: Any, function: Callable[[FloatArray], FloatArray]) -> Iterator[Any]:
    """The same for points that everybody can be given."""
    point = learner.recommend(None)[None]
    middle = learner.domain.from_unit(np.full((1, learner.domain.dimension), 0.5))
    truths = float(function(point)[0]), float(function(middle)[0])
    yield "recommended", learner.value(), truths[0]
    yield "middle point", learner.value(middle), truths[1]
    yield "difference", learner.value(against=middle), truths[0] - truths[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=40)
    parser.add_argument("--seed", type=int, default=4711)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="lines with this text only")
    parser.add_argument("--quick", action="store_true", help="a tenth of the people, for a try")
    given = parser.parse_args()
    print(f"{'problem':14} {'learner':18} {'budget':10} {'policy':13} covered  off by  half width")
    chosen = [line for line in lines() if given.only in line.label]
    if given.quick:
        chosen = [replace(line, people=line.people // 10) for line in chosen]
    for line in chosen:
        done = run_trials(trial, [{"line": line}], given.replicates, given.seed, given.jobs)
        frame = frame_of(done)
        for policy, rows in frame.groupby("policy", sort=False):
            off = math.sqrt(rows["square"].mean())
            print(
                f"{line.label:44} {policy:13} {rows['covered'].mean():6.0f}%"
                f" {off:7.3f} {rows['half'].mean():11.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
