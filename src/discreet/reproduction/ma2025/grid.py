"""What a figure varies, and how a request narrows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from discreet.reproduction.ma2025.settings import EXPONENTIAL, REWARDS, Rewards
from discreet.validation import InvalidInput, finite_number, positive_number, whole_number

_WORDS = {
    "rounds": "--rounds",
    "epsilons": "--epsilon",
    "auxiliary": "--auxiliary",
    "auxiliary_epsilons": "--auxiliary-epsilon",
    "gammas": "--gamma",
    "kappas": "--kappa",
    "sources": "--sources",
}


@dataclass(frozen=True)
class Grid:
    """The values of every quantity of a figure; empty where it has none.

    Attributes:
        rounds: people of the target, n_P.
        epsilons: of the target.
        auxiliary: people of each source, n_Qm; whether nothing is 0 too is the figure's affair.
        auxiliary_epsilons: epsilon_m.
        gammas: of the sources' contexts.
        kappas: of the behaviour policies.
        sources: M.
        constant: c of C_n = c log(n) in the published rules; the paper leaves it to a supplement.
        rewards: the mean rewards, of which a figure has one kind at a time.
    """

    rounds: tuple[int, ...]
    epsilons: tuple[float, ...]
    auxiliary: tuple[int, ...] = ()
    auxiliary_epsilons: tuple[float, ...] = ()
    gammas: tuple[float, ...] = ()
    kappas: tuple[float, ...] = ()
    sources: tuple[int, ...] = ()
    constant: float = 1.0
    rewards: Rewards = EXPONENTIAL

    def narrowed(
        self,
        wish: Mapping[str, Sequence[Any]],
        constant: float | None = None,
        rewards: str | None = None,
    ) -> Grid:
        """The same with the values that are asked for in place of the paper's.

        Raises:
            InvalidInput: for a quantity that the figure does not have, or a value that is not
                allowed.
        """
        known = {field.name for field in fields(self)} - {"constant", "rewards"}
        given = {name: tuple(values) for name, values in wish.items() if values}
        for name, values in given.items():
            if name not in known or not getattr(self, name):
                has = [_WORDS[one] for one in _WORDS if getattr(self, one)]
                raise InvalidInput(
                    f"{_WORDS.get(name, name)} was given, but this figure does not vary it; it has "
                    f"{', '.join(has)}."
                )
            given[name] = tuple(dict.fromkeys(_checked(name, value) for value in values))
        chosen = self.constant if constant is None else positive_number(constant, "the constant")
        kind = next((one for one in REWARDS if one == (rewards or self.rewards)), None)
        if kind is None:
            raise InvalidInput(
                f"--rewards was {rewards!r}; it must be one of {', '.join(REWARDS)}."
            )
        return replace(self, **given, constant=chosen, rewards=kind)


def _checked(name: str, value: Any) -> Any:
    if name == "rounds":
        return whole_number(value, "rounds", minimum=2)
    if name in ("auxiliary", "sources"):
        return whole_number(value, name, minimum=1)
    if name == "kappas":
        number = finite_number(value, "kappa")
        if not 0.0 <= number <= 1.0:
            raise InvalidInput(f"kappa was {value!r}; it must lie from 0 to 1.")
        return number
    if name == "gammas":
        number = finite_number(value, "gamma")
        if number < 0.0:
            raise InvalidInput(f"gamma was {value!r}; it must be 0 or more.")
        return number
    return positive_number(value, "epsilon")
