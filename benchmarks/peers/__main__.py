"""Others' public programs and ours on the same problems, one table.

    python benchmarks/peers --checkouts DIR [--only NAME ...] [--runs N] [--seed N] [--jobs N]

DIR holds a checkout of each repository under its name (`LDP-Bandit`, ...; those that are not there
are left out, ours runs all the same), and `.venv`, a virtual environment with the packages that
they need, if this one has not. Their code is never part of this repository: `drivers/` start it in
processes of their own.

| column       | meaning                                                                  |
|--------------|--------------------------------------------------------------------------|
| lost         | regret, mean and standard error over runs, in the units of their paper   |
| s            | seconds of a run                                                         |
| claimed      | the epsilon that their program is given                                  |
| held         | the epsilon that its noise holds (`held.py` derives each), at its delta  |
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from films import write_ratings
from joblib import Parallel, delayed
from rows import ROWS, Row

from discreet.lab.experiments import Setting, simulate
from discreet.lab.experiments.means import mean_and_error

DRIVERS = Path(__file__).parent / "drivers"


@dataclass(frozen=True)
class Lost:
    """The regrets of several runs, and the seconds of one; nothing where nothing ran."""

    regrets: tuple[float, ...] = ()
    seconds: float = math.nan

    def __str__(self) -> str:
        if not self.regrets:
            return f"{'-':>17} {'-':>7}"
        mean, error = mean_and_error(self.regrets)
        spread = " " * 8 if math.isnan(error) else f"+- {error:<5,.0f}"
        return f"{mean:>8,.0f} {spread} {self.seconds:>7,.1f}"


def theirs(row: Row, given: argparse.Namespace, folder: Path) -> Lost:
    """Their program on its problem, if there is a checkout of it."""
    checkout = given.checkouts and given.checkouts / row.peer.checkout
    if not checkout or not checkout.is_dir():
        return Lost()
    asked = dict(row.asked) | {"people": row.ours.people, "epsilon": row.ours.epsilon}
    if row.peer.ratings:
        write_ratings(folder / "ratings")
        asked["ratings"] = str(folder / "ratings")
    runs = min(row.peer.runs, given.runs)
    together = row.peer.runs_together
    batches = [asked | {"seed": given.seed, "runs": runs}] if together else []
    batches = batches or [asked | {"seed": given.seed + run} for run in range(runs)]
    own = given.checkouts / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    command = [python, str(DRIVERS / f"{row.peer.driver}.py"), str(checkout.resolve())]
    answers = Parallel(given.jobs, prefer="threads")(
        delayed(_answer)([*command, json.dumps(batch)]) for batch in batches
    )
    regrets = [each for answer in answers for each in np.atleast_1d(answer["regret"])]
    return Lost(tuple(regrets), float(np.mean([answer["seconds"] for answer in answers])))


def _answer(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[1:])} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def ours(row: Row, given: argparse.Namespace) -> Lost:
    """Our learner on the same problem, over as many runs as are asked for."""
    done = Parallel(given.jobs)(delayed(_run)(row, given.seed + run) for run in range(given.runs))
    regrets, seconds = zip(*done, strict=True)
    return Lost(tuple(regrets), float(np.mean(seconds)))


def _run(row: Row, seed: int) -> tuple[float, float]:
    cell = row.ours
    setting = Setting(cell.learner, cell.learner, cell.budget, cell.options)
    record = simulate(cell.load(), setting, cell.people, seed, 0).record
    return record.value, record.seconds


def chosen(given: argparse.Namespace) -> Iterator[Row]:
    """The rows that the command line asks for."""
    for row in ROWS:
        if not given.only or any(row.name.startswith(name) for name in given.only):
            yield row


def main() -> None:
    """Run and print the rows, each as soon as it is there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkouts", type=Path, help="folder of the checkouts")
    parser.add_argument("--only", nargs="*", help="rows whose names begin like this")
    parser.add_argument("--runs", type=int, default=10, help="of a row (10; theirs may have less)")
    parser.add_argument("--seed", type=int, default=8000, help="of the first run")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    print(
        f"{'problem and program':34} {'claimed':>7} {'held':>7} {'theirs lost':>17} {'s':>7} "
        f"{'our promise':14} {'ours lost':>17} {'s':>7}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for row in chosen(given):
            held = row.peer.held(row.ours.epsilon)
            print(
                f"{row.name:34} {row.ours.epsilon:>7g} "
                f"{'nothing' if math.isinf(held) else format(held, ',.3g'):>7} "
                f"{theirs(row, given, Path(folder))} {row.promise:14} {ours(row, given)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
