"""What learners do with one person's data, replayed: whole runs, and reports.

**Joint privacy** (`JointRun`): an adversary who knows everything but one person. People come in
batches, act, and are learnt from, until all have come. Public are every policy, all that the
learner shows without an underscore, its certificate, the action of everybody but the person
attacked, predictions for others, and whether anything was refused; known are all other people's
data. What may differ is that person's context, reward and action.

| variant | what is different                                                            |
|---------|------------------------------------------------------------------------------|
| late    | half of every batch reports only after the next batch has acted              |
| lagging | the person alone reports only after the next batch has acted                 |
| alone   | the person acts and reports in a batch of one                                |
| saved   | the learner is saved and loaded again: after its second policy, while people |
|         | wait for the second and the fourth, and between predictions                  |
| secure  | noise comes from SecureNoise                                                 |

**Local privacy** (`LocalReport`): the adversary knows all that came before, and the public coin. A
report is made by the person alone, as a device does, or by a batch of three people, of whom the
first, the middle or the last one is attacked. Public are the report with its length, the public
coins, and whether reporting failed; private are the person's context, action and reward, valid or
not. The policy is one that a learner published in some state, or that a server forged; everybody
gets the same.

**Contributions.** Where the budget covers several contributions of a person, the person attacked
comes as often, all contributions with the same data, which is the worst: under joint privacy in
neighbouring places, and once more than is covered, which must not show; under local privacy with as
many reports.

**Rules** on which promises rest besides the loss of a run:

| rule                                                        | what breaks without it           |
|-------------------------------------------------------------|----------------------------------|
| nothing is drawn but from the source that is given          | others can take the noise off    |
| two learners have two identities                            | people are counted in one group  |
| reports that say that nothing protects them are refused     | plain data passes for private    |
| a policy with a larger epsilon than was agreed is refused   | the learner chooses the promise  |
| SecureNoise makes no report without terms                   | the same                         |
| actions of another policy are not reported                  | what was seen is another promise |
| asking for a policy again gives the same one                | noise is drawn twice             |
| a file with unprotected data says that it is secret         | it is shared                     |
| a saved learner with less noise than was asked is refused   | a restart lowers the noise       |
"""

from __future__ import annotations

import json
import math
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from discreet.audit.randomness import own_randomness
from discreet.audit.replay import (
    SECURE,
    Claim,
    Promise,
    Subject,
    Transcript,
    public_values,
    reprs_within,
    secure,
)
from discreet.codec import encode
from discreet.learners.base import Learner
from discreet.learners.messages import Reports
from discreet.learners.policy import Actions, Policy, Terms
from discreet.learners.registry import make_learner
from discreet.learners.saving import load, save, sealed
from discreet.people.domain import ActionSpace, Box, DecisionSets, RewardBounds, arm_count
from discreet.privacy import Budget, NoiseSource, SecureNoise, SimulatedNoise, Unprotected
from discreet.privacy.noise import NO_NOISE
from discreet.validation import FloatArray, IntArray, InvalidInput

# Rewards are looked up by a hash of what was chosen; a prime, so that neighbours differ.
_CHOICES = 997
_GRID = 2.0**20
_RANDOM = 6
# Standard deviation of a step of the search, as a share of the domain.
_STEP = 0.15
# The largest decision set that is tried, in points.
_WIDEST = 8

Point = tuple[float, ...]


@dataclass(frozen=True)
class Person:
    """What is private about one person.

    Attributes:
        where: points of [0, 1]^d (see the module).
        reward: in [0, 1].
        arm: that they report instead of the one the policy chose; None for that one, and NaN where
            it is missing.
    """

    where: tuple[Point, ...]
    reward: float
    arm: float | None = None

    def __str__(self) -> str:
        points = " ".join(f"({', '.join(f'{x:.4g}' for x in point)})" for point in self.where)
        arm = "" if self.arm is None else f", arm {self.arm}"
        return f"{points}{arm}, reward {self.reward:.4g}".removeprefix(", ").strip()


