"""A billion people a day on paper, and what late policies and late, lost reports cost in regret.

    python benchmarks/scale.py plan [--people 1_000_000_000]
    python benchmarks/scale.py days [--trials 6] [--jobs 1]

`plan`: sizes are measured here: of a report as Parquet and as JSON, of a policy as people fetch it
(JSON, by gzip), and processor seconds of `discreet aggregate`. Everything else is an assumption,
and an option with its default. A row says how much there is a day, what that is at once (in the
busiest second, or for as many days as reports are kept), and what it costs; the dearest comes
first.

`days`: a simulation of events (SimPy) with `partition` on the zoo's problem `exponential`. People
come evenly over a day, 50 at a time; whoever comes acts by the newest policy that has reached them;
their report is lost, or it arrives after a delay, in steps of that time. A policy is published when
as many reports have arrived as the learner asks for, and reaches people later by its age. `more` is
the regret of the same people above that of the first line, with its standard error; `received` are
the reports that were learnt from within the day.
"""

from __future__ import annotations

import argparse
import gzip
import math
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import simpy

from discreet import Local
from discreet.codec import encode
from discreet.lab.environments.catalog import load_problem
from discreet.lab.experiments import Seed, Setting, frame_of, learner_of, people_of, run_trials
from discreet.lab.experiments.means import mean_and_error
from discreet.learners.messages import Reports
from discreet.privacy import SimulatedNoise
from discreet.service.aggregation.aggregate import aggregate
from discreet.service.aggregation.datasets import write_reports

PROBLEM = "exponential"
EPSILON, PEOPLE, SEED = 2.0, 20_000, 22
GROUP = 50  # people who come at one moment of the simulation
DAY = 24.0  # hours
STEP = DAY * GROUP / PEOPLE  # until the next ones come
MEASURED = 200_000  # reports whose aggregation is timed


@dataclass(frozen=True)
class World:
    """What lies between people and the learner, in hours.

    Attributes:
        age: of a policy when it reaches people.
        delay: of a report, on average (exponential).
        stragglers: the share of reports that come `late` hours later besides.
        late: see `stragglers`.
        lost: the share of reports that never come.
    """

    age: float = 0.0
    delay: float = 0.0
    stragglers: float = 0.0
    late: float = 6.0
    lost: float = 0.0

    @property
    def words(self) -> str:
        """What is not as it should be."""
        parts = [
            (self.age, f"policies {_hours(self.age)} old"),
            (self.delay, f"reports {_hours(self.delay)} late"),
            (self.stragglers, f"{self.stragglers:.0%} another {_hours(self.late)}"),
            (self.lost, f"{self.lost:.0%} lost"),
        ]
        return ", ".join(text for value, text in parts if value) or "at once, nothing lost"


WORLDS = (
    World(),
    *(World(age=age) for age in (0.25, 1.0, 3.0, 6.0, 12.0)),
    World(delay=1.0),
    World(stragglers=0.2),
    World(lost=0.1),
    World(lost=0.5),
    World(age=1.0, delay=1.0, stragglers=0.2, lost=0.1),
)


