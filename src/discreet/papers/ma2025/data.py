"""The synthetic settings and the tables of Ma et al. (2025), and what its program logged.

The paper prints Figures 6 to 9 without numbers. `published_logs.csv` holds means over repetitions
that its program (github.com/Karlmyh/LDP-Contextual-MAB) logged: d = 2, with exponential rewards
(K = 3) and with the symmetric ones (K = 2) of supplement S.4.3. Its rules, which hold no epsilon,
are in program.py.

| column of published_logs.csv | meaning                                              |
|------------------------------|------------------------------------------------------|
| experiment                   | the program's name of it                             |
| reward_function              | exponential or symmetric                             |
| epsilon, epsilon_auxiliary   | budgets of target and sources; or which source first |
| gamma, kappa                 | covariate shift and exploration of sources           |
| rounds, n_auxiliary, sources | n_P, n_Qm, M                                         |
| repeats                      | how many repetitions                                 |
| mean_regret, sd_regret       | their mean and standard deviation                    |

Figure 6 looks at what policies do at one context x. For policies pi_1, pi_2, .. that serve person
1, 2, .., which are public,

    share_k(t)  = 1/t sum_{i <= t} pi_i(k | x),
    regret(t)   = sum_k share_k(t) (max_j f_j(x) - f_k(x)).

The paper draws an arm at x for each person and counts it; these are the expected counts, so nothing
is drawn.

**Table 2.** The paper reduces each table to d = 3 and splits it by its supplement, which is not
printed. Here three columns are chosen and bounded beforehand, from what is known of such columns
and not from the table, so no budget pays for them; values beyond a bound are clipped to it.

| name  | columns and bounds                              | target         | sources            |
|-------|-------------------------------------------------|----------------|--------------------|
| adult | age 17-90, education 1-16, weekly hours 1-99    | born in the US | 7 regions of birth |
| jobs  | years coding 0-50, in a job 0-50, skills 0-40   | under 35       | 35 and older       |
| taxi  | miles 0-20, minutes 0-60, hour of pickup 0-23   | Monday-Friday  | weekend            |

ADULT is the original: complete rows of people born in the US are 41,292, which is the paper's n_P,
and the other complete rows are 3,930, which is its largest n_Qm. JOBS and TAXI are stand-ins with
other rows than the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from discreet.lab.environments.base import Population
from discreet.lab.environments.synthetic import (
    CornerContexts,
    SyntheticProblem,
    auxiliary_from_table,
    draw_auxiliary,
    exponential,
    symmetric,
)
from discreet.lab.environments.tables import (
    ClassificationProblem,
    ClassLabels,
    classification_from_table,
)
from discreet.lab.experiments import Source
from discreet.lab.experiments.engine import Row
from discreet.learners.policy import ArmPolicy, Policy
from discreet.people.columns import Column
from discreet.people.tables import read_csv, read_table
from discreet.validation import FloatArray, IntArray, InvalidInput

# Base of the trials' seeds; nothing was ever tuned on it.
SEED = 20250901
TRIALS = 100
ARMS, DIMENSION = 3, 2

# Where Figure 6 looks at what policies do; the first arm is the best there.
PROBE = (1.0 / 3.0, 1.0 / 3.0)
LOCAL_REGRET = "local_regret"

LOW_FIRST, HIGH_FIRST = "low quality first", "high quality first"
# The program's names: the source with the smallest epsilon first, or that with the largest.
_ORDERS = {LOW_FIRST: "first_inf", HIGH_FIRST: "first_sup"}

Rewards = Literal["exponential", "symmetric"]
EXPONENTIAL: Rewards = "exponential"
REWARDS: tuple[Rewards, ...] = (EXPONENTIAL, "symmetric")


def problem(rewards: Rewards = EXPONENTIAL) -> SyntheticProblem:
    """Uniform contexts in the square, and its mean rewards.

    Exponential: three arms, with the program's centres k / (K + 1). Symmetric: two arms.
    """
    return exponential(ARMS, DIMENSION) if rewards == EXPONENTIAL else symmetric()


@dataclass(frozen=True)
class SourceSpec:
    """A synthetic source.

    Attributes:
        name: of the source; its data depend on it, not on its place.
        people: n_Qm.
        epsilon: epsilon_m.
        gamma: of its contexts, with density proportional to ||x - 1/2||_inf^gamma.
        kappa: of its behaviour policy.
    """

    name: str
    people: int
    epsilon: float
    gamma: float = 0.0
    kappa: float = 1.0


@dataclass(frozen=True)
class SyntheticSources:
    """Draws the data of some sources, which report in the order given.

    A source has the same data wherever it stands, so that orders are compared on the same people.

    Attributes:
        specs: the sources.
        rewards: mean rewards of theirs and of the target.
    """

    specs: tuple[SourceSpec, ...]
    rewards: Rewards = EXPONENTIAL

    def __call__(self, rng: np.random.Generator) -> list[Source]:
        names = sorted(spec.name for spec in self.specs)
        own = dict(zip(names, rng.spawn(len(names)), strict=True))
        target = problem(self.rewards)
        return [
            Source(
                spec.name,
                spec.epsilon,
                draw_auxiliary(
                    target,
                    spec.people,
                    own[spec.name],
                    contexts=CornerContexts(DIMENSION, spec.gamma),
                    kappa=spec.kappa,
                ),
            )
            for spec in self.specs
        ]


class Probe:
    """Records action probabilities at one context x, in the units of the problem's domain."""

    def __init__(self, context: tuple[float, ...], problem: SyntheticProblem) -> None:
        self._contexts = [list(context)]
        self._means: FloatArray = problem.mean_rewards(self._contexts)[0]
        self._served: list[int] = []
        self._offers: list[FloatArray] = []

    def __call__(self, policy: Policy[Any], served: int) -> None:
        assert isinstance(policy, ArmPolicy)
        self._served.append(served)
        self._offers.append(policy.probabilities(self._contexts)[0])

    def rows(self, at: IntArray) -> list[Row]:
        """Shares and regret at numbers of people (t,) up to that of the last batch, as rows.

        `share_of_arm_k` has besides its trace `mean_reward` f_k(x), and `given_up`: after how many
        people the arm was never offered again, None if it was.
        """
        served, offers = np.array(self._served), np.stack(self._offers)
        lengths = np.diff(served, prepend=0)
        sums = np.cumsum(lengths[:, None] * offers, axis=0)
        # Within a batch the policy is the same, so sums grow linearly from one batch to the next.
        ends = np.concatenate([[0], served])
        columns = [np.interp(at, ends, np.concatenate([[0.0], column])) for column in sums.T]
        shares: FloatArray = np.stack(columns, axis=1) / at[:, None]
        regret = shares @ (self._means.max() - self._means)
        last_offered = (served[:, None] * (offers > 0.0)).max(axis=0)
        rows: list[Row] = [{"metric": LOCAL_REGRET, "trace": regret}]
        for k, mean in enumerate(self._means):
            last = int(last_offered[k])
            known = {"mean_reward": float(mean), "given_up": last if last < served[-1] else None}
            rows.append({"metric": f"share_of_arm_{k + 1}", "trace": shares[:, k], **known})
        return [
            {**row, "value": float(row["trace"][-1]), "along": at, "final": True} for row in rows
        ]


