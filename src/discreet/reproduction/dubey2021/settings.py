"""The problems of Dubey (2021), section 6, and what is public about them.

Section 6.1 is `BumpProblem`. For the functions of section 6.2 (from Mutny and Krause 2018) the
paper does not say where decision sets come from, so both readings are here: everyone can be given
any point of the public box (`discreet.problems.functions`), or every person brings points of their
own (`PrivateSets`), which are then as private as the reward.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from discreet.action_space import DecisionSets
from discreet.kernels import Additive, kernel_to_text
from discreet.problems.base import Crowd, Metric, People, Problem
from discreet.problems.functions import (
    FunctionProblem,
    camelback,
    michalewicz,
    styblinski_tang,
)
from discreet.validation import FloatArray, InvalidInput, whole_number

# Base of the trials' seeds; nothing was ever tuned on it.
SEED = 20210201

BUMP_KERNEL = "RBF(length_scale=1.0)"
_RADIUS = 2.0

BEST_OF_BOX = "regret against the best of the box"
BEST_OF_SET = "regret against the best of the person's set"


def ball_points(inside: int = 240, boundary: int = 40) -> FloatArray:
    """(inside + boundary, 2) a public sample of the ball of radius 2, its boundary included.

    Inside points lie on a sunflower: turned by the golden angle they cover the ball evenly.
    """
    count = whole_number(inside, "inside", minimum=1)
    step = np.arange(count) + 0.5
    angle = math.pi * (3.0 - math.sqrt(5.0)) * step
    radius = _RADIUS * np.sqrt(step / count)
    edge = 2.0 * math.pi * np.arange(whole_number(boundary, "boundary")) / max(boundary, 1)
    angle = np.concatenate([angle, edge])
    # A part in 10^12 keeps rounded points within the bounds of the domain.
    radius = np.concatenate([radius, np.full(len(edge), _RADIUS * (1.0 - 1e-12))])
    points: FloatArray = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points


@dataclass(frozen=True)
class Benchmark:
    """One column of Table 1.

    Attributes:
        name: the paper's.
        problem: the function on its public box.
        kernel: as text; its length scales are public knowledge of the domain.
        paper: regret by epsilon as printed, infinity for non-private; the paper states no units.
    """

    name: str
    problem: FunctionProblem
    kernel: str
    paper: dict[float, float]


def benchmarks() -> tuple[Benchmark, ...]:
    """The three columns of Table 1."""
    styblinski = Additive(RBF(length_scale=2.5))
    steep = Additive(RBF(length_scale=0.08 * math.pi))
    return (
        Benchmark(
            "camel",
            camelback(),
            kernel_to_text(RBF(length_scale=[1.4, 0.7])),
            {math.inf: 519.0, 10.0: 775.0, 1.0: 1029.0, 0.1: 3324.0},
        ),
        Benchmark(
            "styb",
            styblinski_tang(),
            kernel_to_text(styblinski),
            {math.inf: 885.0, 10.0: 1667.0, 1.0: 2680.0, 0.1: 4493.0},
        ),
        Benchmark(
            "mw",
            michalewicz(),
            kernel_to_text(steep),
            {math.inf: 901.0, 10.0: 1558.0, 1.0: 2883.0, 0.1: 5002.0},
        ),
    )


class PrivateSets(Problem):
    """A function to be maximised where every person brings points of their own.

    Points are uniform in the box. Regret is counted against the best point of the person's own
    set; `metrics` counts it against the best point of the box too, which nobody could be given.
    A person's reward noise is the same whatever is chosen.

    Args:
        function: the function, its box and its noise; Gaussian noise only.
        candidates: points that each person brings.
    """

    size = None
    arm_names = ()

    def __init__(self, function: FunctionProblem, candidates: int = 100) -> None:
        if not isinstance(function.noise, float):
            raise InvalidInput(
                f"function had noise {function.noise!r}; give a standard deviation here."
            )
        self.function = function
        self.candidates = whole_number(candidates, "candidates", minimum=1)
        self.domain = function.domain
        self.reward_bounds = function.reward_bounds
        self.source = f"{function.source} Every person brings {candidates} random points of it."

    @property
    def space(self) -> DecisionSets:
        return DecisionSets(self.candidates)

    @property
    def metric(self) -> Metric:
        return "regret"

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        low, high = np.array(self.domain.lower), np.array(self.domain.upper)
        shape = (people, self.candidates, self.domain.dimension)
        sets = rng.random(shape)
        sets *= high - low
        sets += low
        # One person at a time keeps what the function needs on the way small.
        means = np.stack([self.function.function(points) for points in sets])
        means = np.clip(means, 0.0, 1.0)
        draws = float(self.function.noise) * rng.standard_normal((people, 1))
        return People(sets, np.clip(means + draws, 0.0, 1.0), means)

    def metrics(self, people: Crowd, values: FloatArray) -> dict[str, FloatArray]:
        """Regret (n,) by what it is counted against."""
        assert isinstance(people, People)
        assert people.means is not None
        beyond = self.function.best - people.means.max(axis=1)
        return {BEST_OF_SET: values, BEST_OF_BOX: values + beyond}
