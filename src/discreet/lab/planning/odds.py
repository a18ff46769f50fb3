"""What an epsilon means for one person: how certain an observer can become about them.

Pure epsilon-differential privacy lets an output change the odds of two possibilities about a person
by a factor of at most e^epsilon, whatever else the observer knows. A prior p becomes at most

    p' = e^epsilon p / (1 - p + e^epsilon p),

and at least the same with -epsilon. Without the person's data it stays p, apart from what the data
of others teach about people in general.

Under (epsilon, delta) single outputs may say more, and with Gaussian noise they do so more often
than with probability delta. What holds is an average and a tail: of two equally likely
possibilities a guess is right with probability at most (e^epsilon + delta) / (1 + e^epsilon). And a
set S of outputs with P(S) >= e^(epsilon + t) Q(S) has P(S) - e^epsilon Q(S) <= delta, so
P(S) <= delta / (1 - e^-t), and Q(S) <= e^-(epsilon + t) P(S): whichever is true, odds change by
more than e^(epsilon + t) with probability at most (1 + e^-(epsilon + t)) delta / (1 - e^-t).

The form, chances out of 100 with and without taking part, is that of Nanayakkara, Smart, Cummings,
Kaptchuk and Redmiles, What are the chances? Explaining the epsilon parameter in differential
privacy (USENIX Security 2023). The semantics is that of Kasiviswanathan and Smith, On the
"semantics" of differential privacy (2014).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.privacy import Guarantee
from discreet.validation import InvalidInput, number_from, probability

PRIORS = (0.5, 0.01)
"""Priors of an observer: even odds, and 1 out of 100."""
_NEARLY = 99  # out of 100; more is as good as certain
_UPWARD = 1e-9  # of a chance is rounding
_BEYOND = 1.0  # t, for single outputs under a delta


@dataclass(frozen=True)
class PosteriorOdds:
    """The bounds of an observer's posterior probability.

    Attributes:
        prior: the probability without the person's data.
        most, least: between which it lies with them.
    """

    prior: float
    most: float
    least: float


def posterior_odds(epsilon: float, prior: float = 0.5) -> PosteriorOdds:
    """The bounds of the posterior under pure epsilon.

    Raises:
        InvalidInput: for an epsilon below 0 or a prior that is not strictly between 0 and 1.
    """
    epsilon = number_from(epsilon, "epsilon", 0.0)
    against = (1.0 - probability(prior, "prior")) / prior
    most = 1.0 / (1.0 + against * math.exp(-epsilon))
    least = 1.0 / (1.0 + against * math.exp(epsilon)) if epsilon < 700.0 else 0.0
    return PosteriorOdds(prior, most, least)


def tail_probability(epsilon: float, delta: float, beyond: float = _BEYOND) -> float:
    """The largest probability that an output changes odds by more than e^(epsilon + beyond)."""
    both = 1.0 + math.exp(-epsilon - beyond)
    return min(both * delta / -math.expm1(-beyond), 1.0)


def out_of_100(chance: float) -> int:
    """A chance out of 100, rounded up."""
    return min(100, math.ceil(100.0 * chance - _UPWARD))


def chance_text(chance: float) -> str:
    """An upper bound of a chance, never understated: at most 74 out of 100."""
    if 100.0 * chance > _NEARLY:
        return f"more than {_NEARLY} out of 100, as good as certain"
    return f"at most {out_of_100(chance)} out of 100"


@dataclass(frozen=True)
class Explanation:
    """A guarantee in chances out of 100.

    Attributes:
        guarantee: what is explained.
        odds: for each of `PRIORS`.
        beliefs: a sentence for each of them: with and without taking part.
        exception: what delta allows; "" for pure guarantees.
        scope: what is protected, against whom, and what counts as taking part.
        general: what can be learnt without anyone's own data.
    """

    guarantee: Guarantee
    odds: tuple[PosteriorOdds, ...]
    beliefs: tuple[str, ...]
    exception: str
    scope: str
    general: str

    @property
    def text(self) -> str:
        """All of it as one paragraph."""
        parts = (*self.beliefs, self.exception, self.scope, self.general)
        return " ".join(part for part in parts if part)


_OUTPUT = {
    "local": "your report",
    "shuffled": "what the shuffler passes on",
    "joint": "all published outputs",
    "outsourced": "the released table",
}
_AGAINST = {
    "local": "This holds against everyone, including the organisation that asks, because only a "
    "randomised report leaves your device, as long as no one but you sees what you were given.",
    "shuffled": "This holds against everyone who sees no more than groups of shuffled reports, the "
    "organisation that asks included, as long as neither the shuffler nor others in your group "
    "conspire with it and no one sees what you were given.",
    "joint": "This holds against everyone except the organisation that asks, which sees your data, "
    "as long as what you were given is disclosed to no one but you.",
    "outsourced": "This holds against everyone who gets the table, but not against the curator, "
    "who holds your row.",
}
_ANYWAY = "It holds whatever else an observer knows."
_GENERAL = (
    "What the data teach about people in general, and so "
    "perhaps about you, can be learnt without you."
)


def explain(guarantee: Guarantee) -> Explanation:
    """A guarantee in chances out of 100.

    Raises:
        InvalidInput: for a guarantee without protection.
    """
    if guarantee.trust_model == "none" or not math.isfinite(guarantee.epsilon):
        raise InvalidInput(
            "the guarantee promises nothing, so there are no chances to explain; give the "
            "guarantee of a private learner."
        )
    even, rare = moved = tuple(posterior_odds(guarantee.epsilon, prior) for prior in PRIORS)
    least = math.floor(100.0 * even.least + _UPWARD)
    down = f", or lower it to {least}" if least else ""
    exception = ""
    if guarantee.delta > 0.0:
        factor = math.exp(min(guarantee.epsilon + _BEYOND, 700.0))
        rarely = math.floor(1.0 / tail_probability(guarantee.epsilon, guarantee.delta))
        exception = (
            "Some outputs may say more: odds change by a factor above "
            f"{factor:.3g} with a probability of at most 1 in {rarely:,}."
        )
        if 100.0 * even.most <= _NEARLY:
            exception += (
                f" On average a guess at even odds is right {chance_text(even.most)} times, and "
                f"{guarantee.delta:.3g} of the time besides."
            )
    model = guarantee.trust_model
    return Explanation(
        guarantee,
        moved,
        (
            "Suppose an observer thinks that something is true of you with a chance of 50 out of "
            f"100. If you do not take part, it stays 50 out of 100; if you do, {_OUTPUT[model]} "
            f"can raise it to {chance_text(even.most)}{down}.",
            "A chance of 1 out of 100 stays 1 out of 100 if you do not take part, and becomes "
            f"{chance_text(rare.most)} if you do.",
        ),
        exception,
        f"What is protected is your {guarantee.adjacency.record}. {_AGAINST[model]} "
        f"{_part(guarantee)}",
        _GENERAL if model == "shuffled" else f"{_ANYWAY} {_GENERAL}",
    )


def _part(guarantee: Guarantee) -> str:
    """What counts as taking part."""
    if guarantee.adjacency.radius is not None:
        return (
            "The possibilities are rows that lie within distance "
            f"{guarantee.adjacency.radius:g} of each other."
        )
    if guarantee.adjacency.unit == "contribution":
        return (
            "This covers one contribution: people who come more often are protected less, without "
            "limit."
        )
    count = guarantee.reports_per_person
    often = "once" if count == 1 else f"up to {count} times"
    return f"This holds for people who take part {often}."
