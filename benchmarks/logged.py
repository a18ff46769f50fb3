"""Logged decisions held against the truth: coverage and bias of values, and what replay says.

    python benchmarks/logged.py values --logs 200       # intervals and bias for fixed policies
    python benchmarks/logged.py rare --logs 200         # 80 arms, 0.4% clicks, each estimator
    python benchmarks/logged.py runs --logs 200         # the same for what learners earn in a run
    python benchmarks/logged.py learners --logs 20      # what learners earned, by either replay
    python benchmarks/logged.py values --logs 4 --jobs 2 --seed 7

`values`: many logs are drawn from worlds whose mean rewards are known, and the value of five
policies (each arm for everyone, a rule, choice at random, and the rule instead of an arm) is
estimated from each, with intervals of 95%. Shown for each setting: the share of intervals that
cover the truth, mean error, its root mean square, the mean width of intervals, each over logs and
policies (standard errors over logs).

`rare`: logs of 80 arms drawn evenly and rewards that are 1 in 0.4% of rows. Policies: as the log
chose, one that leans towards better arms, and one that gives a tenth of people one arm. Shown for
each estimator: the share of logs with an interval, coverage among these (standard error), mean
error and root mean square error.

`runs`: on such logs of 80,000 rows a learner is replayed by a model; the truth is the
mean value of the policies that it published.

`learners`: a learner is replayed on logs in both ways, and on the world itself. Shown: what it
earned per person in the world, and mean and root mean square error of what either replay says, for
as many people as rejection serves. `both halves` serves the people of both halves together, so that
the learner has learnt from models that saw the very rewards which judge it; the difference is what
serving one half guards against.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd

from discreet import Box, Local, NonPrivate, Partition, SimulatedNoise
from discreet.lab.environments.base import People
from discreet.lab.environments.log_problem import (
    LogProblem,
    ModelPopulation,
    RejectionPopulation,
    rejection_people,
)
from discreet.lab.environments.log_values import ESTIMATORS, LogValue, estimate
from discreet.lab.environments.logs import Log
from discreet.lab.experiments import frame_of, grid, run_learner, run_trials

DOMAIN = Box((0.0, 0.0), (1.0, 1.0), ("u", "v"))
NAMES = ("a", "b", "c")
POLICIES = (*NAMES, "rule", "random", "rule instead of a")


def means(contexts: np.ndarray, world: str) -> np.ndarray:
    """(n, 3) mean rewards: smooth, with a jump, or the same everywhere."""
    u, v = contexts.T
    if world == "flat":
        return np.full((len(u), 3), 0.5)
    columns = (0.35 + 0.1 * v, 0.15 + 0.6 * u, np.where(v > 0.6, 0.75, 0.25 - 0.1 * u))
    return np.stack(columns, axis=1)


def chosen_with(contexts: np.ndarray, logging: str) -> np.ndarray:
    """(n, 3) the probabilities with which the log chose."""
    u, v = contexts.T
    if logging == "even":
        return np.full((len(u), 3), 1.0 / 3.0)
    strength = {"uneven": 1.5, "steep": 3.0}[logging]
    logits = strength * np.stack([0.5 - u, u, 2.0 * (v - 0.5)], axis=1)
    weights = np.exp(logits)
    return weights / weights.sum(axis=1, keepdims=True)


def rule(contexts: np.ndarray) -> np.ndarray:
    """(n,) a policy that somebody may think of."""
    return np.where(contexts[:, 1] > 0.5, 2, np.where(contexts[:, 0] > 0.4, 1, 0))


def drawn(people: int, world: str, logging: str, rng: np.random.Generator, visits: int) -> Log:
    """A log; people who come several times are alike in what they bring and in their luck."""
    count = -(-people // visits)
    contexts = np.repeat(rng.random((count, 2)), visits, axis=0)[:people]
    luck = np.repeat(rng.normal(size=count), visits)[:people]
    probabilities = chosen_with(contexts, logging)
    ends = probabilities.cumsum(axis=1)
    actions = (rng.random(people)[:, None] > ends[:, :-1]).sum(axis=1)
    rows = np.arange(people)
    mean = means(contexts, world)[rows, actions]
    shift = 0.0 if visits == 1 else 0.2 * np.sign(luck)
    rewards = (rng.random(people) < mean + shift).astype(np.float64)
    ids = None if visits == 1 else np.repeat(np.arange(count), visits)[:people]
    return Log(
        contexts,
        actions,
        rewards,
        DOMAIN,
        NAMES,
        propensities=probabilities[rows, actions],
        ids=ids,
    )


def truths(world: str) -> dict[str, float]:
    """The value of each policy, from a grid of a million contexts."""
    side = (np.arange(1000) + 0.5) / 1000
    contexts = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    mean = means(contexts, world)
    values = dict(zip(NAMES, mean.mean(axis=0), strict=True))
    values["rule"] = mean[np.arange(len(mean)), rule(contexts)].mean()
    values["random"] = mean.mean()
    values["rule instead of a"] = values["rule"] - values["a"]
    return values


def value_trial(seed: Any, setting: str, logs: dict, truth: dict) -> list[dict[str, Any]]:
    """Values of all policies from one log."""
    facts = logs[setting]
    rng = np.random.default_rng(seed.streams(1)[0])
    log = drawn(facts["people"], "smooth", facts["logging"], rng, facts.get("visits", 1))
    if facts.get("estimated"):
        log = Log(log.contexts, log.actions, log.rewards, DOMAIN, NAMES, ids=log.ids)
    estimates = estimate(log).estimates
    choices = {name: np.full(len(log), arm) for arm, name in enumerate(NAMES)}
    choices["rule"] = rule(log.contexts)
    choices["random"] = np.full((len(log), 3), 1.0 / 3.0)
    rows = []
    for policy in POLICIES:
        instead = choices["a"] if policy == POLICIES[-1] else None
        choice = choices["rule"] if instead is not None else choices[policy]
        value = estimates.value(choice, instead_of=instead)
        lower, upper = value.lower, value.upper
        rows.append(
            {
                "policy": policy,
                "covered": np.nan if lower is None else lower <= truth[policy] <= upper,
                "error": value.mean - truth[policy],
                "width": np.nan if lower is None else upper - lower,
            }
        )
    return rows


ITEMS, CLICKS = 80, 0.004
_EFFECTS = np.random.default_rng(5).normal(0.0, 0.6, (2, ITEMS))
RARE = ("as logged", "leaning", "a tenth one arm")


def clicks(contexts: np.ndarray) -> np.ndarray:
    """(n, 80) click rates, about 0.4% on average."""
    item, slope = _EFFECTS
    return np.asarray(CLICKS / 1.054 * np.exp(item + slope * (contexts[:, :1] - 0.5)))


def rare_policy(contexts: np.ndarray, policy: str) -> np.ndarray:
    """(n, 80) probabilities of arms."""
    even = np.full((len(contexts), ITEMS), 1.0 / ITEMS)
    if policy == "leaning":
        weights = clicks(contexts) ** 0.7
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))
    if policy == "a tenth one arm":
        even *= 0.9
        even[:, 3] += 0.1
    return even


def rare_log(rows: int, rng: np.random.Generator) -> Log:
    """A log of 80 arms drawn evenly with rare clicks."""
    contexts = rng.random((rows, 2))
    actions = rng.integers(ITEMS, size=rows)
    rewards = rng.random(rows) < clicks(contexts)[np.arange(rows), actions]
    names = tuple(map(str, range(ITEMS)))
    shares = np.full(rows, 1.0 / ITEMS)
    return Log(contexts, actions, rewards.astype(float), DOMAIN, names, propensities=shares)


def rare_trial(seed: Any, rows: int, truth: dict) -> list[dict[str, Any]]:
    """Values of fixed policies by each estimator from one log."""
    log = rare_log(rows, np.random.default_rng(seed.streams(1)[0]))
    estimates = estimate(log).estimates
    return [
        _rare_line(
            policy,
            estimator,
            estimates.value(rare_policy(log.contexts, policy), resamples=500, estimator=estimator),
            truth[policy],
        )
        for policy in RARE
        for estimator in ESTIMATORS
    ]


def _rare_line(policy: str, estimator: str, value: LogValue, truth: float) -> dict[str, Any]:
    given = value.lower is not None and value.upper is not None
    return {
        "policy": policy,
        "estimator": estimator,
        "given": float(given),
        "covered": float(value.lower <= truth <= value.upper) if given else np.nan,
        "error": value.mean - truth,
        "behind": value.behind,
    }


def run_trial(seed: Any, rows: int) -> list[dict[str, Any]]:
    """What a learner's run earns, beside the value of the policies that served it."""
    crowd, public_coins, noise = seed.streams(3)
    rng = np.random.default_rng(crowd)
    problem = LogProblem(rare_log(rows, rng), estimator="dr")
    fresh = rng.random((500, 2))
    rates, lines = clicks(fresh), []
    for epsilon in (0.25, 4.0):
        half = problem.sample(rows // 2, np.random.default_rng(public_coins))
        source = SimulatedNoise(noise)
        serves = Partition(DOMAIN, ITEMS, Local(epsilon), horizon=len(half), noise=source)
        worth: list[tuple[int, float]] = []

        def after(policy: Any, served: int, worth: list[tuple[int, float]] = worth) -> None:
            shares = policy.probabilities(fresh)
            worth.append((served, float((shares * rates).sum(axis=1).mean())))

        values = run_learner(serves, half, np.random.default_rng(public_coins), source, [after])
        ends = np.array([served for served, _ in worth])
        truth = float(np.diff(ends, prepend=0) @ [each for _, each in worth]) / len(half)
        name = f"partition, epsilon {epsilon:g}"
        lines.append(_rare_line(name, "dr", half.estimated(values), truth))
    return lines


def show_rare(what: str, logs: int, jobs: int, seed: int) -> None:
    """Coverage and errors, one line a policy (or learner) and estimator."""
    rows = 10_000 if what == "rare" else 80_000
    settings: list[dict[str, Any]] = [{"rows": rows}]
    trial: Any = run_trial
    if what == "rare":
        contexts = np.random.default_rng(0).random((100_000, 2))
        rates = clicks(contexts)
        truth = {each: float((rare_policy(contexts, each) * rates).sum(1).mean()) for each in RARE}
        settings, trial = [{"rows": rows, "truth": truth}], rare_trial
    frame = frame_of(run_trials(trial, settings, logs, seed, jobs), settings)
    print(f"{logs} logs of {rows:,} rows, {ITEMS} arms, {CLICKS:.1%} clicks, seed {seed}")
    print(
        f"{'':26} {'behind':>7} {'given':>6} {'covered':>15} {'mean error':>11} {'rms error':>10}"
    )
    for (policy, estimator), part in frame.groupby(["policy", "estimator"], sort=False):
        shown = part.covered.dropna()
        error = (shown.mean() * (1.0 - shown.mean()) / max(len(shown), 1)) ** 0.5
        covered = f"{shown.mean():7.1%} ± {error:5.1%}" if len(shown) else "-"
        print(
            f"{policy + ', ' + estimator:26} {part.behind.mean():7.1f} {part.given.mean():6.0%} "
            f"{covered:>15} {part.error.mean():+11.5f} {np.sqrt((part.error**2).mean()):10.5f}",
            flush=True,
        )


VALUES = {
    "even, 500 rows": {"people": 500, "logging": "even"},
    "uneven, 500 rows": {"people": 500, "logging": "uneven"},
    "uneven, 2,000 rows": {"people": 2000, "logging": "uneven"},
    "steep, 2,000 rows": {"people": 2000, "logging": "steep"},
    "uneven, estimated propensities": {"people": 2000, "logging": "uneven", "estimated": True},
    "steep, estimated propensities": {"people": 2000, "logging": "steep", "estimated": True},
    "uneven, everybody five times": {"people": 2000, "logging": "uneven", "visits": 5},
}


def show_values(logs: int, jobs: int, seed: int) -> None:
    """Coverage and bias, one line a setting and then one a policy."""
    truth, frames = truths("smooth"), []
    head = f"{logs} logs, seed {seed}".ljust(34)
    print(f"{head} {'covered':>15} {'mean error':>18} {'rms error':>10} {'width':>7}", flush=True)
    for setting in VALUES:
        settings = grid(setting=[setting], logs=[VALUES], truth=[truth])
        frame = frame_of(run_trials(value_trial, settings, logs, seed, jobs), settings)
        frames.append(frame)
        _value_line(setting, frame)
    for policy, part in pd.concat(frames).groupby("policy", sort=False):
        _value_line(f"  {policy}", part)


def _value_line(name: str, part: pd.DataFrame) -> None:
    by_log = part.groupby("trial")[["covered", "error"]].mean()
    root = len(by_log) ** 0.5
    error = by_log.std(ddof=1) / root if len(by_log) > 1 else by_log.std(ddof=0)
    print(
        f"{name:34} {by_log.covered.mean():7.1%} ± {error.covered:5.1%} "
        f"{by_log.error.mean():+9.4f} ± {error.error:.4f} "
        f"{np.sqrt((part.error**2).mean()):10.4f} {part.width.mean():7.3f}",
        flush=True,
    )


def both_halves(problem: LogProblem, people: int, rng: np.random.Generator) -> ModelPopulation:
    """People of both halves in a random order."""
    order = rng.permutation(len(problem.log))[:people]
    rewards = np.empty((people, 3))
    for half in (0, 1):
        own = np.flatnonzero(problem.models.halves[order] == half)
        rewards[own] = problem.models.draw(order[own], rng)
    return ModelPopulation(problem, order, rewards, problem.best[0])


def learner_trial(
    seed: Any, world: str, logging: str, rows: int, learners: list[str]
) -> list[dict[str, Any]]:
    """What learners earn per person: in the world, and by either replay of one log."""
    crowd, public_coins, noise = seed.streams(3)
    rng = np.random.default_rng(crowd)
    log = drawn(rows, world, logging, rng, 1)
    assert log.propensities is not None
    served = rejection_people(log.propensities)
    problem = LogProblem(log, "model")
    contexts = rng.random((served, 2))
    mean = means(contexts, world)
    drawn_rewards = (rng.random(mean.shape) < mean).astype(np.float64)
    ways = {
        "world": lambda: People(contexts, drawn_rewards, mean),
        "rejection": lambda: RejectionPopulation(log, served, 0.0, rng),
        "model": lambda: problem.sample(served, rng),
        "both halves": lambda: both_halves(problem, served, rng),
    }
    lines = []
    for learner in learners:
        budget = NonPrivate() if learner == "non-private" else Local(float(learner))
        for way, people in ways.items():
            source = SimulatedNoise(noise)
            serves = Partition(DOMAIN, 3, budget, horizon=served, noise=source)
            acting = np.random.default_rng(public_coins)
            values = run_learner(serves, people(), acting, source)
            if way == "world":  # where values are regrets
                values = mean.max(axis=1) - values
            lines.append({"learner": learner, "way": way, "value": values.mean(), "served": served})
    return lines


def show_learners(logs: int, jobs: int, seed: int, rows: list[int], learners: list[str]) -> None:
    """What replay says a learner earns, beside what it earns in the world."""
    settings = grid(
        world=["smooth", "flat"], logging=["even", "uneven"], rows=rows, learners=[learners]
    )
    print(f"{logs} logs, seed {seed}; per person, mean ± standard error (root mean square error)")
    for setting in settings:
        frame = frame_of(run_trials(learner_trial, [setting], logs, seed, jobs), [setting])
        for learner, part in frame.groupby("learner", sort=False):
            facts = (setting["world"], setting["logging"], setting["rows"], learner)
            _learner_line(", ".join(map(str, facts)), part)


def _learner_line(name: str, part: pd.DataFrame) -> None:
    values = part.pivot(index="trial", columns="way", values="value")
    truth = values["world"].mean()
    texts = [f"world {truth:.4f} ± {values['world'].sem():.4f}"]
    for way in ("rejection", "model", "both halves"):
        errors = values[way] - truth
        root = np.sqrt((errors**2).mean())
        texts.append(f"{way} {errors.mean():+.4f} ± {errors.sem():.4f} ({root:.4f})")
    print(f"{name}, {part['served'].mean():,.0f} served: {'; '.join(texts)}", flush=True)


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["values", "rare", "runs", "learners"])
    parser.add_argument("--logs", type=int, default=50, help="logs of each setting")
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 4000, 16000])
    parser.add_argument("--learners", nargs="+", default=["non-private", "4"], help="epsilons")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.what in ("rare", "runs"):
        show_rare(asked.what, asked.logs, asked.jobs, asked.seed)
    elif asked.what == "values":
        show_values(asked.logs, asked.jobs, asked.seed)
    else:
        show_learners(asked.logs, asked.jobs, asked.seed, asked.rows, asked.learners)


if __name__ == "__main__":
    main()
