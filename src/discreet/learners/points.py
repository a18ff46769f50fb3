"""Policies whose actions are points of the domain.

| array  | shape  | meaning                                                                   |
|--------|--------|---------------------------------------------------------------------------|
| points | (n, d) | chosen points, in the units of the domain                                 |
| arms   | (n,)   | their places in each person's decision set or in the public set, else -1  |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.learners.messages import Actions, Policy
from discreet.people.domain import (
    ActionSpace,
    Candidates,
    DecisionSets,
    PublicBox,
    PublicSet,
    people_count,
)
from discreet.validation import FloatArray, IntArray, InvalidInput, TicketArray

# What n people bring: decision sets, or nothing.
Visitors = Candidates | range


@dataclass(frozen=True)
class PointPolicy(Policy[Visitors]):
    """A policy that chooses points.

    Attributes:
        offered: what can be chosen.
    """

    offered: DecisionSets | PublicSet | PublicBox

    @property
    def space(self) -> ActionSpace:
        return self.offered

    @property
    def _arm_range(self) -> tuple[int, int]:
        if isinstance(self.offered, PublicBox):
            return -1, -1
        if isinstance(self.offered, PublicSet):
            return 0, len(self.offered.points) - 1
        return 0, self.offered.most - 1

    def _read(self, contexts: Any) -> Visitors:
        if isinstance(self.offered, DecisionSets):
            return Candidates.read(contexts, self.domain, self.offered.most)
        return range(people_count(contexts))

    def _nearest(self, contexts: Any) -> Visitors:
        if isinstance(self.offered, DecisionSets):
            return Candidates.nearest(contexts, self.domain, self.offered.most)
        return range(people_count(contexts))

    def _act(self, people: Visitors, tickets: TicketArray) -> tuple[Actions, FloatArray]:
        if isinstance(people, Candidates):
            arms, propensities = self._choose(people, tickets)
            points = people.points[np.arange(len(people)), arms]
        else:
            arms, points, propensities = self._draw(tickets)
        return Actions(arms, tickets, self, points), propensities

    def chosen(self, people: Visitors, actions: Actions) -> FloatArray:
        """(n, d) the points of actions; `InvalidInput` where they are not to be had.

        Where reports are private, the last point of a decision set stands for those it lacks.
        """
        if isinstance(people, Candidates):
            rows = np.arange(len(people))
            absent = ~people.present[rows, actions.arms]
            if absent.any() and not self.reports_are_private:
                first = int(np.argmax(absent))
                raise InvalidInput(
                    f"actions.arms was {actions.arms[first]} at position {first}, but that "
                    f"person's decision set has {int(people.present[first].sum())} points; pass "
                    "the Actions that act() returned for these people."
                )
            points: FloatArray = people.points[rows, actions.arms]
            return points
        arms, points, _ = self._draw(actions.tickets)
        if not np.array_equal(arms, actions.arms):
            first = int(np.argmax(arms != actions.arms))
            raise InvalidInput(
                f"actions.arms was {actions.arms[first]} at position {first}, but its ticket "
                f"chooses {arms[first]}; pass the Actions that act() returned."
            )
        return points

    # A policy defines one of the two, or both if it takes decision sets and public points; what it
    # does not take is refused whoever comes.

    def _choose(self, people: Candidates, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        """(n,) places in the decision sets and their propensities."""
        raise InvalidInput("this policy takes no decision sets; give the number of people.")

    def _draw(self, tickets: TicketArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Where all can be given the same points: (n,) places, (n, d) points, propensities."""
        raise InvalidInput("this policy takes decision sets; give each person's.")
