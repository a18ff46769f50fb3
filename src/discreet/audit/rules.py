"""Rules on which promises rest besides the loss of a run: what must be refused, and said.

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
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from discreet.audit.makers import Maker
from discreet.learners.base import Learner
from discreet.learners.saving import load
from discreet.learners.schema import encode
from discreet.learners.sources import SourcePolicy
from discreet.learners.terms import Terms
from discreet.privacy import NoiseSource, SecureNoise, SimulatedNoise
from discreet.privacy.noise import NO_NOISE
from discreet.validation import InvalidInput

# Terms that a policy is over: by a hundredth.
_OVER = 0.99
_SCALES = ("scale", "multiplier", "noise_multiplier")


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
    delta = 0.0 if source else maker.budget.delta
    terms = Terms(maker.domain, maker.space, _OVER * maker.budget.epsilon, maker.bounds, delta)
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
    return same_identity(maker)


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
    if learner.budget.trust_model == "joint" and "SECRET" not in notice:
        return "a file with data before noise does not say that it is secret"
    return ""


def quieter_file(path: Path) -> str:
    """Whether a file is loaded in which noise was halved; empty if it is refused."""
    content = json.loads(path.read_text())
    if not _halved(content["state"]):
        return ""
    tampered = path.with_name("tampered.json")
    tampered.write_text(json.dumps(content))
    if _refused(lambda: load(tampered, noise=SimulatedNoise(1))):
        return ""
    return "a file is loaded that promises less noise than the budget asks for"


def _halved(fields: Any) -> bool:
    """Halve every scale in JSON values; whether there was one."""
    found = False
    for key, value in list(fields.items() if isinstance(fields, dict) else enumerate(fields)):
        if key in _SCALES and isinstance(value, float):
            fields[key], found = 0.5 * value, True
        elif isinstance(value, dict | list):
            found = _halved(value) or found
    return found


def _refused(what: Callable[[], object]) -> bool:
    try:
        what()
    except InvalidInput:
        return True
    return False
