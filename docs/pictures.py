"""Draw the picture of the README again: python docs/pictures.py (about five minutes)."""

from pathlib import Path

from discreet.reporting.plots import WIDE, progress_figure
from discreet.reporting.summary import summarise
from discreet.simulation import simulate_all
from discreet.studies import load_study

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Simulate the main example and save its first plot."""
    study = load_study(ROOT / "examples" / "earnings.toml")
    outcomes = list(
        simulate_all(
            study.problem, study.settings, study.rounds, study.replicates, study.seed, jobs=2
        )
    )
    figure = progress_figure(outcomes, summarise(outcomes, study.settings), WIDE)
    figure.savefig(ROOT / "docs" / "images" / "earnings.png", dpi=110, facecolor="white")


if __name__ == "__main__":
    main()
