"""What a figure of Ma et al. (2025) varies, how a wish narrows it, and what is run for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from discreet.reproduction.base import Plan, Reproduction, check_known
from discreet.reproduction.cases import Case, plan_of
from discreet.reproduction.ma2025.settings import EXPONENTIAL, REWARDS, SEED, TRIALS, Rewards
from discreet.validation import InvalidInput, finite_number, positive_number, whole_number


@dataclass(frozen=True)
class TransferGrid:
    """The values of every quantity of a figure; empty where it has none.

    Attributes:
        rounds: people of the target, n_P.
        epsilon: of the target.
        auxiliary: people of each source, n_Qm; whether nothing is 0 too is the figure's affair.
        auxiliary_epsilon: epsilon_m.
        gamma: of the sources' contexts.
        kappa: of the behaviour policies.
        sources: M.
        constant: c of C_n = c log(n) in the published rules; the paper leaves it to a supplement.
        rewards: the mean rewards, of which a figure has one kind at a time.
    """

    rounds: tuple[int, ...]
    epsilon: tuple[float, ...]
    auxiliary: tuple[int, ...] = ()
    auxiliary_epsilon: tuple[float, ...] = ()
    gamma: tuple[float, ...] = ()
    kappa: tuple[float, ...] = ()
    sources: tuple[int, ...] = ()
    constant: float = 1.0
    rewards: Rewards = EXPONENTIAL

    def narrowed(
        self, constant: float | None, rewards: str | None, **wish: Sequence[Any] | None
    ) -> TransferGrid:
        """The same with the values that are asked for in place of the paper's.

        Raises:
            InvalidInput: for a quantity that the figure does not have, or a value that is not
                allowed.
        """
        given = {}
        for name, values in wish.items():
            if not values:
                continue
            if name not in AXES or not getattr(self, name):
                has = [_option(axis) for axis in AXES if getattr(self, axis)]
                raise InvalidInput(
                    f"{_option(name)} was given, but this figure does not vary it; it has "
                    f"{', '.join(has)}."
                )
            given[name] = tuple(dict.fromkeys(_checked(name, value) for value in values))
        chosen = self.constant if constant is None else positive_number(constant, "the constant")
        kinds = [kind for kind in REWARDS if kind == (rewards or self.rewards)]
        if not kinds:
            raise InvalidInput(
                f"--rewards was {rewards!r}; it must be one of {', '.join(REWARDS)}."
            )
        return replace(self, **given, constant=chosen, rewards=kinds[0])


AXES = tuple(axis.name for axis in fields(TransferGrid) if axis.name not in ("constant", "rewards"))


def _option(axis: str) -> str:
    return f"--{axis.replace('_', '-')}"


def _checked(axis: str, value: Any) -> Any:
    if axis in ("rounds", "auxiliary", "sources"):
        return whole_number(value, axis, minimum=2 if axis == "rounds" else 1)
    if axis in ("epsilon", "auxiliary_epsilon"):
        return positive_number(value, "epsilon")
    number = finite_number(value, axis)
    if axis == "kappa" and not 0.0 <= number <= 1.0:
        raise InvalidInput(f"kappa was {value!r}; it must lie from 0 to 1.")
    if number < 0.0:
        raise InvalidInput(f"gamma was {value!r}; it must be 0 or more.")
    return number


@dataclass(frozen=True, kw_only=True)
class TransferFigure(Reproduction):
    """A figure of the paper.

    Attributes:
        grid: the paper's values.
        cases: what is run for a grid.
        axis: the key of a setting that is the horizontal axis.
        axis_label: the same in words.
    """

    grid: TransferGrid
    cases: Callable[[TransferGrid], list[Case]]
    axis: str
    axis_label: str
    trials: int = TRIALS
    seed: int = SEED
    form: str = "sweep"

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.grid.rounds

    @property
    def options(self) -> Mapping[str, Any]:
        return {
            "repetitions": self.trials,
            "targets": None,
            **dict.fromkeys(AXES[1:]),
            "method": None,
            "constant": None,
            "rewards": EXPONENTIAL,
            **dict.fromkeys(("jobs", "json", "plot")),
        }

    def plan(self, repetitions: int | None = None, **wish: Any) -> Plan:
        trials = self.trials if repetitions is None else repetitions
        return plan_of(self.planned(**wish), trials, self.seed)

    def planned(
        self,
        method: Sequence[str] | None = None,
        constant: float | None = None,
        rewards: str | None = None,
        **wish: Sequence[Any] | None,
    ) -> list[Case]:
        """The cases of the named methods (all if none) on a grid that a wish narrows.

        Args:
            method: names.
            constant: c of the published rules.
            rewards: `exponential`, as in the paper, or `symmetric`, as in its supplement S.4.3.
            wish: values in place of the paper's, by the grid's names.

        Raises:
            InvalidInput: for a quantity that the figure does not vary, a value that is not
                allowed, or a method that there is not.
        """
        if self.form == "average" and rewards not in (None, EXPONENTIAL):
            raise InvalidInput(
                f"--rewards was {rewards!r}, but {self.name} looks at a context where the best of "
                "the exponential rewards is known; it has those alone."
            )
        cases = self.cases(self.grid.narrowed(constant, rewards, **wish))
        check_known(method or (), list(dict.fromkeys(case.method for case in cases)), "method")
        return [case for case in cases if not method or case.method in method]


@dataclass(frozen=True, kw_only=True)
class Drawing(Reproduction):
    """A figure for which nothing is run."""

    trials: int = 0
    form: str = "drawing"

    @property
    def sizes(self) -> tuple[int, ...]:
        return ()

    @property
    def options(self) -> Mapping[str, Any]:
        return {"drawing": ...}

    def plan(self) -> Plan:
        raise InvalidInput(f"{self.name} is drawn and not run; there is nothing to plan.")
