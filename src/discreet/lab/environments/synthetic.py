"""Synthetic problems with known mean rewards (Ma et al. 2025, section 4.1 and S.4.3).

A mean function maps contexts (n, d) in [0, 1]^d to mean rewards (n, K); a context distribution
draws contexts. Any pair of them makes a `SyntheticProblem` with Bernoulli rewards.

Auxiliary data (sections 3.1 and 4.1) are of people elsewhere, whose arms a behaviour policy chose.
Mean rewards are those of the target; contexts may have another distribution (covariate shift).

| array         | shape  | meaning                                                      |
|---------------|--------|--------------------------------------------------------------|
| contexts      | (n, d) | one row a person, in the units of the problem's domain       |
| arms          | (n,)   | the arm that was chosen for each person, 0 .. K - 1          |
| rewards       | (n,)   | the reward of that arm                                       |
| probabilities | (K,)   | how often the behaviour policy chooses each arm, mu(k)       |

`SyntheticPeople` stand in for a study's people, with its columns and arms and without its data.
They are uniform over the declared columns (levels and categories included), and arm k pays most in
the k-th strip of the first column, as in section 4.1:

    f_k(x) = 1/2 + contrast (g_k(x) - 1/2),      g_k the `ExponentialMeans`

on rewards of 0 or 1, scaled to the declared bounds of a reward. The difference between the arms is
unknown beforehand: `contrast` is the assumption, 1 for the paper's means, at which the best arm of
some people always pays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict

from discreet.codec import Range, Serializable, Shape
from discreet.lab.environments.base import People, Problem
from discreet.lab.environments.catalog import Entry, find_entry, named
from discreet.lab.environments.logs import LoggedAction, LoggedReward
from discreet.lab.environments.tables import ClassLabels, RewardColumns, TableProblem
from discreet.people.columns import Column, Number
from discreet.people.domain import Box, RewardBounds, unit_cube
from discreet.toml_files import One, Place, Two, checked
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    number_from,
    one_of,
    positive_number,
    whole_number,
)

MeanFunction = Callable[[FloatArray], FloatArray]
ContextSampler = Callable[[int, np.random.Generator], FloatArray]
Centres = Literal["paper", "program"]
LAWS = "{beta = [[a, b], ...]} or {corner = gamma}"


class SyntheticProblem(Problem):
    """Contexts from a sampler, rewards Bernoulli with known means.

    Args:
        means: contexts (n, d) -> mean rewards (n, K), each in [0, 1].
        contexts: (n, rng) -> contexts (n, d) in [0, 1]^d.
        dimension: d.
        arms: K, at least 2.
        source: one sentence for reports.
    """

    def __init__(
        self,
        means: MeanFunction,
        contexts: ContextSampler,
        dimension: int,
        arms: int,
        source: str,
    ) -> None:
        self._means = means
        self._contexts = contexts
        self.domain = unit_cube(dimension)
        count = whole_number(arms, "arms", minimum=2)
        self.arm_names = tuple(f"arm {k + 1}" for k in range(count))
        self.source = source

    def mean_rewards(self, contexts: ArrayLike) -> FloatArray:
        """(n, K) the mean reward of each arm for each context (n, d)."""
        return self._means(self.domain.to_unit(contexts))

    def under(self, contexts: ContextSampler) -> SyntheticProblem:
        """The same mean rewards under another distribution of contexts."""
        return type(self)(self._means, contexts, self.domain.dimension, self.arms, self.source)

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        contexts = self._contexts(people, rng)
        return People.bernoulli(contexts, self._means(contexts), rng)


@dataclass(frozen=True)
class ExponentialMeans:
    """f_k(x) = 2 e_k / (1 + e_k), e_k = exp(-2 K^2 (x_1 - c_k)^2), k = 1..K (section 4.1).

    The centres c_k are k/K in the paper's text and k/(K + 1) in its published program, whose
    figures the paper prints.
    """

    arms: int
    centres: Centres = "program"

    def __post_init__(self) -> None:
        one_of(self.centres, "centres", ("paper", "program"))

    def __call__(self, contexts: FloatArray) -> FloatArray:
        k = np.arange(1, self.arms + 1)
        centre = k / (self.arms if self.centres == "paper" else self.arms + 1)
        decay = np.exp(-2.0 * self.arms**2 * (contexts[:, :1] - centre) ** 2)
        return 2.0 * decay / (1.0 + decay)


def symmetric_means(contexts: FloatArray) -> FloatArray:
    """Two arms on four pyramids: f = 1/2 +- 1/2 s(x) (1 - 4 max_a |u_a|) (S.4.3).

    u_a is the signed distance of x_a to the centre of its half of the axis and s(x) the sign of
    (x_1 - 1/2)(x_2 - 1/2), so each arm is best in two opposite quarters of the square.
    """
    distance = np.abs(np.mod(2.0 * contexts[:, :2], 1.0) / 2.0 - 0.25).max(axis=1)
    sign = np.sign((contexts[:, 0] - 0.5) * (contexts[:, 1] - 0.5))
    height = 0.5 * sign * (1.0 - 4.0 * distance)
    return np.stack([0.5 - height, 0.5 + height], axis=1)


@dataclass(frozen=True)
class UniformContexts:
    """Contexts uniform on [0, 1]^d."""

    dimension: int

    def __call__(self, people: int, rng: np.random.Generator) -> FloatArray:
        return rng.random((people, self.dimension))


@dataclass(frozen=True)
class BetaContexts:
    """Independent columns, column a distributed as Beta(alpha_a, beta_a)."""

    shapes: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        for alpha, beta in self.shapes:
            positive_number(alpha, "a Beta shape")
            positive_number(beta, "a Beta shape")

    def __call__(self, people: int, rng: np.random.Generator) -> FloatArray:
        columns = [rng.beta(alpha, beta, people) for alpha, beta in self.shapes]
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class CornerContexts:
    """Density proportional to ||x - 1/2||_inf^gamma: people gather at the border (section 4.1)."""

    dimension: int
    gamma: float

    def __post_init__(self) -> None:
        number_from(self.gamma, "gamma", 0.0)

    def __call__(self, people: int, rng: np.random.Generator) -> FloatArray:
        # The norm r of x - 1/2 has density proportional to r^(d - 1 + gamma) on [0, 1/2]; given r,
        # x is uniform on the surface of the cube with half side r.
        radius = 0.5 * rng.random(people) ** (1.0 / (self.dimension + self.gamma))
        direction = rng.uniform(-1.0, 1.0, (people, self.dimension))
        face = rng.integers(self.dimension, size=people)
        side = rng.choice(np.array([-1.0, 1.0]), people)
        direction[np.arange(people), face] = side
        return 0.5 + radius[:, None] * direction


@dataclass(frozen=True)
class ContextLaw:
    """A distribution of contexts as a study file declares it: one of the two.

    Attributes:
        beta: a pair [a, b] for each column of `BetaContexts`.
        corner: gamma of `CornerContexts`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    form: ClassVar[str] = LAWS

    beta: list[list[Number]] | None = None
    corner: Number | None = None

    def __post_init__(self) -> None:
        if (self.beta is None) == (self.corner is None):
            raise ValueError(f"must be {LAWS}")

    def sampler(self, dimension: int) -> ContextSampler:
        """The sampler of `dimension` columns; `InvalidInput` for another number of pairs."""
        if self.corner is not None:
            return CornerContexts(dimension, self.corner)
        pairs = self.beta or []
        if len(pairs) != dimension or any(len(pair) != 2 for pair in pairs):
            raise InvalidInput(
                f"option 'contexts' had beta = {pairs}; give one pair [a, b] for each of the "
                f"{dimension} context columns."
            )
        return BetaContexts(tuple((alpha, beta) for alpha, beta in pairs))


