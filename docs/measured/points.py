"""Blocks about learners that choose points, learners that serve epochs, and outsourced tables."""

from __future__ import annotations

import math

from measured.layout import Block, Column, Printed, Row, Table
from measured.pictures import plotted

GP_UCB = "docs/learners/gp_ucb.md"
EPOCHS = "docs/learners/epochs.md"
OUTSOURCING = "docs/outsourcing.md"
PEERS = "docs/peers.md"
SCALE = "docs/scale.md"

FIGURE_1 = "discreet reproduce dubey-figure-1 --trials 20 --plot figure.png"
SMALL_DELTA = "discreet reproduce dubey-figure-1 --trials 10 --delta 1e-5"
CAPRI = "discreet reproduce capri-regret"
USCA = "discreet reproduce usca-error-rate"
SEARCHES = "discreet reproduce po-gp-ucb-figures --data DIR --plot figure.png"
ATTACK = "discreet reproduce po-gp-ucb-attack --trials 10000"

_FREE = Column("no privacy", {"epsilon": None})


def _epsilons(*values: float) -> tuple[Column, ...]:
    """A column for each epsilon."""
    heads = [f"{value:g}" for value in values]
    return tuple(
        Column(f"epsilon {head}" if head == heads[0] else head, {"epsilon": value})
        for head, value in zip(heads, values, strict=True)
    )


def _named(command: str, what: str, where: dict[str, object], names: dict[str, str]) -> list[Row]:
    """A row for each method, which the table calls by another name; the first says of what."""
    first = next(iter(names))
    return [
        Row((what if method == first else "", name), command, {**where, "method": method})
        for method, name in names.items()
    ]


_BUMPS = {
    "published": "published, joint",
    "ours": "`gp_ucb`, joint",
    "published, local": "published, local",
    "ours, local": "`gp_ucb`, local",
    "non-private": "`gp_ucb`",
    "non-private, exact": "`exact_gp_ucb`",
    "uniform": "`uniform`",
}
_LOCAL = "ours, local"  # measured with few people, because more take hours
_REGRET = {
    "ours": "`kernel`, joint",
    _LOCAL: "`kernel`, local",
    "non-private": "`kernel`",
    "elimination": "`capri`, joint",
    "published": "published, joint",
    "published, z = 3": "published noise, 3 deviations",
    "uniform": "`uniform`",
}
_ERRORS = {
    "ours": "`usca`",
    "uniform design": "`usca`, uniform design",
    "published": "published",
    "non-private": "`usca`",
    "random choice": "random choice",
}
_DATA = {
    "synthetic-5": ("synthetic, length scale 5", (1.1, 2.0, 3.0)),
    "synthetic": ("synthetic, length scale 1.25", (0.0, 0.9, 1.1)),
    "branin": ("Branin-Hoo", (1.8, 2.0, 2.3)),
    "loans": ("loans", (1.0, 2.0, 2.9)),
    "property": ("property", (0.5, 1.0, 2.8)),
}


def _searches(name: str) -> list[Row]:
    """A row for each epsilon of a data set, and one for what promises nothing."""
    what, exponents = _DATA[name]
    where = {"dataset": name, "metric": "simple regret"}
    rows = [
        Row((what if power == exponents[0] else "", f"e^{power:g}"), SEARCHES)
        for power in exponents
    ]
    rows = [
        Row(row.labels, row.command, {**where, "epsilon": math.exp(power)})
        for row, power in zip(rows, exponents, strict=True)
    ]
    return [*rows, Row(("", "none"), SEARCHES, {**where, "epsilon": None})]


