"""People of auxiliary sources: those of `ArmScene`, with arms that somebody else chose.

Here the arms are drawn by a rule that the learner does not know.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.lab.environments.synthetic import AuxiliaryData, CornerContexts, exponential
from discreet.lab.experiments import feed_source, run_learner
from discreet.learners.messages import Reports
from discreet.learners.policy import Actions, Policy
from discreet.privacy import SimulatedNoise
from discreet.validation import FloatArray

from .contract import ARMS, ArmScene, Row, visit

SCENE = ArmScene()


@dataclass(frozen=True)
class SourceRow:
    """One learner under test, with three arms on `DOMAIN`.

    Attributes:
        make: a fresh learner with the given public seed; two calls give equal ones.
    """

    make: Callable[[int], Any]

    def fresh(self, **epsilons: float) -> Any:
        """A learner that has opened these sources."""
        learner = self.make(11)
        for name, epsilon in epsilons.items():
            learner.open_source(name, epsilon)
        return learner


def people_of(count: int, seed: int, arm: int | None = None) -> tuple[np.ndarray, ...]:
    """Contexts, arms and rewards of people of a source; all with one arm if it is given."""
    contexts = SCENE.contexts(count, seed)
    arms = np.random.default_rng([seed, 2]).integers(ARMS, size=count)
    arms = arms if arm is None else np.full(count, arm)
    public_coins = np.zeros(count, dtype=np.uint64)
    return contexts, arms, SCENE.rewards(contexts, Actions(arms, public_coins, "none"), seed)


def told(policy: Policy, count: int, seed: int, arm: int | None = None) -> Reports:
    """Reports of so many people of a source."""
    return policy.report(*people_of(count, seed, arm), SimulatedNoise(seed))


def teach(learner: Any, name: str, batches: int = 2) -> None:
    """Let a source report under a few policies."""
    for seed in range(batches):
        policy = learner.policy(name)
        learner.update(told(policy, min(learner.batch_of(name), 400), seed))


def serve(learner: Any, seed: int) -> None:
    """Let people of the target report under one policy."""
    policy = learner.policy()
    people = min(learner.batch_size, 400)
    learner.update(visit(Row(lambda: learner), policy, people, seed))


def truth(contexts: FloatArray) -> FloatArray:
    """Mean rewards of the exponential problem."""
    return exponential().mean_rewards(contexts)


def reversed_truth(contexts: FloatArray) -> FloatArray:
    """Those of people elsewhere for whom the last arm is what the first is here."""
    return truth(contexts)[:, ::-1]


def hear(
    learner: Any,
    means: Callable[[FloatArray], FloatArray],
    people: int,
    epsilon: float,
    seed: int,
    *,
    shares: Sequence[float] = (1 / 3, 1 / 3, 1 / 3),
    gamma: float = 0.0,
) -> Any:
    """The learner after one more source of so many people, who have these shares of arms."""
    rng = np.random.default_rng(seed)
    contexts = CornerContexts(2, gamma)(people, rng)
    arms = rng.choice(ARMS, people, p=shares)
    rewards = rng.random(people) < means(contexts)[np.arange(people), arms]
    name = f"source {len(learner.sources)}"
    learner.open_source(name, epsilon)
    data = AuxiliaryData(contexts, arms, rewards.astype(float))
    feed_source(learner, name, data, SimulatedNoise(seed))
    return learner


def regret(learner: Any, people: int, seed: int) -> float:
    """Of so many people of the exponential problem, whom the learner serves."""
    crowd = exponential().sample(people, np.random.default_rng(seed))
    rng, noise = np.random.default_rng(seed + 1), SimulatedNoise(seed)
    return float(run_learner(learner, crowd, rng, noise).sum())


def slowly(learner: Any, *names: str) -> list[int]:
    """Make these methods of a learner take their time; returns how many of them ran at once."""
    seen: list[int] = []
    inside = 0

    def slow(method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            nonlocal inside
            inside += 1
            seen.append(inside)
            try:
                time.sleep(0.005)
                return method(*arguments)
            finally:
                inside -= 1

        return run

    for name in names:
        setattr(learner, name, slow(getattr(learner, name)))
    return seen


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """What calls return that start together, each in a thread of its own."""
    gate = threading.Barrier(len(calls))

    def started(call: Callable[[], Any]) -> Any:
        gate.wait(timeout=30.0)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(started, calls))


def numbers(value: object) -> list[float]:
    """All numbers in a JSON value, texts left out, in a fixed order."""
    if isinstance(value, dict):
        return [x for key in sorted(value) for x in numbers(value[key])]
    if isinstance(value, list | tuple):
        return [x for inner in value for x in numbers(inner)]
    return [] if value is None or isinstance(value, str) else [float(value)]  # type: ignore[arg-type]


def known(learner: Any) -> list[float]:
    """What a learner knows, as numbers."""
    return numbers(learner.secret_fields())


def tables(value: object) -> Iterator[dict[str, Any]]:
    """Every table within a JSON value."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from tables(inner)