Contexts = Literal["uniform"] | ContextLaw
_CONTEXTS = f'"uniform", {LAWS}'


def _sampler(law: Contexts, dimension: int) -> ContextSampler:
    return UniformContexts(dimension) if law == "uniform" else law.sampler(dimension)


@named(
    "exponential",
    "smooth mean rewards, each arm best in one strip",
    "Synthetic: Ma et al. (2025), section 4.1.",
    arms="number of arms",
    dimension="number of context columns",
    centres="arm k peaks at k/K (paper) or k/(K+1) (program)",
    contexts=_CONTEXTS,
)
def exponential(
    arms: Two = 3, dimension: One = 2, centres: Centres = "program", contexts: Contexts = "uniform"
) -> SyntheticProblem:
    """The paper's exponential problem."""
    return SyntheticProblem(
        ExponentialMeans(arms, centres),
        _sampler(contexts, dimension),
        dimension,
        arms,
        "Synthetic: exponential mean rewards of Ma et al. (2025), section 4.1.",
    )


@named(
    "symmetric",
    "two arms, each best in two quarters of the square",
    "Synthetic: Ma et al. (2025), S.4.3.",
    contexts=_CONTEXTS,
)
def symmetric(contexts: Contexts = "uniform") -> SyntheticProblem:
    """The paper's symmetric problem with two columns and two arms."""
    return SyntheticProblem(
        symmetric_means,
        _sampler(contexts, 2),
        2,
        2,
        "Synthetic: symmetric mean rewards of Ma et al. (2025), S.4.3.",
    )


