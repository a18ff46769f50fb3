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
from functools import cached_property
from typing import Annotated

import numpy as np

from discreet.codec import Coded, Range, Shape
from discreet.problems.base import People
from discreet.problems.classification import TableProblem
from discreet.problems.synthetic import ContextSampler, SyntheticProblem
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


@dataclass(frozen=True)
class BehaviourPolicy:
    """Arms drawn with fixed probabilities, whatever the context (section 4.1):

        mu(k) = kappa / K + (2 - 2 kappa) / (K (K - 1)) (k - 1),    k = 1 .. K.

    Attributes:
        arms: the number of arms K.
        kappa: the exploration coefficient K min_k mu(k) (Definition 3.2): 1 chooses all arms
            equally often, 0 never chooses the first.
    """

    arms: int
    kappa: float = 1.0

    def __post_init__(self) -> None:
        whole_number(self.arms, "arms", minimum=2)
        number_from(self.kappa, "kappa", 0.0, 1.0)

    @cached_property
    def probabilities(self) -> FloatArray:
        """(K,) mu."""
        arms, kappa = self.arms, self.kappa
        steep = (2.0 - 2.0 * kappa) / (arms * (arms - 1))
        mu: FloatArray = kappa / arms + steep * np.arange(arms, dtype=np.float64)
        mu /= mu.sum()
        return mu

    def choose(self, people: int, rng: np.random.Generator) -> IntArray:
        """(n,) an arm for each of this many people."""
        chosen: IntArray = rng.choice(self.arms, size=people, p=self.probabilities)
        return chosen


def logged(people: People, policy: BehaviourPolicy, rng: np.random.Generator) -> AuxiliaryData:
    """What people report after a behaviour policy chose for them.

    Raises:
        InvalidInput: for people with another number of arms than the policy has.
    """
    count = people.rewards.shape[1]
    if count != policy.arms:
        raise InvalidInput(
            f"the people have {count} arms and the behaviour policy {policy.arms}; make the "
            f"policy with BehaviourPolicy({count}, kappa)."
        )
    arms = policy.choose(len(people), rng)
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
    return logged(elsewhere.sample(people, rng), BehaviourPolicy(problem.arms, kappa), rng)


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
    return logged(table.sample(count, rng), BehaviourPolicy(table.arms, kappa), rng)
