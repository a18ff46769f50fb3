"""The page of all figures and tables of the papers, from `discreet.papers.registry`.

The cost of a command is the processor time of a smaller one, times the ratio of the people (or
questions) that both serve. Starting Python and reading tables counts once.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import Any

from typer.main import get_command

from discreet.cli.reproduce import reproduce_app
from discreet.papers.dubey2021.figures import BEST_OF_BOX
from discreet.papers.kharkovskii2020.searches import REGRET, TABLES, power
from discreet.papers.ma2025.data import AT_END, AT_QUARTER, DATA_SETS
from discreet.papers.ma2025.figures import AUXILIARY_EPSILONS, EPSILONS
from discreet.papers.registry import REPRODUCTIONS, PaperCommand, PaperItem, paper_items
from discreet.papers.reproduction import RUN_OPTIONS, Case, PaperPlan, Reproduction
from measured.commands import Runner
from measured.layout import Block, Column, Printed, Row, Table, markdown
from measured.markers import ROOT
from measured.pictures import plotted

# Nothing but a start: two people, and no learner.
_START = "discreet reproduce dubey-figure-1 --trials 1 --rounds 2 --method uniform"

PAGE = "docs/papers.md"
# Options that make another experiment of a command, not a part of it.
_MEANING = ("rewards", "delta", "constant")


def parsed(run: str, data: Path | None = None) -> tuple[Reproduction, dict[str, Any]]:
    """The reproduction of what follows `discreet reproduce`, and what its plan is asked for.

    Raises:
        click.UsageError: for an option that there is not, or a value of another kind.
    """
    name, *words = shlex.split(run)
    words = [str(data) if word == "DIR" else word for word in words]
    command = get_command(reproduce_app).commands[name]  # type: ignore[attr-defined]
    wish = command.make_context(name, words).params
    others = {*RUN_OPTIONS, "log_scale", "linear"}
    return REPRODUCTIONS[name], {key: wish[key] for key in wish if key not in others}


def plan_of(run: str, data: Path | None = None) -> PaperPlan | None:
    """The plan of a command; None for a drawing.

    Raises:
        InvalidInput: for a value that cannot be run.
    """
    what, wish = parsed(run, data)
    return None if what.form == "drawing" else what.plan(**wish)


def people_of(plan: PaperPlan) -> int:
    """How many people, those of sources included, or questions its trials serve."""

    def of(setting: dict[str, object]) -> int:
        case = setting.get("case", setting)
        if not isinstance(case, Case):
            return int(setting.get("rounds", 1))  # type: ignore[call-overload]
        specs = getattr(case.sources, "specs", ())
        tables = getattr(case.sources, "tables", {})
        sizes = [*(spec.people for spec in specs), *(table.size for table in tables.values())]
        return case.rounds + sum(sizes)

    return plan.trials * sum(of(dict(setting)) for setting in plan.settings)


@dataclass(frozen=True, kw_only=True)
class Papers(Block):
    """What every figure and table shows, how it was read, its command and its cost."""

    @property
    def commands(self) -> tuple[str, ...]:
        samples = [_sample(each) for item in paper_items() for each in item.commands]
        return (_START, *dict.fromkeys(samples))

    @property
    def frame(self) -> tuple[str, ...]:
        return tuple(part for part in _parts() if isinstance(part, str))

    def text(self, runner: Runner) -> str:
        return "\n\n".join(
            part if isinstance(part, str) else _cost(part, runner) for part in _parts()
        )


@dataclass(frozen=True, kw_only=True)
class Record(Block):
    """Where each figure and table is measured, at which part of its size, and for how long."""

    blocks: tuple[Block, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        return ()

    @property
    def frame(self) -> tuple[str, ...]:
        heads = ["paper", "item", "record", "repetitions", "part of the command"]
        lines = [
            [item.paper, item.place, *line] for item in paper_items() for line in self._lines(item)
        ]
        papers, everything = (
            sum(block.seconds for block in self.blocks if block in of)
            for of in (PAPERS, self.blocks)
        )
        stated = re.findall(r"^(\d+) (s|min|h) of one processor", (ROOT / PAGE).read_text(), re.M)
        whole = sum(int(number) * {"s": 1, "min": 60, "h": 3600}[unit] for number, unit in stated)
        return (
            markdown(heads, lines),
            f"At full size all commands take about {_time(whole)} of one processor, the sum of the "
            f"times below. What is measured on this page takes about {_time(papers)}, on all pages "
            f"{_time(everything)} (`python docs/regenerate.py --list`).",
        )

    def text(self, runner: Runner) -> str:
        return "\n\n".join(self.frame)

    def _lines(self, item: PaperItem) -> Iterator[list[str]]:
        """A line for each command that measures an item or a part of it, or the reason why none."""
        if not item.commands:
            yield [item.reason, "", ""]
        for command in item.commands:
            what, _ = parsed(command.run)
            if what.form == "drawing":
                yield ["a drawing, without numbers", "", ""]
            lines = list(self._measured(command))
            whole = [line for line in lines if line[-1] == "all"]
            yield from whole or lines

    def _measured(self, command: PaperCommand) -> Iterator[list[str]]:
        what, full = parsed(command.run)
        others = {each.run for item in paper_items() for each in item.commands} - {command.run}
        found = dict.fromkeys(
            (block.page, run.removeprefix("discreet reproduce "))
            for block in self.blocks
            if isinstance(block, Table | Printed)
            for run in block.commands
            if run.startswith(f"discreet reproduce {what.name}")
        )
        for page, run in found:
            other, wish = parsed(run)
            alike = all(wish.get(key) == full.get(key) for key in _MEANING)
            if other is not what or run in others or not alike:
                continue
            if wish.get("only") and wish["only"] != full["only"]:
                continue
            (key,) = {"repetitions", "trials", "runs"} & wish.keys()
            words = run.removeprefix(what.name)
            if all(wish[each] in (full[each], None, ()) for each in wish if each != "data"):
                words = ""
            for shared in (command.run.removeprefix(what.name), "--data DIR", "--details"):
                words = words.replace(shared.strip() or "\0", "")
            name = Path(page).relative_to("docs")
            link = "this page" if page == PAGE else f"[{name.stem}]({name})"
            part = " ".join(words.split())
            yield [link, f"{wish[key]:,} of {what.trials:,}", f"`{part}`" if part else "all"]


def _sample(command: PaperCommand) -> str:
    return f"discreet reproduce {command.run} {command.sample}".strip()


def _parts() -> Iterator[str | PaperCommand]:
    """The page: texts, and commands in whose place their costs are written."""
    for (name, title), items in groupby(paper_items(), _paper):
        yield f"## {name}\n\n*{title}.*"
        for item in items:
            yield from _item(item)


def _paper(item: PaperItem) -> tuple[str, str]:
    return item.paper, item.title


def _item(item: PaperItem) -> Iterator[str | PaperCommand]:
    yield f"### {item.place[:1].upper()}{item.place[1:]}\n\n{item.shows} {item.without}".rstrip()
    for label, text in (("Settings", item.settings), ("Reading", item.reading)):
        if text:
            yield f"*{label}.* {text}"
    for command in item.commands:
        yield f"    discreet reproduce {command.run}"
        yield command


def _cost(command: PaperCommand, runner: Runner) -> str:
    """What a command costs, and how that was measured."""
    sample, data = f"{command.run} {command.sample}", runner.folders.get("DIR")
    before = time.process_time()
    plan = plan_of(sample, data)
    preparing = time.process_time() - before
    seconds = runner.run(_sample(command)).seconds - runner.run(_START).seconds - preparing
    if plan is None or not command.sample:
        return f"{_time(seconds + preparing)} of one processor, measured."
    full = plan_of(command.run, data)
    assert full is not None
    times = people_of(full) / people_of(plan)
    return (
        f"{_time(seconds * times + preparing)} of one processor: {times:,.0f} times "
        f"`{command.sample}`, which took {_time(seconds)}."
    )


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3 * 3600 else f"{seconds / 3600:,.0f} h"


_FIGURE_2 = "discreet reproduce dubey-figure-2"
_SEARCHED = {
    "synthetic": "discreet reproduce po-gp-ucb-tables --only synthetic",
    "loans": "discreet reproduce po-gp-ucb-tables --only loans --data DIR",
    "property": "discreet reproduce po-gp-ucb-tables --only property --data DIR",
    "branin": "discreet reproduce po-gp-ucb-tables --only branin",
}
_FIGURE_7 = "discreet reproduce ldpmab-figure-7 --repetitions 10 --rounds 10000 --sources 1"
# Parts of reproductions that take hours: all people, ten repetitions, some settings.
_PARTS = {
    "ldpmab-figure-7-full": "discreet reproduce ldpmab-figure-7 --repetitions 10 --rounds 160000 "
    "--epsilon 1 --epsilon 8 --sources 1",
    "ldpmab-figure-8": "discreet reproduce ldpmab-figure-8 --repetitions 10 --gamma 1 "
    "--auxiliary-epsilon 2 --auxiliary-epsilon 8 --epsilon 1 --auxiliary 50000",
    "ldpmab-figure-9a": "discreet reproduce ldpmab-figure-9a --repetitions 10 --kappa 0 "
    "--kappa 0.4 --kappa 1",
    "ldpmab-figure-9b": "discreet reproduce ldpmab-figure-9b --repetitions 10 --gamma 0 "
    "--gamma 1 --gamma 2",
    "ldpmab-figure-9c": "discreet reproduce ldpmab-figure-9c --repetitions 10 --epsilon 1 "
    "--auxiliary 50000",
    "ldpmab-symmetric-7": "discreet reproduce ldpmab-figure-7 --rewards symmetric --repetitions 10 "
    "--rounds 160000 --epsilon 1 --epsilon 8 --sources 1",
    "ldpmab-symmetric-8": "discreet reproduce ldpmab-figure-8 --rewards symmetric --repetitions 10 "
    "--gamma 1 --auxiliary-epsilon 8 --epsilon 1 --auxiliary 50000",
    "ldpmab-symmetric-9a": "discreet reproduce ldpmab-figure-9a --rewards symmetric "
    "--repetitions 10 --auxiliary-epsilon 8 --kappa 0 --kappa 1",
    "ldpmab-symmetric-9b": "discreet reproduce ldpmab-figure-9b --rewards symmetric "
    "--repetitions 10 --auxiliary-epsilon 8 --gamma 0 --gamma 2",
    "ldpmab-symmetric-9c": "discreet reproduce ldpmab-figure-9c --rewards symmetric "
    "--repetitions 10 --epsilon 1 --rounds 10000 --auxiliary 50000",
}
_FIGURE_6 = "discreet reproduce ldpmab-figure-6 --plot figure.png"
_SIZES = (
    "discreet reproduce ldpmab-table-2 --data DIR --repetitions 1 --rounds 100 --method linear "
    "--epsilon 1 --auxiliary-epsilon 1"
)
_TABLE_1 = "discreet reproduce dubey-table-1"
_TABLE_2 = "discreet reproduce ldpmab-table-2 --data DIR --repetitions 10 --details"
_NOTE = "Mean ± half its 95% interval. Paper: = within two standard errors of the mean, ≠ beyond."
# The number of columns r that the paper recommends, by table: the largest of its branch "if".
_RECOMMENDED = (10, 15, 20)


def _beside(keys: Iterable[str]) -> tuple[Column, ...]:
    """The methods of Figures 7 to 9; references have none of the settings `keys`."""
    apart = dict.fromkeys(keys)
    methods = (
        Column(method, {"method": method}) for method in ("ours", "published", "program, private")
    )
    return (
        *methods,
        Column("program", {"method": "program"}),
        Column("its log", {"method": "program"}, "paper"),
        Column("non-private", {"method": "non-private", **apart}),
        Column("uniform", {"method": "uniform", **apart}),
    )


def _part(name: str, seconds: int, heads: dict[str, str], rows: list[tuple[Any, ...]]) -> Table:
    """A block of `_PARTS`: rows are values of the keys of `heads`, None where a record has none."""
    return Table(
        name=name,
        page=PAGE,
        seconds=seconds,
        heads=tuple(heads.values()),
        rows=tuple(
            Row(tuple(map(_label, row)), _PARTS[name], dict(zip(heads, row, strict=True)))
            for row in rows
        ),
        columns=_beside(heads.keys() - {"rounds"}),
        note=_NOTE,
    )


def _label(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:,g}"


def _ratios(name: str, seconds: int, at: str) -> Table:
    """Table 2 at one of its two times."""
    settings = list(product(DATA_SETS, EPSILONS, AUXILIARY_EPSILONS, (True, False)))
    keys = ("dataset", "epsilon", "epsilon_auxiliary", "auxiliary_data")
    columns = [Column("ours", {"method": "ours"})]
    for method in ("published", "linear", "neural"):
        columns.append(Column(method, {"method": method}))
        columns.append(Column("paper", {"method": method}, "paper"))
    return Table(
        name=name,
        page=PAGE,
        seconds=seconds,
        heads=("data", "epsilon", "of sources", "auxiliary data"),
        rows=tuple(
            Row(
                (*map(_label, row[:3]), "with" if row[3] else "without"),
                _TABLE_2,
                {**dict(zip(keys, row, strict=True)), "metric": f"ratio of {at} to ABSE"},
            )
            for row in settings
        ),
        columns=tuple(columns),
        note=_NOTE,
    )


_SOURCE = {"n_auxiliary": "people of each source", "epsilon_auxiliary": "epsilon of sources"}
_KAPPA, _GAMMA = _SOURCE | {"kappa": "kappa"}, _SOURCE | {"gamma": "gamma"}
_TARGET = {"n_auxiliary": "auxiliary people", "epsilon": "epsilon"}
_ORDER = {"rounds": "people of the target", "order": "order of sources"}
_ORDERS = ("high quality first", "low quality first")
_ALONE = (0, None, None)
_FIGURES_7_TO_9: tuple[tuple[str, int, dict[str, str], list[tuple[Any, ...]]], ...] = (
    ("ldpmab-figure-7-full", 455, _TARGET, list(product((0, 5000), (1.0, 8.0)))),
    ("ldpmab-figure-8", 315, _SOURCE, list(product((0, 50_000), (2.0, 8.0)))),
    (
        "ldpmab-figure-9a",
        560,
        _KAPPA,
        [_ALONE, *product((10_000,), (1.0, 8.0), (0.0, 0.4, 1.0))],
    ),
    (
        "ldpmab-figure-9b",
        500,
        _GAMMA,
        [_ALONE, *product((10_000,), (2.0, 8.0), (0.0, 1.0, 2.0))],
    ),
    ("ldpmab-figure-9c", 400, _ORDER, list(product((10_000, 80_000), _ORDERS))),
    ("ldpmab-symmetric-7", 470, _TARGET, list(product((0, 5000), (1.0, 8.0)))),
    ("ldpmab-symmetric-8", 240, _SOURCE, [(0, 8.0), (50_000, 8.0)]),
    ("ldpmab-symmetric-9a", 350, _KAPPA, [_ALONE, (10_000, 8.0, 0.0), (10_000, 8.0, 1.0)]),
    ("ldpmab-symmetric-9b", 260, _GAMMA, [_ALONE, (10_000, 8.0, 0.0), (10_000, 8.0, 2.0)]),
    ("ldpmab-symmetric-9c", 165, _ORDER, list(product((10_000,), _ORDERS))),
)


PAPERS: tuple[Block, ...] = (
    Papers(name="papers", page=PAGE, seconds=1000),
    Table(
        name="dubey-figure-2",
        page=PAGE,
        seconds=180,
        heads=("delta",),
        rows=tuple(Row((f"{d:g}",), _FIGURE_2, {"delta": d}) for d in (0.01, 0.1, 0.5, 0.99)),
        columns=(
            Column("ours", {"method": "ours"}),
            Column("published", {"method": "published"}),
            Column("published, epsilon held", {"method": "published"}, "true_epsilon"),
            Column("non-private", {"method": "non-private", "delta": None}),
            Column("uniform", {"method": "uniform", "delta": None}),
        ),
    ),
    Table(
        name="po-gp-ucb-tables",
        page=PAGE,
        seconds=660,
        heads=("table", "data, epsilon, r"),
        rows=tuple(
            Row(
                (str(each.table), f"{each.data_set}, {power(each.reported[0].epsilon)}, {r}"),
                _SEARCHED[each.data_set],
                {"table": each.table, "r": r, "metric": REGRET},
            )
            for each in TABLES
            if each.table is not None and each.data_set in _SEARCHED
            for r in [_RECOMMENDED[(each.table - 1) % 3]]
        ),
        columns=(
            Column("ours", {"method": "ours", "r": None}),
            Column("published", {"method": "published"}),
            Column("paper", {"method": "published"}, "paper"),
            Column("published, paper's branch", {"method": "published, paper's branch"}),
            Column("paper", {"method": "published, paper's branch"}, "paper"),
            Column("non-private", {"method": "non-private", "r": None}),
            Column("random", {"method": "random", "r": None}),
        ),
        note=_NOTE,
    ),
    Table(
        name="ldpmab-figure-7",
        page=PAGE,
        seconds=680,
        heads=("auxiliary people", "epsilon"),
        rows=tuple(
            Row((f"{people:,}", f"{e:g}"), _FIGURE_7, {"n_auxiliary": people, "epsilon": e})
            for people in (0, 5000)
            for e in (1.0, 2.0, 4.0, 8.0, 1024.0)
        ),
        columns=_beside(("epsilon", "n_auxiliary")),
        note=_NOTE,
    ),
    Table(
        name="dubey-table-1",
        page=PAGE,
        seconds=6100,
        heads=("function", "points", "epsilon"),
        rows=tuple(
            Row(
                (function, points, _label(e)),
                _TABLE_1,
                {"function": function, "points": points, "epsilon": e, "metric": BEST_OF_BOX},
            )
            for function in ("camel", "styb", "mw")
            for points in ("public box", "private sets")
            for e in (10.0, 1.0, 0.1)
        ),
        columns=(
            Column("ours", {"method": "ours"}),
            Column("paper", {"method": "ours"}, "paper"),
            Column("published", {"method": "published"}),
            Column("paper", {"method": "published"}, "paper"),
            Column("non-private", {"method": "non-private", "epsilon": None}),
            Column("paper", {"method": "non-private", "epsilon": None}, "paper"),
            Column("uniform", {"method": "uniform", "epsilon": None}),
        ),
        note=_NOTE,
    ),
    *(_part(*part) for part in _FIGURES_7_TO_9),
    Table(
        name="ldpmab-figure-6",
        page=PAGE,
        seconds=20,
        heads=("auxiliary data",),
        rows=tuple(
            Row((kind,), _FIGURE_6, {"auxiliary_data": kind, "metric": "regret"})
            for kind in ("no auxiliary data", "weak", "effective")
        ),
        columns=(
            Column("ours", {"method": "ours"}),
            Column("published", {"method": "published"}),
            *(
                Column(method, {"method": method, "auxiliary_data": None})
                for method in ("non-private", "uniform")
            ),
        ),
        note="One trial, as in the paper.",
        picture=plotted("figure.png", "ldpmab-figure-6.png"),
    ),
    _ratios("ldpmab-table-2-quarter", 0, AT_QUARTER),
    _ratios("ldpmab-table-2", 1440, AT_END),
    Printed(
        name="ldpmab-table-1",
        page=PAGE,
        seconds=5,
        command=_SIZES,
        paragraphs=(0, 1),
    ),
    Printed(
        name="ldpmab-rank-sums",
        page=PAGE,
        seconds=0,
        command=_TABLE_2,
        paragraphs=(8, 10),
    ),
)
