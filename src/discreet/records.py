"""The kinds of result records, in one place.

`RunRecord`: one per learner, budget and replicate of a study (`discreet run --json`).
`Finding`: one per check of an audit (`discreet audit --json`).

A row of what was varied and `REPRODUCED`: one per case and metric of a paper's figure or table.

A row of `PLANNED`: one per line and number of people of a plan (`discreet plan --json`).

All are written as JSON lines or, by the file's ending, as Parquet. An infinite epsilon (no
privacy) is null, and so is its delta.
"""

from __future__ import annotations

import io
import json
import math
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from discreet.atomic_files import write_bytes
from discreet.validation import InvalidInput

# Trials that prove less than this share of a promise are weak.
WEAK = 0.5
TrustModelName = Literal["local", "shuffled", "joint", "outsourced", "none"]
Value = str | int | float | bool | None

REPRODUCED = ("method", "metric", "mean", "standard_error", "trials", "paper", "agrees")
"""Keys of the records of a reproduction: a method, what was measured, its mean over the trials, how
many these were, the number that the paper prints, and whether it is within two standard errors of
the mean (null without a number or an error). Besides stands what was varied, and the `digest` of
the settings."""

PLANNED = (
    "plan",
    "learner",
    "trust_model",
    "epsilon",
    "delta",
    "people",
    "replicates",
    "metric",
    "per_person",
    "per_person_low",
    "per_person_high",
    "gain",
    "gain_low",
    "gain_high",
    "loss",
    "loss_low",
    "loss_high",
    "lose_at_most",
    "verdict",
)
"""Keys of the records of a plan: what was simulated (epsilon null for none), the metric for each
person, the gain over one choice for everyone (more is better), and the share of the gain without
privacy that is lost, each with the ends of its 95% interval; with all people, whether the loss is
at most what may be lost: yes, no or cannot tell yet."""


ORIGIN = ("made", "study", "study_sha256", "table_sha256", "seed", "versions")
"""Keys that the records of a run, a plan and an audit have besides: where they come from."""


@dataclass(frozen=True)
class RunRecord:
    """One learner under one budget in one replicate.

    Attributes:
        study: the study's name.
        learner: the learner's registered name (`best_fixed` and `oracle` are references).
        trust_model: `local`, `joint`, `outsourced` or `none`.
        epsilon: the budget's epsilon; null for none.
        delta: the budget's delta; null for none.
        replicate: 0, 1, ...
        rounds: how many people took part.
        metric: `regret` or `reward`, summed over people.
        value: the metric's value.
        seconds: time spent by the learner, its policies and reports.
        label: what tables and plots call it.
        seed: the study's; with the replicate it fixes everything that is drawn.
        digest: of what the study file says and of its data, as far as a replicate depends on them;
            null where no study file was run.
        rows: how many rows of the table take part, and why others do not; null where nothing is
            read from a table.
    """

    study: str
    learner: str
    trust_model: TrustModelName
    epsilon: float | None
    delta: float | None
    replicate: int
    rounds: int
    metric: Literal["regret", "reward"]
    value: float
    seconds: float
    label: str
    seed: int
    digest: str | None = None
    rows: str | None = None


