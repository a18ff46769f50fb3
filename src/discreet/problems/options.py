"""The options of the named problems, as they come from a TOML file: one pydantic model for each.

The fields with their defaults and descriptions are what `discreet data show NAME` prints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

from discreet.problems.classification import BracketLabels, ClassLabels
from discreet.problems.columns import Column, Label, MissingRule, OutsideRule
from discreet.problems.functions import BERNOULLI
from discreet.problems.kernel_grid import Smoothness, beta_weights
from discreet.problems.synthetic import (
    BetaContexts,
    ContextSampler,
    CornerContexts,
    UniformContexts,
)
from discreet.validation import FloatArray, InvalidInput

EARNINGS_THRESHOLDS = (13.0, 20.0)


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class _ContextLaw(_Options):
    beta: list[list[float]] | None = None
    corner: float | None = None

    def sampler(self, dimension: int) -> ContextSampler:
        if self.corner is not None:
            return CornerContexts(dimension, self.corner)
        if self.beta is None:
            return UniformContexts(dimension)
        if len(self.beta) != dimension or any(len(pair) != 2 for pair in self.beta):
            raise InvalidInput(
                f"option 'contexts' had beta = {self.beta}; give one pair [a, b] for each of the "
                f"{dimension} context columns."
            )
        return BetaContexts(tuple((pair[0], pair[1]) for pair in self.beta))


def _one_law(value: object) -> object:
    if value == "uniform":
        return {}
    if isinstance(value, Mapping) and len(value) == 1 and None not in value.values():
        return value
    raise ValueError(f"must be {_LAWS}")


_LAWS = '"uniform", {beta = [[a, b], ...]} or {corner = gamma}'
_UNIFORM: Any = Field("uniform", validate_default=True, description=_LAWS)
_Law = Annotated[_ContextLaw, BeforeValidator(_one_law)]


class ExponentialOptions(_Options):
    arms: int = Field(3, ge=2, description="number of arms")
    dimension: int = Field(2, ge=1, description="number of context columns")
    centres: Literal["paper", "program"] = Field(
        "program", description="arm k peaks at k/K (paper) or k/(K+1) (program)"
    )
    contexts: _Law = _UNIFORM


class SymmetricOptions(_Options):
    contexts: _Law = _UNIFORM


class EarningsOptions(_Options):
    thresholds: list[float] = Field(
        list(EARNINGS_THRESHOLDS), description="dollars an hour at which earnings are cut"
    )


class AdultOptions(_Options): ...


class _TableColumn(_Options):
    name: str
    lower: float | None = None
    upper: float | None = None
    levels: int | None = None
    values: list[Label] | None = None
    outside: OutsideRule = "error"
    missing: MissingRule = "error"

    def column(self) -> Column:
        numeric = {"lower": self.lower, "upper": self.upper, "levels": self.levels}
        if self.values is not None:
            extra = [key for key, value in numeric.items() if value is not None]
            if extra:
                raise InvalidInput(
                    f"column {self.name!r} has values and also {', '.join(extra)}; labels are "
                    "encoded 0, 1, ..., so give either values or bounds."
                )
            return Column.category(self.name, self.values, self.outside, self.missing)
        if self.lower is None or self.upper is None:
            raise InvalidInput(
                f"column {self.name!r} has {self._bounds()}; declare both bounds for numbers, or "
                "values = [...] for labels."
            )
        low, high = self.lower, self.upper
        return Column(self.name, low, high, self.levels, (), self.outside, self.missing)

    def _bounds(self) -> str:
        """Which bounds are declared, in words."""
        given = {"lower": self.lower, "upper": self.upper}
        shown = [f"{key} = {value:g}" for key, value in given.items() if value is not None]
        return f"{shown[0]} alone" if shown else "no bounds"


class _TableLabel(_Options):
    column: str
    classes: list[Label] | None = None
    thresholds: list[float] | None = None
    outside: Literal["error", "drop"] = "error"
    missing: MissingRule = "error"

    def label(self) -> ClassLabels | BracketLabels:
        if self.classes is not None and self.thresholds is None:
            return ClassLabels(self.column, tuple(self.classes), self.outside, self.missing)
        if self.thresholds is None or self.classes is not None:
            raise InvalidInput(
                f"the label {self.column!r} needs either classes = [...] (a column of labels) or "
                "thresholds = [...] (numbers that are cut into classes); give one of the two."
            )
        if self.outside != "error":
            raise InvalidInput(
                f"the label {self.column!r} has thresholds and outside = {self.outside!r}; every "
                "number falls into a bracket, so leave outside out."
            )
        return BracketLabels(self.column, tuple(self.thresholds), self.missing)


class _TableRewards(_Options):
    columns: list[str]
    lower: float
    upper: float
    outside: OutsideRule = "error"
    missing: MissingRule = "error"


class TableOptions(_Options):
    path: str = Field(description="a .csv, .csv.gz or .parquet file")
    columns: list[_TableColumn] = Field(
        min_length=1,
        description="context columns: {name, lower, upper, levels?, outside?, missing?} or "
        "{name, values, outside?, missing?}",
    )
    label: _TableLabel | None = Field(
        None,
        description="{column, classes, outside?, missing?} or {column, thresholds, missing?}; "
        "classes are arms",
    )
    rewards: _TableRewards | None = Field(
        None,
        description="instead of label: {columns, lower, upper, outside?, missing?}, one column "
        "for each arm",
    )


class BumpOptions(_Options):
    candidates: int = Field(25, ge=2, description="points that each person brings")


class DoseOptions(_Options):
    candidates: int = Field(8, ge=2, description="feasible doses of each patient")


def _one_noise(value: object) -> object:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value == BERNOULLI or (number and 0.0 <= value < math.inf):  # type: ignore[operator]
        return value
    raise ValueError(f"must be {_NOISES}")


_NOISES = 'a standard deviation of 0 or more, or "bernoulli"'
_Noise = Annotated[float | Literal["bernoulli"], PlainValidator(_one_noise)]


class _FunctionOptions(_Options):
    noise: _Noise = Field(0.1, description=f"the noise of a reward: {_NOISES}")
    grid: int | None = Field(
        None,
        ge=2,
        description="offer a public grid with this many values on each axis (1 or 2 columns); "
        "None offers the whole box",
    )


class _Weights(_Options):
    beta: list[float] | None = None

    def of(self, contexts: int) -> FloatArray | None:
        """(contexts,) how likely each context is; None where all are equally likely."""
        if self.beta is None:
            return None
        if len(self.beta) != 2:
            raise InvalidInput(
                f"option 'context_weights' had beta = {self.beta}; give two numbers [a, b]."
            )
        return beta_weights(contexts, *self.beta)


def _one_weighting(value: object) -> object:
    if value == "uniform":
        return {}
    if isinstance(value, Mapping) and len(value) == 1 and None not in value.values():
        return value
    raise ValueError(f"must be {_WEIGHTINGS}")


_WEIGHTINGS = '"uniform" or {beta = [a, b]}'


class KernelGridOptions(_Options):
    contexts: int = Field(30, ge=2, description="values of a context, equally spaced on [0, 1]")
    arms: int = Field(60, ge=2, description="arms, equally spaced points on [0, 1]")
    smoothness: Smoothness = Field(
        "squared_exponential", description="the kernel: squared_exponential or matern52"
    )
    length_scale: float = Field(0.3, gt=0, description="of the kernel, over [0, 1] x [0, 1]")
    bound: float = Field(0.8, gt=0, description="the largest mean reward, in absolute value")
    noise: float = Field(0.25, ge=0, description="rewards have uniform noise on [-noise, noise]")
    context_weights: Annotated[_Weights, BeforeValidator(_one_weighting)] = Field(
        "uniform",
        validate_default=True,
        description=f"how likely each context is: {_WEIGHTINGS}",
    )


class LoanOptions(_Options):
    tolerance: float = Field(
        5.0, gt=0, description="percentage points from which on a quote is worth nothing"
    )


class CamelbackOptions(_FunctionOptions): ...


class StyblinskiTangOptions(_FunctionOptions):
    dimension: int = Field(20, ge=1, description="number of columns of a point")


class MichalewiczOptions(_FunctionOptions):
    dimension: int = Field(10, ge=1, description="number of columns of a point")
    steepness: int = Field(10, ge=1, description="how narrow the valleys are")
