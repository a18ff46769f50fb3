"""`noisy_context`: the context goes to the server under noise, and the server decides.

As browsers and advertisers do (Firefox encodes interests with p = 0.92 and q = 0.0288): the device
sends, for each column, which part of it the person is in, by unary encoding; the server decodes it,
chooses an arm, and gets the sign of the reward back by randomised response.

*Claim.* d columns that are cut cost epsilon_c each and the sign epsilon_r, because the sign is
drawn afresh, given everything sent before. Two people, whatever their contexts and rewards, make
the same bits, arm and sign within a factor e^(d epsilon_c + epsilon_r) <= e^epsilon. The arm
follows from bits and ticket, so it tells nothing more.

**Decoding.** Of the bits of a column that show, one is taken at public random; if none shows, one
of all. With V parts a person is taken for where they are with probability

    a = p (1 - (1 - q)^V) / (V q) + (1 - p) (1 - q)^(V - 1) / V,

and otherwise for each other part alike. What is learnt are the rewards of people who were taken for
those of a cell, which is what the next decision is about.

The bits are drawn in `act`, before there is an arm, so this is the one policy that needs a source
of noise there; they stay with the action and are sent once, with the report.

| array  | shape  | meaning                                              |
|--------|--------|------------------------------------------------------|
| shown  | (n, B) | the bits of all columns that are cut, one after the other |
| cells  | (n,)   | the cell that the server takes a person for          |
| clicks | (n,)   | the sign of the reward, -1 or +1, randomised         |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np

from discreet.codec import Range, Shape
from discreet.learners.base import Common
from discreet.learners.baselines.cells.grid import Parts
from discreet.learners.baselines.cells.learner import CellLearner, CellPolicy
from discreet.learners.messages import TICKETS, Actions, Reports, Totals
from discreet.learners.public_randomness import public_uniforms
from discreet.learners.terms import NoiseName, Terms, check_reporting
from discreet.people.actions import Arms
from discreet.people.domain import Box
from discreet.privacy import Local, NoiseSource, Release, SimulatedNoise
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import (
    SignedSubsetSelection,
    UnaryEncoding,
    k_ary_response,
    round_to_signs,
)
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    SignArray,
    TicketArray,
    probability,
)

# So that sums of epsilons are not above the budget by a rounding.
_LESS = 1.0 - 2.0**-50
_LEAST_SHOWN, _MOST_SHOWN = 2.0**-20, 1.0 - 2.0**-20


@dataclass(frozen=True, eq=False, kw_only=True)
class ShownActions(Actions):
    """Actions, with what the server was shown of each person before it chose.

    Attributes:
        shown: see the module.
        noise: the name of the source that drew it.
    """

    kind: ClassVar[str] = "shown-actions"

    shown: Annotated[BoolArray, Shape("n", "B")]
    noise: NoiseName

    def __getitem__(self, people: slice | IntArray) -> ShownActions:
        arms, tickets = self.arms[people], self.tickets[people]
        return replace(self, arms=arms, tickets=tickets, shown=self.shown[people])


@dataclass(frozen=True, eq=False)
class ContextReports(Reports):
    """What n people sent (see the module)."""

    kind: ClassVar[str] = "context-reports"

    tickets: Annotated[TicketArray, Shape("n"), Range(0, TICKETS - 1)]
    shown: Annotated[BoolArray, Shape("n", "B")]
    clicks: Annotated[SignArray, Shape("n"), Range(-1, 1)]

    def __len__(self) -> int:
        return len(self.clicks)


@dataclass(frozen=True, eq=False)
class NoisyContextPolicy(CellPolicy):
    """The server's choice for the cell that it takes a person for.

    Attributes:
        context_share: of epsilon, what the columns cost together.
        shown: p of the columns; 0 for the symmetric one, 1 - q.
    """

    kind: ClassVar[str] = "noisy-context-policy"

    context_share: Annotated[float, Range(above=0.0, below=1.0)]
    shown: Annotated[float, Range(0.0, _MOST_SHOWN)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.columns:
            raise InvalidInput("no column is cut, so there is no context to send; cut one.")
        _ = self.columns, self.click  # refuse an epsilon that is too small, on arrival

    @cached_property
    def columns(self) -> tuple[UnaryEncoding, ...]:
        """How each column that is cut is hidden."""
        parts = [count for count in self.grid.parts if count > 1]
        epsilon = _LESS * self.epsilon * self.context_share / max(len(parts), 1)
        shown = self.shown
        if not shown:
            shown = UnaryEncoding.symmetric(2, min(epsilon, 27.0)).shown
        return tuple(UnaryEncoding(count, epsilon, shown) for count in parts)

    @cached_property
    def click(self) -> SignedSubsetSelection:
        """How the sign is hidden."""
        return k_ary_response(1, _LESS * self.epsilon * (1.0 - self.context_share))

    @property
    def bits(self) -> int:
        """B."""
        return sum(column.values for column in self.columns)

    def act(
        self,
        contexts: Any,
        rng: np.random.Generator,
        terms: Terms | None = None,
        noise: NoiseSource | None = None,
        *,
        nearest: bool = False,
    ) -> tuple[ShownActions, FloatArray]:
        """As `Policy.act`.

        Args:
            contexts, rng, terms, nearest: as there.
            noise: draws what the server is shown; the same as in `report`. Without `terms`, in
                simulations, it may be left out, and is then made from `rng`.
        """
        if terms is not None:
            terms.check(self)
        if noise is None and terms is not None:
            raise InvalidInput(
                "noise was None beside terms, and acting sends bits of the context; pass the noise "
                "source that report() gets."
            )
        if noise is not None:
            check_reporting(self, noise, terms)
        plain, _ = super().act(contexts, rng, terms, nearest=nearest)
        unit = self._nearest(contexts) if nearest else self._read(contexts)
        noise = noise or SimulatedNoise(int(rng.integers(TICKETS)))
        places = self.grid.places(unit)
        cut = [place for place, count in enumerate(self.grid.parts) if count > 1]
        shown = np.concatenate(
            [
                column.privatise(places[:, place], noise)
                for place, column in zip(cut, self.columns, strict=True)
            ],
            axis=1,
        )
        arms = self.chosen(shown, plain.tickets)
        odds = self._probabilities(unit)[np.arange(len(unit)), arms]
        actions = ShownActions(arms, plain.tickets, self, shown=shown, noise=noise.name)
        return actions, odds

    def decoded(self, shown: BoolArray, tickets: TicketArray) -> IntArray:
        """(n,) the cells that people are taken for."""
        places = np.zeros((len(shown), len(self.grid.parts)), dtype=np.int64)
        start = 0
        for place, count in enumerate(self.grid.parts):
            if count == 1:
                continue
            bits = shown[:, start : start + count]
            bits = bits | ~bits.any(axis=1, keepdims=True)
            lots = public_uniforms(
                self.public_seed, self.version, tickets, np.full(len(shown), 1 + place)
            )
            number = bits.sum(axis=1)
            rank = np.minimum((lots * number).astype(np.int64), number - 1)
            places[:, place] = (np.cumsum(bits, axis=1) <= rank[:, None]).sum(axis=1)
            start += count
        return self.grid.cell(places)

    def chosen(self, shown: BoolArray, tickets: TicketArray) -> IntArray:
        """(n,) the server's arms."""
        return self._drawn(self.shares[self.decoded(shown, tickets)], tickets)[0]

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        shares = self.shares.reshape(*self.grid.parts, self.arms)
        columns = iter(self.columns)
        for place, count in enumerate(self.grid.parts):
            if count > 1:
                moved = np.moveaxis(shares, place, 0)
                own = taken_rightly(next(columns))
                other = (1.0 - own) / (count - 1)
                mixed = (own - other) * moved + other * moved.sum(axis=0)
                shares = np.moveaxis(mixed, 0, place)
        cells = self.grid.cell(self.grid.places(unit))
        return np.asarray(shares.reshape(-1, self.arms)[cells])

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> ContextReports:
        """What was shown before, as it was, and the sign of the reward."""
        if not isinstance(actions, ShownActions) or actions.shown.shape[1] != self.bits:
            raise InvalidInput(
                "actions were without what the server was shown; pass the actions that act() "
                "returned."
            )
        if actions.noise != noise.name:
            raise InvalidInput(
                f"the context was shown under noise from {actions.noise!r}, and this report is "
                f"under {noise.name!r}; pass the same source to act() and report()."
            )
        signs = round_to_signs(rewards, noise)
        _, clicks = self.click.privatise(np.zeros(len(signs), dtype=np.int64), signs, noise)
        return ContextReports(
            **self.origin(noise.name),
            tickets=actions.tickets,
            shown=actions.shown,
            clicks=clicks[:, 0],
        )

    def release(self, noise: str) -> Release | None:
        spent = [*(column.epsilon for column in self.columns), self.click.epsilon]
        return Release(
            mechanism=f"unary encoding of {len(self.columns)} columns, p = "
            f"{self.columns[0].shown:.3g}, and randomised response of the sign",
            event=PureEvent(sum(spent)),
            sensitivity=1.0,
            sensitivity_source="any two parts of each column, and any two signs, are neighbours",
            scale=sum(spent),
            people=self.group,
            data="the part of each column, and the sign of the reward",
            noise=noise,
        )


