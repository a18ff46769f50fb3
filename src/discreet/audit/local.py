"""The game of local privacy: one person's report, under a policy and a ticket that are public.

The adversary knows everything that came before the report, and that it is from one of two people.
Three kinds of scores, the strongest that fits:

* all outcomes: where a report takes few values, its law is known exactly (enumeration.py);
* likelihood ratio: where the noise is additive, from what was handed to it (replay.py);
* a trained classifier on everything in the report (classifier.py).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from discreet.audit.classifier import Arrays, Classifier, arrays_of
from discreet.audit.enumeration import NotFinite, exact_epsilon, law_of
from discreet.audit.games import Bound, Claim, Exact, Game, Playable, Seed
from discreet.audit.lower_bound import attack, best_threshold
from discreet.audit.makers import Maker
from discreet.audit.people import Pair, People, Person
from discreet.audit.replay import Call, NotAdditive, Tape, log_ratio, separation
from discreet.learners.base import Learner
from discreet.learners.messages import Policy
from discreet.learners.schema import encode
from discreet.learners.sources import SourceLearner, SourcePolicy
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.validation import FloatArray, InvalidInput

# Pairs of people that are tried, with this many reports of each for a first impression.
_PAIRS = 24
_PILOT = 2000
# A classifier is trained on so many reports of each.
_TRAINING = 10_000
# Laws of reports are worked out in at most so many runs.
_RUNS = 5000
# Tickets that are tried; they decide which arm is public.
_TICKETS = 3

SOURCE = "auxiliary"


class Reporter(ABC):
    """Makes reports of one person.

    Attributes:
        people: how contexts are made of a person's points.
    """

    people: People

    @abstractmethod
    def reports(self, person: Person, count: int, noise: NoiseSource) -> Any:
        """So many independent reports of the person; `InvalidInput` if they may not be made."""


@dataclass(frozen=True)
class TargetReporter(Reporter):
    """Under a policy, with a ticket that is the same in all trials.

    Attributes:
        people: see `Reporter`.
        policy: that is public.
        ticket: the seed of the ticket.
    """

    people: People
    policy: Policy[Any]
    ticket: int

    def reports(self, person: Person, count: int, noise: NoiseSource) -> Any:
        one, _ = self.policy.act(self.people.many(person, 1), np.random.default_rng(self.ticket))
        actions = self.people.acted(one, person, 0)[np.zeros(count, dtype=np.int64)]
        rewards = self.people.in_units(np.full(count, person.reward))
        return self.policy.report(self.people.many(person, count), actions, rewards, noise)


@dataclass(frozen=True)
class SourceReporter(Reporter):
    """Of an auxiliary source, whose arms were chosen by others.

    Attributes:
        people: see `Reporter`.
        policy: of the source, public.
    """

    people: People
    policy: SourcePolicy

    def reports(self, person: Person, count: int, noise: NoiseSource) -> Any:
        arms = np.full(count, person.arm or 0)
        rewards = self.people.in_units(np.full(count, person.reward))
        return self.policy.report(self.people.many(person, count), arms, rewards, noise)


@dataclass(frozen=True)
class LocalReports(Game):
    """See the module.

    Attributes:
        maker: of the learner whose policy people report under.
        source: whether they are of an auxiliary source.
        reporter: None until prepared.
        pair: the two people; None until prepared.
        held: what the learner's certificate says; None until prepared.
        classifier: None where the noise is additive.
    """

    maker: Maker
    source: bool = False
    reporter: Reporter | None = None
    pair: Pair | None = None
    held: Claim | None = None
    classifier: Classifier | None = None
    bound: Bound = "counts"
    threshold: float | None = None

    @property
    def claim(self) -> Claim:
        assert self.held is not None
        return self.held

    @property
    def attack(self) -> str:
        assert self.pair is not None
        how = "likelihood ratio" if self.classifier is None else "trained classifier"
        return f"{how} of a report; {self.pair[0]} or {self.pair[1]}"

    def prepared(self, seed: Seed) -> Playable:
        """Choose person and ticket, and how to score; an exact answer where there is one."""
        learner = self._taught(seed)
        guarantee = (
            learner.source_guarantees()[SOURCE]
            if self.source and isinstance(learner, SourceLearner)
            else learner.guarantee()
        )
        held = replace(self, held=Claim(guarantee.epsilon, guarantee.delta))
        games = [
            replace(held, reporter=reporter, pair=pair)
            for reporter in self._reporters(learner)
            for pair in islice(self.maker.crowd().pairs(), _PAIRS)
        ]
        ranked = [(game._apart(seed), game) for game in games]
        apart, best = max(ranked, key=lambda one: one[0])
        if apart == -math.inf:
            raise InvalidInput(
                f"{self.maker.learner} refused all people of the audit, who are in corners of the "
                "domain and have rewards at their bounds; attack it with people that it takes."
            )
        return best._strongest(seed)

    def _strongest(self, seed: Seed) -> Playable:
        try:
            laws = [law_of(lambda noise, at=at: self._word(at, noise), _RUNS) for at in (0, 1)]  # type: ignore[misc]
        except NotFinite:
            pass
        else:
            outcomes = len({*laws[0], *laws[1]})
            assert self.pair is not None
            how = f"all {outcomes} outcomes of a report; {self.pair[0]} or {self.pair[1]}"
            return Exact(self.claim, exact_epsilon(laws[0], laws[1], self.claim.delta), how)
        try:
            kinds = {call.kind for call in self._additive(True, 1, seed)[0]}
        except NotAdditive:
            first, second = (
                self._drawn(side, _TRAINING, seed.spawn(1)[0]) for side in (True, False)
            )
            return replace(self, classifier=Classifier.trained(first, second))
        return replace(self, bound="gaussian", threshold=0.0) if kinds == {"gaussian"} else self

    def _word(self, side: int, noise: NoiseSource) -> str:
        assert self.reporter is not None
        assert self.pair is not None
        return encode(self.reporter.reports(self.pair[side], 1, noise))

    def _taught(self, seed: Seed) -> Learner[Any, Any, Any]:
        """A learner that has published a few policies, and heard from its source."""
        learner, people = self.maker.make(), self.maker.crowd()
        rng, noise = np.random.default_rng(seed.spawn(1)[0]), SimulatedNoise(seed.spawn(1)[0])
        if self.source:
            if not isinstance(learner, SourceLearner):
                raise InvalidInput(
                    f"{self.maker.learner} takes no sources, so none can be attacked; attack the "
                    "reports of its own people."
                )
            learner.open_source(SOURCE, self.maker.budget.epsilon)
            policy = learner.source_policy(SOURCE)
            contexts = people.crowd(20, rng)
            arms = rng.integers(policy.arms, size=20)
            learner.update_source(
                policy.report(contexts, arms, people.in_units(rng.random(20)), noise)
            )
            return learner
        came = 0
        while came < self.maker.people:
            policy_now = learner.policy()
            count = min(learner.batch_size, self.maker.people - came)
            contexts = people.crowd(count, rng)
            actions, _ = policy_now.act(contexts, rng)
            rewards = people.rewards(people.table(count, rng), actions)
            learner.update(policy_now.report(contexts, actions, rewards, noise))
            came += count
        return learner

    def _reporters(self, learner: Learner[Any, Any, Any]) -> list[Reporter]:
        people = self.maker.crowd()
        if isinstance(learner, SourceLearner) and self.source:
            return [SourceReporter(people, learner.source_policy(SOURCE))]
        return [TargetReporter(people, learner.policy(), ticket) for ticket in range(_TICKETS)]

    def _apart(self, seed: Seed) -> float:
        """How well the two people can be told apart, on a scale that all pairs share."""
        try:
            return self._contrast(seed)
        except InvalidInput:
            return -math.inf  # people whom this policy refuses are no attack on it

    def _contrast(self, seed: Seed) -> float:
        try:
            return separation(*self._additive(True, 1, seed))
        except NotAdditive:
            pass
        pairs = zip((True, False) * 2, seed.spawn(4), strict=True)
        one, two, *others = (self._drawn(side, _PILOT, child) for side, child in pairs)
        trained = Classifier.trained(one, two)
        threshold = best_threshold(trained.scores(one), trained.scores(two), 0.0)
        # On other reports than it was trained on, which would flatter it.
        first, second = (trained.scores(other) for other in others)
        return attack(first, second, threshold, 0.0).epsilon

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        if self.classifier is not None:
            return self.classifier.scores(self._drawn(first, trials, seed))
        mine, theirs = self._additive(first, trials, seed)
        ratio = log_ratio(mine, theirs, trials)
        return ratio if first else -ratio

    def _drawn(self, first: bool, trials: int, seed: Seed) -> Arrays:
        assert self.reporter is not None
        assert self.pair is not None
        person = self.pair[0 if first else 1]
        return arrays_of(self.reporter.reports(person, trials, SimulatedNoise(seed)))

    def _additive(self, first: bool, trials: int, seed: Seed) -> tuple[list[Call], list[Call]]:
        """What was handed to the noise by the one who reported, and by the other."""
        assert self.reporter is not None
        assert self.pair is not None
        tape, sides = Tape(), self.pair if first else self.pair[::-1]
        tape.record(seed)
        shown = self.reporter.reports(sides[0], trials, tape)
        mine = tape.calls
        tape.play(mine)
        other = self.reporter.reports(sides[1], trials, tape)
        theirs = tape.calls
        if not _same(arrays_of(shown), arrays_of(other)):
            theirs = []  # something beside the noise shows: `log_ratio` makes it certain
        return mine, theirs


def _same(one: Arrays, two: Arrays) -> bool:
    return all(np.array_equal(values, two[name]) for name, values in one.items())