# Auxiliary data.


@dataclass(frozen=True, eq=False)
class AuxiliaryData(Serializable):
    """The contexts, arms and rewards of one source; copied, checked and read-only.

    Attributes:
        contexts: (n, d).
        arms: (n,) whole numbers from 0 on.
        rewards: (n,).

    Raises:
        InvalidInput: for arrays of other shapes, no people, or values that are not finite.
    """

    contexts: Annotated[FloatArray, Shape("n", "d")]
    arms: Annotated[IntArray, Shape("n"), Range(0, 2**31)]
    rewards: Annotated[FloatArray, Shape("n")]

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, np.array(getattr(self, each.name)))
        super().__post_init__()
        if len(self) == 0:
            raise InvalidInput("contexts was empty; give at least one person of the source.")

    def __len__(self) -> int:
        return len(self.contexts)

    def part(self, start: int, stop: int) -> AuxiliaryData:
        """The people from number `start` up to but without number `stop`, counted from 0."""
        rows = slice(start, stop)
        return AuxiliaryData(self.contexts[rows], self.arms[rows], self.rewards[rows])


def behaviour(arms: int, kappa: float) -> FloatArray:
    """(K,) the probabilities of a behaviour policy in every context (section 4.1):

        mu(k) = kappa / K + (2 - 2 kappa) / (K (K - 1)) (k - 1),    k = 1 .. K.

    The exploration coefficient kappa is K min_k mu(k) (Definition 3.2): 1 chooses all arms equally
    often, 0 never chooses the first.
    """
    count = whole_number(arms, "arms", minimum=2)
    number_from(kappa, "kappa", 0.0, 1.0)
    steep = (2.0 - 2.0 * kappa) / (count * (count - 1))
    mu: FloatArray = kappa / count + steep * np.arange(count, dtype=np.float64)
    mu /= mu.sum()
    return mu


def logged(people: People, kappa: float, rng: np.random.Generator) -> AuxiliaryData:
    """The data of people for whom a behaviour policy chose."""
    count = people.rewards.shape[1]
    arms = rng.choice(count, size=len(people), p=behaviour(count, kappa))
    rewards = people.rewards[np.arange(len(people)), arms]
    return AuxiliaryData(people.contexts, arms, rewards)


def draw_auxiliary(
    problem: SyntheticProblem,
    people: int,
    rng: np.random.Generator,
    *,
    contexts: ContextSampler | None = None,
    kappa: float = 1.0,
) -> AuxiliaryData:
    """Data with the problem's mean rewards under another distribution of contexts.

    Args:
        problem: the target's.
        people: their number.
        rng: draws contexts, arms and rewards.
        contexts: the source's distribution, such as `CornerContexts(2, gamma)`; the target's if
            left out.
        kappa: of the behaviour policy.
    """
    whole_number(people, "people of a source", minimum=1)
    elsewhere = problem if contexts is None else problem.under(contexts)
    return logged(elsewhere.sample(people, rng), kappa, rng)


def auxiliary_from_table(table: TableProblem, rng: np.random.Generator) -> AuxiliaryData:
    """Everybody of a source's table in a random order, with arms that were drawn evenly."""
    return logged(table.sample(table.size, rng), 1.0, rng)


# People from declarations alone.


CONTRAST = 0.5
_LEAST = 0.01
_PLACES = 1001  # of the first column, where arms are compared


