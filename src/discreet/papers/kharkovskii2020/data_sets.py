"""Data sets: rows of equal length scale, and outcomes to be maximised in units of sigma_y.

| array   | shape  | meaning                                                                |
|---------|--------|------------------------------------------------------------------------|
| rows    | (n, d) | the curator's table: centred, of norm at most 25                       |
| values  | (n,)   | f at the rows, over sigma_y and without its mean; regret counts these  |
| answers | (n,)   | what the curator would measure at the rows, with noise                 |

Two facts of every table are taken as public, and no epsilon pays for them: the hyperparameters with
the scaling, which the paper learns from the data (`fitted`, `isotropic`), and the smallest box that
holds the rows. A deployment declares both without looking at the table.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from discreet.people.tables import column_of, numbers_of, read_table
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput, freeze_arrays

SYNTHETIC, SYNTHETIC_5 = "synthetic", "synthetic-5"
LOANS, PROPERTY, BRANIN = "loans", "property", "branin"
LOANS_FILE = Path("lendingclub") / "lendingclub_joined.csv.gz"
PROPERTY_FILE = Path("singapore_property") / "condo_projects.csv.gz"
NEED_FILES = (LOANS, PROPERTY)
"""Data sets that pip does not install."""

# Base of the seeds of runs and attacks; nothing was ever tuned on it.
SEED = 20250701

LARGEST_NORM = 25.0
"""What every table is scaled to."""

_SYNTHETIC_NOISE = 1e-5
# On each axis.
_SYNTHETIC_POINTS, _BRANIN_POINTS = 100, 31

# The likelihood of this many random rows takes some seconds to maximise.
_SUBSET = 1000
_SUBSET_SEED = 0
# In standard deviations of a column: beyond the second it says nothing, below the first no row has
# neighbours.
_LENGTHS = (0.1, 10.0)
# In variances of the outcome; the smallest noise is that of the paper's synthetic functions.
_SIGNAL, _NOISE = (1e-2, 1e2), (1e-5, 1e1)


@dataclass(frozen=True)
class SearchSetting:
    """How a data set is searched.

    Attributes:
        name: of the data set.
        rounds: questions, the initial row included: T.
        delta: of every epsilon.
        columns: of the published release in figures: r.
    """

    name: str
    rounds: int
    delta: float
    columns: int


SETTINGS = {
    setting.name: setting
    for setting in (
        SearchSetting(SYNTHETIC_5, rounds=50, delta=1e-5, columns=10),
        SearchSetting(SYNTHETIC, rounds=50, delta=1e-5, columns=10),
        SearchSetting(LOANS, rounds=50, delta=1e-5, columns=15),
        SearchSetting(PROPERTY, rounds=100, delta=1e-4, columns=15),
        SearchSetting(BRANIN, rounds=50, delta=1e-3, columns=10),
    )
}
"""By name; `synthetic-5` is not the paper's (see `synthetic`)."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of one run.

    Attributes:
        values: (n,) f at all rows, in units of sigma_y.
        answers: (n,) measured outcomes; a second question about a row gets the same answer.
    """

    values: FloatArray
    answers: FloatArray

    def simple_regret(self, asked: IntArray) -> FloatArray:
        """(T,) simple regret after the first 1, .., T rows of `asked`."""
        best: FloatArray = np.maximum.accumulate(self.values[asked])
        return float(self.values.max()) - best


@dataclass(frozen=True, eq=False)
class DataSet(ABC):
    """A table to be searched.

    Attributes:
        setting: how it is searched.
        title: for headings.
        source: where it comes from and what was done with it.
        rows: (n, d) in units in which every column has the same length scale.
        length_scale: of every column.
        noise: the variance of an answer around f, over sigma_y^2.
        deviation: sigma_y, the standard deviation of f, in the unit of the outcome.
    """

    setting: SearchSetting
    title: str
    source: str
    rows: FloatArray
    length_scale: float
    noise: float
    deviation: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def name(self) -> str:
        """As in `SETTINGS`."""
        return self.setting.name

    @cached_property
    def box(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds (d,) of the rows, taken as public."""
        return self.rows.min(axis=0), self.rows.max(axis=0)

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Outcomes:
        """What is to be found in one run."""


@dataclass(frozen=True, eq=False)
class FixedOutcome(DataSet):
    """A table with a column of outcomes: the same in every run, and answers are exact.

    Attributes:
        outcome: (n,) in units of sigma_y, without its mean.
    """

    outcome: FloatArray

    def draw(self, rng: np.random.Generator) -> Outcomes:
        return Outcomes(self.outcome, self.outcome)


