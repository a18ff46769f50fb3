"""The rows of the table: whose program, on which problem, under which promise, and our answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import held
from films import FilmSets
from zoo_cells import Cell, Options

from discreet.lab.environments.base import Problem


@dataclass(frozen=True)
class Peer:
    """A public program.

    Attributes:
        checkout: the folder of its repository.
        driver: the file of `drivers/` that runs it.
        held: the epsilon that it holds, by the one that it is given.
        runs_together: whether one start of it does all runs.
        ratings: whether it reads a file of ratings.
        runs: of it at most, where one takes minutes.
    """

    checkout: str
    driver: str
    held: Callable[[float], float]
    runs_together: bool = False
    ratings: bool = False
    runs: int = 1_000


class Films(Cell):
    """A cell of `films.py`."""

    def load(self) -> Problem:
        return FilmSets()


@dataclass(frozen=True)
class Row:
    """A peer on its own problem, and ours.

    Attributes:
        name: of the problem and the program.
        peer: the program.
        ours: our learner on the same problem, under a promise that is the same or stronger; the
            program is given as many people and the same epsilon.
        asked: what else it is given.
    """

    name: str
    peer: Peer
    ours: Cell
    asked: Options = field(default_factory=dict)

    @property
    def promise(self) -> str:
        budget = self.ours.budget
        delta = f", {budget.delta:g}" if budget.delta else ""
        return f"{budget.trust_model} {budget.epsilon:g}{delta}"


_HAN = Peer("LDP-Bandit", "han2021", held.half_space, runs=5)
_LOCAL = Peer("Differentially-Private-Bandits", "chowdhury2022", held.noisy_row, True)
_JOINT = Peer("Differentially-Private-Bandits", "chowdhury2022", held.repeated_noise, True)
_FILMS = Peer("LDPbandit2020", "zheng2020", held.noisy_features, ratings=True)
_GLM = Peer(
    "Shuffle_joint_dp_generalized_linear_contextual_bandits",
    "sarmasarkar2026",
    held.trees_and_fits,
    runs=1,
)
_COLUMNS = {"kernel": "DotProduct(sigma_0=0.0)"}
_WITH_CONSTANT = {"kernel": "DotProduct(sigma_0=1.0)"}
_SETS = Cell("random_sets", "private_glm", 100_000, "local", 1.0, options=_COLUMNS)
_LOGISTIC = {"link": "logistic"}
# Their points have a fifth column, which is 1.
_ARMS = Cell(
    "linear_set",
    "gp_ucb",
    20_000,
    given={"public": True, "dimension": 4},
    options=_WITH_CONSTANT,
)
_BALL = {"candidates": 20, "dimension": 3, "link": "logistic", "length": 3.5, "inside": True}


def _rows() -> Iterator[Row]:
    yield Row("10 unit vectors, linear: LDP-SGD", _HAN, _SETS, {"link": "linear"})
    logistic = replace(_SETS, given=_LOGISTIC, options={**_COLUMNS, **_LOGISTIC})
    yield Row("10 unit vectors, logistic: LDP-SGD", _HAN, logistic, _LOGISTIC)
    for epsilon in (0.2, 1.0, 10.0):
        ours = replace(_ARMS, model="local", epsilon=epsilon)
        yield Row("100 arms: LDP-LinUCB", _LOCAL, ours, {"learner": "LDPLinUCB"})
    for epsilon in (0.2, 1.0, 10.0):
        ours = replace(_ARMS, model="joint", epsilon=epsilon, delta=0.1)
        yield Row("100 arms: JDP-LinUCB", _JOINT, ours, {"learner": "JDPLinUCB"})
    films = Films("films", "private_glm", 50_000, "local", 10.0, options=_COLUMNS)
    yield Row("films: LDP-LinUCB", _FILMS, films)
    for epsilon in (4.0, 8.0):
        ours = Cell("random_sets", "gp_ucb", 10_000, "joint", epsilon, 0.02, _BALL, _COLUMNS)
        yield Row("20 points of a ball: Private-GLM", _GLM, ours)


ROWS = tuple(_rows())