@dataclass(frozen=True)
class Finding:
    """The result of one check of an audit.

    Attributes:
        name: of the check.
        kind: `mechanism`, `learner`, `surface` or `known-broken`.
        trust_model: who sees what.
        verdict: `holds` or `BROKEN`; for a known-broken design `caught` or `NOT CAUGHT`;
            `no promise`; `not audited` where a promise, or a state of the code, was left out;
            `FAILED` where auditing it ended in an error.
        epsilon: promised: the smaller of budget and certificate, or the claim of a known-broken
            design; NaN where nothing was audited.
        delta: the same.
        exact: epsilon at that delta of the worst neighbours, by exact replay; NaN without one.
        replayed: state and neighbours of exact replay in words.
        fault: what breaks the promise for sure, or why it, or a state, was not audited.
        lower_bound: on epsilon at that delta, by trials; NaN without any.
        bound: how counts became it: `counts`, `gaussian` or `none`.
        attack: neighbours and score of the trials in words.
        trials: on each of the two data sets.
        true_positive_rate: how often the first data set was recognised; NaN without trials.
        false_positive_rate: how often the second was taken for the first.
        confidence: of this bound.
        overall_confidence: the confidence that all verdicts of the audit hold together.
        about: what was audited.
    """

    name: str
    kind: str
    trust_model: TrustModelName
    verdict: str
    epsilon: float = math.nan
    delta: float = math.nan
    exact: float = math.nan
    replayed: str = ""
    fault: str = ""
    lower_bound: float = math.nan
    bound: str = "none"
    attack: str = ""
    trials: int = 0
    true_positive_rate: float = math.nan
    false_positive_rate: float = math.nan
    confidence: float = math.nan
    overall_confidence: float = math.nan
    about: str = ""

    @property
    def failed(self) -> bool:
        """Whether a promise was not verified, or a broken one went unnoticed."""
        return self.verdict not in ("holds", "caught", "no promise")

    @property
    def weak(self) -> bool:
        """Whether its trials prove little of the promise."""
        return self.lower_bound < WEAK * self.epsilon


Record = RunRecord | Finding | Mapping[str, Value]


def values_of(record: Record) -> dict[str, Value]:
    """The values of a record by their names."""
    return dict(record) if isinstance(record, Mapping) else asdict(record)


def as_json_line(record: Record) -> str:
    """One record as a line of strict JSON; infinities and NaN become null."""
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in values_of(record).items()
    }
    return json.dumps(finite, allow_nan=False)


def check_path(path: Path) -> None:
    """Refuse a file for records before any work is done.

    Raises:
        InvalidInput: a folder that does not exist, or Parquet without pyarrow.
    """
    if not path.parent.is_dir():
        raise InvalidInput(f"the folder of {path} does not exist; make it first.")
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; name a file.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written ({error.strerror}); name a file in a folder that you may "
            "write to."
        ) from error
    if path.suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise InvalidInput(
                f"{path} asks for Parquet, which needs pyarrow; run "
                'pip install "discreet[parquet]" or name a .jsonl file.'
            ) from error


def holds_records(path: Path) -> bool:
    """Whether an existing file holds nothing but records as `write_records` writes them."""
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        try:
            return _is_record(pyarrow.parquet.read_schema(path).names)
        except pyarrow.ArrowException:
            return False
    try:
        with path.open(encoding="utf-8") as file:
            return all(
                isinstance(row := json.loads(line), dict) and _is_record(row) for line in file
            )
    except (ValueError, RecursionError):
        return False


def _is_record(keys: Iterable[str]) -> bool:
    """Whether a record of some kind has these keys; earlier versions wrote fewer of some."""
    given = set(keys)
    run, check = ({field.name for field in fields(kind)} for kind in (RunRecord, Finding))
    return (
        {"study", "learner", "replicate", "metric", "value"} <= given <= run | {*ORIGIN}
        or {"name", "verdict", "lower_bound"} <= given <= check | {*ORIGIN}
        or set(REPRODUCED) - {"agrees"} <= given
        or {"plan", "people", "gain"} <= given <= {*PLANNED, *ORIGIN}
    )


def write_records(records: Iterable[Record], path: Path) -> None:
    """All records to one file: Parquet if its name ends so, otherwise JSON lines."""
    check_path(path)
    lines = [as_json_line(record) for record in records]
    if path.suffix == ".parquet":
        import pandas as pd

        buffer = io.BytesIO()
        pd.DataFrame([json.loads(line) for line in lines]).to_parquet(buffer, index=False)
        content = buffer.getvalue()
    else:
        content = "".join(line + "\n" for line in lines).encode("utf-8")
    write_bytes(path, content)