class Participants:
    """People for one action space. What they bring is kept as points of the unit cube, (c, d) a
    person: a context where an arm is chosen (c = 1), a decision set, or nothing at all (c = 0).

    Attributes:
        domain: the public bounds of contexts or points.
        space: what can be chosen.
        bounds: of rewards.
        arms: how many there are to choose from; 0 where it is no matter of arms.
        size: how many points ordinary people bring.
    """

    def __init__(self, domain: Box, space: ActionSpace, bounds: RewardBounds) -> None:
        self.domain = domain
        self.space = space
        self.bounds = bounds
        self.arms = arm_count(space) or 0
        self.size = int(self.arms > 0)
        if isinstance(space, DecisionSets):
            self.size = min(space.most, _WIDEST)
        self._inside: dict[tuple[Point, ...], tuple[Point, ...]] = {}

    def crowd(self, people: int, rng: np.random.Generator) -> list[FloatArray]:
        """The points of `people` random people."""
        return list(self.unit(rng, people, self.size))

    def contexts(self, brought: Sequence[Any]) -> Any:
        """What people bring as a policy takes it."""
        if self.size == 0:
            return len(brought)
        if self.arms:
            return self.domain.from_unit(np.array(brought)[:, 0])
        return [self.domain.from_unit(np.array(points)) for points in brought]

    def candidates(self, rng: np.random.Generator) -> list[Person]:
        """People to compare, the likeliest extremes first."""
        if self.size == 0:
            return [Person((), reward) for reward in (1.0, 0.0, 0.5, float(rng.random()))]
        points = self.points(rng)
        wheres: list[tuple[Point, ...]] = [(point,) for point in points]
        if not self.arms:
            wide = (points * self.size)[: self.size]
            random = self.unit(rng, 2, self.size).tolist()
            wheres += [tuple(points[:2][: self.size]), tuple(wide)]
            wheres += [tuple(map(tuple, rows)) for rows in random]
        return [Person(where, reward) for where in wheres for reward in (1.0, 0.0)]

    def with_arms(self, rng: np.random.Generator) -> list[Person]:
        """People with any arm, where the arm was not chosen by a policy."""
        some = self.candidates(rng)[:: max(1, self.arms)]
        return [replace(person, arm=arm) for person in some for arm in range(self.arms)]

    def strays(self) -> list[Person]:
        """People with values outside all bounds, or none at all: a refusal would tell of them."""
        nan = float("nan")
        if self.size == 0:
            return [Person((), reward) for reward in (3.0, -2.0, nan)]
        values = ((2.0, 1.0), (-7.0, 0.0), (nan, 1.0), (0.5, nan), (0.0, 3.0))
        return [Person(((x,) * self.domain.dimension,), reward) for x, reward in values]

    def inside(self, person: Person) -> tuple[Point, ...]:
        """The person's points, each moved inside the domain."""
        where = person.where
        if where not in self._inside:
            points = (np.nan_to_num(np.array(point), nan=0.5) for point in where)
            self._inside[where] = tuple(map(self.snapped, points))
        return self._inside[where]

    def near(self, person: Person, rng: np.random.Generator) -> Person:
        """A person near that one."""
        moved = tuple(
            self.snapped(np.array(point) + _STEP * rng.standard_normal(len(point)))
            for point in person.where
        )
        reward = float(rng.choice([0.0, 1.0, rng.random()]))
        return replace(person, where=moved, reward=reward)

    def snapped(self, point: FloatArray) -> Point:
        """A point (d,) inside the unit cube, on levels where the domain has them."""
        return tuple(self._on_levels(np.clip(point, 0.0, 1.0)).tolist())

    def unit(self, rng: np.random.Generator, *shape: int) -> FloatArray:
        """Points (*shape, d) of the unit cube, on levels where the domain has them."""
        return self._on_levels(rng.random((*shape, self.domain.dimension)))

    def _on_levels(self, points: FloatArray) -> FloatArray:
        """Points (.., d) of the unit cube, moved to levels in place."""
        for column, count in enumerate(self.domain.levels):
            if count is not None:
                points[..., column] = np.rint(points[..., column] * (count - 1)) / (count - 1)
        return points

    def points(self, rng: np.random.Generator) -> list[Point]:
        """Corners, the middle, boundaries on either side, and random points of the unit cube."""
        d = self.domain.dimension
        corners = [(0.0,) * d, (1.0,) * d]
        if d <= 3:
            corners += list(product((0.0, 1.0), repeat=d))
        middle = (0.5,) * d
        edges = [(0.5, *(0.0,) * (d - 1)), (np.nextafter(0.5, 0.0), *(0.5,) * (d - 1)), (0.25,) * d]
        random = self.unit(rng, _RANDOM).tolist()
        points = [*corners, middle, *edges, *random]
        return list(dict.fromkeys(self.snapped(np.array(point)) for point in points))

    def table(self, people: int, rng: np.random.Generator) -> FloatArray:
        """(n, 997) what every choice would give people."""
        return rng.random((people, _CHOICES))

    def rewards(self, table: FloatArray, actions: Actions) -> FloatArray:
        """(n,) rewards, in their units, of people with rows `table` (n, 997) for their actions."""
        code = actions.arms.astype(np.int64) % _CHOICES
        if actions.points is not None:
            whole = np.rint(np.asarray(actions.points) * _GRID).astype(np.int64)
            code = (code + whole @ np.arange(1, whole.shape[1] + 1)) % _CHOICES
        return self.in_units(table[np.arange(len(code)), code])

    def in_units(self, rewards: FloatArray) -> FloatArray:
        """Rewards in [0, 1] in their declared units; others stay outside the bounds."""
        width = self.bounds.upper - self.bounds.lower
        scaled: FloatArray = self.bounds.lower + rewards * width
        inside = (rewards >= 0.0) & (rewards <= 1.0)
        return np.where(inside, self.bounds.clip(scaled), scaled)

    def acted(self, actions: Actions, person: Person, place: int) -> Actions:
        """The actions with the person's own arm, where they report another one."""
        if person.arm is None:
            return actions
        arms = actions.arms.copy()
        arms[place] = person.arm
        return replace(actions, arms=arms)