@dataclass(frozen=True, eq=False)
class DrawnFunction(DataSet):
    """A square grid with a function from the Gaussian process, a new one for every run.

    The kernel is a product over axes, so its matrix on the grid is K1 (x) K1, and R W R' with
    K1 = R R' and W standard normal has that covariance.

    Attributes:
        root: (m, m) R, for an axis of m points; rows count the second axis faster.
    """

    root: FloatArray

    def draw(self, rng: np.random.Generator) -> Outcomes:
        values = (self.root @ rng.standard_normal(self.root.shape) @ self.root.T).ravel()
        noise = math.sqrt(self.noise) * rng.standard_normal(values.shape)
        return Outcomes(values, values + noise)


def synthetic(length_scale: float = 1.25) -> DrawnFunction:
    """100 x 100 points, of norm 25 at the corners; functions of that length scale.

    With the paper's 1.25 the square (35 units wide) holds about 800 independent pieces, of which 50
    questions see few; the paper's regrets are reached only with larger length scales. 5 is ours.
    """
    edge = LARGEST_NORM / math.sqrt(2.0)
    axis = np.linspace(-edge, edge, _SYNTHETIC_POINTS)
    kernel = np.exp(-0.5 * ((axis[:, None] - axis) / length_scale) ** 2)
    values, vectors = np.linalg.eigh(kernel)
    return DrawnFunction(
        setting=SETTINGS[SYNTHETIC if length_scale == 1.25 else SYNTHETIC_5],
        title=f"synthetic, length scale {length_scale:g}",
        source=(
            f"Gaussian process with length scale {length_scale:g} on {_SYNTHETIC_POINTS} x "
            f"{_SYNTHETIC_POINTS} points, a new function for every run."
        ),
        rows=_mesh(axis, axis),
        length_scale=length_scale,
        noise=_SYNTHETIC_NOISE,
        deviation=1.0,
        # Rounding leaves eigenvalues a little below 0.
        root=vectors * np.sqrt(np.maximum(values, 0.0)),
    )


def branin() -> FixedOutcome:
    """-log of the Branin-Hoo function on 31 x 31 points of [-5, 10] x [0, 15]."""
    points = _mesh(np.linspace(-5.0, 10.0, _BRANIN_POINTS), np.linspace(0.0, 15.0, _BRANIN_POINTS))
    return fitted(
        BRANIN,
        "Branin-Hoo",
        "Minus the logarithm of the Branin-Hoo function, on 31 x 31 points.",
        points,
        -np.log(branin_hoo(points)),
    )


def branin_hoo(points: FloatArray) -> FloatArray:
    """The Branin-Hoo function at points (n, 2): (n,) values of at least 0.3979.

    (b - 5.1 a^2 / (4 pi^2) + 5 a / pi - 6)^2 + 10 (1 - 1 / (8 pi)) cos(a) + 10.
    """
    a, b = points[:, 0], points[:, 1]
    bowl = b - 5.1 / (4.0 * math.pi**2) * a**2 + 5.0 / math.pi * a - 6.0
    return bowl**2 + 10.0 * (1.0 - 1.0 / (8.0 * math.pi)) * np.cos(a) + 10.0


def _mesh(first: FloatArray, second: FloatArray) -> FloatArray:
    """(n m, 2) all pairs; the second counts faster."""
    pairs = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1)
    return pairs.reshape(-1, 2)


def loans(data: Path) -> FixedOutcome:
    """Loans that are over, by amount, interest rate and the logarithm of income.

    The outcome is log(total_payment / funded_amnt): what a dollar came back as. Investors get the
    share of all payments that they funded, so this is the return of the investors, too; over
    funded_amnt_inv it would grow without bound where they funded next to nothing. Left out are
    loans that they did not fund at all, loans that still run and loans that paid nothing. Incomes
    go from $4,000 to $6,000,000, so their logarithm is taken.

    Raises:
        InvalidInput: when the file is not there, or lacks a column.
    """
    frame = _table(data, LOANS_FILE, ["loan_status"])
    over = (column_of(frame, "loan_status").astype(str) != "Current").to_numpy()
    names = ("funded_amnt_inv", "int_rate", "annual_inc", "total_payment", "funded_amnt")
    invested, rate, income, paid, funded = _complete(frame, names, over)
    return fitted(
        LOANS,
        "loans",
        "LendingClub 2007-11, two public extracts joined: loans that are over; amount funded by "
        "investors, interest rate, log of income; log of total payment over amount funded.",
        np.stack([invested, rate, np.log(income)], axis=1),
        np.log(paid / funded),
    )


