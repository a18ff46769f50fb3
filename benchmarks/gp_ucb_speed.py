"""Time and memory of the kernel learners, and how they grow with features and people.

    python benchmarks/gp_ucb_speed.py [--quick]

`gp_ucb` runs under Joint(1, 1e-5); its features are made before the clock starts, because they are
public and shared between replicates. `exact_gp_ucb` is not private, publishes a policy after every
person and costs O(n^2) for each. Decision sets are those of `BumpProblem` with 25 points, public
boxes `camelback` (d = 2). Seconds are those of the learner, its policies and reports; drawing the
people is not counted. Goals for 10,000 people: 1, 4 and 30 s at about 23, 64 and 200 features.
"""

from __future__ import annotations

from typing import Any

from apart import measured

# Length scales, as shares of the width of a column, that give about 23, 64 and 200 features.
SHARES = (0.27, 0.14, 0.075)

LINES = [
    # learner, space, n, share of the width
    *(("gp_ucb", "sets", 10_000, share) for share in SHARES),
    *(("gp_ucb", "box", 10_000, share) for share in SHARES),
    *(
        ("exact_gp_ucb", space, people, SHARES[0])
        for space in ("sets", "box")
        for people in (1_000, 2_000)
    ),
]


def measure(name: str, space: str, people: int, share: float) -> dict[str, Any]:
    """Run one line in this process."""
    from sklearn.gaussian_process.kernels import RBF

    from discreet.kernels import kernel_to_text
    from discreet.lab.environments.decision_sets import BumpProblem
    from discreet.lab.environments.functions import camelback
    from discreet.lab.experiments import Setting, simulate
    from discreet.learners.registry import make_learner
    from discreet.privacy import Joint, NonPrivate, SimulatedNoise

    problem = BumpProblem() if space == "sets" else camelback()
    domain = problem.domain
    widths = [b - a for a, b in zip(domain.lower, domain.upper, strict=True)]
    options = {"kernel": kernel_to_text(RBF([share * width for width in widths]))}
    budget = Joint(1.0, 1e-5) if name == "gp_ucb" else NonPrivate()
    noise = SimulatedNoise(0)
    first = make_learner(name, domain, problem.space, budget, options=options, noise=noise)
    features = getattr(first, "features", None)
    outcome = simulate(problem, Setting(name, name, budget, options), people, 9_000, 0)
    return {
        "features": None if features is None else features.features,
        "seconds": outcome.record.seconds,
        "regret": outcome.record.value,
    }


def main() -> None:
    """Print the table; a quick run has the lines of less than 2 seconds."""
    header = "learner       space        n   features   seconds   ms each   regret   peak MB"
    for line, result in measured(__file__, __doc__, LINES, measure, (0, 3, 6), header):
        name, space, people, _ = line
        print(
            f"{name:12}  {space:5} {people:>7,} {result['features'] or 'exact':>10}"
            f" {result['seconds']:>9.2f} {1e3 * result['seconds'] / people:>9.3f}"
            f" {result['regret']:>8,.0f} {result['megabytes']:>9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
