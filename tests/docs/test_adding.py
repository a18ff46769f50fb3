"""Problems, mechanisms and figures as docs/adding.md adds them (learners have a test of
their own)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.lab.environments.catalog import load_problem
from discreet.papers.reproduction import Reproduction
from tests.privacy.prefix_sums.matrices import decoder_matrix, encoder_matrix

PAGE = (Path(__file__).parents[2] / "docs/adding.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## A ([a-z ]+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.M)
EXAMPLES = {
    name: code for name, text in SECTIONS for code in re.findall(r"```python\n(.*?)```", text, re.S)
}


def ran(name: str) -> dict[str, Any]:
    """What the example under that heading defines."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(EXAMPLES[name], f"the example of a {name}", "exec", dont_inherit=True), names)
    return names


def test_a_problem_is_listed_and_run(tmp_path: Path) -> None:
    ran("problem")
    assert "two coins" in CliRunner().invoke(app, ["data", "list"]).output
    assert "columns" in CliRunner().invoke(app, ["data", "show", "coins"]).output
    assert load_problem("coins", {"dimension": 3}).domain.dimension == 3
    study = tmp_path / "coins.toml"
    study.write_text(
        'name = "coins"\nrounds = 300\nreplicates = 1\nproblem = { name = "coins" }\n'
        'learners = [{ name = "partition", epsilon = [4.0] }, { name = "uniform" }]\n'
    )
    done = CliRunner().invoke(app, ["run", str(study), "--jobs", "1"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("rows", [1, 2, 7, 20])
def test_a_mechanism_is_the_pair_of_matrices_that_it_claims(rows: int) -> None:
    mechanism = ran("mechanism")["Direct"](rows)
    counts = [1] * rows
    c, parts = encoder_matrix(mechanism, counts)
    b, variances, weights = decoder_matrix(mechanism, counts, parts)
    np.testing.assert_array_equal(b @ c, np.tri(rows))
    np.testing.assert_array_equal(weights, np.tri(rows))
    np.testing.assert_array_equal(variances, (b**2).sum(axis=1))
    assert np.linalg.norm(c, axis=0).max() == pytest.approx(mechanism.column_norm)
    assert (c != 0.0).sum(axis=0).max() == mechanism.entries


def test_a_figure_is_run() -> None:
    figure = ran("figure of a paper")["FIGURE"]
    assert isinstance(figure, Reproduction)
    ends = figure.plan(trials=2).results().ends
    assert list(ends["label"]) == ["uniform", "epsilon 1", "epsilon 4"]
    assert (ends["mean"] > 0.0).all()
