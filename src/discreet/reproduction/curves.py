"""Figures and tables whose cases are one method under one budget, by people and by epsilon."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.reproduction.base import Plan, Reproduction
from discreet.reproduction.cases import Case, plan_of
from discreet.validation import InvalidInput, probability, whole_number


@dataclass(frozen=True)
class Request:
    """What cases are made for.

    Attributes:
        rounds: people in a trial.
        delta: of every budget, where the reproduction does not vary it.
        slow: whether methods that take long run too.
    """

    rounds: int
    delta: float | None
    slow: bool = False


@dataclass(frozen=True, kw_only=True)
class RegretFigure(Reproduction):
    """Results of several methods, as a table and as a figure.

    Attributes:
        rounds: people in a trial in the paper, or several such numbers.
        delta: the paper's; None where delta is varied, or where budgets have none.
        cases: what is run.
        slow: what `Request.slow` adds, in words; "" for nothing.
    """

    rounds: tuple[int, ...]
    delta: float | None
    cases: Callable[[Request], list[Case]]
    slow: str = ""
    form: str = "regret"

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.rounds

    @property
    def options(self) -> Mapping[str, Any]:
        return {
            "trials": self.trials,
            "rounds": list(self.rounds),
            "delta": self.delta,
            "jobs": None,
            "json": None,
            "plot": None,
            "log_scale": False,
            "published": False,
            "method": None,
        }

    def plan(self, trials: int | None = None, **wish: Any) -> Plan:
        number = self.trials if trials is None else trials
        return plan_of(self.planned(**wish), number, self.seed)

    def planned(
        self,
        rounds: Sequence[int] | None = None,
        delta: float | None = None,
        published: bool = False,
        method: Sequence[str] | None = None,
    ) -> list[Case]:
        """The cases of the named methods (all if none), with the paper's numbers by default.

        A method that runs only on request does so when it is named.

        Raises:
            InvalidInput: for numbers that are not allowed, a delta where it is varied, or a method
                that there is not.
        """
        sizes = [whole_number(people, "rounds", minimum=2) for people in rounds or self.rounds]
        if delta is not None and self.delta is None:
            raise InvalidInput(
                f"delta was {delta}, but {self.name} varies it or needs none; leave it out."
            )
        if published and not self.slow:
            raise InvalidInput(f"{self.name} leaves no method out; do not ask for all of them.")
        chosen = self.delta if delta is None else probability(delta, "delta")
        names = method or ()

        def made(slow: bool) -> list[Case]:
            return [case for n in sizes for case in self.cases(Request(n, chosen, slow))]

        cases = made(published)
        if self.slow and not set(names) <= {case.method for case in cases}:
            cases = made(True)
        known = dict.fromkeys(case.method for case in cases)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise InvalidInput(
                f"the method was {unknown[0]!r}; {self.name} has {', '.join(map(repr, known))}."
            )
        return [case for case in cases if not names or case.method in names]
