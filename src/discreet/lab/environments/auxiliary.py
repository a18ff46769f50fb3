"""Auxiliary data: people of another place whose arms were chosen by a behaviour policy.

| array         | shape  | meaning                                                      |
|---------------|--------|--------------------------------------------------------------|
| contexts      | (n, d) | one row a person, in the units of the problem's domain       |
| arms          | (n,)   | the arm that was chosen for each person, 0 .. K - 1          |
| rewards       | (n,)   | what that arm gave them                                      |
| probabilities | (K,)   | how often the behaviour policy chooses each arm, mu(k)       |

Mean rewards are those of the target; contexts may have another law (covariate shift). The setting
is that of Ma et al. (2025), sections 3.1 and 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

import numpy as np

from discreet.codec import Coded, Range, Shape
from discreet.lab.environments.base import People
from discreet.lab.environments.classification import TableProblem
from discreet.lab.environments.synthetic import ContextSampler, SyntheticProblem
from discreet.validation import FloatArray, IntArray, InvalidInput, number_from, whole_number

_MOST_ARMS = 2**31


@dataclass(frozen=True, eq=False)
class AuxiliaryData(Coded):
    """What happened to the people of one source; copied, checked and read-only.

    Attributes:
        contexts: (n, d).
        arms: (n,) whole numbers from 0 on.
        rewards: (n,).

    Raises:
        InvalidInput: for arrays of other shapes, no people, or values that are not finite.
    """

    contexts: Annotated[FloatArray, Shape("n", "d")]
    arms: Annotated[IntArray, Shape("n"), Range(0, _MOST_ARMS)]
    rewards: Annotated[FloatArray, Shape("n")]

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, np.array(getattr(self, field.name)))
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
    """(K,) the probabilities of a behaviour policy, whatever the context (section 4.1):

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
    """What people report after a behaviour policy chose for them."""
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
    """People with the problem's mean rewards under another law of contexts.

    Args:
        problem: the target's.
        people: how many.
        rng: draws contexts, arms and rewards.
        contexts: the source's law, such as `CornerContexts(2, gamma)`; the target's if left out.
        kappa: of the behaviour policy.
    """
    whole_number(people, "people of a source", minimum=1)
    elsewhere = problem if contexts is None else problem.under(contexts)
    return logged(elsewhere.sample(people, rng), kappa, rng)


def auxiliary_from_table(
    table: TableProblem,
    rng: np.random.Generator,
    *,
    kappa: float = 1.0,
    people: int | None = None,
) -> AuxiliaryData:
    """The rows of a source's table in a random order, with what a behaviour policy chose.

    Args:
        table: the people of the source.
        rng: draws the order and the arms.
        kappa: of the behaviour policy.
        people: how many of the rows; all if left out.
    """
    count = table.size if people is None else whole_number(people, "people of a source", minimum=1)
    return logged(table.sample(count, rng), kappa, rng)