POINTS: tuple[Block, ...] = (
    Table(
        name="dubey-figure-1",
        page=GP_UCB,
        seconds=330,
        heads=("delta", "learner"),
        rows=(
            *_named(FIGURE_1, "0.1", {}, _BUMPS),
            *_named(SMALL_DELTA, "1e-5", {}, dict(list(_BUMPS.items())[:4])),
        ),
        columns=(
            *_epsilons(10.0, 1.0, 0.5, 0.1),
            _FREE,
            Column("holds, of 10", {"epsilon": 10.0}, "true_epsilon"),
            Column("holds, of 1", {"epsilon": 1.0}, "true_epsilon"),
        ),
        picture=plotted("figure.png", "dubey-figure-1.png"),
    ),
    Table(
        name="capri-regret",
        page=EPOCHS,
        seconds=4100,
        heads=("kernel, people", "learner"),
        rows=tuple(
            row
            for function, short in (("squared exponential", "SE"), ("Matérn 5/2", "Matérn 5/2"))
            for people in (10_000, 100_000)
            for row in _named(
                CAPRI,
                f"{short}, {people:,}",
                {"function": function, "rounds": people, "metric": "regret"},
                {name: row for name, row in _REGRET.items() if people == 10_000 or name != _LOCAL},
            )
        ),
        columns=(
            *_epsilons(0.5, 1.0, 4.0),
            _FREE,
            Column("holds, of 1", {"epsilon": 1.0}, "true_epsilon"),
        ),
    ),
    Table(
        name="usca-error-rate",
        page=EPOCHS,
        seconds=82,
        heads=("people", "learner"),
        rows=tuple(
            row
            for people in (1_000, 10_000, 100_000)
            for row in _named(
                USCA, f"{people:,}", {"rounds": people, "metric": "error rate"}, _ERRORS
            )
        ),
        columns=(
            *_epsilons(0.1, 1.0, 10.0),
            _FREE,
            Column("holds, of 1", {"epsilon": 1.0}, "true_epsilon"),
        ),
    ),
    Printed(
        name="gp-ucb-speed",
        page=GP_UCB,
        seconds=70,
        command="python benchmarks/gp_ucb_speed.py",
    ),
    Table(
        name="searches",
        page=OUTSOURCING,
        seconds=260,
        heads=("data", "epsilon"),
        rows=tuple(row for name in _DATA for row in _searches(name)),
        columns=(
            Column("expected improvement", {"method": "ours"}),
            Column("GP-UCB", {"method": "ours, GP-UCB"}),
            Column("published", {"method": "published"}),
            Column("GP-UCB, not private", {"method": "non-private"}),
            Column(
                "expected improvement, not private",
                {"method": "non-private, expected improvement"},
            ),
            Column("random", {"method": "random"}),
        ),
        picture=plotted("figure.png", "po-gp-ucb-figures.png"),
    ),
    Table(
        name="attack",
        page=OUTSOURCING,
        seconds=3,
        heads=("release", "attack"),
        rows=tuple(
            Row((release, attack), ATTACK, {"attack": attack, **where})
            for release, where, attacks in (
                (
                    "published, if",
                    {"release": "published", "branch": "if"},
                    ("subspace",),
                ),
                (
                    "published, else",
                    {"release": "published", "branch": "else"},
                    ("subspace",),
                ),
                *(
                    (
                        f"`discreet curate`, epsilon e^{power}",
                        {"release": "ours", "epsilon": math.exp(power)},
                        ("subspace", "likelihood ratio"),
                    )
                    for power in (1.1, 2, 3)
                ),
            )
            for attack in attacks
        ),
        columns=(
            Column("claimed", show="epsilon"),
            Column("held", show="true_epsilon"),
            Column("proved by the attack"),
            Column("right on X", show="true_positive_rate"),
            Column("wrong on X'", show="false_positive_rate"),
        ),
        note="Epsilon; proved with 95% confidence. Right and wrong: how often the attack chose X.",
    ),
    Printed(
        name="outsourced-speed",
        page=OUTSOURCING,
        seconds=10,
        command="python benchmarks/outsourced_speed.py",
    ),
    Printed(
        name="homes",
        page=OUTSOURCING,
        seconds=78,
        command="python benchmarks/zoo_searches.py --tables ames",
    ),
    Printed(
        name="scale-sizes",
        page=SCALE,
        seconds=84,
        command="python benchmarks/large.py --quick",
    ),
    Printed(
        name="scale-plan",
        page=SCALE,
        seconds=40,
        command="python benchmarks/scale.py plan",
    ),
    Printed(
        name="scale-days",
        page=SCALE,
        seconds=140,
        command="python benchmarks/scale.py days",
    ),
    Printed(
        name="peers",
        page=PEERS,
        seconds=1300,
        command="python benchmarks/peers --checkouts PEERS",
    ),
)