@cache
def _logs() -> dict[tuple[Any, ...], float]:
    """Mean regret by experiment, mean rewards, epsilon, n_P and n_Qm; and, where sources have
    anybody, by M, epsilon_m (or the order of sources), gamma and kappa."""
    with files("discreet.papers.ma2025").joinpath("published_logs.csv").open() as file:
        logs = pd.read_csv(file, dtype={"epsilon_auxiliary": str}).fillna({"kappa": 1.0})
    target = ["experiment", "reward_function", "epsilon", "rounds", "n_auxiliary"]
    sources = ["sources", "epsilon_auxiliary", "gamma", "kappa"]
    return {
        tuple(row[key] for key in (target + sources if row["n_auxiliary"] else target)): regret
        for row, regret in zip(logs.to_dict("records"), logs["mean_regret"], strict=True)
    }


def logged_mean(
    experiment: str, rewards: Rewards, epsilon: float, setting: Mapping[str, Any]
) -> float | None:
    """The mean regret that the published program logged; None where it logged none.

    Args:
        experiment: `sample_size_target`, `sample_size_source`, `kappa`, `gamma` or
            `order_of_auxiliary`.
        rewards: the mean rewards.
        epsilon: of the target.
        setting: of a case, as records say it: `rounds`, `n_auxiliary` and, if that is not 0,
            `sources`, `gamma`, `kappa`, and `epsilon_auxiliary` or `order`.
    """
    target = (experiment, rewards, epsilon, setting["rounds"], setting["n_auxiliary"])
    if not setting["n_auxiliary"]:
        return _logs().get(target)
    order = _ORDERS.get(setting.get("order", ""))
    which = order or f"{setting['epsilon_auxiliary']:g}"
    return _logs().get((*target, setting["sources"], which, setting["gamma"], setting["kappa"]))


