"""The game of joint privacy: two whole runs, and an adversary who knows everything but one person.

One trial: people come in batches, act, and are learnt from, until all have come. The adversary sees
every policy, every noisy value that was released, and the action of everybody except the person
attacked; they know all other people's data. The score is the log-likelihood ratio of the noisy
values (replay.py); if a policy or another person's action is not the same function of them on both
data sets, the run gives itself away and the score is infinite.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np

from discreet.audit.enumeration import exact_epsilon
from discreet.audit.games import Bound, Claim, Exact, Game, Playable, Seed
from discreet.audit.makers import Maker
from discreet.audit.people import Pair, Person, places
from discreet.audit.replay import Call, Tape, log_ratio, separation
from discreet.learners.base import Learner
from discreet.learners.epochs.usca import Usca
from discreet.learners.messages import Actions
from discreet.learners.schema import encode
from discreet.privacy.noise import SimulatedNoise, Unprotected
from discreet.validation import FloatArray, InvalidInput

# Pairs of people that are tried before the trials, and as many places for the best of them.
_PAIRS = 18
_BEST = 2

AnyLearner = Learner[Any, Any, Any]
# Changes a learner that has just been made; for designs that are broken on purpose.
Tamper = Callable[[AnyLearner], AnyLearner]


@dataclass(frozen=True)
class Seen:
    """What one run showed.

    Attributes:
        calls: the noisy values, with what stood behind them.
        words: policies and other people's actions, in order.
    """

    calls: tuple[Call, ...]
    words: tuple[str | bytes, ...]


@dataclass(frozen=True)
class JointRuns(Game):
    """See the module.

    Attributes:
        maker: of the learner.
        pair: the two people; None until prepared.
        place: where they stand.
        held: what the learner's certificate says; None until prepared.
        tamper: what is done to every learner before its run.
    """

    maker: Maker
    pair: Pair | None = None
    place: int = 0
    held: Claim | None = None
    tamper: Tamper | None = None
    bound: Bound = "gaussian"
    # By Neyman and Pearson a log-ratio of 0 parts two Gaussian laws with equal errors.
    threshold: float | None = 0.0

    @property
    def claim(self) -> Claim:
        assert self.held is not None
        return self.held

    @property
    def attack(self) -> str:
        assert self.pair is not None
        return (
            f"likelihood ratio of {self.maker.people}-person runs; person {self.place + 1}: "
            f"{self.pair[0]} or {self.pair[1]}"
        )

    def prepared(self, seed: Seed) -> Playable:
        """Choose the people who are furthest apart, and where they stand."""
        if self.pair is not None:
            return self
        start = [
            replace(self, pair=pair, place=0) for pair in islice(self.maker.crowd().pairs(), _PAIRS)
        ]
        far = sorted(self._tried(start, seed), key=lambda one: -one[0])[:_BEST]
        if not far:
            raise InvalidInput(
                f"{self.maker.learner} refused all people of the audit, who are in corners of the "
                "domain and have rewards at their bounds; attack it with people that it takes."
            )
        moved = [
            replace(one, place=place)
            for _, one in far
            for place in places(self.maker.people)
            if place
        ]
        apart, best = max([*far, *self._tried(moved, seed)], key=lambda one: one[0])
        if apart == 0.0:
            raise InvalidInput(
                f"nobody's data entered a release of {self.maker.learner} within "
                f"{self.maker.people} people, so there is nothing to attack; give a horizon at "
                "which it releases within so many."
            )
        return best

    def _tried(self, games: list[JointRuns], seed: Seed) -> list[tuple[float, JointRuns]]:
        """How far apart the people of every game are, with what the certificate says."""
        template, found = self._template(), []
        for game in games:
            try:
                mine, learner = game._run(template, True, seed, None)
                theirs, _ = game._run(template, False, seed, mine.calls)
            except InvalidInput:
                continue  # people whom this learner refuses are no attack on it
            guarantee = learner.guarantee()
            apart = separation(mine.calls, theirs.calls)
            held = Claim(guarantee.epsilon, guarantee.delta)
            found.append(
                (apart if mine.words == theirs.words else math.inf, replace(game, held=held))
            )
        return found

    def _template(self) -> AnyLearner:
        """A learner that has published its first policy, which is about nobody yet."""
        made = self.maker.make()
        if self.tamper is not None:
            made = self.tamper(made)
        made.policy()
        return made

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        template = self._template()
        found = np.empty(trials)
        for trial, child in enumerate(seed.spawn(trials)):
            mine, _ = self._run(template, first, child, None)
            theirs, _ = self._run(template, not first, child, mine.calls)
            ratio = float(log_ratio(mine.calls, theirs.calls)[0])
            if mine.words != theirs.words:
                ratio = math.inf
            found[trial] = ratio if first else -ratio
        return found

    def _run(
        self, template: AnyLearner, first: bool, seed: Seed, played: tuple[Call, ...] | None
    ) -> tuple[Seen, AnyLearner]:
        """One run on either data set, with fresh noise or with that of another run."""
        assert self.pair is not None
        learner = copy.deepcopy(template)
        tape = learner.noise
        assert isinstance(tape, Tape)
        if played is None:
            tape.record(_child(seed, 0))
        else:
            tape.play(played)
        words = list(self._words(learner, self.pair[0 if first else 1], seed))
        return Seen(tuple(tape.calls), tuple(words)), learner

    def _words(self, learner: AnyLearner, person: Person, seed: Seed) -> list[str | bytes]:
        people, count = self.maker.crowd(), self.maker.people
        rng = np.random.default_rng(_child(seed, 1))
        contexts = people.with_person(people.crowd(count, rng), self.place, person)
        table = people.table(count, rng)
        table[self.place] = person.reward
        words: list[str | bytes] = []
        came = 0
        while came < count:
            policy = learner.policy()
            words.append(encode(policy))
            stop = min(came + learner.batch_size, count)
            batch = people.part(contexts, came, stop)
            actions, _ = policy.act(batch, rng)
            words.append(_others(actions, self.place - came))
            if came <= self.place < stop:
                actions = people.acted(actions, person, self.place - came)
            rewards = people.rewards(table[came:stop], actions)
            learner.update(policy.report(batch, actions, rewards, Unprotected()))
            came = stop
        words.append(encode(learner.policy()))
        return words


def _child(seed: Seed, number: int) -> Seed:
    """A seed of its own for a purpose; the same one every time it is asked for."""
    return Seed(entropy=seed.entropy, spawn_key=(*seed.spawn_key, number))


def _others(actions: Actions, place: int) -> bytes:
    """The actions of everybody in a batch but the person at that place."""
    others = np.arange(len(actions)) != place
    shown = bytes(actions.arms[others].tobytes())
    if actions.points is not None:
        shown += bytes(actions.points[others].tobytes())
    return shown


@dataclass(frozen=True)
class Selections:
    """`usca` with predictions: the law of all predictions, exactly, on either data set.

    Attributes:
        maker: of the learner.
        predictions: how many are drawn, all for one context.
    """

    maker: Maker
    predictions: int

    def exact(self) -> Exact:
        """Epsilon of the worst pair of people, place and context."""
        worst, attack, claim = -1.0, "", Claim(0.0)
        people = self.maker.crowd()
        for pair, place in product(islice(people.pairs(), _PAIRS), places(self.maker.people)):
            try:
                one, two = (self._learnt(person, place) for person in pair)
            except InvalidInput:
                continue
            where = np.vstack([people.many(Person((at,), 0.0), 1) for at in people.corners()])
            laws = one.secret_probabilities(where), two.secret_probabilities(where)
            for mine, theirs in zip(*laws, strict=True):
                found = exact_epsilon(self._product(mine), self._product(theirs))
                if found > worst:
                    one.predict(where[: self.predictions])
                    guarantee = one.guarantee()
                    claim = Claim(guarantee.epsilon, guarantee.delta)
                    worst, attack = (
                        found,
                        f"all outcomes of {self.predictions} predictions; {pair[0]} or {pair[1]}",
                    )
                    one = self._learnt(pair[0], place)
        return Exact(claim, worst, attack)

    def _product(self, chances: FloatArray) -> dict[tuple[int, ...], float]:
        arms = product(range(len(chances)), repeat=self.predictions)
        return {one: float(np.prod(chances[list(one)])) for one in arms}

    def _learnt(self, person: Person, place: int) -> Usca:
        game = JointRuns(self.maker, pair=(person, person), place=place)
        learner = self.maker.make(SimulatedNoise(5))
        game._words(learner, person, Seed(5))
        assert isinstance(learner, Usca)
        return learner
