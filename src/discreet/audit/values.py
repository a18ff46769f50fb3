"""Subjects that are one function of one value, for mechanisms and designs that are broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet.audit.exact import Facts, Promise, Subject, worst_neighbours
from discreet.audit.games import Claim, Exact
from discreet.privacy import Release
from discreet.privacy.accounting import Event, composed_epsilon
from discreet.validation import InvalidInput


@dataclass(frozen=True, eq=False)
class Value:
    """One data set.

    Attributes:
        label: in a few words.
        data: as the code takes it.
    """

    label: str
    data: Any

    def __str__(self) -> str:
        return self.label


# Runs on a value, notes what comes out, and says what is promised.
Code = Callable[[Any, Facts], Promise]


@dataclass(frozen=True)
class Values(Subject):
    """Code that takes a value.

    Attributes:
        code: that is run.
        neighbours: groups of values of which every two are neighbours.
    """

    code: Code = field(default=None)  # type: ignore[assignment]
    neighbours: tuple[Sequence[Value], ...] = ()

    def groups(self) -> Iterator[Sequence[Value]]:
        yield from self.neighbours

    def run(self, person: Value, facts: Facts) -> Promise:
        try:
            return self.code(person.data, facts)
        except InvalidInput as error:
            facts.refusal("it", error)
            raise


def exact_of(code: Code, *groups: Sequence[tuple[str, Any]], state: str = "") -> Exact:
    """The exact loss between the worst two values of a group."""
    neighbours = tuple([Value(*one) for one in group] for group in groups)
    return worst_neighbours(Values(state, code=code, neighbours=neighbours)).exact


def promised(
    asked: Claim, events: Sequence[Event], releases: Sequence[Release] | None = None
) -> Promise:
    """A budget, and what the accounting says of these events at its delta."""
    return Promise(asked, Claim(composed_epsilon(events, asked.delta), asked.delta), releases)
