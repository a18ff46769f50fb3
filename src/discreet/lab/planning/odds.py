"""What an epsilon means for one person: what somebody could come to believe about them.

For two possibilities about a person, pure epsilon-differential privacy lets what is seen change the
odds of one against the other by a factor of e^epsilon at most, whatever else the observer knows. A
belief of p becomes at most

    p' = e^epsilon p / (1 - p + e^epsilon p),

and at least the same with -epsilon; without the person's data it stays p, apart from what is
learnt about people in general. Under (epsilon, delta) the same holds but for a probability of
delta, when nothing is limited: for two neighbours every such mechanism can be made from one that
says everything with probability delta and otherwise keeps epsilon (Kairouz, Oh and Viswanath, The
composition theorem for differential privacy, 2015).

The wording follows Nanayakkara, Smart, Cummings, Kaptchuk and Redmiles, What are the chances?
Explaining the epsilon parameter in differential privacy (USENIX Security 2023): chances out of 100,
taking part beside not taking part. They found this more effective than examples of outputs, and
than explanations that gloss over epsilon. What is said about beliefs is the semantics of
Kasiviswanathan and Smith, On the "semantics" of differential privacy (2014); Wood et al.,
Differential privacy: a primer for a non-technical audience (2018), tabulate it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.privacy import Guarantee
from discreet.validation import InvalidInput, number_from, probability

PRIORS = (0.5, 0.01)
"""What somebody may have believed before: as likely as not, and 1 out of 100."""
_NEARLY = 99  # out of 100; more is as good as certain
_UPWARD = 1e-9  # of a chance is rounding


@dataclass(frozen=True)
class Odds:
    """A belief about one person, as probabilities.

    Attributes:
        prior: what is believed if the person does not take part.
        most, least: between which it may move if they do.
    """

    prior: float
    most: float
    least: float


def belief(prior: float, epsilon: float) -> float:
    """The largest belief to which epsilon lets a prior rise; for -epsilon the smallest.

    Raises:
        InvalidInput: for a prior that is not strictly between 0 and 1.
    """
    against = (1.0 - probability(prior, "prior")) / prior
    return 1.0 / (1.0 + against * math.exp(-epsilon)) if epsilon > -700.0 else 0.0


def odds(epsilon: float, prior: float = 0.5) -> Odds:
    """How far a belief may move under pure epsilon.

    Raises:
        InvalidInput: for an epsilon below 0 or a prior that is not strictly between 0 and 1.
    """
    epsilon = number_from(epsilon, "epsilon", 0.0)
    return Odds(prior, belief(prior, epsilon), belief(prior, -epsilon))


def out_of_100(chance: float) -> int:
    """A chance as so many out of 100, rounded up."""
    return min(100, math.ceil(100.0 * chance - _UPWARD))


def chance_text(chance: float) -> str:
    """How high a belief can rise, never understated: at most 74 out of 100."""
    if 100.0 * chance > _NEARLY:
        return f"more than {_NEARLY} out of 100, as good as certain"
    return f"at most {out_of_100(chance)} out of 100"


@dataclass(frozen=True)
class Explanation:
    """What a guarantee means for one person.

    Attributes:
        guarantee: what is promised.
        odds: for each of `PRIORS`.
        beliefs: a sentence for each of them: taking part beside not taking part.
        exception: what delta allows; "" for pure promises.
        scope: what is protected, against whom, and what counts as taking part.
        general: what may be learnt without anybody's own data.
    """

    guarantee: Guarantee
    odds: tuple[Odds, ...]
    beliefs: tuple[str, ...]
    exception: str
    scope: str
    general: str

    @property
    def text(self) -> str:
        """All of it as one paragraph."""
        parts = (*self.beliefs, self.exception, self.scope, self.general)
        return " ".join(part for part in parts if part)


def explain(guarantee: Guarantee) -> Explanation:
    """What a guarantee means for one person, in chances out of 100.

    Raises:
        InvalidInput: for a guarantee that promises nothing.
    """
    if guarantee.trust_model == "none" or not math.isfinite(guarantee.epsilon):
        raise InvalidInput(
            "the guarantee promises nothing, so there are no chances to explain; give the "
            "guarantee of a private learner."
        )
    moved = tuple(odds(guarantee.epsilon, prior) for prior in PRIORS)
    return Explanation(
        guarantee,
        moved,
        (_even(moved[0], guarantee), _rare(moved[1])),
        _exception(guarantee),
        f"What is protected is your {guarantee.adjacency.record}. "
        f"{_AGAINST[guarantee.trust_model]} {_part(guarantee)}",
        _GENERAL,
    )


_SEEN = {
    "local": "your report",
    "joint": "everything that others can see",
    "outsourced": "the released table",
}
_WITHOUT = {
    "local": "If you do not take part",
    "joint": "If you do not take part, so that somebody else's data stand in place of yours",
    "outsourced": "If you do not take part, so that somebody else's row stands in place of yours",
}
_AGAINST = {
    "local": "This holds against everybody, the organisation that asks included, because only a "
    "randomised report leaves your device; and whatever else they know about you.",
    "joint": "This holds against everybody but the organisation that asks, which sees your data: "
    "other participants and the public, whatever else they know about you, as long as nobody but "
    "you is told what you were given.",
    "outsourced": "This holds against everybody who gets the table, whatever else they know about "
    "you, but not against the curator, who holds your row.",
}
_GENERAL = (
    "What is learnt about people in general, and so perhaps about you, can be learnt without you."
)


def _even(moved: Odds, guarantee: Guarantee) -> str:
    """The sentence for someone who thinks two possibilities equally likely."""
    model = guarantee.trust_model
    least = math.floor(100.0 * moved.least + _UPWARD)
    down = f", and bring them down to {least} at the least" if least else ""
    return (
        f"Suppose somebody thinks the chance that something is true of you is 50 out of 100. "
        f"{_WITHOUT[model]}, they go on thinking 50 out of 100; if you take part, {_SEEN[model]} "
        f"can bring them to {chance_text(moved.most)}{down}."
    )


def _rare(moved: Odds) -> str:
    """The sentence for someone who thinks it true of one person in a hundred."""
    return (
        "If they thought 1 out of 100, they go on thinking 1 out of 100 if you do not take part, "
        f"and {chance_text(moved.most)} if you do."
    )


def _exception(guarantee: Guarantee) -> str:
    if guarantee.delta <= 0.0:
        return ""
    odd = math.floor(1.0 / guarantee.delta + _UPWARD)
    return (
        f"All this may fail with a probability of at most {guarantee.delta:.3g} (1 in {odd:,}); "
        "then nothing limits what they learn about you."
    )


def _part(guarantee: Guarantee) -> str:
    """What counts as taking part."""
    if guarantee.adjacency.radius is not None:
        return (
            "The possibilities are rows that lie within distance "
            f"{guarantee.adjacency.radius:g} of each other."
        )
    if guarantee.adjacency.unit == "visit":
        return "This counts one visit: whoever comes more often is protected less, without a limit."
    count = guarantee.reports_per_person
    often = "once" if count == 1 else f"up to {count} times"
    return f"This holds for those who take part {often}."
