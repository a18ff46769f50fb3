"""Large problems on one machine: time, memory and people a second.

    python benchmarks/large.py [--quick]

| what              | size                                                              |
|-------------------|-------------------------------------------------------------------|
| people            | 1 and 10 million, who come in crowds of 16,384 and are forgotten  |
| pairs             | 100,000 of a context and an arm on a line, or without an order    |
| arms              | 200                                                               |

Seconds are processor seconds of the whole run, `wall` is what the clock showed, which other work
on the machine changes. `peak MB` is of the whole process, of which the imports take about 150. The
epsilon is 1, with a delta of 1e-6 under joint privacy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from apart import measured

if TYPE_CHECKING:
    from discreet.lab.environments.base import Population

CROWD = 2**14
TEN_MILLION, MILLION = 10_000_000, 1_000_000
LINES = [
    # learner, options, trust model, people, contexts (0 for a box of two columns), arms
    ("partition", {}, "local", MILLION, 0, 3),
    ("partition", {}, "local", TEN_MILLION, 0, 3),
    ("kernel", {}, "local", MILLION, 0, 3),
    ("kernel", {}, "local", TEN_MILLION, 0, 3),
    ("capri", {}, "joint", MILLION, 100, 10),
    ("capri", {}, "joint", MILLION, 1000, 100),
    ("capri", {"calibration": "bernstein"}, "joint", MILLION, 1000, 100),
    ("usca", {}, "joint", MILLION, 1000, 100),
    ("released_thompson", {}, "joint", MILLION, 1000, 100),
    ("partition", {}, "local", 100_000, 0, 200),
    ("abse", {}, "none", 100_000, 0, 200),
    ("private_linear", {}, "local", 100_000, 0, 200),
    ("kernel", {}, "local", 1_000, 0, 200),
]


def grid_crowds(contexts: int, arms: int) -> Callable[[int, Any], Population]:
    """People whose contexts are equally spaced, and a wave of contexts and arms that pays them."""
    import numpy as np

    from discreet.lab.environments.kernel_grid import GridPopulation

    grid, places = np.linspace(0.0, 1.0, contexts), np.linspace(0.0, 1.0, arms)
    function = 0.4 * np.sin(3.0 * grid[:, None] + 6.0 * places) + 0.5
    weights = np.full(contexts, 1.0 / contexts)

    def drawn(people: int, rng: np.random.Generator) -> Population:
        cells, noise = rng.integers(contexts, size=people), rng.uniform(-0.1, 0.1, people)
        return GridPopulation(grid[cells][:, None], cells, noise, grid, function, weights)

    return drawn


def crowds(draw: Callable[[int, Any], Population], people: int, rng: Any) -> Iterator[Population]:
    """So many people, a crowd at a time."""
    for start in range(0, people, CROWD):
        yield draw(min(CROWD, people - start), rng)


def measure(
    name: str, options: dict[str, Any], trust_model: str, people: int, contexts: int, arms: int
) -> dict[str, Any]:
    """Run one line in this process."""
    import numpy as np

    from discreet.lab.environments.synthetic import exponential
    from discreet.lab.experiments import run_learner
    from discreet.learners.registry import make_learner
    from discreet.people.domain import ArmPoints, unit_cube
    from discreet.privacy import Joint, Local, NonPrivate, SimulatedNoise

    noise, rng = SimulatedNoise(1), np.random.default_rng(2)
    space: Any = arms
    if contexts:
        draw, domain = grid_crowds(contexts, arms), unit_cube(1)
        space = ArmPoints(np.linspace(0.0, 1.0, arms)[:, None].tolist())
        points = np.linspace(0.0, 1.0, contexts)[:, None]
        options = {**options, "contexts": {"points": points}, "reward_noise": 0.1}
    else:
        problem = exponential(arms=arms, dimension=2)
        draw, domain = problem.sample, problem.domain
    budget = {"joint": Joint(1.0, 1e-6), "local": Local(1.0), "none": NonPrivate()}[trust_model]
    started, spent = time.perf_counter(), time.process_time()
    learner = make_learner(
        name, domain, space, budget, options=options, horizon=people, noise=noise
    )
    drawn = crowds(draw, people, np.random.default_rng(3))
    regret = sum(float(run_learner(learner, crowd, rng, noise).sum()) for crowd in drawn)
    return {
        "seconds": time.process_time() - spent,
        "wall": time.perf_counter() - started,
        "regret": regret,
        "policies": learner.policy().version + 1,
    }


def main() -> None:
    """Print the table."""
    header = (
        "learner            trust      people    pairs  arms   seconds      wall   people/s"
        "  policies     regret   peak MB"
    )
    for line, result in measured(__file__, __doc__, LINES, measure, (0, 2, 4, 9), header):
        name, options, trust_model, people, contexts, arms = line
        title = "capri, bernstein" if options else name
        print(
            f"{title:18} {trust_model:5} {people:>11,} {contexts * arms or '':>8} {arms:>5}"
            f" {result['seconds']:>9.1f} {result['wall']:>9.1f}"
            f" {people / result['seconds']:>10,.0f} {result['policies']:>9}"
            f" {result['regret']:>10,.0f} {result['megabytes']:>9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