ADULT, JOBS, TAXI = "adult", "jobs stand-in", "taxi stand-in"
DATA_SETS = (ADULT, JOBS, TAXI)

AT_QUARTER, AT_END = "mean reward at n/4", "mean reward"

_REGIONS: Mapping[str, tuple[str, ...]] = {
    "Mexico": ("Mexico",),
    "Central America and Caribbean": (
        "Cuba", "Dominican-Republic", "El-Salvador", "Guatemala", "Haiti", "Honduras", "Jamaica",
        "Nicaragua", "Outlying-US(Guam-USVI-etc)", "Puerto-Rico", "Trinadad&Tobago",
    ),
    "South America": ("Columbia", "Ecuador", "Peru"),
    "Canada and British Isles": ("Canada", "England", "Ireland", "Scotland"),
    "continental Europe": (
        "France", "Germany", "Greece", "Holand-Netherlands", "Hungary", "Italy", "Poland",
        "Portugal", "Yugoslavia",
    ),
    "East Asia": (
        "Cambodia", "China", "Hong", "Japan", "Laos", "Philippines", "South", "Taiwan", "Thailand",
        "Vietnam",
    ),
    "South and West Asia": ("India", "Iran"),
}  # fmt: skip
_ADULT_FIELDS = {
    "age": 0,
    "workclass": 1,
    "education-num": 4,
    "occupation": 6,
    "hours-per-week": 12,
    "native-country": 13,
    "class": 14,
}


