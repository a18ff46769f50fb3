"""Whole runs under joint privacy, replayed: an adversary who knows everything but one person.

People come in batches, act, and are learnt from, until all have come. Public are every policy, all
that the learner shows without an underscore, its certificate, the action of everybody but the
person attacked, predictions for others, and whether anything was refused; known are all other
people's data. What may differ is that person's context, reward and action.

| variant | what is different                                                            |
|---------|------------------------------------------------------------------------------|
| late    | half of every batch reports only after the next batch has acted              |
| saved   | the learner is saved after its second policy, and loaded again               |
| secure  | noise comes from SecureNoise                                                 |

**Rules** on which promises rest besides the loss of a run: what must be refused, and said.

| rule                                                        | what breaks without it           |
|-------------------------------------------------------------|----------------------------------|
| two learners have two identities                            | people are counted in one group  |
| reports that say that nothing protects them are refused     | plain data passes for private    |
| a policy with a larger epsilon than was agreed is refused   | the learner chooses the promise  |
| SecureNoise makes no report without terms                   | the same                         |
| actions of another policy are not reported                  | what was seen is another promise |
| asking for a policy again gives the same one                | noise is drawn twice             |
| a file with unprotected data says that it is secret         | it is shared                     |
| a saved learner with less noise than was asked is refused   | a restart lowers the noise       |
| so is one whose policies promise more than people had       | a restart lowers the guarantee   |
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from discreet.audit.exact import Claim, Facts, Promise, Subject, public_facts
from discreet.audit.people import Maker, Person, Point, Population
from discreet.learners.base import Learner
from discreet.learners.epochs.usca import Usca
from discreet.learners.messages import Actions
from discreet.learners.saving import load, save, sealed
from discreet.learners.schema import encode
from discreet.learners.sources import SourcePolicy
from discreet.privacy import NoiseSource, SecureNoise, SimulatedNoise, Unprotected
from discreet.privacy.noise import NO_NOISE
from discreet.validation import InvalidInput

AnyLearner = Learner[Any, Any, Any]
Variant = Literal["plain", "late", "saved", "secure"]
_SEED = 5
# Public names that are no facts: objects of the audit's own, a policy that would be made anew, and
# what goes into a file that says that it is secret (`open_file`).
_NO_FACTS = ("noise", "policy", "secret_fields")
# Certificates are looked at once, at the end: they take as long as all else.
_DEAR = ("guarantee",)
# Terms that a policy is over: by a hundredth.
_OVER = 0.99
_SCALES = ("scale", "multiplier", "noise_multiplier")


@dataclass(frozen=True, kw_only=True)
class JointRun(Subject):
    """See the module.

    Attributes:
        maker: of the learner.
        place: where the person stands.
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
    def _people(self) -> Population:
        return self.maker.crowd()

    def groups(self) -> Iterator[Sequence[Person]]:
        yield self._people.candidates(np.random.default_rng(_SEED))

    def near(self, person: Person, rng: np.random.Generator) -> Person:
        return self._people.near(person, rng)

    def run(self, person: Person, facts: Facts) -> Promise:
        source: NoiseSource = (
            SecureNoise() if self.variant == "secure" else SimulatedNoise(self.seed)
        )
        fresh = self.maker.make(source)
        if facts.wanted:
            facts.rule(same_identity(self.maker))
        learner = self._ran(fresh, person, facts)
        asked = self.maker.asked()
        if not facts.wanted:
            return Promise(asked, Claim(0.0))
        held = learner.guarantee()
        return Promise(asked, Claim(held.epsilon, held.delta), learner.releases)

    def _ran(self, learner: AnyLearner, person: Person, facts: Facts) -> AnyLearner:
        people, count = self._people, self.maker.people
        rng = np.random.default_rng(self.seed)
        contexts = people.with_person(people.crowd(count, rng), self.place, person)
        table = people.table(count, rng)
        table[self.place] = person.reward
        late: list[Any] = []
        came = 0
        while came < count:
            learner, policy = self._published(learner, facts)
            stop = min(came + learner.batch_size, count)
            batch = people.part(contexts, came, stop)
            actions, _ = policy.act(batch, rng)
            facts.add("another person's action", _others(actions, self.place - came))
            if came <= self.place < stop:
                actions = people.acted(actions, person, self.place - came)
            rewards = people.rewards(table[came:stop], actions)
            reports = []
            for start, end in self._parts(stop - came):
                part = people.part(batch, start, end)
                rows = np.arange(start, end)
                reports.append(policy.report(part, actions[rows], rewards[rows], Unprotected()))
            now, late = [*late, reports[0]], reports[1:]
            self._heard(learner, now, facts)
            came = stop
        if late:
            self._heard(learner, late, facts)
        learner, _ = self._published(learner, facts)
        if self.predictions:
            assert isinstance(learner, Usca)
            where = people.crowd(self.predictions, rng)
            if self.asked_at is not None:
                where = people.many(Person((self.asked_at,), 0.0), self.predictions)
            facts.add("a prediction", learner.predict(where).tobytes())
        self._looked_at(learner, facts)
        return learner

    def _parts(self, count: int) -> list[tuple[int, int]]:
        if self.variant != "late" or count < 2:
            return [(0, count)]
        return [(0, count // 2), (count // 2, count)]

    def _heard(self, learner: AnyLearner, reports: list[Any], facts: Facts) -> None:
        try:
            learner.update(reports)
        except InvalidInput as error:
            facts.refusal("an update", error)
        self._looked_at(learner, facts, _DEAR)

    def _looked_at(self, learner: AnyLearner, facts: Facts, but: Sequence[str] = ()) -> None:
        for name, shown in public_facts(learner, (*_NO_FACTS, *but)) if facts.wanted else ():
            facts.add(f"what {name} of the learner shows", shown)

    def _published(self, learner: AnyLearner, facts: Facts) -> tuple[AnyLearner, Any]:
        policy = learner.policy()
        facts.add("a policy", encode(policy))
        facts.rule(changed_policy(learner, policy))
        if self.variant == "saved" and policy.version == 1:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "learner.json"
                save(learner, path)
                facts.rule(open_file(learner, path) or quieter_file(path))
                learner = load(path, noise=SimulatedNoise(_SEED + 1))
            facts.add("a policy after loading", encode(learner.policy()))
        self._looked_at(learner, facts, _DEAR)
        return learner, policy


def _others(actions: Actions, place: int) -> bytes:
    """The actions of everybody in a batch but the person at that place."""
    others = np.arange(len(actions)) != place
    shown = bytes(actions.arms[others].tobytes()) + bytes(actions.tickets.tobytes())
    if actions.points is not None:
        shown += bytes(actions.points[others].tobytes())
    return shown


# Rules.


def broken_rule(maker: Maker, learner: Learner[Any, Any, Any], policy: Any) -> str:
    """What a learner and its policy under local privacy should refuse and do not; empty if all."""
    people, rng = maker.crowd(), np.random.default_rng(3)
    contexts, rewards = people.crowd(2, rng), people.in_units(np.array([0.2, 0.8]))
    source = isinstance(policy, SourcePolicy)
    actions: Any = np.zeros(2, dtype=np.int64) if source else policy.act(contexts, rng)[0]

    def report(noise: NoiseSource, chosen: Any = actions) -> Any:
        return policy.report(contexts, chosen, rewards, noise)

    plain = replace(report(SimulatedNoise(1)), noise=NO_NOISE)
    update: Callable[[Any], object] = learner.update_source if source else learner.update  # type: ignore[attr-defined]
    terms = maker.terms(source, _OVER)
    if not _refused(lambda: update(plain)):
        return "reports that say that nothing protects them are taken"
    if not _refused(lambda: terms.check(policy)):
        return "a policy with a larger epsilon than was agreed is reported under"
    if find_spec("opendp") is not None and not _refused(lambda: report(SecureNoise())):
        return "SecureNoise makes reports without terms"
    if not source and not _refused(
        lambda: report(SimulatedNoise(1), replace(actions, policy="another"))
    ):
        return "actions of another policy are reported"
    return same_identity(maker) or (cheaper_file(learner) if learner.people else "")


def same_identity(maker: Maker) -> str:
    """Whether two learners cannot be told apart; empty if they can."""
    first, second = maker.make(), maker.make()
    return "two learners have one identity" if first.identity == second.identity else ""


def changed_policy(learner: Learner[Any, Any, Any], policy: Any) -> str:
    """Whether asking again gives another policy; empty if it does not."""
    again = encode(learner.policy()) != encode(policy)
    return "asking for a policy again gives another one" if again else ""


def open_file(learner: Learner[Any, Any, Any], path: Path) -> str:
    """Whether a saved file with data before noise does not say so; empty if it does."""
    notice = path.read_text()[:200]
    if learner.budget.protects_releases and "SECRET" not in notice:
        return "a file with data before noise does not say that it is secret"
    return ""


def quieter_file(path: Path) -> str:
    """Whether a file is loaded in which noise was halved; empty if it is refused."""
    return _changed_file(path, dict.fromkeys(_SCALES, 0.5))


def cheaper_file(learner: Learner[Any, Any, Any]) -> str:
    """Whether a file is loaded in which policies promise more than people reported under."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.json"
        save(learner, path)
        return _changed_file(path, {"epsilon": 0.5, "scale": 2.0})


def _changed_file(path: Path, factors: Mapping[str, float]) -> str:
    """Whether a file is loaded in which policies and releases have other numbers."""
    content = json.loads(path.read_text())
    del content["sha256"]
    state = content["state"]
    if "epsilon" not in factors:
        changed = _multiplied(state, factors)
    else:
        streams = [state["target"], *state.get("sources", {}).values()]
        changed = sum(_multiplied(stream["policies"], factors) for stream in streams) > 0
    if not changed:
        return ""
    tampered = path.with_name("tampered.json")
    tampered.write_text(sealed(content))
    if _refused(lambda: load(tampered, noise=SimulatedNoise(1))):
        return ""
    return "a file is loaded that promises other noise than the budget asks for"


def _multiplied(fields: Any, factors: Mapping[str, float]) -> bool:
    """Multiply numbers of those names in JSON values; whether there was one."""
    changed = False
    for key, value in list(fields.items() if isinstance(fields, dict) else enumerate(fields)):
        if key in factors and isinstance(value, float):
            fields[key], changed = factors[key] * value, True
        elif isinstance(value, dict | list):
            changed = _multiplied(value, factors) or changed
    return changed


def _refused(what: Callable[[], object]) -> bool:
    try:
        what()
    except InvalidInput:
        return True
    return False
