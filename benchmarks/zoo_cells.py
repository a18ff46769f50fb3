"""What benchmarks/zoo.py runs: the cells of the zoo, and the rows that have a figure to reach.

A cell is one learner under one budget on one problem. `cells()` makes them from three tables:
problems with arms, problems whose actions are points, and learners by action space. `TARGETS` are
single cells with the figures that were asked of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

import numpy as np
import zoo_problems

from discreet.lab.environments.base import Problem
from discreet.papers.dubey2021.figures import BUMP_KERNEL, ball_points
from discreet.privacy import Budget, Joint, Local, NonPrivate, Shuffled
from discreet.privacy.budget import usual_group

Model = Literal["none", "local", "shuffled", "joint"]
Options = Mapping[str, Any]
DELTA = 1e-6
NO_PRIVACY = math.inf


@dataclass(frozen=True)
class Cell:
    """One learner under one budget on one problem.

    Attributes:
        problem: its name.
        learner: its name, or that of a reference.
        people: in a run.
        model: the trust model.
        epsilon: infinite without privacy.
        delta: None where the budget is pure.
        given: options of the problem.
        options: of the learner.
        kernel: what its kernel is called: usual, wide, right or narrow; "" where it has none.
    """

    problem: str
    learner: str
    people: int
    model: Model = "none"
    epsilon: float = NO_PRIVACY
    delta: float | None = None
    given: Options = field(default_factory=dict)
    options: Options = field(default_factory=dict)
    kernel: str = ""

    @property
    def place(self) -> str:
        """The problem with its options and people, as tables call it."""
        given = ", ".join(f"{key} {value}" for key, value in self.given.items())
        return self.problem + (f" ({given})" if given else "")

    @property
    def budget(self) -> Budget:
        if self.model == "none":
            return NonPrivate()
        if self.model == "joint":
            return Joint(self.epsilon, DELTA if self.delta is None else self.delta)
        if self.model == "shuffled":
            return Shuffled(self.epsilon, DELTA, usual_group(self.epsilon, self.people))
        return Local(self.epsilon) if self.delta is None else Local(self.epsilon, self.delta)

    def load(self) -> Problem:
        return zoo_problems.load(self.problem, self.given)

    def facts(self) -> dict[str, Any]:
        """What a row of the frame says of its cell."""
        return {
            "problem": self.place,
            "people": self.people,
            "kernel": self.kernel,
            "learner": self.learner,
            "model": self.model,
            "epsilon": self.epsilon,
        }


@dataclass(frozen=True)
class Place:
    """A problem of the zoo.

    Attributes:
        problem, given: its name and options.
        people: in a run of the full setting.
        right: for points the length scale that suits, in the units of the domain; or the text of
            a kernel where only one is tried; None where the learner's usual one is.
        known: what else every learner of points is given.
        epochs: whether learners by epochs take part: with many unrelated arms, or more than two
            columns, the features of their usual kernel are thousands, and a run takes minutes.
    """

    problem: str
    given: Options = field(default_factory=dict)
    people: int = 20_000
    right: float | tuple[float, ...] | str | None = None
    known: Options = field(default_factory=dict)
    epochs: bool = True


ARMS = (
    Place("exponential"),
    Place("exponential", {"dimension": 1}),
    Place("exponential", {"arms": 20}, epochs=False),
    Place("exponential", {"arms": 60}, epochs=False),
    Place("exponential", people=500),
    Place("exponential", people=1500),
    Place("symmetric"),
    Place("waves"),
    Place("waves", {"dimension": 1}),
    Place("checker"),
    Place("diagonal"),
    Place("strip"),
    Place("three_points"),
    Place("corner"),
    Place("band"),
    Place("few_columns", epochs=False),
    Place("few_columns", {"dimension": 20}, epochs=False),
    Place("gaps"),
    Place("equal_arms"),
    Place("dominating_arm"),
    Place("faint_contexts", people=5000),
    Place("lognormal"),
    Place("uneven_noise"),
    Place("rotation"),
    Place("kernel_grid"),
)
POINTS = (
    Place("branin", people=5000, right=3.0),
    Place("camelback", people=5000, right=(1.0, 0.5)),
    Place("hartmann", people=5000, right=0.4),
    Place("hartmann", {"dimension": 6}, 5000),
    Place("ackley", people=5000, right=1.2),
    Place("levy", people=5000, right=3.0),
    Place("michalewicz", {"dimension": 2}, 5000, 0.35),
    Place("rosenbrock", people=5000, right=0.8),
    Place("four_humps", people=5000, right=1.2),
    Place("four_humps", {"noise": "uneven"}, 5000, 1.2),
    Place("cliff", people=5000, right=0.2),
    Place("bumps", people=1024, right=BUMP_KERNEL, known={"public_points": ball_points().tolist()}),
    Place("dose", people=5000, right="RBF(length_scale=[280, 60, 60, 60])", known={"error": 0.05}),
    Place("linear_set", people=20_000, right="DotProduct(sigma_0=1.0)"),
)
KERNELS = {"wide": 2.0, "right": 1.0, "narrow": 0.5}
# Learners by what they choose and whom people trust. `usca` gives arms by a design while it
# learns, and what papers published does not learn here: neither has a place in this table.
ON_ARMS: dict[Model, tuple[str, ...]] = {
    "none": ("kernel", "partition", "best_arm", "capri"),
    "local": ("kernel", "partition", "best_arm", "capri"),
    "shuffled": ("kernel", "partition", "best_arm"),
    "joint": ("kernel", "best_arm", "capri"),
}
ON_POINTS: dict[Model, tuple[str, ...]] = {
    "none": ("gp_ucb",),
    "local": ("gp_ucb",),
    "shuffled": (),
    "joint": ("gp_ucb",),
}
BY_EPOCHS = ("capri",)
REFERENCES = ("uniform", "best_fixed")
_OWN_SETS = ("bumps", "dose", "linear_set")


def cells(
    epsilons: Sequence[float] = (NO_PRIVACY, 10.0, 4.0, 1.0),
    most: int = 1_000_000,
    kernels: Sequence[str] = ("wide", "right", "narrow"),
    models: Sequence[Model] = ("none", "local", "joint"),
) -> Iterator[Cell]:
    """Every cell of the zoo, those of a problem together, its references first.

    Args:
        epsilons: infinite for no privacy.
        most: people of a run at most.
        kernels: which of `KERNELS` are tried on points.
        models: trust models.
    """
    for table, learners in ((ARMS, ON_ARMS), (POINTS, ON_POINTS)):
        for place in table:
            people = min(place.people, most)
            own = place.problem in _OWN_SETS
            for reference in REFERENCES[:1] if own else REFERENCES:
                yield Cell(place.problem, reference, people, given=place.given)
            for model in models:
                for epsilon in epsilons:
                    if (model == "none") != (epsilon == NO_PRIVACY):
                        continue
                    delta = DELTA if model == "joint" or (own and model == "local") else None
                    for learner in learners[model]:
                        if learner in BY_EPOCHS and not place.epochs:
                            continue
                        cell = Cell(place.problem, learner, people, model, epsilon, delta)
                        cell = replace(cell, given=place.given, options=place.known)
                        yield from _with_kernels(cell, place, kernels)


def _with_kernels(cell: Cell, place: Place, kernels: Sequence[str]) -> Iterator[Cell]:
    if place.right is None:
        yield cell
    elif isinstance(place.right, str):
        yield replace(cell, kernel="right", options={**cell.options, "kernel": place.right})
    else:
        for name in kernels:
            options = {**cell.options, "kernel": rbf(place.right, KERNELS[name])}
            # A narrow kernel has more features than are allowed at the usual error.
            options |= {"error": 0.05} if name == "narrow" else {}
            yield replace(cell, kernel=name, options=options)


def rbf(scale: float | tuple[float, ...], factor: float) -> str:
    """A squared exponential kernel, its length scales multiplied by a factor."""
    scales = [factor * each for each in (scale if isinstance(scale, tuple) else (scale,))]
    return f"RBF(length_scale={scales if len(scales) > 1 else scales[0]})"


# What is measured of a run: its regret or reward, or the part of it in the second half.
Measure = Literal["all", "second half"]


@dataclass(frozen=True)
class Target:
    """A cell with the figures that it has to reach.

    Attributes:
        name: of the row; rows that belong together begin alike.
        cell: what runs.
        mean: the mean is to be at most this (at least, where rewards count); None for no figure.
        worst: so is the worst run.
        stuck: the share of runs that may be stuck.
        runs: how many are asked for.
        measure: what is measured.
    """

    name: str
    cell: Cell
    mean: float | None = None
    worst: float | None = None
    stuck: float | None = None
    runs: int = 20
    measure: Measure = "all"


_HUMPS = Cell("four_humps", "gp_ucb", 5000, options={"kernel": "RBF(length_scale=2.4)"})
_UCB = {"choose": "ucb", "confidence_multiplier": 1.0}
_UNEVEN = Cell("four_humps", "gp_ucb", 5000, given={"noise": "uneven"})
_LINEAR = {"kernel": "DotProduct(sigma_0=1.0)"}
_SET = Cell("linear_set", "gp_ucb", 20_000, options=_LINEAR)
_SHARED = replace(_SET, given={"public": True})
_NO_CONSTANT = {"kernel": "DotProduct(sigma_0=0.0)"}
_RANDOM = Cell("random_sets", "private_glm", 100_000, "local", 1.0, options=_NO_CONSTANT)
_LOGISTIC = {"link": "logistic"}
_GLM = {"candidates": 20, "dimension": 3, "link": "logistic", "length": 3.5, "inside": True}
_BUMPS = {"kernel": BUMP_KERNEL, "public_points": ball_points().tolist()}
_FIGURE_1 = Cell("bumps", "gp_ucb", 1024, "joint", 1.0, 0.1, options=_BUMPS)
_SMOOTH = {"kernel": "RBF(length_scale=0.3)", "reward_noise": 0.25}
_ROUGH = {"kernel": "Matern(length_scale=0.3, nu=2.5)", "reward_noise": 0.25}
_GRID = Cell("kernel_grid", "kernel", 100_000, "joint", 1.0, 1e-5)
_TWENTY = {"arms": 20}
_HALF_LIFE = {"half_life": 2_500.0}
_CENTRAL = (("exponential", 80_000), ("earnings", 61_000), ("corner", 40_000), ("band", 40_000))
# By epsilon, the figure that shuffled reports are to reach.
_SHUFFLED: tuple[tuple[str, int, dict[float, float]], ...] = (
    ("exponential", 80_000, {0.25: 1500.0, 0.5: 650.0, 1.0: 400.0}),
    ("exponential", 10_000, {1.0: 420.0}),
    ("earnings", 61_000, {0.5: 30_534.0, 1.0: 31_234.0}),
)
_ALIKE = (
    ("two arms", (0.45, 0.55), 1000),
    ("three arms", (0.5, 0.55, 0.6), 3000),
    ("clicks", (0.015, 0.018, 0.02), 30_000),
    ("ten arms", (*[0.4] * 9, 0.52), 8000),
    ("ten arms, spread", tuple(np.linspace(0.3, 0.5, 10).tolist()), 8000),
)
_WIDE: tuple[tuple[str, Options], ...] = (
    ("lognormal", {}),
    ("lognormal", {"upper": 1000.0}),
    *((problem, {}) for problem in ("spending", "balance", "waiting", "uneven_noise")),
)
_HALF_OF_UNIFORM = 4139.0  # of the second half of 40,000 people


def _local(problem: str, learner: str, people: int, epsilon: float, **given: Any) -> Cell:
    return Cell(problem, learner, people, "local", epsilon, given=given)


def _rows() -> Iterator[Target]:
    yield Target("corner", Cell("corner", "partition", 100_000), 3000)
    yield Target("waves", Cell("waves", "partition", 100_000), 5000)
    wide, ten = _HUMPS, replace(_HUMPS, model="joint", epsilon=10.0)
    yield Target("humps, wide kernel", wide, 180, stuck=0.02)
    yield Target("humps, wide kernel", ten, 450, stuck=0.05)
    yield Target("humps, usual kernel", replace(wide, options={}))
    yield Target("humps, usual kernel", replace(ten, options={}))
    yield Target("humps, matching", replace(ten, options={"choose": "matching"}))
    yield Target("humps, ucb", replace(ten, options=_UCB))
    yield Target("uneven humps", _UNEVEN, stuck=0.1)
    for learner in ("kernel", "partition"):
        yield Target("exponential", _local("exponential", learner, 80_000, 1.0), 900, 1600)
    yield Target("one set", _SET, 100)
    yield Target("one set", replace(_SET, model="joint", epsilon=1.0, delta=0.1), 272)
    yield Target("one set", replace(_SET, model="joint", epsilon=0.2, delta=0.1), 565)
    for learner in ("kernel", "partition"):
        for options in ({}, _HALF_LIFE):
            cell = replace(_local("rotation", learner, 40_000, 1.0), options=options)
            name = "rotation, half-life" if options else "rotation"
            asked = _HALF_OF_UNIFORM if options else None
            yield Target(name, cell, asked, measure="second half")
    for epsilon, asked in ((4.0, 3500.0), (1.0, 6500.0)):
        for learner in ("kernel", "partition"):
            cell = _local("exponential", learner, 10_000, epsilon, arms=20)
            yield Target("20 arms", cell, asked)
    for epsilon, asked in ((1.0, 1000.0), (4.0, 400.0)):
        for learner in ("kernel", "partition"):
            yield Target("6 columns", _local("few_columns", learner, 10_000, epsilon), asked)
    for learner in ("kernel", "partition"):
        cell = _local("few_columns", learner, 10_000, 4.0, dimension=20)
        yield Target("20 columns", cell)
        # Uniform choice loses 6.79 a person.
        yield Target("lognormal", _local("lognormal", learner, 20_000, 1.0), worst=135_800)
    local = replace(_FIGURE_1, model="local", epsilon=10.0)
    yield Target("local Figure 1", local, worst=250)
    yield Target("Matern", replace(_GRID, given={"smoothness": "matern52"}, options=_ROUGH), 580)
    # 2% of the reward of about 3,100, and what a bandit loses that ignores contexts.
    for learner in ("kernel", "partition", "best_arm"):
        yield Target("faint contexts", _local("faint_contexts", learner, 5000, 1.0), 100)
    # Arms that are as good for everyone: the private baseline, and what contexts cost there.
    for name, means, people in _ALIKE:
        one = _local("alike", "best_arm", people, 1.0, means=means)
        free = replace(one, model="none", epsilon=NO_PRIVACY)
        kernel = replace(one, learner="kernel")
        central = replace(one, model="joint", delta=DELTA)
        joint = (central, replace(central, epsilon=0.25))
        for cell in (one, replace(one, epsilon=4.0), *joint, free, kernel):
            yield Target(f"alike: {name}", cell)
    # Joint privacy beside the same budget kept locally, and no privacy.
    for problem, people in _CENTRAL:
        for epsilon in (1.0, 0.25, 0.1):
            cell = Cell(problem, "kernel", people, "joint", epsilon, DELTA)
            yield Target(f"central: {problem}", cell, runs=10)
        for learner in ("kernel", "best_arm"):
            yield Target(f"central: {problem}", _local(problem, learner, people, 1.0), runs=10)
        yield Target(f"central: {problem}", Cell(problem, "kernel", people), runs=10)
    # Continuous rewards whose bounds are far too wide.
    for problem, given in _WIDE:
        for epsilon in (4.0, 1.0, 0.25):
            cell = Cell(problem, "kernel", 10_000, "joint", epsilon, DELTA, given=given)
            yield Target(f"range: {cell.place}", cell)
        yield Target(f"range: {cell.place}", _local(problem, "kernel", 10_000, 4.0, **given))
    # A number that many people have, without and with its indicator.
    for given in ({}, {"indicator": True}):
        cell = Cell("zeros", "kernel", 20_000, given=given)
        central = replace(cell, model="joint", epsilon=1.0, delta=DELTA)
        private = [_local("zeros", "kernel", 20_000, epsilon, **given) for epsilon in (1.0, 4.0)]
        bins = [replace(each, learner="partition") for each in private]
        for each in (central, *private, cell, *bins):
            yield Target(f"zeros: {each.place}", each)
    # Many columns, of which two matter; or six, of which one has many zeros, and its indicator.
    for dimension in (8, 16):
        given = {"dimension": dimension}
        cell = Cell("few_columns", "kernel", 20_000, "joint", 1.0, DELTA, given=given)
        for learner in ("kernel", "best_arm"):
            yield Target(f"many columns: {cell.place}", replace(cell, learner=learner))
    for epsilon, learner in product((1.0, 4.0), ("kernel", "partition")):
        cell = _local("zeros", learner, 20_000, epsilon, indicator=True, dimension=6)
        yield Target(f"many columns: {cell.place}", cell)
    # Shuffled reports beside local and joint privacy at the same epsilon.
    for problem, people, epsilons in _SHUFFLED:
        for epsilon, asked in epsilons.items():
            cell = Cell(problem, "kernel", people, "shuffled", epsilon)
            yield Target(f"shuffled: {problem}", cell, asked)
            yield Target(f"shuffled: {problem}", _local(problem, "kernel", people, epsilon))
            yield Target(f"shuffled: {problem}", replace(cell, model="joint", delta=DELTA))
    # Problems on which others' public programs were run.
    logistic = replace(_RANDOM, given=_LOGISTIC, options={**_NO_CONSTANT, **_LOGISTIC})
    yield Target("peers: random sets", _RANDOM, 450, runs=10)
    yield Target("peers: random sets", logistic, 700, runs=10)
    for epsilon, asked in ((0.2, 2500.0), (1.0, 1200.0), (10.0, 400.0)):
        cell = replace(_SHARED, model="local", epsilon=epsilon)
        yield Target("peers: fixed arms, local", cell, asked, runs=10)
    for epsilon, asked in ((0.2, 400.0), (1.0, 200.0), (10.0, 100.0)):
        cell = replace(_SHARED, model="joint", epsilon=epsilon, delta=0.1)
        yield Target("peers: fixed arms, joint", cell, asked, runs=10)
    glm = Cell("random_sets", "gp_ucb", 10_000, "joint", 4.0, 1e-5, given=_GLM)
    for epsilon, asked in ((4.0, 25.0), (8.0, 20.0)):
        cell = replace(glm, epsilon=epsilon, options=_NO_CONSTANT)
        yield Target("peers: logistic, joint", cell, asked, runs=10)
    yield Target("paper: Figure 1", _FIGURE_1, 54)
    yield Target("paper: Figure 1", replace(_FIGURE_1, epsilon=10.0), 23)
    yield Target("paper: capri-regret", replace(_GRID, options=_SMOOTH), 435)
    for epsilon, asked in ((1.0, 29_000.0), (2.0, 30_300.0), (4.0, 31_400.0)):
        cell = _local("earnings", "kernel", 61_000, epsilon)
        yield Target("paper: earnings", cell, asked, runs=10)


TARGETS = tuple(_rows())
