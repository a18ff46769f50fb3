"""Blocks about learners that choose among arms."""

from __future__ import annotations

from measured.layout import Block, Column, Printed, Row, Table
from measured.pictures import of_report

RESULTS = "docs/results.md"
KERNEL = "docs/learners/kernel.md"
PARTITION = "docs/learners/partition.md"
BASELINES = "docs/learners/baselines.md"
GP_UCB = "docs/learners/gp_ucb.md"
EPOCHS = "docs/learners/epochs.md"
AUXILIARY = "docs/learners/sources.md"
EARNINGS = "discreet run examples/earnings.toml --report earnings.html"
ADULT = "discreet run examples/adult.toml --data DIR"
LOANS = "discreet run examples/loan_quotes.toml"
GRID = "discreet run examples/kernel_grid.toml"


def _synthetic(name: str) -> str:
    return f"discreet run examples/synthetic_{name}.toml"


def _lines(command: str, what: str, *learners: str) -> list[Row]:
    """A row for each learner of a study; the first says which study it is."""
    return [
        Row((what if learner == learners[0] else "", f"`{learner}`"), command, {"learner": learner})
        for learner in learners
    ]


_WITHOUT = {"epsilon": None, "trust_model": "none"}
_BY_EPSILON = (
    Column("epsilon 1", {"epsilon": 1.0}),
    Column("2", {"epsilon": 2.0}),
    Column("4", {"epsilon": 4.0}),
    Column("non-private", _WITHOUT),
)
_BY_TRUST_MODEL = (
    Column("joint, epsilon 1", {"epsilon": 1.0, "trust_model": "joint"}),
    Column("joint, 4", {"epsilon": 4.0, "trust_model": "joint"}),
    Column("local, epsilon 1", {"epsilon": 1.0, "trust_model": "local"}),
    Column("local, 4", {"epsilon": 4.0, "trust_model": "local"}),
    Column("non-private", _WITHOUT),
)
_LOCAL = ("kernel", "partition")
_TOLD = ("kernel", "capri")  # the kernel and the noise of rewards

ARMS: tuple[Block, ...] = (
    Printed(
        name="earnings",
        page="README.md",
        seconds=120,
        command=EARNINGS,
        paragraphs=(1, 3),  # the verdict and the private learners
        picture=of_report("earnings.html", "earnings.svg"),
    ),
    Table(
        name="arms",
        page=RESULTS,
        seconds=530,
        heads=("study", "learner"),
        rows=(
            *_lines(
                _synthetic("exponential"),
                "`synthetic_exponential`, regret",
                *_LOCAL,
                "published_partition",
                "abse",
                "uniform",
            ),
            *_lines(_synthetic("small"), "`synthetic_small`, regret", *_LOCAL, "uniform"),
            *_lines(_synthetic("symmetric"), "`synthetic_symmetric`, regret", *_LOCAL, "uniform"),
            *_lines(_synthetic("beta"), "`synthetic_beta`, regret", *_LOCAL, "uniform"),
            *_lines(EARNINGS, "`earnings`, reward", "kernel", "uniform", "best_fixed", "oracle"),
        ),
        columns=_BY_EPSILON,
    ),
    Table(
        name="adult",
        page=RESULTS,
        seconds=40,
        heads=("study", "learner"),
        rows=tuple(_lines(ADULT, "`adult`, reward", "partition", "uniform", "best_fixed")),
        columns=_BY_EPSILON,
    ),
    Printed(
        name="local-kernel",
        page=KERNEL,
        seconds=230,
        command="python benchmarks/kernel.py --replicates 3",
    ),
    Printed(
        name="kernel",
        page=KERNEL,
        seconds=170,
        command="python benchmarks/zoo.py --only targets --rows central --learners kernel "
        "--seed 32000 --replicates 6",
    ),
    Printed(
        name="kernel-ranges",
        page=KERNEL,
        seconds=500,
        command="python benchmarks/zoo.py --only targets --rows range --seed 34000 --replicates 8",
    ),
    Printed(
        name="indicators",
        page=KERNEL,
        seconds=120,
        command="python benchmarks/zoo.py --only targets --rows zeros --seed 36000 --replicates 12",
    ),
    Printed(
        name="many-columns",
        page=KERNEL,
        seconds=240,
        command="python benchmarks/zoo.py --only targets --rows many --seed 38000 --replicates 8",
    ),
    Printed(
        name="shuffled",
        page="docs/shuffling.md",
        seconds=1300,
        command="python benchmarks/zoo.py --only targets --rows shuffled --learners kernel "
        "--seed 33000 --replicates 20",
    ),
    Printed(
        name="league",
        page=RESULTS,
        seconds=4200,
        command="python benchmarks/league.py",
    ),
    Printed(
        name="best-arm",
        page=BASELINES,
        seconds=300,
        command="python benchmarks/zoo.py --only targets --rows alike --learners best_arm "
        "--replicates 24 --seed 31000",
    ),
    Printed(
        name="movies",
        page=GP_UCB,
        seconds=30,
        command="discreet run examples/movies.toml",
    ),
    Printed(
        name="baselines",
        page=BASELINES,
        seconds=75,
        command="python benchmarks/baselines.py",
    ),
    Table(
        name="epochs",
        page=EPOCHS,
        seconds=300,
        heads=("study", "learner"),
        rows=(
            *_lines(GRID, "`kernel_grid`, regret", *_TOLD, "uniform", "best_fixed"),
            *_lines(LOANS, "`loan_quotes`, reward", *_TOLD, "uniform", "best_fixed", "oracle"),
        ),
        columns=_BY_TRUST_MODEL,
    ),
    Printed(
        name="arm-points",
        page=KERNEL,
        seconds=250,
        command="python benchmarks/arm_points.py",
    ),
    Printed(
        name="known-kernel",
        page=KERNEL,
        seconds=200,
        command="python benchmarks/arm_points.py --known --only grid",
    ),
    Printed(
        name="partition-speed",
        page=PARTITION,
        seconds=40,
        command="python benchmarks/partition_speed.py",
    ),
    Printed(
        name="epoch-speed",
        page=EPOCHS,
        seconds=100,
        command="python benchmarks/epoch_speed.py",
    ),
    Printed(
        name="slices",
        page="docs/design/0011-whole-policies.md",
        seconds=6,
        command="python benchmarks/policy_bytes.py",
    ),
    Printed(
        name="logs-of-others",
        page="docs/people.md",
        seconds=200,
        command="python benchmarks/logs_of_others.py --epsilon 1 --people 2000 8000 --columns 2 8",
    ),
    Printed(
        name="sources",
        page=AUXILIARY,
        seconds=180,
        command="python benchmarks/sources.py",
    ),
)
