"""Table 2: splits, ratios and the test between methods."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wilcoxon

from discreet.lab.experiments import frame_of
from discreet.papers.ma2025.data import (
    ADULT,
    AT_END,
    AT_QUARTER,
    DATA_SETS,
    JOBS,
    TAXI,
    Split,
    TableSources,
    load,
)
from discreet.papers.ma2025.figures import (
    ABSE,
    RATIO_METHODS,
    TABLE_2,
    cases_of,
    p_value,
    printed,
    rank_sums,
    ranks_of,
    ratio_of,
)
from discreet.privacy import NonPrivate
from tests.papers.tables import write_transfer_tables

TIMES = (AT_QUARTER, AT_END)
CELLS = [(2.0, 1.0), (2.0, 4.0)]
QUICK: dict[str, Any] = {"methods": ["published", "linear"], "rounds": 80}


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Split]:
    folder = write_transfer_tables(tmp_path_factory.mktemp("data"))
    return {name: load(name, folder) for name in DATA_SETS}


def test_targets_and_sources_share_nobody(splits: dict[str, Split]) -> None:
    adult = splits[ADULT]
    assert len(adult.sources) == 7
    for split in splits.values():
        domain = split.target.domain
        assert domain.dimension == 3
        for source in split.sources.values():
            assert source.domain == domain
            assert source.arm_names == split.target.arm_names
    # Rows with a question mark are left out, all others are somewhere.
    people = adult.target.size + sum(source.size for source in adult.sources.values())
    assert 0.9 * 600 < people < 600
    for name in (JOBS, TAXI):
        sizes = [source.size for source in splits[name].sources.values()]
        assert splits[name].target.size + sum(sizes) == 400


def test_values_beyond_the_public_bounds_are_moved_to_them(splits: dict[str, Split]) -> None:
    contexts = splits[JOBS].target.contexts
    assert contexts[:, 2].max() == 40.0
    assert splits[TAXI].target.contexts[:, 1].max() <= 60.0


def test_sources_report_each_row_once(splits: dict[str, Split]) -> None:
    split = splits[JOBS]
    (source,) = TableSources(split.sources, 4.0)(np.random.default_rng(0))
    assert source.epsilon == 4.0
    table = split.sources[source.name]
    assert len(source.data) == table.size
    assert sorted(map(tuple, source.data.contexts)) == sorted(map(tuple, table.contexts))


def test_both_times_are_measured(splits: dict[str, Split]) -> None:
    target = splits[TAXI].target
    values = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    found = target.metrics(target.sample(8, np.random.default_rng(0)), values)
    assert {name: one.sum() for name, one in found.items()} == {AT_END: 3 / 8, AT_QUARTER: 1.0}


def test_every_method_runs_with_and_without(splits: dict[str, Split]) -> None:
    cells = list(product((1.0, 2.0), (1.0, 4.0)))
    cases = list(cases_of(splits[ADULT], cells))
    for method in RATIO_METHODS:
        mine = [case for case in cases if case.method == method]
        settings = [(c.budget.epsilon, c.setting["epsilon_auxiliary"]) for c in mine]
        assert settings == [(1.0, None), (2.0, None), *cells]
    assert [case.budget for case in cases if case.method == ABSE] == [NonPrivate()]


@pytest.mark.parametrize(
    ("name", "epsilons", "method", "with_data", "at", "ratio"),
    [
        (ADULT, (1.0, 1.0), "published", True, AT_QUARTER, 1.459),
        (ADULT, (2.0, 4.0), "published", True, AT_END, 1.210),
        (JOBS, (1.0, 4.0), "linear", False, AT_QUARTER, 0.804),
        (TAXI, (2.0, 1.0), "neural", False, AT_END, 0.999),
        (TAXI, (2.0, 1.0), "ours", False, AT_END, None),
        (TAXI, (3.0, 1.0), "neural", False, AT_END, None),
    ],
)
def test_table_2_as_printed(
    name: str, epsilons: tuple[float, float], method: str, with_data: bool, at: str, ratio: Any
) -> None:
    assert printed(name, *epsilons, method, with_data, at) == ratio


def test_ratios_and_tests_come_from_the_same_trials(splits: dict[str, Split]) -> None:
    cases = list(cases_of(splits[ADULT], CELLS, **QUICK))
    plan = TABLE_2.planned([splits[ADULT]], CELLS, 5, **QUICK)
    done = list(plan.run())
    frame, results = frame_of(done), plan.finish(done)
    found = results.ends.to_dict("records")
    assert len(found) == 2 * 2 * 4 + 2  # cells, times, methods with and without; uniform

    def totals(method: str, auxiliary: float | None, metric: str) -> np.ndarray:
        (number,) = [
            number
            for number, case in enumerate(cases)
            if (case.method, case.setting["epsilon_auxiliary"]) == (method, auxiliary)
        ]
        wanted = (frame["case"] == number) & (frame["metric"] == metric)
        return frame[wanted]["value"].to_numpy()

    def rewards(row: dict[Any, Any]) -> np.ndarray:
        auxiliary = row["epsilon_auxiliary"] if row["auxiliary_data"] else None
        return totals(row["method"], auxiliary, at_of(row))

    def at_of(row: dict[Any, Any]) -> str:
        return row["metric"].removeprefix("ratio of ").removesuffix(" to ABSE")

    for row in found:
        below = totals(ABSE, None, at_of(row))
        assert row["mean"] == pytest.approx(rewards(row).mean() / below.mean())
        assert row["trials"] == 5
        if row["method"] == "uniform":
            assert math.isnan(row["epsilon"])
            assert (row["trust_model"], row["best"], row["significant"]) == ("none", False, False)
            continue
        assert row["true_epsilon"] == pytest.approx(2.0)
        if row["auxiliary_data"]:
            assert row["true_epsilon_auxiliary"] == pytest.approx(row["epsilon_auxiliary"])
        else:
            assert math.isnan(row["true_epsilon_auxiliary"])
    # These are not all people of the target.
    assert all(record["paper"] is None for record in results.records)
    for _, cell in results.ends.groupby(["epsilon_auxiliary", "metric"]):
        rows = cell.to_dict("records")
        (best,) = [row for row in rows if row["best"]]
        assert best["mean"] == cell["mean"].max()
        others = [row for row in rows if not row["best"]]
        for row in others:
            assert row["p_value"] == pytest.approx(p_value(rewards(best), rewards(row)))
        assert best["p_value"] == max(row["p_value"] for row in others)
        assert best["significant"] == all(row["p_value"] < 0.05 for row in others)
    assert results.records[0]["dataset"] == ADULT
    assert results.records[0]["metric"] == f"ratio of {AT_QUARTER} to ABSE"
    # What an interruption leaves: only trials that every method of a cell finished count.
    few = plan.finish([each for each in done if each.trial < 2 or each.case == 0])
    assert set(few.ends["trials"]) == {2}
    assert plan.finish([each for each in done if each.case > 0]).records == []


def test_rank_sums_of_the_printed_ratios_are_those_that_the_paper_prints() -> None:
    rows = []
    for data_set, cell, at in product(DATA_SETS, product((1.0, 2.0), (1.0, 4.0)), TIMES):
        named = list(product(RATIO_METHODS, (True, False)))
        papers = [printed(data_set, *cell, name, with_data, at) for name, with_data in named]
        # Ours, as good as LDPMAB everywhere, has its ranks.
        ratios = [papers[2], papers[3], *papers[2:]]
        ranks = ranks_of([name for name, _ in named], ratios)  # type: ignore[arg-type]
        for (name, with_data), rank, paper in zip(named, ranks, papers, strict=True):
            where = {"dataset": data_set, "epsilon": cell[0], "epsilon_auxiliary": cell[1]}
            what = {"method": name, "auxiliary_data": with_data, "paper": paper}
            rows.append({**where, **what, "metric": f"ratio of {at} to ABSE", "rank": rank})
    ends = pd.DataFrame(rows)
    found = dict(rank_sums(ends))
    assert list(found) == [f"rank sum, {at}" for at in TIMES]
    for sums in found.values():
        own, theirs = sums[sums["method"] == "ours"], sums[sums["method"] != "ours"]
        assert theirs["mean"].tolist() == theirs["paper"].tolist()
        assert own["mean"].tolist() == theirs["mean"].tolist()[:2]
        assert own["paper"].isna().all()
    # On other people than the paper's its sums are for others, too; and a part has none.
    assert all(sums["paper"].isna().all() for _, sums in rank_sums(ends.assign(paper=None)))
    assert not list(rank_sums(ends[ends["dataset"] != JOBS]))


def test_the_sizes_of_table_1_are_printed_first(splits: dict[str, Split]) -> None:
    (notice,) = TABLE_2.planned([splits[JOBS]], CELLS, 1, **QUICK).notices
    target, (source,) = splits[JOBS].target, splits[JOBS].sources.values()
    sizes = f"{target.size} people; 1 sources of {source.size}, the largest of {source.size}."
    assert notice == f"{JOBS}: {sizes} Table 1: 57,773 people; 1 sources, the largest of 14,318."


def test_the_error_of_a_ratio() -> None:
    rng = np.random.default_rng(3)
    draws = []
    for _ in range(2000):
        below = rng.normal(1.0, 0.1, 50)
        draws.append(ratio_of(0.8 * below + rng.normal(0.0, 0.05, 50), below))
    spread = np.std([ratio for ratio, _ in draws])
    assert np.mean([error for _, error in draws]) == pytest.approx(spread, rel=0.05)


def test_p_values_are_those_of_wilcoxon() -> None:
    rng = np.random.default_rng(4)
    one, two = rng.random((2, 20))
    assert p_value(one, two) == pytest.approx(wilcoxon(one, two).pvalue)
    assert p_value(one, one) == 1.0
