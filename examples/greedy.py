"""A learner of one's own: epsilon-greedy under local privacy (docs/adding.md).

Each person reports their group with the arm they got, and a sign that is up as often as their
reward is high, all of it by randomised response.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from discreet.codec import Range, Shape
from discreet.learners.base import ArmLearner
from discreet.learners.messages import Totals
from discreet.learners.policy import ArmPolicy
from discreet.learners.signs import SignedReporter, SignedReports
from discreet.privacy.frequency import k_ary_response, round_to_signs
from discreet.validation import FloatArray, InvalidInput, whole_number

EXPLORE = 0.1  # the share of people who get any arm


@dataclass(frozen=True, eq=False)
class GreedyPolicy(ArmPolicy):
    """The arm that looks best in a person's group, now and then any arm.

    Attributes:
        means: (groups, K) the estimated mean reward of each arm in each group.
        epsilon: of one report.
    """

    kind: ClassVar[str] = "greedy-policy"
    reports_are_private = True

    means: Annotated[FloatArray, Shape("groups", "arms")]
    epsilon: Annotated[float, Range(above=0.0)]

    @cached_property
    def mechanism(self):
        return k_ary_response(self.means.size, self.epsilon)

    @cached_property
    def reporter(self):
        return SignedReporter(
            self.mechanism,
            name=f"randomised response on {2 * self.means.size} values",
            data="the group with the arm, and the sign of the rounded reward",
            place_name="group with an arm",
        )

    def groups_of(self, unit):
        return np.minimum((unit[:, 0] * len(self.means)).astype(np.int64), len(self.means) - 1)

    def _probabilities(self, unit):
        best = np.equal.outer(self.means.argmax(axis=1), np.arange(self.arms))
        return EXPLORE / self.arms + (1.0 - EXPLORE) * best[self.groups_of(unit)]

    def _report(self, unit, actions, rewards, noise):
        places = self.groups_of(unit) * self.arms + actions.arms
        signs, public_coins = round_to_signs(rewards, noise), actions.public_coins
        return self.reporter.hidden(self, places, signs, public_coins, noise)

    def release(self, noise):
        return self.reporter.release(self, noise)


class Greedy(ArmLearner[GreedyPolicy, SignedReports, Totals]):
    """Epsilon-greedy on private counts; `groups` are equal parts of the first column."""

    name: ClassVar[str] = "greedy"
    trust_models: ClassVar[tuple[str, ...]] = ("local",)
    reports_type = SignedReports
    statistics_type = Totals

    def __init__(self, domain, arms, budget, *, groups=4, **common):
        super().__init__(domain, arms, budget, **common)
        self.groups = whole_number(groups, "groups", minimum=1, maximum=64)

    @property
    def batch_size(self):
        return max(100, self._published_at // 10)

    def _empty(self):
        return Totals(values=np.zeros(2 * self.groups * self.arms), reports=0)

    def _statistics(self, policy, reports):
        policy.reporter.check(policy, reports)
        places, signs = reports.places[:, 0], reports.signs[:, 0]
        size = policy.mechanism.bins
        counts = np.bincount(places, minlength=size), np.bincount(places, signs, minlength=size)
        return Totals(values=np.concatenate(counts).astype(np.float64), reports=len(reports))

    def _check_sums(self, statistics):
        size = self.groups * self.arms
        shown, signs = statistics.values[:size], statistics.values[size:]
        proper = len(signs) == size and (np.abs(signs) <= shown).all()
        if not proper or shown.sum() != statistics.reports:
            raise InvalidInput(
                f"statistics of {statistics.reports} reports had sums that no reports add up to; "
                "send them as statistics() made them."
            )

    def _publish(self) -> GreedyPolicy:
        size = self.groups * self.arms
        response = k_ary_response(size, self.budget.contribution_epsilon)
        shown, signs = np.split(self._sums.values, 2)
        # Wrong places come up alike, with either sign alike: what is above that is the truth.
        people = (shown - self.people * 2.0 * response.other_probability) / response.mass_contrast
        noise = math.sqrt(self.people * float(response.variance(1.0 / size)))
        means = 0.5 + 0.5 * (signs / response.contrast) / np.maximum(people, noise + 1.0)
        means = means.reshape(self.groups, self.arms)
        return GreedyPolicy(
            **self.policy_header(), means=means, epsilon=self.budget.contribution_epsilon
        )
