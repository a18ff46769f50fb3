"""What a modeler receives, and that it refuses what was changed on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from discreet.outsourcing.curator import Curator
from discreet.outsourcing.table import ReleasedTable
from discreet.validation import InvalidInput
from tests.outsourcing.cases import release, table


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A release."""
    made = release(tmp_path / "key")
    Curator(tmp_path / "key").publish(made.release, tmp_path / "out")
    return tmp_path / "out"


def test_edited_rows_are_refused(out: Path) -> None:
    rows = out / "rows.csv"
    rows.write_text(rows.read_text().replace("0", "1", 1))
    with pytest.raises(InvalidInput, match="not the file that the certificate"):
        ReleasedTable.read(out)
    rows.unlink()
    with pytest.raises(InvalidInput, match="cannot be read"):
        ReleasedTable.read(out)


def test_folders_without_a_release(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(InvalidInput, match="there is no release"):
            ReleasedTable.read(folder)
    (tmp_path / "certificate.json").write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="there is no release"):
        ReleasedTable.read(tmp_path)


def test_rows_and_beliefs_lie_in_the_public_box(out: Path) -> None:
    found = ReleasedTable.read(out)
    low, high = found.box
    assert low.tolist() == [0.0, 0.0]
    assert high.tolist() == [10.0, 10.0]
    inside, beliefs = found.in_box(), found.beliefs()
    assert ((inside >= low) & (inside <= high)).all()
    assert ((beliefs.mean >= low) & (beliefs.mean <= high)).all()
    assert (beliefs.variance <= found.certificate.mechanism.scale**2 * (1 + 1e-9)).all()


def test_projected_rows_lie_in_the_box_of_the_projection(tmp_path: Path) -> None:
    made = release(tmp_path / "key", table(), projected=1)
    Curator(tmp_path / "key").publish(made.release, tmp_path / "out")
    found = ReleasedTable.read(tmp_path / "out")
    assert found.points.shape == (12, 1)
    assert made.projection is not None
    images = table()[["a", "b"]].to_numpy() @ made.projection.matrix
    low, high = found.box
    assert ((images >= low) & (images <= high)).all()