class Day:
    """One day of people, of which the learner hears what the world lets through.

    Args:
        seed: of the trial; people and public coins are the same in every world.
        learner: its name.
        world: see `World`.
    """

    def __init__(self, seed: Seed, learner: str, world: World) -> None:
        problem = load_problem(PROBLEM)
        setting = Setting(learner, learner, Local(EPSILON))
        _, acting, drawn, public, lines = seed.streams(5)
        self.noise, self.rng = SimulatedNoise(drawn), np.random.default_rng(acting)
        self.luck, self.world = np.random.default_rng(lines), world
        self.people = people_of(problem, PEOPLE, seed.base, seed.trial)
        number = int(public.generate_state(1)[0])
        self.learner = learner_of(problem, setting, PEOPLE, number, self.noise)
        self.there = self.learner.policy()  # what people have
        self.waiting: list[Reports] = []
        self.regret, self.received, self.published = 0.0, 0, 0
        self.clock = simpy.Environment()
        self.clock.process(self.arrivals())

    def arrivals(self) -> Generator[Any]:
        """People come, act, and report."""
        for start in range(0, len(self.people), GROUP):
            policy = self.there
            stop = min(start + GROUP, len(self.people))
            act = partial(_acted, policy, self.rng)
            contexts, actions = self.people.served(start, stop, act)
            rewards = self.people.received(actions, start)
            self.regret += float(self.people.value(actions, start).sum())
            self.send(policy.report(contexts, actions, rewards, self.noise))
            yield self.clock.timeout(STEP)

    def send(self, reports: Reports) -> None:
        """Each report goes its own way."""
        luck = self.luck.random((2, len(reports)))
        delays = self.luck.exponential(1.0, len(reports)) * self.world.delay
        delays += (luck[0] < self.world.stragglers) * self.world.late
        delays = np.round(delays / STEP) * STEP
        arriving = np.flatnonzero(luck[1] >= self.world.lost)
        for delay in np.unique(delays[arriving]):
            some = arriving[delays[arriving] == delay]
            self.clock.process(self.arrival(reports.of(some), float(delay)))

    def arrival(self, reports: Reports, delay: float) -> Generator[Any]:
        """Reports that arrive; the learner learns when there are enough of them."""
        yield self.clock.timeout(delay)
        self.waiting.append(reports)
        if sum(map(len, self.waiting)) >= max(self.learner.batch_size, 1):
            self.learner.update(self.waiting)
            self.received += sum(map(len, self.waiting))
            self.waiting = []
            self.clock.process(self.publication(self.learner.policy()))

    def publication(self, policy: Any) -> Generator[Any]:
        """A policy that reaches people."""
        yield self.clock.timeout(self.world.age)
        self.there = policy
        self.published += 1


def _acted(policy: Any, rng: np.random.Generator, contexts: Any) -> Any:
    return policy.act(contexts, rng)[0]


def trial(seed: Seed, learner: str, world: World) -> list[dict[str, Any]]:
    """One day in one world."""
    day = Day(seed, learner, world)
    day.clock.run(until=DAY)
    values = {"regret": day.regret, "received": day.received, "published": day.published}
    return [{"metric": metric, "value": float(value)} for metric, value in values.items()]


def simulate(learner: str, trials: int, jobs: int) -> None:
    """Print the table of a learner."""
    settings = [{"learner": learner, "world": world} for world in WORLDS]
    frame = frame_of(run_trials(trial, settings, trials, SEED, jobs))
    table: pd.DataFrame = frame.pivot_table(
        index=["case", "trial"], columns="metric", values="value"
    )
    usual = table.loc[0]["regret"].to_numpy()
    print(f"{learner}, epsilon {EPSILON:g}, {PEOPLE:,} people, {trials} days:")
    print(f"{'':47}{'regret':>8}{'more':>15}{'received':>10}{'policies':>10}")
    for case, world in enumerate(WORLDS):
        rows = table.loc[case]
        more = 100.0 * (rows["regret"].to_numpy() - usual) / usual.mean()
        mean, error = mean_and_error(more)
        shown = f"{mean:.0f}% +- {error:.0f}%" if case else ""
        print(
            f"{world.words:47}{rows['regret'].mean():8.0f}{shown:>15}"
            f"{rows['received'].mean():10.0f}{rows['published'].mean():10.0f}"
        )


def plan(given: argparse.Namespace) -> None:
    """Print the plan on paper of each learner."""
    for learner in given.learners:
        sizes = measured(learner)
        print(
            f"\n{learner}: a report has {sizes.parquet:.1f} bytes as Parquet and "
            f"{sizes.json:.0f} as JSON, a policy {sizes.policy / 1e3:.1f} kB, and a million "
            f"reports take {sizes.seconds:.1f} processor seconds to sum."
        )
        lines = paper(given, sizes)
        print(f"{'':26}{'a day':>14}{'at once':>22}{'$ a day':>10}")
        for what, amount, need, cost in sorted(lines, key=lambda each: -each[3]):
            print(f"{what:26}{amount:>14}{need:>22}{cost:10,.0f}")


@dataclass(frozen=True)
class Sizes:
    """Bytes of a report as Parquet and as JSON, and of a policy; seconds of a million reports."""

    parquet: float
    json: float
    policy: float
    seconds: float


