"""The guarantee that releases give one person, derived from their records.

A `Guarantee` is a pure function of the releases (accounting.py): nothing is declared, and reading a
guarantee changes nothing.

A person with `max_contributions` contributions, wherever they fall, pays at most as follows
(learners/contributions.py has the proof).

| each contribution                 | pure epsilon | Gaussian mu | worst where                |
|-----------------------------------|--------------|-------------|----------------------------|
| enters a sum, noise drawn once    | k times      | k times     | all are in one sum         |
| makes a report of its own (apart) | composed     | sqrt(k)     | all are under one policy   |
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context
from html import escape
from itertools import product
from typing import Annotated, ClassVar

from discreet.codec import OPTIONAL_FIELD, Range, Serializable, decode, encode
from discreet.privacy.accounting import (
    Adjacency,
    Event,
    GaussianEvent,
    GroupSize,
    Honest,
    OnceEach,
    PureEvent,
    Release,
    Rounds,
    ShuffledEvent,
    TrustModel,
    composed_epsilon,
)
from discreet.privacy.budget import Budget
from discreet.validation import InvalidInput, whole_number

_KINDS = (PureEvent, GaussianEvent)
# Above this epsilon a promise excludes nothing. Someone who knows no more than that a record is
# that of one of N people is, after evidence of ratio e^epsilon, 1 / (1 + N e^-epsilon) sure whose.
# With everyone alive as candidates, N < 2^33, that passes 99.9% at log(2^33) + log(999) = 29.8.
PROTECTS_NOBODY = 30.0


@dataclass(frozen=True)
class Guarantee(Serializable):
    """The protection of one person, derived from the releases.

    Attributes:
        trust_model: `local`, `shuffled`, `joint`, `outsourced` or `none`.
        epsilon: the epsilon held; infinity where nothing is promised.
        delta: the delta held; 0 for pure differential privacy.
        adjacency: which data sets are neighbours.
        data: what each person's data entered.
        noise: the noise sources used.
        reports_per_person: how many reports the guarantee covers.
        releases: how many releases it was derived from.
        report_epsilon: where reports are shuffled, the epsilon of one report at delta 0, which is
            held whatever becomes of the others; else None.
        group: the least number of reports that are shuffled together.
        honest: the share of the others in a group who do not conspire with the observer.
    """

    kind: ClassVar[str] = "guarantee"

    trust_model: TrustModel
    epsilon: Annotated[float, Range(0.0, infinite=True)]
    delta: Annotated[float, Range(0.0, 1.0)]
    adjacency: Adjacency
    data: tuple[str, ...]
    noise: tuple[str, ...]
    reports_per_person: Annotated[int, Range(1)]
    releases: Annotated[int, Range(0)]
    report_epsilon: Annotated[float, Range(0.0, infinite=True)] | None = field(
        default=None, metadata=OPTIONAL_FIELD
    )
    group: GroupSize = field(default=1, metadata=OPTIONAL_FIELD)
    honest: Honest = field(default=1.0, metadata=OPTIONAL_FIELD)

    def repeated(self, times: int) -> Guarantee:
        """The guarantee of a person who takes part `times` times.

        Pure epsilons add. Rows of one person in one release are a group, so for delta > 0 the
        bound is group privacy: delta (1 + e^epsilon + .. + e^((times - 1) epsilon)), which covers
        separate releases too (Dwork and Roth 2014, Theorem 2.2; Vadhan 2017, Lemma 2.2).
        """
        count = whole_number(times, "times", minimum=1)
        growth = 0.0
        if self.delta > 0.0:
            exponents = [i * self.epsilon for i in range(count)]
            growth = math.fsum(map(math.exp, exponents)) if exponents[-1] < 700.0 else math.inf
        return replace(
            self,
            epsilon=self.epsilon * count,
            delta=min(1.0, self.delta * growth) if self.delta > 0.0 else 0.0,
            report_epsilon=None if self.report_epsilon is None else self.report_epsilon * count,
            reports_per_person=self.reports_per_person * count,
        )

    @property
    def protects_nobody(self) -> bool:
        """Whether epsilon is above the limit, or delta 1: the promise excludes nothing."""
        return _beyond(self.report_epsilon or self.epsilon) or self.delta >= 1.0

    @property
    def sentence(self) -> str:
        """The promise in plain English; numbers are rounded up."""
        if self.releases == 0:
            return "Nothing has been drawn from anybody's data so far, so nothing can be learnt."
        if self.trust_model == "none" or not math.isfinite(self.epsilon):
            return "No privacy is promised: each person's data is used as it is."
        text = self._nothing if self.protects_nobody else self._promise
        if self._simulated:
            text += " The noise was simulated, so this run protects no one: it shows utility only."
        return text

    @property
    def _simulated(self) -> bool:
        """Whether some noise was simulated."""
        return any("simulation only" in name for name in self.noise)

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"Guarantee({self.held})"

    @property
    def held(self) -> str:
        """The guarantee in a few words; numbers are rounded up."""
        if self.releases == 0:
            return "nothing drawn from anybody's data so far"
        if self.trust_model == "none" or not math.isfinite(self.epsilon):
            return "no privacy"
        futile = ", which protects no one" if self.protects_nobody else ""
        unit = ", for each contribution by itself" if self.adjacency.unit == "contribution" else ""
        simulated = ", with simulated noise" if self._simulated else ""
        return f"{self._parameters}{unit}{futile}{simulated}"

    def _repr_html_(self) -> str:
        """The promise as a notebook shows it, in the notebook's own colours."""
        facts = {
            "held": self.held,
            "one person's record": self.adjacency.record,
            "reports of a person that it covers": f"{self.reports_per_person}",
            "what entered": ", ".join(self.data),
            "epsilon of one report": self.report_epsilon and rounded_up(self.report_epsilon),
            "noise": ", ".join(self.noise),
            "derived from": f"{self.releases:,} release{'' if self.releases == 1 else 's'}",
        }
        cell = '<td style="text-align: left; padding: .1em .7em .1em 0'
        rows = "".join(
            f'<tr>{cell}; opacity: .75">{escape(name)}</td>{cell}">{escape(f"{text}")}</td></tr>'
            for name, text in facts.items()
            if text
        )
        return f"<p>{escape(self.sentence)}</p><table>{rows}</table>"

    @property
    def _parameters(self) -> str:
        parameters = f"epsilon = {rounded_up(self.epsilon)}"
        if self.delta > 0.0:
            parameters += f", delta = {rounded_up(self.delta)}"
        return f"{parameters}; {self.trust_model} differential privacy, replace-one"

    @property
    def _nothing(self) -> str:
        """The sentence for a promise that excludes nothing."""
        if self.delta >= 1.0:
            return f"This protects no one: a delta of 1 allows anything ({self._parameters})."
        return (
            f"This protects no one ({self._parameters}): with an epsilon above "
            f"{PROTECTS_NOBODY:g}, someone who knew only that a record belongs to one of all the "
            "people alive may become more than 99.9% sure whose it is."
        )

    @property
    def _promise(self) -> str:
        who = {
            "local": "that leaves a person's device",
            "shuffled": f"that the shuffler passes on, in groups of {self.group:,},",
            "joint": "that other people can see",
            "outsourced": "in the released table",
        }[self.trust_model]
        other = f"any other {self.adjacency.record} of that person"
        if self.adjacency.radius is not None:
            other += f" within distance {self.adjacency.radius:g}"
        text = (
            f"Nothing {who} is more than {factor_text(self.epsilon)} times as likely as it would "
            f"have been with {other}"
        )
        if self.delta > 0.0:
            text += f", up to {rounded_up(self.delta)} added to any probability"
        text += f" ({self._parameters})."
        if self.delta == 0.0:
            text += (
                " Someone who thought two possibilities about a person equally likely is at most "
                f"{_certainty(self.epsilon)} sure of either afterwards."
            )
        count = self.reports_per_person
        if self.adjacency.unit == "contribution":
            return f"{text}{self._each_contribution}"
        if self.report_epsilon is not None:
            others = (
                "others" if self.honest == 1.0 else f"more than {1.0 - self.honest:.0%} of others"
            )
            text += (
                f" If the shuffler or {others} in the group conspire with the observer, or the "
                f"action was seen, the factor is {factor_text(self.report_epsilon)} (epsilon = "
                f"{rounded_up(self.report_epsilon)})."
            )
        noun = "participation" if self.trust_model in ("joint", "outsourced") else "report"
        covers = f"one {noun}" if count == 1 else f"{count} {noun}s"
        text += f" This holds for {covers} by a person"
        if count == 1:
            more = self.repeated(2)
            text += f"; two make it epsilon = {rounded_up(more.epsilon)}"
            text += f", delta = {rounded_up(more.delta)}" if more.delta > 0.0 else ""
        return f"{text}."

    @property
    def _each_contribution(self) -> str:
        """The limits of a promise about each contribution by itself."""
        often = [self.repeated(times) for times in (2, 10)]
        sums = [
            f"epsilon = {rounded_up(each.epsilon)}"
            + (f", delta = {rounded_up(each.delta)}" if each.delta > 0.0 else "")
            for each in often
        ]
        return (
            " This is about each contribution by itself and not about a person: nothing limits the "
            "number of contributions, and the loss grows with it: two contributions make it "
            f"{sums[0]}, ten {sums[1]}."
        )

    def to_json(self) -> str:
        """The guarantee as JSON; an infinite epsilon is null."""
        return json.dumps({**json.loads(encode(self)), "sentence": self.sentence}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Guarantee:
        """The inverse of `to_json`."""
        try:
            fields = dict(json.loads(text))
            fields.pop("sentence", None)
            return decode(json.dumps(fields), cls)
        except (ValueError, TypeError) as error:
            raise InvalidInput(
                f"the guarantee is damaged: {error} Read it as to_json() wrote it."
            ) from error


def check_protects(
    promise: Budget | Guarantee, allowed: bool = False, word: str = "--protects-nobody"
) -> None:
    """Refuse an epsilon that gives no protection, unless it is requested by name.

    Args:
        promise: the budget requested, or the guarantee held; `NonPrivate` passes.
        allowed: whether the user accepts an epsilon without protection.
        word: the option by which the user accepts it.
    """
    epsilon = promise.epsilon
    if promise.trust_model == "shuffled":  # held if the shuffler conspires, too
        if isinstance(promise, Guarantee):
            epsilon = promise.report_epsilon or 0.0
        else:
            epsilon = promise.contribution_epsilon
    if allowed or promise.trust_model == "none" or not _beyond(epsilon):
        return
    raise InvalidInput(
        f"epsilon was {rounded_up(epsilon)}, and above {PROTECTS_NOBODY:g} it protects "
        "no one: someone who knew only that a record belongs to one of all the people alive could "
        f"be more than 99.9% sure whose it is. Choose a smaller epsilon (promises that mean "
        f"something are mostly below 10), or say {word} to go on without protection."
    )


def derive_guarantee(
    releases: Sequence[Release], trust_model: TrustModel, adjacency: Adjacency, delta: float = 0.0
) -> Guarantee:
    """The guarantee of `releases`: the worst over all people who may exist.

    Args:
        releases: everything drawn so far; none at all promises epsilon = 0.
        trust_model: who sees what.
        adjacency: which data sets are neighbours.
        delta: the delta at which epsilon is read; 0 for pure mechanisms.
    """
    if not 0.0 <= delta < 1.0:
        raise InvalidInput(f"delta was {delta}; it must be at least 0 and below 1.")
    people = _events_of_a_person(releases)
    epsilon = max((composed_epsilon(events, delta) for events in people), default=0.0)
    shuffled = trust_model == "shuffled"
    groups = [each.event for each in releases if isinstance(each.event, ShuffledEvent)]
    apart = max((composed_epsilon(events, 0.0) for events in people if shuffled), default=0.0)
    if trust_model == "none":
        epsilon = math.inf
    return Guarantee(
        trust_model=trust_model,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        data=tuple(dict.fromkeys(release.data for release in releases)),
        noise=tuple(dict.fromkeys(release.noise for release in releases)),
        reports_per_person=max(
            (release.people.max_contributions for release in releases), default=1
        ),
        releases=len(releases),
        report_epsilon=apart if shuffled else None,
        group=min((event.group for event in groups), default=1),
        honest=min((event.honest for event in groups), default=1.0),
    )


def _events_of_a_person(releases: Sequence[Release]) -> list[list[Event]]:
    """Every list of events that some person's data may have entered."""
    groups: dict[str, list[Release]] = {}
    spans: list[tuple[Rounds, Event]] = []
    for release in releases:
        if isinstance(release.people, OnceEach):
            groups.setdefault(release.people.group, []).append(release)
        else:
            spans.append((release.people, release.event))
    # The set of releases over a round changes only where one starts. Contributions in several
    # rounds cost no more than all of them in one: costs of a kind are convex in how many fall
    # where.
    starts = sorted({span.start for span, _ in spans}) or [0]
    arrivals = [
        [
            _together(event, span.max_contributions)
            for span, event in spans
            if span.start <= at < span.stop
        ]
        for at in starts
    ]
    if (
        any(span.max_contributions > 1 for span, _ in spans)
        and len({type(event) for _, event in spans}) > 1
    ):
        # Kinds do not compare, so that contributions are counted once where each kind is dearest.
        arrivals = [
            [*one, *other]
            for one, other in product(
                *(
                    [[e for e in each if isinstance(e, kind)] for each in arrivals]
                    for kind in _KINDS
                )
            )
        ]
    choices = list(product(*(_choices(group) for group in groups.values())))
    return [
        [*arrival, *(event for chosen in choice for event in chosen)]
        for arrival, choice in product(arrivals, choices)
    ]


def _choices(releases: Sequence[Release]) -> list[list[Event]]:
    """The costs of a person's contributions to one group: the worst events of each kind, over all
    ways to divide contributions between kinds (which do not compare)."""
    worst = _worst([release.event for release in releases])
    people = [release.people for release in releases if isinstance(release.people, OnceEach)]
    contributions = max(each.max_contributions for each in people)
    apart = all(each.apart for each in people)

    def cost(event: Event, times: int) -> list[Event]:
        if apart:
            return [event] * times
        return [_together(event, times)] if times else []

    if len(worst) == 1:
        return [cost(worst[0], contributions)]
    first, second = worst
    return [
        [*cost(first, times), *cost(second, contributions - times)]
        for times in range(contributions, -1, -1)
    ]


def _together(event: Event, contributions: int) -> Event:
    """The cost of contributions to one release, whose sensitivity grows with their number."""
    if isinstance(event, PureEvent):
        return PureEvent(contributions * event.epsilon)
    return GaussianEvent(event.noise_multiplier / contributions)


def _worst(events: Sequence[Event]) -> list[Event]:
    """The events of a group that can be the worst: one of each kind (kinds do not compare)."""
    pure = [event for event in events if isinstance(event, PureEvent)]
    gaussian = [event for event in events if isinstance(event, GaussianEvent)]
    worst: list[Event] = []
    if pure:
        epsilon = max(event.epsilon for event in pure)
        shuffled = [event for event in pure if isinstance(event, ShuffledEvent)]
        if len(shuffled) < len(pure):
            worst.append(PureEvent(epsilon))
        else:  # no group is worse than the least of all, with the fewest honest people
            group = min(event.group for event in shuffled)
            worst.append(ShuffledEvent(epsilon, group, min(each.honest for each in shuffled)))
    if gaussian:
        worst.append(min(gaussian, key=lambda event: event.noise_multiplier))
    return worst


def _beyond(epsilon: float) -> bool:
    """Whether an epsilon is above the limit; the last digits of a computed one are not."""
    return epsilon > PROTECTS_NOBODY * (1.0 + 1e-9)


def rounded_up(value: float) -> str:
    """Four significant digits, rounded up, so that a text never promises more than is held.

    A part in 10^9 is forgiven: 0.1 is stored as a little more than 0.1.
    """
    nearest = f"{value:.4g}"
    if float(nearest) >= value * (1.0 - 1e-9):
        return nearest
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal_from_float(value)):.4g}"


def factor_text(epsilon: float) -> str:
    """e^epsilon, rounded up."""
    if epsilon < 13.0:
        text = rounded_up(math.exp(epsilon))
        return text if epsilon < math.log(1000.0) else f"{float(text):,.0f}"
    return f"10^{math.ceil(epsilon / math.log(10.0))}"


def _certainty(epsilon: float) -> str:
    """The posterior of a fair coin after evidence of ratio e^epsilon, in per cent, rounded up.

    It has as many decimals as it takes to stay below 100%, which would be no limit: up to six.
    """
    doubt = 100.0 / (1.0 + math.exp(min(epsilon, 700.0)))
    decimals = next((d for d in range(1, 6) if doubt * 10.0**d >= 1.0), 6)
    kept = math.floor(doubt * 10.0**decimals + 1e-9) / 10.0**decimals
    return f"{100.0 - kept:.{decimals}f}".rstrip("0").rstrip(".") + "%"