@dataclass(frozen=True)
class Maker:
    """What a learner is made of as an audit makes it: small, with noise that can be played back.

    Attributes:
        learner: its registered name.
        domain: the public bounds of contexts or points.
        space: what can be chosen.
        budget: asked for.
        people: how many take part in a run.
        options: as in a study file.
        bounds: of rewards.
        public_seed: of the learner.
        horizon: of the learner; `people` if left out.
    """

    learner: str
    domain: Box
    space: ActionSpace
    budget: Budget
    people: int
    options: Mapping[str, Any] = field(default_factory=dict)
    bounds: RewardBounds = field(default_factory=RewardBounds)
    public_seed: int = 11
    horizon: int | None = None

    def make(self, noise: NoiseSource | None = None) -> Learner[Any, Any, Any]:
        """A new learner.

        Args:
            noise: under joint privacy; simulated if left out.

        Raises:
            InvalidInput: if the learner does not take these settings.
        """
        return make_learner(
            self.learner,
            self.domain,
            self.space,
            self.budget,
            options=self.options,
            horizon=self.horizon or self.people,
            reward_bounds=self.bounds,
            public_seed=self.public_seed,
            noise=(noise or SimulatedNoise(0)) if self.budget.is_central else None,
        )

    def asked(self, source: bool = False) -> Claim:
        """The budget of one person; reports of an auxiliary `source`, and those that are shuffled,
        are pure."""
        if self.budget.group > 1 and not source:
            return Claim(self.budget.contribution_epsilon)
        return Claim(self.budget.epsilon, 0.0 if source else self.budget.delta)

    def terms(self, source: bool = False, share: float = 1.0) -> Terms:
        """What a person's side agrees to: this learner, at that share of its epsilon."""
        budget = self.budget
        epsilon, bounds = share * budget.epsilon, self.bounds
        if source:
            return Terms(self.domain, self.space, epsilon, bounds)
        covers = budget.delta, budget.max_contributions, budget.group, budget.honest
        return Terms(self.domain, self.space, epsilon, bounds, *covers)

    def crowd(self) -> Participants:
        """People who can take part."""
        return Participants(self.domain, self.space, self.bounds)

    @cached_property
    def same_identity(self) -> str:
        """Two learners with one identity, in words; empty if identities differ."""
        first, second = self.make(), self.make()
        return "two learners have one identity" if first.identity == second.identity else ""