def taken_rightly(column: UnaryEncoding) -> float:
    """a (see the module)."""
    p, q, count = column.shown, column.other_probability, column.values
    if q <= 0.0:
        return p + (1.0 - p) / count
    among = -np.expm1(count * np.log1p(-q)) / (count * q)
    return float(p * among + (1.0 - p) * (1.0 - q) ** (count - 1) / count)


class NoisyContext(CellLearner[NoisyContextPolicy, ContextReports]):
    """Send the context under noise, decide on the server (see the module).

    Args:
        cells: see `CellLearner`; a column of one part is not sent.
        context_share: of epsilon, what the columns cost together; the rest is the sign's.
        shown: p, the probability that the bit of the own part shows; by default 1 - q.
    """

    name: ClassVar[str] = "noisy_context"
    # Its server is shown something of a context whenever somebody acts, reported or not.
    acts_silently: ClassVar[bool] = False
    reports_type = ContextReports

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Local,
        *,
        cells: Parts = 4,
        context_share: float = 0.8,
        shown: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, cells=cells, **common)
        self.context_share = probability(context_share, "context_share")
        self.shown = None if shown is None else probability(shown, "shown")

    @property
    def _size(self) -> int:
        return 2 * self.grid.cells * self.arms

    def _publish(self) -> NoisyContextPolicy:
        return NoisyContextPolicy(
            **self.policy_header(),
            shares=self._shares(),
            context_share=self.context_share,
            shown=self.shown or 0.0,
        )

    def _statistics(self, policy: NoisyContextPolicy, reports: ContextReports) -> Totals:
        if reports.shown.shape[1] != policy.bits or len(reports) == 0:
            raise InvalidInput(
                f"reports had bits of shape {reports.shown.shape}; each must have {policy.bits}, "
                "and there must be at least one."
            )
        if not (np.abs(reports.clicks) == 1).all():
            raise InvalidInput("reports had clicks other than -1 and +1; a sign says up or down.")
        cells = policy.decoded(reports.shown, reports.tickets)
        places = cells * self.arms + policy.chosen(reports.shown, reports.tickets)
        half = self._size // 2
        pulls = np.bincount(places, minlength=half)
        clicks = np.bincount(places, reports.clicks, minlength=half)
        return Totals(values=np.concatenate([pulls, clicks]), reports=len(reports))

    def _check_sums(self, statistics: Totals) -> None:
        values = statistics.values
        pulls, clicks = np.split(values, 2) if values.shape == (self._size,) else (values, values)
        if (
            values.shape != (self._size,)
            or pulls.sum() != statistics.reports
            or (np.abs(clicks) > pulls).any()
        ):
            raise InvalidInput(
                f"statistics of {statistics.reports} reports had {values.size} numbers; they must "
                f"be {self._size}: for each cell and arm how many came, together the number of "
                "reports, and the sum of their signs."
            )

    def _estimates(self, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        pulls, clicks = values.reshape(2, self.grid.cells, self.arms)
        epsilon = _LESS * self.budget.visit_epsilon * (1.0 - self.context_share)
        contrast = k_ary_response(1, epsilon).contrast
        return clicks / contrast, pulls, pulls * (1.0 / contrast**2 - 1.0)
