"""How a table is searched: as published, privately, without privacy, at random.

All methods of a run ask for the same random row first, and know the same hyperparameters. What a
modeler sees is made of the table once, before the first question:

    published           Algorithm 1, then GP-UCB (Algorithm 2) on its points as if they were rows
    ours                X + N(0, scale^2) on every number; a belief about every row that knows the
                        noise and the public box; expected improvement of what rows share, or
                        GP-UCB as published
    non-private         the rows as they are; GP-UCB as published, or expected improvement
    random              rows drawn without replacement; nothing of the table is looked at
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.modeler import (
    Acquisition,
    ExpectedImprovement,
    Modeler,
    PublishedUCB,
)
from discreet.outsourcing.posterior import RowPrior
from discreet.outsourcing.release import noise_scale
from discreet.papers.cases import NON_PRIVATE, OURS, PUBLISHED
from discreet.papers.kharkovskii2020.data_sets import DataSet, Outcomes
from discreet.papers.kharkovskii2020.transformation import (
    AS_STATED,
    RADIUS,
    Branch,
    RandomProjection,
)
from discreet.privacy import (
    Adjacency,
    Guarantee,
    OnceEach,
    Outsourced,
    Release,
    SimulatedNoise,
    derive_guarantee,
)
from discreet.privacy.accounting import GaussianEvent
from discreet.validation import IntArray

PAPERS = "paper's branch"
OURS_UCB = f"{OURS}, GP-UCB"
NON_PRIVATE_EI = f"{NON_PRIVATE}, expected improvement"
RANDOM = "random"
# delta' of Algorithm 2: half of the paper's delta_ucb = 0.05 (Theorem 3).
PUBLISHED_RULE = PublishedUCB(0.025)
IMPROVEMENT = ExpectedImprovement()


@dataclass(frozen=True, eq=False)
class Task:
    """One run, the same for every method.

    Attributes:
        data: the curator's table.
        outcomes: what is to be found.
        first: the row that is asked for first.
        rounds: questions, the first included: T.
        release: seed of what the curator draws.
        choice: seed of what the modeler draws.
    """

    data: DataSet
    outcomes: Outcomes
    first: int
    rounds: int
    release: np.random.SeedSequence
    choice: np.random.SeedSequence


class Method(ABC):
    """A way to search a table. Methods that are equal give equal results.

    Attributes:
        name: in tables and records.
        epsilon: what is asked for, or claimed; None for a reference.
    """

    name: str
    epsilon: float | None

    def label(self, data: DataSet) -> str:
        """In printed tables and figures."""
        return self.name

    @abstractmethod
    def search(self, task: Task) -> IntArray:
        """(T,) the rows that were asked for, in order."""

    def guarantee(self, data: DataSet) -> Guarantee | None:
        """What the release promises each row; None for a reference without any wish for privacy."""
        return None

    def facts(self, data: DataSet) -> dict[str, Any]:
        """What records say about the release, beyond its guarantee."""
        return {}


@dataclass(frozen=True)
class Published(Method):
    """Algorithms 1 and 2.

    Attributes:
        epsilon: claimed.
        columns: of the release, r.
        branch: of Algorithm 1.
    """

    epsilon: float
    columns: int
    branch: Branch = AS_STATED

    @property
    def name(self) -> str:  # type: ignore[override]
        return PUBLISHED if self.branch == AS_STATED else f"{PUBLISHED}, {PAPERS}"

    def label(self, data: DataSet) -> str:
        """With the branch that was taken."""
        which = PUBLISHED if self.branch == AS_STATED else PAPERS
        return f"{which} ({self.algorithm(data).taken(data.rows)})"

    def algorithm(self, data: DataSet) -> RandomProjection:
        """Algorithm 1 at the data set's delta."""
        return RandomProjection(self.epsilon, data.setting.delta, self.columns, self.branch)

    def search(self, task: Task) -> IntArray:
        rng = np.random.default_rng(task.release)
        points = self.algorithm(task.data).release(task.data.rows, rng)
        return _asked(task, RowBeliefs.exact(points), PUBLISHED_RULE)

    def guarantee(self, data: DataSet) -> Guarantee:
        return self.algorithm(data).guarantee()

    def facts(self, data: DataSet) -> dict[str, Any]:
        algorithm = self.algorithm(data)
        return {
            "r": self.columns,
            "branch": algorithm.taken(data.rows),
            "radius": RADIUS,
            "omega": algorithm.omega,
        }


