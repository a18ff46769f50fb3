"""Methods, the runner, and the plans of the tables and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from discreet.lab.experiments.engine import Seed, frame_of
from discreet.papers.kharkovskii2020.data_sets import (
    SETTINGS,
    DrawnFunction,
    FixedOutcome,
    synthetic,
)
from discreet.papers.kharkovskii2020.searches import (
    ABOVE,
    FREE,
    PO_GP_UCB_FIGURES,
    PO_GP_UCB_TABLES,
    RANDOM,
    RAW_REGRET,
    REFERENCES,
    REGRET,
    TABLES,
    Exhibit,
    Method,
    Ours,
    Published,
    Reference,
    Reported,
    SearchEntry,
    entries_of,
    plan_of,
    power,
    search,
)
from discreet.papers.reproduction import PaperPlan
from discreet.validation import InvalidInput

NAME = "synthetic-5"
EPSILON = math.exp(1.1)
RANDOM_ROWS = Reference(RANDOM)
METHODS: tuple[Method, ...] = (
    Published(EPSILON, 10),
    Published(EPSILON, 10, "if"),
    Ours(EPSILON),
    Ours(EPSILON, published_rule=True),
    *REFERENCES,
)


@pytest.fixture(scope="module")
def data() -> DrawnFunction:
    return synthetic(5.0)


def plan(data: DrawnFunction, methods: Sequence[Method] = METHODS, **options: Any) -> PaperPlan:
    """Searches by some methods, of 6 questions by default."""
    part = Exhibit(NAME, (Reported(1.1, 10, None),))
    entries = [SearchEntry(part, method) for method in methods]
    return plan_of(entries, {NAME: data}, **{"runs": 3, "seed": 5, "rounds": 6, **options})


def regrets(data: DrawnFunction, method: Method, number: int) -> list[float]:
    (row,) = search(Seed(5, number), data, method, 6)
    assert row["value"] == row["trace"][-1]
    return list(row["trace"])


def test_every_method_starts_with_the_same_row_of_the_same_function(data: DrawnFunction) -> None:
    runs = np.array([regrets(data, method, 1) for method in METHODS])
    assert runs.shape == (len(METHODS), 6)
    assert len(set(runs[:, 0])) == 1
    assert (np.diff(runs) <= 0.0).all()
    assert regrets(data, METHODS[0], 2)[0] != runs[0, 0]


def test_equal_searches_run_once(data: DrawnFunction) -> None:
    twice = plan(data, [RANDOM_ROWS, RANDOM_ROWS, FREE], runs=4)
    assert twice.total == len(list(twice.run())) == 8
    assert len(twice.results().records) == 2 + 2 + 2 + 1 + 1  # above non-private for Random


def test_random_rows_are_drawn_without_replacement(data: DrawnFunction) -> None:
    rows, outcome = data.rows[:30], np.random.default_rng(0).standard_normal(30)
    few = FixedOutcome(data.setting, "few", "", rows, 5.0, 1e-5, 1.0, outcome)
    # All rows of a table asked for: the best is among them.
    assert search(Seed(5, 0), few, RANDOM_ROWS, 30)[-1]["value"] == 0.0


def test_what_is_promised_and_what_is_held(data: DrawnFunction) -> None:
    results = plan(data).results()
    held = {
        method: row
        for method, (_, row) in zip(
            METHODS, results.ends.query("metric == @REGRET").iterrows(), strict=True
        )
    }
    published = held[Published(EPSILON, 10)]
    assert published["true_epsilon"] == math.inf
    assert published["trust_model"] == "none"
    assert published["branch"] == "else"
    ours = held[Ours(EPSILON)]
    assert ours["true_epsilon"] == pytest.approx(EPSILON)
    assert ours["trust_model"] == "outsourced"
    assert ours["noise_scale"] == pytest.approx(1.389, abs=1e-3)
    assert "within distance 1" in Ours(EPSILON).guarantee(data).sentence
    assert math.isnan(held[RANDOM_ROWS]["true_epsilon"])
    for wanted, scale in ((2.0, 0.641), (3.0, 0.289)):
        assert Ours(math.exp(wanted)).scale(data) == pytest.approx(scale, abs=1e-3)


def test_records_of_a_method(data: DrawnFunction) -> None:
    whole = plan(data)
    done = list(whole.run())
    frame, results = frame_of(done), whole.finish(done)

    def final(method: Method) -> np.ndarray:
        return frame[frame["case"] == METHODS.index(method)]["value"].to_numpy()

    regret, raw, above = [row for row in results.records if row["method"] == "ours"]
    assert [row["metric"] for row in (regret, raw, above)] == [REGRET, RAW_REGRET, ABOVE]
    mine = final(Ours(EPSILON))
    assert regret["mean"] == pytest.approx(mine.mean())
    assert regret["standard_error"] == pytest.approx(mine.std(ddof=1) / math.sqrt(3.0))
    assert raw["mean"] == regret["mean"]  # sigma_y is 1 here
    assert above["mean"] == pytest.approx((mine - final(FREE)).mean())
    assert regret["trials"] == 3
    for key in ("dataset", "rounds", "epsilon", "delta", "r", "radius", "true_epsilon", "sigma_y"):
        assert key in regret
    free = [row for row in results.records if row["method"] == "non-private"]
    assert [row["metric"] for row in free] == [REGRET, RAW_REGRET]
    assert free[0]["epsilon"] is None
    curve = results.curves[results.curves["case"] == METHODS.index(Ours(EPSILON))]
    assert curve["at"].tolist() == [1, 2, 3, 4, 5, 6]
    assert curve["mean"].iloc[-1] == pytest.approx(regret["mean"])


def test_a_search_finds_more_than_chance_where_it_can(data: DrawnFunction) -> None:
    methods = (FREE, Ours(math.exp(3.0), published_rule=True), RANDOM_ROWS)
    ends = plan(data, methods, runs=6, seed=11, rounds=40).results().ends
    free, ours, chance = ends.query("metric == @REGRET")["mean"]
    assert free < 0.5 * chance
    assert ours < 0.5 * chance


def test_the_plan_of_a_table() -> None:
    (part,) = PO_GP_UCB_TABLES.chosen((), [1])
    assert part.data_set == "synthetic"
    entries = list(entries_of(part, synthetic()))
    stated = {
        row.how.columns: row.paper
        for row in entries
        if isinstance(row.how, Published) and row.how.branch == "as stated"
    }
    assert stated == {3: 0.073, 6: 0.038, 8: 0.018, 10: 0.014, 15: 0.118, 20: 0.137}
    forced = [
        (row.how.columns, row.how.branch)
        for row in entries
        if isinstance(row.how, Published) and row.how.branch != "as stated"
    ]
    assert forced == [(3, "if"), (6, "if"), (8, "if"), (10, "if")]
    rest = [row.how for row in entries if not isinstance(row.how, Published)]
    assert rest == [Ours(EPSILON), Ours(EPSILON, True), *REFERENCES]
    assert SETTINGS["synthetic"].rounds == 50
    assert {row.part.table for row in entries} == {1}


def test_printed_numbers_are_for_the_papers_number_of_questions() -> None:
    entries = [SearchEntry(TABLES[3], RANDOM_ROWS, 0.073)]
    for rounds, paper in ((None, 0.073), (9, None)):
        plan = plan_of(entries, {"synthetic": synthetic()}, 1, 5, rounds)
        assert {row["paper"] for row in plan.results().records} == {paper}


def test_the_plan_of_a_figure() -> None:
    parts = PO_GP_UCB_FIGURES.chosen(["synthetic"], ())
    entries = PO_GP_UCB_FIGURES.entries(parts, {"synthetic": synthetic()})
    published = [row for row in entries if isinstance(row.how, Published)]
    assert [(power(row.how.epsilon), row.paper) for row in published] == [
        ("e^1.1", 0.011), ("e^0.9", 0.069), ("e^0", 0.099), ("e^1.1", 0.011)
    ]  # fmt: skip
    assert published[-1].method == "published, paper's branch"
    assert {row.part.metric for row in entries} == {ABOVE}
    # At length scale 5 the paper has no number; at e^3 the rule itself takes the branch "if".
    data = synthetic(5.0)
    ours = PO_GP_UCB_FIGURES.entries(PO_GP_UCB_FIGURES.chosen([NAME], ()), {NAME: data})
    assert all(row.paper is None for row in ours)
    taken = [row.how.facts(data)["branch"] for row in ours[:4]]
    assert taken == ["if", "else", "else", "if"]


def test_plans_leave_out_what_is_not_there_and_share_references() -> None:
    small = {"synthetic": synthetic()}
    parts = PO_GP_UCB_TABLES.chosen((), ())
    entries = PO_GP_UCB_TABLES.entries(parts, small)
    assert {row.part.data_set for row in entries} == {"synthetic"}
    # Three tables with 6 r each; r = 15 and 20 of Table 1 take "else" as in the paper.
    assert len(entries) == 3 * (6 + 5) + 12
    assert plan_of(entries, small, 1, 5).total == len(entries) - 2 * len(REFERENCES)
    assert {part.data_set for part in parts} == {
        "synthetic", "synthetic-5", "loans", "property", "branin"
    }  # fmt: skip
    only = PO_GP_UCB_TABLES.entries(parts, small, ["ours"])
    assert {row.method for row in only} == {"ours"}


def test_numbers_that_cannot_work_are_refused(data: DrawnFunction) -> None:
    for wish in ({"runs": 0}, {"rounds": 10_001}):
        with pytest.raises(InvalidInput, match=next(iter(wish))):
            plan(data, [RANDOM_ROWS], **wish)


def test_results_come_in_order_and_without_a_reference_nothing_is_above_it(
    data: DrawnFunction,
) -> None:
    parts = PO_GP_UCB_FIGURES.chosen([NAME], ())
    entries = PO_GP_UCB_FIGURES.entries(parts, {NAME: data}, ["random", "published"])
    results = plan_of(entries, {NAME: data}, 2, 5, 4).results()
    regrets = [row for row in results.records if row["metric"] == REGRET]
    assert [row["method"] for row in regrets] == ["published"] * 3 + ["random"]
    assert all(row["trials"] == 2 for row in regrets)
    assert ABOVE not in {row["metric"] for row in results.records}
