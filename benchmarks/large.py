"""Large problems on one machine: time, memory and people a second.

    python benchmarks/large.py [--quick]

| what              | size                                                              |
|-------------------|-------------------------------------------------------------------|
| people            | 1,000 to 10 million, who come in crowds of 16,384, then forgotten |
| pairs             | 100,000 of a context and an arm on a line, or without an order    |
| arms              | 200                                                               |

`--quick` runs `kernel` and `partition` alone. Seconds are processor seconds of the whole run.
Regret is per person, of one run. `peak MB` is of the whole process, of which the imports take
about 150. The epsilon is 1, with a delta of 1e-6 under joint privacy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from apart import measured

if TYPE_CHECKING:
    from discreet.lab.environments.base import Population

CROWD = 2**14
MILLION = 1_000_000
SIZES = (1_000, 10_000, 100_000, MILLION, 10_000_000)
LINES = [
    # learner, options, trust model, people, contexts (0 for a box of two columns), arms
    *(("kernel", {}, "local", people, 0, 3) for people in SIZES),
    *(("partition", {}, "local", people, 0, 3) for people in SIZES),
    ("uniform", {}, "none", 100_000, 0, 3),
    ("capri", {}, "joint", MILLION, 100, 10),
    ("capri", {}, "joint", MILLION, 1000, 100),
    ("capri", {"calibration": "bernstein"}, "joint", MILLION, 1000, 100),
    ("usca", {}, "joint", MILLION, 1000, 100),
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
    spent = time.process_time()
    learner = make_learner(
        name, domain, space, budget, options=options, horizon=people, noise=noise
    )
    drawn = crowds(draw, people, np.random.default_rng(3))
    regret = sum(float(run_learner(learner, crowd, rng, noise).sum()) for crowd in drawn)
    return {
        "seconds": time.process_time() - spent,
        "regret": regret / people,
    }


def main() -> None:
    """Print the table."""
    header = "learner            trust      people    pairs  arms  seconds  people/s   regret    MB"
    quick = range(2 * len(SIZES) + 1)
    for line, result in measured(__file__, __doc__, LINES, measure, quick, header):
        name, options, trust_model, people, contexts, arms = line
        title = "capri, bernstein" if options else name
        print(
            f"{title:18} {trust_model:5} {people:>10,} {contexts * arms or '':>8} {arms:>5}"
            f" {result['seconds']:>8.1f} {people / result['seconds']:>9,.0f}"
            f" {result['regret']:>8.4f} {result['megabytes']:>5.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