@dataclass(frozen=True)
class Ours(Method):
    """Gaussian noise on every number of the table.

    Attributes:
        epsilon: asked for.
        published_rule: whether rows are chosen by Algorithm 2; otherwise by the modeler's own rule.
    """

    epsilon: float
    published_rule: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]
        return OURS_UCB if self.published_rule else OURS

    def scale(self, data: DataSet) -> float:
        """The standard deviation of the noise, in the units of the rows."""
        budget = Outsourced(self.epsilon, data.setting.delta, RADIUS)
        return noise_scale(budget, RADIUS, SimulatedNoise(0), data.rows.size)

    def search(self, task: Task) -> IntArray:
        scale = self.scale(task.data)
        points = SimulatedNoise(task.release).add_gaussian(task.data.rows, scale)
        beliefs = RowBeliefs.within(points, scale, *task.data.box)
        return _asked(task, beliefs, PUBLISHED_RULE if self.published_rule else IMPROVEMENT)

    def guarantee(self, data: DataSet) -> Guarantee:
        """Derived from the noise: one Gaussian release of sensitivity `RADIUS`."""
        scale = self.scale(data)
        multiplier = SimulatedNoise(0).gaussian_multiplier(RADIUS, scale, data.rows.size)
        release = Release(
            mechanism="Gaussian noise on every number of the table",
            event=GaussianEvent(multiplier),
            sensitivity=RADIUS,
            sensitivity_source="the radius: one row moves so far, all others stay",
            scale=scale,
            people=OnceEach("released table"),
            data="the row",
            noise=SimulatedNoise.name,
        )
        adjacency = Adjacency("row", radius=RADIUS)
        return derive_guarantee([release], "outsourced", adjacency, data.setting.delta)

    def facts(self, data: DataSet) -> dict[str, Any]:
        return {"radius": RADIUS, "noise_scale": self.scale(data)}


@dataclass(frozen=True)
class Reference(Method):
    """A search that sees the rows, by GP-UCB as published or by expected improvement; or rows drawn
    without replacement."""

    name: str
    epsilon: None = None

    def label(self, data: DataSet) -> str:
        return "non-private, EI" if self.name == NON_PRIVATE_EI else self.name

    def search(self, task: Task) -> IntArray:
        if self.name == RANDOM:
            drawn = np.random.default_rng(task.choice).permutation(len(task.data.rows))
            others: IntArray = drawn[drawn != task.first][: task.rounds - 1]
            return np.concatenate([[task.first], others])
        rule = PUBLISHED_RULE if self.name == NON_PRIVATE else IMPROVEMENT
        return _asked(task, RowBeliefs.exact(task.data.rows), rule)


def _asked(task: Task, beliefs: RowBeliefs, rule: Acquisition) -> IntArray:
    """(T,) the rows that a modeler with the known hyperparameters asks for.

    Algorithm 2 may ask for a row again; no other rule does.
    """
    prior = RowPrior(task.data.length_scale, noise=task.data.noise)
    repeats = task.rounds if rule is PUBLISHED_RULE else 1
    modeler = Modeler(beliefs, prior, rule, repeats=repeats)
    asked, answers = [task.first], task.outcomes.answers
    modeler.tell(asked, answers[asked])
    while len(asked) < task.rounds:
        rows = modeler.ask()
        modeler.tell(rows, answers[rows])
        asked += rows.tolist()
    return np.array(asked, dtype=np.int64)