AnyLearner = Learner[Any, Any, Any]
Variant = Literal["plain", "late", "lagging", "alone", "saved", "secure", "source"]
SOURCE = "auxiliary"
# People of a source who report under each of its policies.
_OF_SOURCE = 100
# Public names left out: the audit's own objects, a policy that would be made anew, and what goes
# into a file that is marked as secret (`open_file`).
_NOT_PUBLIC = ("noise", "policy", "secret_fields")
# Left out, as they take as long as the rest: of looks with the policy after the person's update,
# the values; of all but the last look, certificates, which a repr has too.
_CERTIFIED = ("guarantee", "repr")
_DEAR = (*_CERTIFIED, "value", "recommend")
_SEED, _LOCAL_SEED = 5, 7
# How many people report together under local privacy, and which of them is attacked.
_PLACES = ((1, 0), (3, 1), (3, 0), (3, 2))
# Terms that a policy is over: by a hundredth.
_OVER = 0.99
# Numbers of policies after which a learner is saved while people wait for the next.
_SAVED_AFTER = (1, 3)
_SCALES = ("scale", "multiplier", "noise_multiplier")


class _Sent(NamedTuple):
    """A batch of reports, who made them, and the place of the first."""

    reports: Reports
    ids: IntArray
    first: int


@dataclass(frozen=True, kw_only=True)
class JointRun(Subject):
    """See the module.

    Attributes:
        maker: of the learner.
        place: where the person stands, at the first of their contributions.
        variant: of the run.
        predictions: how many predictions are asked for at the end.
        asked_at: the context for which they all are; None for other people's.
        seed: of the noise and of other people.
    """

    maker: Maker
    place: int = 0
    variant: Variant = "plain"
    predictions: int = 0
    asked_at: Point | None = None
    seed: int = _SEED

    @cached_property
    def _people(self) -> Participants:
        return self.maker.crowd()

    def groups(self) -> Iterator[Sequence[Person]]:
        yield self._people.candidates(np.random.default_rng(_SEED))

    def near(self, person: Person, rng: np.random.Generator) -> Person:
        return self._people.near(person, rng)

    def run(self, person: Person, transcript: Transcript) -> Promise:
        fresh = self.maker.make(secure() if self.variant == "secure" else SimulatedNoise(self.seed))
        if transcript.wanted:
            transcript.rule(lambda: self.maker.same_identity)
            transcript.rule(own_randomness(type(fresh)))
        learner = self._ran(fresh, person, transcript)
        asked = self.maker.asked()
        if not transcript.wanted:
            return Promise(asked, Claim(0.0))
        held = learner.guarantee()
        return Promise(asked, Claim(held.epsilon, held.delta), learner.releases)

    def _ran(self, learner: AnyLearner, person: Person, transcript: Transcript) -> AnyLearner:
        people, count = self._people, self.maker.people
        rng = np.random.default_rng(self.seed)
        crowd: list[Any] = people.crowd(count, rng)
        table = people.table(count, rng)
        contributions = self.maker.budget.max_contributions
        # Once more than is covered; who comes once need not say who they are.
        places = [
            (self.place + i) % count for i in range(contributions + 1 if contributions > 1 else 1)
        ]
        ids = np.arange(count)
        # Ids are as private as data, and larger than those of others.
        own_id = count + zlib.crc32(repr(person).encode())
        for at in places:
            crowd[at], table[at], ids[at] = person.where, person.reward, own_id
        late: list[Any] = []
        # Nothing depends on the person before their first batch.
        came, first, compared, learnt = 0, min(places), transcript.wanted, False
        if self.variant == "source":
            learner.open_source(SOURCE, self.maker.budget.epsilon)
        while came < count:
            transcript.wanted = compared and came > first
            if self.variant == "source":
                self._source_reports(learner, rng, transcript)
            learner, policy = self._published(learner, transcript)
            if learnt:
                self._looked_at(learner, transcript, _DEAR)
            stop = came + learner.batch_of()
            if self.variant == "lagging" and came <= self.place < stop:
                stop += 1  # the others are enough for a policy, so the person enters a later sum
            stop = min(stop, count)
            transcript.wanted = compared and stop > first
            sent = []
            for start, end in pairwise(self._cuts(came, stop)):
                batch = people.contexts(crowd[start:end])
                actions, _ = policy.act(batch, rng)
                others = actions[~np.isin(np.arange(start, end), places)]
                transcript.add(
                    "other people's actions", [others.arms, others.points, actions.public_coins]
                )
                for at in places:
                    if start <= at < end:
                        actions = people.acted(actions, person, at - start)
                rewards = people.rewards(table[start:end], actions)
                report = policy.report(batch, actions, rewards, Unprotected())
                transcript.add("the reprs of what they send", [repr(actions), repr(report)])
                sent.append(_Sent(report, ids[start:end], start))
            now = [*late, *(each for each in sent if not self._waits(each, came))]
            if now:
                self._heard(learner, now, transcript)
            learnt = any(map(self._own, now))
            late, came = [each for each in sent if self._waits(each, came)], stop
        if late:
            self._heard(learner, late, transcript)
        learner, _ = self._published(learner, transcript)
        if self.predictions:
            learner = self._predicted(learner, rng, transcript)
        elif transcript.wanted and (predict := getattr(learner, "predict", None)):
            try:
                rest = [other for at, other in enumerate(crowd) if at not in places]
                transcript.add("a prediction for others", predict(people.contexts(rest[-1:])))
            except InvalidInput as error:
                transcript.add("whether a prediction is refused", type(error).__name__)
        self._looked_at(learner, transcript, ("repr",))
        return learner

    def _source_reports(
        self, learner: AnyLearner, rng: np.random.Generator, transcript: Transcript
    ) -> None:
        """People of a source report, under a policy that everybody sees."""
        people, policy = self._people, learner.policy(SOURCE)
        transcript.add("a policy of a source", policy)
        contexts = people.contexts(people.crowd(_OF_SOURCE, rng))
        arms = rng.integers(policy.arms, size=_OF_SOURCE)
        rewards = people.in_units(rng.random(_OF_SOURCE))
        learner.update(policy.report(contexts, arms, rewards, SimulatedNoise(self.seed)))

    def _own(self, sent: _Sent) -> bool:
        """Whether the person is one of these."""
        return bool((sent.ids >= self.maker.people).any())

    def _waits(self, sent: _Sent, came: int) -> bool:
        """Whether these people of a batch that began with person `came` report late."""
        if self.variant == "lagging":
            return self._own(sent)
        return self.variant == "late" and sent.first > came

    def _cuts(self, came: int, stop: int) -> list[int]:
        """Where people `came` to `stop` are cut into batches that act and report together."""
        halves, alone = [(came + stop) // 2], [self.place, self.place + 1]
        cuts = {"late": halves, "lagging": alone, "alone": alone}.get(self.variant, [])
        return [came, *(cut for cut in cuts if came < cut < stop), stop]

    def _predicted(
        self, learner: Any, rng: np.random.Generator, transcript: Transcript
    ) -> AnyLearner:
        people = self._people
        asked = people.crowd(self.predictions + 1, rng)
        if self.asked_at is not None:
            asked = [np.array([self.asked_at])] * len(asked)
        for part in (asked[:1], asked[1:-1]):
            transcript.add("a prediction", learner.predict(people.contexts(part)))
            if self.variant == "saved":
                learner = self._reloaded(learner, transcript)
        if transcript.wanted:
            more = partial(learner.predict, people.contexts(asked[-1:]))
            excess = "more predictions are made than were promised"
            transcript.rule(lambda: "" if refused(more) else excess)
        result: AnyLearner = learner
        return result

    def _heard(self, learner: AnyLearner, sent: list[_Sent], transcript: Transcript) -> None:
        named = self.maker.budget.max_contributions > 1
        try:
            learner.update(
                [each.reports for each in sent], [each.ids for each in sent] if named else None
            )
        except InvalidInput as error:
            transcript.refusal("an update", error)
        own = [each.reports for each in sent if self._own(each)]
        if own:
            self._looked_at(learner, transcript, _CERTIFIED)
        if own and transcript.wanted:  # before a release takes them up
            transcript.add("the reprs of what the learner holds", reprs_within(learner))
            # In every run, as the refusal may show whose report it was.
            if not refused(lambda: learner.update(replace(own[0], source="another"))):
                transcript.rule("reports to another learner are taken")

    def _looked_at(
        self, learner: AnyLearner, transcript: Transcript, but: Sequence[str] = ()
    ) -> None:
        for name, shown in (
            public_values(learner, (*_NOT_PUBLIC, *but)) if transcript.wanted else ()
        ):
            transcript.add(f"what {name} of the learner shows", shown)

    def _published(self, learner: AnyLearner, transcript: Transcript) -> tuple[AnyLearner, Any]:
        if self.variant == "saved" and len(learner._policies) in _SAVED_AFTER:
            learner = self._reloaded(
                learner, transcript
            )  # with people who wait for the next release
        policy = learner.policy()
        transcript.add("a policy", policy)
        transcript.rule(partial(changed_policy, learner, policy))
        if self.variant == "saved" and policy.version == 1:
            learner = self._reloaded(learner, transcript)
            transcript.add("a policy after loading", learner.policy())
        return learner, policy

    def _reloaded(self, learner: AnyLearner, transcript: Transcript) -> AnyLearner:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "learner.json"
            save(learner, path)
            transcript.rule(partial(open_file, learner, path))
            transcript.rule(partial(quieter_file, path))
            # Another seed each time, or one noise would be drawn again.
            return load(path, noise=SimulatedNoise(_SEED + 1 + transcript.count))


@dataclass(frozen=True, kw_only=True)
class LocalReport(Subject):
    """See the module.

    Attributes:
        bases: see `Subject`.
        people: who take part.
        policy: under which they report, of the learner's own people or of a source.
        acted_under: another policy, under which the person acted; None for the same one.
        asked: the budget of one report.
        certified: what the learner's certificate says; None where a server that is not honest made
            the policy, so that only the terms count.
        terms: what the person's side agreed to; None for none.
        secure: whether noise comes from SecureNoise.
        public_coin: the seed of the public coins.
        max_contributions: how many reports the person makes.
        place: how many report together, and which of them is attacked.
        broken: a rule that the learner or the policy breaks; empty if none.
    """

    bases: int = 4
    people: Participants
    policy: Policy[Any]
    acted_under: Policy[Any] | None = None
    asked: Claim
    certified: Claim | None
    terms: Terms | None = None
    secure: bool = False
    public_coin: int = 0
    max_contributions: int = 1
    place: tuple[int, int] = _PLACES[0]
    broken: str = ""

    def at(self, base: int) -> Self:
        return replace(self, place=_PLACES[base % len(_PLACES)])

    def groups(self) -> Iterator[Sequence[Person]]:
        rng, people = np.random.default_rng(_LOCAL_SEED), self.people
        crowd = people.candidates(rng)
        # Whatever arm they say they got: a refusal would be about their context.
        with_arms = people.with_arms(rng)
        source = not self.policy.chooses
        strays = people.strays()
        if source:
            # Their arm is private too: a gap in it, and numbers of no arm.
            strays += [replace(crowd[0], arm=arm) for arm in (math.nan, -1, people.arms)]
        yield [*([] if source and with_arms else crowd), *with_arms, *strays]

    def near(self, person: Person, rng: np.random.Generator) -> Person:
        return self.people.near(person, rng)

    def run(self, person: Person, transcript: Transcript) -> Promise:
        noise: NoiseSource = secure() if self.secure else SimulatedNoise(_LOCAL_SEED)
        transcript.rule(self.broken)
        for contribution in range(self.max_contributions):
            try:
                transcript.add("a report", self._reported(person, noise, transcript, contribution))
            except Exception as error:
                # Whatever it is, a device that fails does not report, which can be seen.
                transcript.refusal("a report", error)
        if self.certified is None:
            return Promise(self.asked, self.asked)
        release = self.policy.release(noise.name)
        return Promise(self.asked, self.certified, None if release is None else [release])

    def _reported(
        self, person: Person, noise: NoiseSource, transcript: Transcript, contribution: int
    ) -> Any:
        people, policy = self.people, self.policy
        rng = np.random.default_rng(
            [_LOCAL_SEED, self.public_coin, *[contribution] * (contribution > 0)]
        )
        count, place = self.place
        crowd: list[Any] = people.crowd(count, rng)
        # A device acts on what the policy takes; what it reports on may turn out to be otherwise.
        crowd[place] = people.inside(person)
        acting = people.contexts(crowd)
        crowd[place] = person.where
        contexts = people.contexts(crowd)
        given = np.array([0.3, 0.8, 0.6])[:count]
        given[place] = person.reward
        rewards = people.in_units(given)
        if not policy.chooses:
            arms: Any = np.array([0, 0, people.arms - 1], dtype=object)[:count]
            arms[place] = person.arm or 0
            return policy.report(contexts, arms, rewards, noise, self.terms)
        actions, _ = (self.acted_under or policy).act(acting, rng)
        transcript.add("the public coins", actions.public_coins)
        acted = people.acted(actions, person, place)
        transcript.add("the repr of actions", repr(acted))
        return policy.report(contexts, acted, rewards, noise, self.terms)


# Rules.


def broken_rule(maker: Maker, learner: AnyLearner, policy: Any) -> str:
    """What a learner and its policy under local privacy should refuse and do not; empty if all."""
    people, rng = maker.crowd(), np.random.default_rng(3)
    contexts, rewards = people.contexts(people.crowd(2, rng)), people.in_units(np.array([0.2, 0.8]))
    source = not policy.chooses
    actions: Any = np.zeros(2, dtype=np.int64) if source else policy.act(contexts, rng)[0]

    def report(noise: NoiseSource, chosen: Any = actions) -> Any:
        return policy.report(contexts, chosen, rewards, noise)

    plain = replace(report(SimulatedNoise(1)), noise=NO_NOISE)
    terms = maker.terms(source, _OVER)
    if not refused(lambda: learner.update(plain)):
        return "reports that say that nothing protects them are taken"
    if not refused(lambda: terms.check(policy)):
        return "a policy with a larger epsilon than was agreed is reported under"
    if SECURE and not refused(lambda: report(SecureNoise())):
        return "SecureNoise makes reports without terms"
    if not source and not refused(
        lambda: report(SimulatedNoise(1), replace(actions, policy="another"))
    ):
        return "actions of another policy are reported"
    kinds: tuple[Any, ...] = type(learner), type(policy)
    own = next(filter(None, map(own_randomness, kinds)), "")
    return own or maker.same_identity


def changed_policy(learner: AnyLearner, policy: Any) -> str:
    """Whether asking again gives another policy; empty if it does not."""
    again = learner.policy()
    changed = again is not policy and encode(again) != encode(policy)
    return "asking for a policy again gives another one" if changed else ""


def open_file(learner: AnyLearner, path: Path) -> str:
    """Whether a saved file with data before noise does not say so; empty if it does."""
    secret = learner.budget.is_central and "SECRET" not in path.read_text()[:200]
    return "a file with data before noise does not say that it is secret" if secret else ""


def quieter_file(path: Path) -> str:
    """Whether a file is loaded in which noise was halved; empty if it is refused."""
    content = json.loads(path.read_text())
    del content["sha256"]
    if not _halve(content["state"]):
        return ""
    tampered = path.with_name("tampered.json")
    tampered.write_text(sealed(content))
    if refused(lambda: load(tampered, noise=SimulatedNoise(1))):
        return ""
    return "a file is loaded that promises other noise than the budget asks for"


def _halve(part: Any) -> int:
    """Halve all scales of noise in JSON values; how many there were."""
    changed = 0
    for key, value in list(part.items() if isinstance(part, dict) else enumerate(part)):
        if key in _SCALES and isinstance(value, float):
            part[key], changed = 0.5 * value, changed + 1
        elif isinstance(value, dict | list):
            changed += _halve(value)
    return changed


def refused(what: Callable[[], object]) -> bool:
    try:
        what()
    except InvalidInput:
        return True
    return False
