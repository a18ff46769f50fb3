"""The four data sets: what their rows and outcomes are, and the paper's numbers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet.papers.kharkovskii2020 import data_sets
from discreet.papers.kharkovskii2020.data_sets import (
    LOANS_FILE,
    PROPERTY_FILE,
    SETTINGS,
    Outcomes,
    branin,
    branin_hoo,
    fitted,
    isotropic,
    load,
    loans,
    properties,
    synthetic,
)
from discreet.papers.kharkovskii2020.searches import FIGURES, TABLES
from discreet.validation import FloatArray, InvalidInput
from tests.papers.tables import write_search_tables


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_sets, "_SUBSET", 60)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_search_tables(tmp_path)


def test_the_papers_settings() -> None:
    asked = {name: (how.rounds, how.delta, how.columns) for name, how in SETTINGS.items()}
    assert asked == {
        "synthetic-5": (50, 1e-5, 10),
        "synthetic": (50, 1e-5, 10),
        "loans": (50, 1e-5, 15),
        "property": (100, 1e-4, 15),
        "branin": (50, 1e-3, 10),
    }


def test_the_papers_tables() -> None:
    assert [part.table for part in TABLES] == [None] * 3 + list(range(1, 13))
    printed = {part.table: {line.columns: line.number for line in part.reported} for part in TABLES}
    assert printed[8] == {3: 0.567, 9: 0.553, 12: 0.479, 15: 0.453, 20: 0.493, 30: 0.52}
    assert printed[12] == {5: 0.152, 10: 0.0, 15: 0.0, 20: 0.0, 30: 0.005, 50: 0.073}
    assert printed[None] == {10: None}
    first = TABLES[3]
    assert first.data_set == "synthetic"
    assert {line.epsilon for line in first.reported} == {math.exp(1.1)}
    assert [line.columns for line in first.reported if line.branch == "if"] == [3, 6, 8, 10]


def test_the_papers_figures() -> None:
    printed = {
        part.name: {line.log_epsilon: line.number for line in part.reported} for part in FIGURES[1:]
    }
    assert printed["Figure 2a"] == {1.1: 0.011, 0.9: 0.069, 0.0: 0.099}
    assert printed["Figure 2b"] == {2.9: 0.003, 2.0: 0.019, 1.0: 0.05}
    assert printed["Figure 2c"] == {2.8: 0.051, 1.0: 0.017, 0.5: 0.082}
    assert printed["Figure 3"] == {2.3: 0.004, 2.0: 0.023, 1.8: 0.051}
    for part in FIGURES[1:]:
        assert [line.branch for line in part.reported] == ["if", None, None]


def test_simple_regret_counts_the_best_so_far() -> None:
    outcomes = Outcomes(np.array([1.0, 5.0, 2.0, 4.0]), np.zeros(4))
    asked = np.array([0, 2, 0, 3, 1])
    assert outcomes.simple_regret(asked).tolist() == [4.0, 3.0, 3.0, 1.0, 0.0]


@pytest.mark.parametrize("length_scale", [1.25, 5.0])
def test_synthetic_rows_and_functions(length_scale: float) -> None:
    table = synthetic(length_scale)
    assert table.rows.shape == (10_000, 2)
    assert np.linalg.norm(table.rows, axis=1).max() == pytest.approx(25.0)
    assert np.allclose(table.rows.mean(axis=0), 0.0)
    assert table.length_scale == length_scale
    assert table.name == ("synthetic" if length_scale == 1.25 else "synthetic-5")
    draws = np.stack([table.draw(np.random.default_rng(k)).values for k in range(400)])
    # Covariances of some pairs of rows, on both axes.
    for other in (1, 3, 100, 505):
        gap = table.rows[4550] - table.rows[4550 + other]
        true = math.exp(-0.5 * float(gap @ gap) / length_scale**2)
        covariance = float((draws[:, 4550] * draws[:, 4550 + other]).mean())
        assert covariance == pytest.approx(true, abs=0.2)
    again = table.draw(np.random.default_rng(7))
    assert (again.values == draws[7]).all()
    noise = again.answers - again.values
    assert noise.std() == pytest.approx(math.sqrt(1e-5), rel=0.05)


def test_branin_hoo_has_its_minima() -> None:
    minima = np.array([[-math.pi, 12.275], [math.pi, 2.275], [3.0 * math.pi, 2.475]])
    assert branin_hoo(minima) == pytest.approx(0.397887, abs=1e-5)
    table = branin()
    assert table.rows.shape == (961, 2)
    outcome = table.draw(np.random.default_rng(0)).values
    assert (table.draw(np.random.default_rng(1)).answers == outcome).all()
    # The best of the grid is near a minimum: -log 0.4266 is 0.852.
    spread = table.deviation * float(outcome.max() - outcome.min())
    values = branin_hoo(_grid())
    assert spread == pytest.approx(math.log(values.max() / values.min()))


def _grid() -> FloatArray:
    first, second = np.meshgrid(np.linspace(-5.0, 10.0, 31), np.linspace(0.0, 15.0, 31))
    return np.stack([first.ravel(), second.ravel()], axis=1)


def test_inputs_get_one_length_scale_and_norm_25() -> None:
    columns = np.random.default_rng(0).normal(5.0, [1.0, 100.0], (50, 2))
    rows, length_scale = isotropic(columns, np.array([0.5, 200.0]))
    assert np.linalg.norm(rows, axis=1).max() == pytest.approx(25.0)
    assert np.allclose(rows.mean(axis=0), 0.0)
    # Distances in length scales are what they were.
    before = np.linalg.norm((columns[0] - columns[1]) / [0.5, 200.0])
    after = np.linalg.norm(rows[0] - rows[1]) / length_scale
    assert after == pytest.approx(before)


def test_hyperparameters_are_found() -> None:
    rng = np.random.default_rng(3)
    columns = rng.uniform(0.0, [10.0, 1.0], (60, 2))
    scaled = columns / [3.0, 0.5]
    gaps = np.square(scaled[:, None] - scaled[None, :]).sum(axis=2)
    root = np.linalg.cholesky(np.exp(-0.5 * gaps) + 1e-10 * np.eye(60))
    outcome = 7.0 + 2.0 * (root @ rng.standard_normal(60) + 0.1 * rng.standard_normal(60))
    table = fitted("branin", "drawn", "", columns, outcome)
    # Distances in length scales are those of the process.
    before = np.ptp(scaled, axis=0)
    assert np.ptp(table.rows, axis=0) / table.length_scale == pytest.approx(before, rel=0.4)
    assert table.deviation == pytest.approx(2.0, rel=0.6)
    assert table.noise < 0.1


def test_loans_are_over_and_their_outcome_is_a_return(data: Path) -> None:
    table = loans(data)
    frame = pd.read_csv(data / LOANS_FILE)
    # Left out: not funded by investors, still current, nothing paid. Charged-off ones stay.
    kept = frame.drop(index=[0, 1, 2])
    assert table.rows.shape == (len(kept), 3)
    outcome = table.draw(np.random.default_rng(0)).values
    returns = np.log(kept["total_payment"] / kept["funded_amnt"]).to_numpy()
    assert np.allclose(np.diff(outcome) * table.deviation, np.diff(returns))
    # The third column is the logarithm of the income.
    assert np.corrcoef(table.rows[:, 2], np.log(kept["annual_inc"]))[0, 1] == pytest.approx(1.0)
    assert "two public extracts joined" in table.source


def test_properties_are_sought_where_they_are_cheap(data: Path) -> None:
    table = properties(data)
    frame = pd.read_csv(data / PROPERTY_FILE)
    outcome = table.draw(np.random.default_rng(0)).values
    assert int(outcome.argmax()) == int(frame["avg_price_per_sqm"].argmin())
    assert np.corrcoef(table.rows[:, 0], frame["long"])[0, 1] == pytest.approx(1.0)
    low, high = table.box
    assert (low <= table.rows).all()
    assert (table.rows <= high).all()
    assert "not the paper's 2,004" in table.source


def test_rows_cannot_be_changed(data: Path) -> None:
    with pytest.raises(ValueError, match="read-only"):
        properties(data).rows[0, 0] = 0.0


def test_missing_files_and_columns_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="folder that holds lendingclub"):
        load("loans", tmp_path / "elsewhere")
    frame = pd.read_csv(data / PROPERTY_FILE)
    frame.drop(columns="lat").to_csv(data / PROPERTY_FILE, index=False)
    with pytest.raises(InvalidInput, match="'lat'"):
        load("property", data)
    frame.assign(avg_price_per_sqm=0.0).to_csv(data / PROPERTY_FILE, index=False)
    with pytest.raises(InvalidInput, match="0 of 120 rows are complete"):
        load("property", data)