class Target(ClassificationProblem):
    """A table whose mean reward counts over all people and over the first quarter of them."""

    def metrics(self, people: Population, values: FloatArray) -> dict[str, FloatArray]:
        """Contributions (n,) to the mean reward of all, and of the first quarter."""
        count, quarter = len(values), max(len(values) // 4, 1)
        early = np.where(np.arange(count) < quarter, values / quarter, 0.0)
        return {AT_END: values / count, AT_QUARTER: early}


@dataclass(frozen=True, eq=False)
class Split:
    """A data set of Table 2.

    Attributes:
        name: as in `DATA_SETS`.
        target: the people who are served.
        sources: tables of the sources by name, in the order in which they report.
    """

    name: str
    target: Target
    sources: Mapping[str, ClassificationProblem]


@dataclass(frozen=True, eq=False)
class TableSources:
    """Draws what the sources of a split report: rows in a random order, arms at random.

    Attributes:
        tables: by name.
        epsilon: epsilon_m, the same for all.
    """

    tables: Mapping[str, ClassificationProblem]
    epsilon: float

    def __call__(self, rng: np.random.Generator) -> list[Source]:
        streams = rng.spawn(len(self.tables))
        return [
            Source(name, self.epsilon, auxiliary_from_table(table, own))
            for (name, table), own in zip(self.tables.items(), streams, strict=True)
        ]


# The rows of the target, and those of each source by its name.
Rows = tuple[pd.DataFrame, Mapping[str, pd.DataFrame]]


def _adult(folder: Path) -> Rows:
    stems = ("adult.data", "adult.test")
    frame = pd.concat([_adult_file(folder / "adult", stem) for stem in stems], ignore_index=True)
    complete = ~frame[["workclass", "occupation", "native-country"]].isin(["?"]).any(axis=1)
    frame = frame[complete]
    country = frame["native-country"]
    regions = {name: frame[country.isin(list(of))] for name, of in _REGIONS.items()}
    return frame[country == "United-States"], regions


def _adult_file(folder: Path, stem: str) -> pd.DataFrame:
    places = (folder / stem, folder / f"{stem}.gz")
    files = [place for place in places if place.is_file()]
    if not files:
        raise InvalidInput(
            f"there is no file {places[0]} or {places[1]}; put the UCI file there, or leave adult "
            "out with --only."
        )
    # adult.test opens with the line "|1x3 Cross validator" and ends its labels in a dot.
    frame = read_csv(
        files[0],
        header=None,
        names=list(_ADULT_FIELDS),
        usecols=list(_ADULT_FIELDS.values()),
        comment="|",
    )
    for name in ("workclass", "occupation", "native-country", "class"):
        frame[name] = [str(text).strip().removesuffix(".") for text in frame[name]]
    return frame


def _jobs(folder: Path) -> Rows:
    frame = read_table(folder / "jobs" / "stackoverflow_subset.csv.gz", ["Age", "Employed"])
    young = frame["Age"] == "<35"
    return frame[young], {"35 and older": frame[~young]}


def _taxi(folder: Path) -> Rows:
    frame = read_table(folder / "taxi" / "nyc_yellow_2022_taxi.csv.gz", ["tip", "pickup_day"])
    weekend = frame["pickup_day"].isin(["Sat", "Sun"])
    return frame[~weekend], {"weekend": frame[weekend]}


_READ: dict[str, tuple[Callable[[Path], Rows], tuple[Column, ...], ClassLabels, str]] = {
    ADULT: (
        _adult,
        (
            Column("age", 17, 90, outside="clip"),
            Column("education-num", 1, 16, 16),
            Column("hours-per-week", 1, 99, outside="clip"),
        ),
        ClassLabels("class", ("<=50K", ">50K")),
        "UCI ADULT.",
    ),
    JOBS: (
        _jobs,
        (
            Column("YearsCode", 0, 50, outside="clip"),
            Column("YearsCodePro", 0, 50, outside="clip"),
            Column("ComputerSkills", 0, 40, outside="clip"),
        ),
        ClassLabels("Employed", ("0", "1")),
        "Job applicants, employed or not, with earlier earnings of 100,024 or more (a stand-in).",
    ),
    TAXI: (
        _taxi,
        (
            Column("trip_distance", 0, 20, outside="clip"),
            Column("trip_duration", 0, 60, outside="clip"),
            Column("pickup_hour", 0, 23, 24),
        ),
        ClassLabels("tip", ("No Tip", "Tip")),
        "Yellow-taxi trips in New York in 2022, tip or no tip (a stand-in).",
    ),
}


def load(name: str, folder: Path) -> Split:
    """A data set from `folder`; `InvalidInput` for files that are not there or not as expected."""
    read, columns, label, origin = _READ[name]
    people, others = read(folder)
    own = classification_from_table(people, columns, label, origin)
    target = Target(own.contexts, own.labels, own.domain, own.arm_names, own.source)
    sources = {
        source: classification_from_table(rows, columns, label, origin)
        for source, rows in others.items()
    }
    return Split(name, target, sources)
