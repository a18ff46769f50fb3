"""Time and memory of learners that are given a kernel, on the 30 x 60 grid, and how they grow.

    python benchmarks/epoch_speed.py [--quick]

The problem is `kernel_grid`: 30 contexts, 60 arms on a line, a kernel known to the learner (SE:
squared exponential; M: Matern 5/2; length scale 0.3). Features of `capri` and `usca` are made
before the clock starts, because they are public and shared between replicates. Seconds are
processor seconds of the learner, its policies and reports, which other work on the machine changes
little; drawing the people is not counted. `ratio` is the time over that of uniform choice for as
many people. Goals for 100,000 people and SE: 5 s `capri`, 2 s `usca`.
"""

from __future__ import annotations

import time
from typing import Any

from apart import measured

LINES = [
    # learner, trust model, kernel, n
    ("uniform", "none", "SE", 100_000),
    ("kernel", "joint", "SE", 100_000),
    ("capri", "joint", "SE", 100_000),
    ("capri", "local", "SE", 100_000),
    ("usca", "joint", "SE", 100_000),
    ("kernel", "joint", "M", 100_000),
    ("capri", "joint", "M", 100_000),
    ("usca", "joint", "M", 100_000),
    ("uniform", "none", "SE", 1_000_000),
    ("kernel", "joint", "SE", 1_000_000),
]


def measure(name: str, trust_model: str, kernel: str, people: int) -> dict[str, Any]:
    """Run one line in this process."""
    import numpy as np

    from discreet.lab.environments.kernel_grid import KernelGridProblem
    from discreet.lab.experiments import Setting, simulate
    from discreet.learners.registry import make_learner
    from discreet.privacy import Joint, Local, NonPrivate, SimulatedNoise

    smooth = kernel == "SE"
    problem = KernelGridProblem(smoothness="squared_exponential" if smooth else "matern52")
    text = "RBF(length_scale=0.3)" if smooth else "Matern(length_scale=0.3, nu=2.5)"
    options = {} if name == "uniform" else {"kernel": text, "reward_noise": problem.noise}
    budget = {"joint": Joint(1.0, 1e-5), "local": Local(1.0), "none": NonPrivate()}[trust_model]
    make_learner(
        name,
        problem.domain,
        problem.space,
        budget,
        options=options,
        horizon=people,
        reward_bounds=problem.reward_bounds,
        noise=SimulatedNoise(0),
    )
    problem.sample(1, np.random.default_rng(0))  # the first one works out a covariance
    times = [time.process_time()]
    problem.sample(people, np.random.default_rng(0))
    times.append(time.process_time())
    outcome = simulate(problem, Setting(name, name, budget, options), people, 9_000, 0)
    times.append(time.process_time())
    drawing, both = times[1] - times[0], times[2] - times[1]
    return {
        "seconds": both - drawing,
        "regret": outcome.record.value,
    }


def main() -> None:
    """Print the table."""
    header = "learner    trust  kernel          n   seconds   ratio   regret   peak MB"
    uniform: dict[int, float] = {}
    for line, result in measured(__file__, __doc__, LINES, measure, range(7), header):
        name, trust_model, kernel, people = line
        seconds = result["seconds"]
        uniform.setdefault(people, seconds)
        print(
            f"{name:9}  {trust_model:5}  {kernel:6} {people:>9,}"
            f" {seconds:>9.2f} {seconds / uniform[people]:>7.0f}"
            f" {result['regret']:>8,.0f} {result['megabytes']:>9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