def measured(name: str) -> Sizes:
    """What a learner's messages take, after a first batch of people."""
    problem = load_problem(PROBLEM)
    setting = Setting(name, name, Local(EPSILON))
    rng, noise = np.random.default_rng(SEED), SimulatedNoise(SEED)
    learner = learner_of(problem, setting, MEASURED, SEED, noise)

    def reports(count: int) -> Reports:
        people = people_of(problem, count, SEED, count)
        policy = learner.policy()
        contexts, actions = people.served(0, count, partial(_acted, policy, rng))
        made: Reports = policy.report(contexts, actions, people.received(actions, 0), noise)
        return made

    learner.update(reports(PEOPLE))
    some = reports(MEASURED)
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            public_coins = rng.integers(0, 2**53, MEASURED, dtype=np.uint64)
            path = Path(folder) / f"{number}.parquet"
            write_reports(path, [replace(some, public_coins=public_coins)])  # type: ignore[call-arg]
        parquet = path.stat().st_size / MEASURED
        for files in (["0.parquet"], ["1.parquet", "2.parquet"]):
            began = time.process_time()
            aggregate(learner, [Path(folder) / each for each in files])
            seconds.append(time.process_time() - began)
    # What each bucket takes, however few reports it has, is in both.
    more = seconds[1] - seconds[0]
    policy = len(gzip.compress(encode(learner.policy()).encode(), mtime=0))
    alone = len(encode(some.of(np.arange(1))).encode())
    return Sizes(parquet, alone, policy, more * 1e6 / MEASURED)


def paper(given: argparse.Namespace, sizes: Sizes) -> list[tuple[str, str, str, float]]:
    """What there is a day, what it takes at once, and dollars a day."""
    people, peak = given.people, given.people / 86_400 * given.peak
    fetched = people * given.fetches * sizes.policy / 1e9
    sent = people * (sizes.json + given.overhead) / 1e9
    shards = math.ceil(peak / given.ingest)
    kept = people * sizes.parquet / 1e9
    hours = people / 1e6 * sizes.seconds / 3600
    public_coins = people * 16 / 1e9
    stored = (kept * given.days + public_coins * given.days) * given.storage / 30
    return [
        (
            "policies fetched (CDN)",
            f"{fetched:,.0f} GB",
            f"{fetched * 8 / 86_400 * given.peak:,.1f} Gbit/s",
            fetched * given.cdn,
        ),
        ("reports taken in", f"{sent:,.0f} GB", f"{shards:,} shards", shards * 24 * given.core),
        (
            "requests",
            f"{people / 1e6:,.0f} million",
            f"{peak:,.0f} a second",
            people / 1e6 * given.requests,
        ),
        (
            "reports and public coins kept",
            f"{kept + public_coins:,.0f} GB",
            f"{(kept + public_coins) * given.days:,.0f} GB",
            stored,
        ),
        (
            "reports summed",
            f"{hours:,.1f} hours",
            f"{math.ceil(hours / 24 * given.peak):,} cores",
            hours * given.core,
        ),
    ]


def _hours(hours: float) -> str:
    return f"{hours:g} h" if hours >= 1.0 else f"{60 * hours:g} min"


def main() -> None:
    """Print the plan, or the simulation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add: Callable[..., Any] = parser.add_argument
    add("what", choices=["plan", "days"])
    add("--people", type=float, default=1e9, help="who come in a day")
    add("--peak", type=float, default=3.0, help="the busiest second over the mean one")
    add("--fetches", type=float, default=1.0, help="policies that a person fetches a day")
    add("--overhead", type=float, default=600.0, help="bytes of a request beside its report")
    add("--ingest", type=float, default=2000.0, help="reports a second of a shard of one core")
    add("--days", type=float, default=30.0, help="that reports and public coins are kept")
    add("--cdn", type=float, default=0.02, help="dollars for a GB from a CDN")
    add("--requests", type=float, default=0.2, help="dollars for a million requests")
    add("--core", type=float, default=0.04, help="dollars for an hour of a core")
    add("--storage", type=float, default=0.023, help="dollars for a GB and 30 days")
    add("--learners", nargs="+", default=["partition", "kernel"])
    add("--trials", type=int, default=6)
    add("--jobs", type=int, default=1)
    given = parser.parse_args()
    if given.what == "days":
        simulate("partition", given.trials, given.jobs)
        return
    names = ("people", "peak", "fetches", "overhead", "ingest", "days")
    names += ("cdn", "requests", "core", "storage")
    print("Assumed: " + ", ".join(f"{name} {getattr(given, name):g}" for name in names) + ".")
    plan(given)


if __name__ == "__main__":
    main()