def properties(data: Path) -> FixedOutcome:
    """Condominium projects by longitude and latitude; the outcome is minus log price per m^2.

    One row is a project with its average price, 2,362 in all; the paper's 2,004 rows are single
    properties of another extract. Singapore lies in the north-east, so all numbers are positive.

    Raises:
        InvalidInput: when the file is not there, or lacks a column.
    """
    frame = _table(data, PROPERTY_FILE)
    names = ("long", "lat", "avg_price_per_sqm")
    longitude, latitude, price = _complete(frame, names, np.ones(len(frame), dtype=bool))
    return fitted(
        PROPERTY,
        "property",
        f"Singapore private condominiums, {len(price):,} projects (not the paper's 2,004 rows): "
        "longitude, latitude; minus the log of the average price per square metre.",
        np.stack([longitude, latitude], axis=1),
        -np.log(price),
    )


def _table(data: Path, file: Path, text_columns: Sequence[str] = ()) -> pd.DataFrame:
    if not (data / file).is_file():
        raise InvalidInput(
            f"there is no file {data / file}; --data must name the folder that holds "
            f"{file.parent}/ with {file.name} in it."
        )
    return read_table(data / file, text_columns)


def _complete(frame: pd.DataFrame, names: Sequence[str], kept: BoolArray) -> list[FloatArray]:
    """Some columns of the rows in which all of them are numbers above 0."""
    columns = [numbers_of(column_of(frame, name), "drop") for name in names]
    # Comparisons are false where a number is missing, so such rows go, too.
    kept = kept & np.all([np.isfinite(values) & (values > 0.0) for values in columns], axis=0)
    if kept.sum() < 2:
        raise InvalidInput(
            f"{int(kept.sum())} of {len(kept)} rows are complete (columns {', '.join(names)}); "
            "at least 2 are needed, so give the whole table."
        )
    return [values[kept] for values in columns]


def load(name: str, data: Path | None) -> DataSet:
    """The data set called `name`; `data` is the folder of those that need one (`NEED_FILES`)."""
    if name in NEED_FILES and data is not None:
        return loans(data) if name == LOANS else properties(data)
    return branin() if name == BRANIN else synthetic(1.25 if name == SYNTHETIC else 5.0)


def fitted(
    name: str, title: str, source: str, columns: FloatArray, outcome: FloatArray
) -> FixedOutcome:
    """With most likely hyperparameters, equal length scales and the outcome in units of sigma_y.

    The hyperparameters are those of 1,000 random rows (all, if there are fewer).
    """
    subset = np.random.default_rng(_SUBSET_SEED).permutation(len(columns))[:_SUBSET]
    spread = columns[subset].std(axis=0)
    mean, unit = float(outcome[subset].mean()), float(outcome[subset].std())
    kernel = ConstantKernel(1.0, _SIGNAL) * RBF(np.ones(columns.shape[1]), _LENGTHS)
    process = GaussianProcessRegressor(kernel + WhiteKernel(0.1, _NOISE))
    with warnings.catch_warnings():
        # A length scale at its bound is an answer: the column says nothing.
        warnings.simplefilter("ignore", ConvergenceWarning)
        process.fit(columns[subset] / spread, (outcome[subset] - mean) / unit)
    kernel = process.kernel_
    signal = float(kernel.k1.k1.constant_value)
    deviation = unit * math.sqrt(signal)
    rows, length_scale = isotropic(columns, np.atleast_1d(kernel.k1.k2.length_scale) * spread)
    return FixedOutcome(
        setting=SETTINGS[name],
        title=title,
        source=source,
        rows=rows,
        length_scale=length_scale,
        noise=float(kernel.k2.noise_level) / signal,
        deviation=deviation,
        outcome=(outcome - mean) / deviation,
    )


def isotropic(columns: FloatArray, length_scales: FloatArray) -> tuple[FloatArray, float]:
    """Columns (n, d) over their length scales (d,), centred and scaled to a largest norm of 25.

    Returns:
        The rows (n, d), and the length scale that all their columns then have.
    """
    scaled = columns / length_scales
    scaled = scaled - scaled.mean(axis=0)
    factor = LARGEST_NORM / float(np.linalg.norm(scaled, axis=1).max())
    return factor * scaled, factor