class SyntheticPeople(Problem):
    """People and rewards drawn from declarations alone.

    Args:
        domain: the declared columns.
        arm_names: the declared arms, at least two.
        bounds: of a reward.
        contrast: see the module, from 0.01 to 1.

    Attributes:
        difference: the largest difference between the arms' mean rewards for one person.

    Raises:
        InvalidInput: for a contrast that is not allowed.
    """

    def __init__(
        self,
        domain: Box,
        arm_names: tuple[str, ...],
        bounds: RewardBounds,
        contrast: float = CONTRAST,
    ) -> None:
        self.domain, self.arm_names, self.reward_bounds = domain, arm_names, bounds
        self.contrast = number_from(contrast, "contrast", _LEAST, 1.0)
        self._means = ExponentialMeans(len(arm_names))
        spread = np.ptp(self._shares(np.linspace(0.0, 1.0, _PLACES)[:, None]), axis=1).max()
        self.difference = float(spread) * (bounds.upper - bounds.lower)
        self.source = (
            "Synthetic: the columns and arms of the study, invented people; for one person mean "
            f"rewards of the arms differ by up to {self.difference:.2g}."
        )

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        unit = rng.random((people, self.domain.dimension))
        for column, levels in enumerate(self.domain.levels):
            if levels is not None:
                unit[:, column] = rng.integers(levels, size=people) / (levels - 1)
        shares = self._shares(unit)
        drawn = (rng.random(shares.shape) < shares).astype(np.float64)
        low, width = self.reward_bounds.lower, self.reward_bounds.upper - self.reward_bounds.lower
        contexts: FloatArray = self.domain.from_unit(unit)
        return People(contexts, low + width * drawn, low + width * shares)

    def _shares(self, unit: FloatArray) -> FloatArray:
        """(n, K) the probability that each arm pays."""
        return 0.5 + self.contrast * (self._means(unit) - 0.5)


def synthetic_people(
    content: Mapping[str, Any], place: Place, contrast: float = CONTRAST
) -> SyntheticPeople:
    """The stand-in of a study file's `[problem]`; no data are read.

    Args:
        content: of the study file.
        place: where it stands, for messages.
        contrast: see `SyntheticPeople`.

    Raises:
        InvalidInput: a problem without arms, learners for people who come more than once, or
            declarations that do not fit together.
    """
    options = dict(content.get("problem") or {})
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise InvalidInput(
            place.message("[problem] is without a name; `discreet data list` shows the names.")
        )
    entry = find_entry(name)
    entries = content.get("learners")
    for number, learner in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(learner, Mapping) and learner.get("max_contributions", 1) != 1:
            raise InvalidInput(
                place.within("learners", number).message(
                    f"max_contributions was {learner['max_contributions']!r}, but synthetic people "
                    "come once each, as how often people come is not declared; plan with "
                    "max_contributions = 1, or on an older or public table (--table FILE)."
                )
            )
    values = dict(checked(entry.options, options, place.within("problem")))
    columns, arms, bounds = _declared(entry, values)
    if len(arms) < 2 or not columns:
        ways = "declare them in [problem] as label = {...} or rewards = {...}, or "
        declare = ways if "label" in entry.options.model_fields else ""
        raise InvalidInput(
            place.message(
                f"synthetic people need arms, and the problem {name!r} has none; {declare}plan "
                "on an older or public table (--table FILE), or on a problem of `discreet data "
                "list`."
            )
        )
    return SyntheticPeople(Box.of(columns), tuple(arms), bounds, contrast)


def _declared(
    entry: Entry, values: Mapping[str, Any]
) -> tuple[tuple[Column, ...], tuple[str, ...], RewardBounds]:
    """Columns, arms and the bounds of rewards, as a problem's options declare them."""
    columns = tuple(values.get("columns") or entry.columns)
    label, rewards = values.get("label"), values.get("rewards")
    if isinstance(label, ClassLabels):
        return columns, label.declared()[0].values, RewardBounds()
    if isinstance(rewards, RewardColumns):
        return columns, tuple(rewards.columns), RewardBounds(rewards.lower, rewards.upper)
    action, reward = values.get("action"), values.get("reward")
    if isinstance(action, LoggedAction) and isinstance(reward, LoggedReward):
        return columns, action.names, RewardBounds(reward.lower, reward.upper)
    return columns, entry.arms, RewardBounds()
