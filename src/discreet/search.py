"""Ask and tell: a search for the best setting of columns, whose values are people's.

    search = Search({"dose": (0, 200), "form": ["pill", "drop"]}, Joint(1.0, 1e-6))
    trial = search.ask()                  # trial.params
    search.tell(trial, value)             # once, in any order, many open at a time
    search.best()                         # from released values alone

Settings are public: they follow from earlier releases and public coins, so trials reveal nothing
about anyone. **Each value is one person's**: the outcome of that person's data under the setting of
the trial. A budget covers one value of each person. A value computed from many people's data, such
as the score of a model on all of them, is not covered by it.

Under local privacy `tell` draws the noise on each value, and keeps nothing else of it. Under joint
privacy one of two ways is chosen, once, from the budget, the columns and the number of trials:

* noise on each value as it arrives, as under `Local(epsilon)`, whose promise implies the joint one;
* values kept until an epoch is complete, and noise on their sums.

*Notes.* With noise of variance v on each value, n values at P distinct points estimate each mean
with a variance of about (s^2 + v) P / n. With sums of epochs whose noise has variance w on each of
P coordinates it is (b s^2 + c w P / n) P / n: c is 3.6 to 5, what epochs lose to one sum; b is 1.5,
as a release lacks the current epoch, of growth 1.5; s^2 is at most 1/4. So noise on each value is
less where v <= (b - 1) s^2 + c w P / n: with few trials, and for epsilon 4 and above always.
`benchmarks/searches.py` measures both.

| column         | setting                          | coordinate in [0, 1]                   |
|----------------|----------------------------------|----------------------------------------|
| `(0, 10)`      | a float x                        | (x - lower) / (upper - lower)          |
| `log=True`     | a float                          | the same of logarithms                 |
| `levels=m`     | the nearest of m numbers, an int | the same                               |
|                | where all of them are            |                                        |
| labels         | a label, as a text               | place / (m - 1), in the order declared |

A box is searched as it is where every column has room on its grid; otherwise everyone is given one
of at most 4,096 points: all settings that there are, or a low-discrepancy sample of them.

| array  | shape  | meaning                                                             |
|--------|--------|---------------------------------------------------------------------|
| unit   | (n, d) | coordinates                                                         |
| values | (n, d) | settings as numbers: a label as its place                           |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import Kernel

from discreet.atomic_files import write_bytes
from discreet.codec import SCHEMA, decode, encode
from discreet.learners.gp_ucb.policy import GPPolicy
from discreet.learners.gp_ucb.public.learner import PublicGPUCB, best_point
from discreet.learners.gp_ucb.public.policy import PublicPolicy
from discreet.learners.messages import PUBLIC_COINS
from discreet.learners.policy import Actions
from discreet.learners.saving import learner_content, learner_of, read_sealed, sealed
from discreet.people.columns import (
    UNKNOWN,
    Column,
    Declared,
    declared_columns,
    has_names,
    rows_by_name,
)
from discreet.people.domain import Box, PublicBox, PublicSet, RewardBounds
from discreet.privacy import (
    Budget,
    Guarantee,
    Joint,
    Local,
    NoiseSource,
    NonPrivate,
    SecureNoise,
    Unprotected,
)
from discreet.privacy.noise import refuse_copy
from discreet.privacy.vectors import reward_noise
from discreet.validation import (
    FloatArray,
    InvalidInput,
    finite_number,
    instance_of,
    one_of,
    whole_number,
)

Params = dict[str, float | int | str]

MOST_POINTS = 4_096
# The grid of a box has at least this many places along each of at most two columns.
_PLACES = 41
# c and (b - 1) s^2, by which sums of epochs are noisier and later (see the module).
_EPOCHS, _LATE = 5.0, 0.125
_DIRECTIONS = {"maximize": 1.0, "minimize": -1.0}


@dataclass(frozen=True)
class Trial:
    """One setting that was asked for; public.

    Attributes:
        number: 0 for the first, then 1, 2, ...
        params: the setting, by the names of the columns.
    """

    number: int
    params: Params = field(hash=False)


@dataclass(frozen=True)
class Best:
    """The setting with the best posterior mean, from released values.

    Attributes:
        params: the setting.
        value: the posterior mean of its mean value.
        deviation: its posterior standard deviation; of the mean, not of a single value.
        released: how many values that rests on.
    """

    params: Params
    value: float
    deviation: float
    released: int


class Search:
    """Looks for the best setting of some columns, one value of one person at a time.

    Args:
        columns: a list of `Column`, or a dictionary such as `{"dose": (0, 200), "form": ["pill",
            "drop"], "times": {"lower": 1, "upper": 4, "levels": 4}}`. Order labels by similarity.
        budget: `Joint(epsilon, delta)`, `Local(epsilon)`, or `NonPrivate()` for values that are
            not people's.
        bounds: the least and the largest value; public.
        direction: "maximize" or "minimize".
        trials: how many values are expected; it decides how long exploring pays, and under joint
            privacy where noise is drawn (see the module; few where it is left out). Searches with
            noise on sums take no more than these.
        kernel: a scikit-learn kernel, or its text, in shares of each column's width (of its
            logarithm where `log=True`).
        noise: `SecureNoise()` by default, or `SimulatedNoise(seed)` in simulations. Not saved.
        seed: of public randomness.

    Raises:
        InvalidInput: for columns, bounds or a budget that cannot be used.
    """

    def __init__(
        self,
        columns: Declared,
        budget: Joint | Local | NonPrivate,
        *,
        bounds: tuple[float, float] = (0.0, 1.0),
        direction: str = "maximize",
        trials: int | None = None,
        kernel: Kernel | str | None = None,
        noise: NoiseSource | None = None,
        seed: int = 0,
    ) -> None:
        self.space = SearchSpace(declared_columns(columns))
        self.direction = one_of(direction, "direction", _DIRECTIONS)
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise InvalidInput(
                f"bounds was {bounds!r:.80}; give the least and the largest value, such as (0, 1)."
            )
        given = RewardBounds(*bounds)
        turned = given if self._sign > 0 else RewardBounds(-given.upper, -given.lower)
        instance_of(
            budget, "budget", Budget, "Joint(epsilon, delta), Local(epsilon) or NonPrivate()"
        )
        self._noise = _source(budget, noise)
        if trials is not None:
            whole_number(trials, "trials", minimum=1)
        whole_number(seed, "seed", maximum=PUBLIC_COINS - 1)
        if budget.is_central and budget.max_contributions > 1:
            raise InvalidInput(
                f"max_contributions was {budget.max_contributions}; a search does not know whose a "
                "value is, so it cannot count contributions under joint privacy. Leave "
                "max_contributions out, and take one value of each person."
            )

        def learner(kept: Joint | Local | NonPrivate) -> PublicGPUCB:
            return PublicGPUCB(
                self.space.domain,
                self.space.offered,
                kept,
                kernel=kernel,
                horizon=trials,
                reward_bounds=turned,
                public_seed=seed,
                noise=self._noise if kept.is_central else None,
            )

        self.learner = learner(budget)
        if _few(self.learner, trials):
            self.learner = learner(Local(budget.epsilon, protects=budget.protects))
        self._asked = 0
        self._open: dict[int, Actions] = {}

    @property
    def _sign(self) -> float:
        return _DIRECTIONS[self.direction]

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value."""
        bounds = self.learner.reward_bounds
        low, high = sorted((self._sign * bounds.lower, self._sign * bounds.upper))
        return low, high

    @property
    def open_trials(self) -> tuple[Trial, ...]:
        """The trials that wait for their value, in the order of asking."""
        return tuple(self._trial(number) for number in self._open)

    @property
    def observed(self) -> int:
        """The number of values so far."""
        return self._asked - len(self._open)

    def ask(self) -> Trial:
        """The next setting to try; any number of them may wait for their values.

        Raises:
            InvalidInput: with noise on sums once there are `trials` values, because a further
                one could not be taken.
        """
        with self.learner.lock:
            most, joint = self.learner.horizon, self.learner.budget.trust_model == "joint"
            if joint and most is not None and self.observed >= most:
                raise InvalidInput(
                    f"there are {self.observed} values, and the search was declared for {most} "
                    "trials. Read best(), or start another search with more trials."
                )
            number = self._asked
            rng = np.random.default_rng([self.learner.public_seed, number])
            self._open[number] = self.learner.policy().act(1, rng)[0]
            self._asked += 1
            return self._trial(number)

    def _trial(self, number: int) -> Trial:
        points = self._open[number].points
        assert points is not None
        return Trial(number, self.space.params(points)[0])

    def tell(self, trial: Trial | int, value: float) -> None:
        """The value of one person's data under the setting of a trial; once for each trial.

        Args:
            trial: what `ask` returned, or its number.
            value: within `bounds`; under local privacy another one is clipped to them.

        Raises:
            InvalidInput: for a trial that was never asked for or has its value, or a value that
                is not allowed; then nothing has changed.
        """
        number = trial.number if isinstance(trial, Trial) else trial
        with self.learner.lock:
            number = whole_number(number, "trial")
            if number >= self._asked:
                raise InvalidInput(
                    f"trial was {number}, but {self._asked} trials were asked for, counted from 0; "
                    "tell what ask() returned."
                )
            if number not in self._open:
                raise InvalidInput(
                    f"trial {number} has its value already; a second one would be a second "
                    "person's, so ask() for another trial."
                )
            reward = self._reward(value)
            actions = self._open[number]
            policy = actions.policy
            assert isinstance(policy, GPPolicy)
            reporting = self.learner.reporting(self._noise)
            self.learner.update(policy.report(1, actions, [reward], *reporting))
            del self._open[number]

    def _reward(self, value: Any) -> float:
        """A value as the learner's reward. Where values are private on arrival, none is rejected
        because of its size, since a missing report would leak; there the report clips it."""
        low, high = self.bounds
        if self.learner.budget.is_local and isinstance(value, float | np.floating):
            return self._sign * float(value)
        number = finite_number(value, "value")
        if not low <= number <= high and not self.learner.budget.is_local:
            raise InvalidInput(
                f"value was {value:g}; the declared bounds are [{low:g}, {high:g}]. Declare wider "
                "bounds, or cut values by a rule that is public."
            )
        return self._sign * number

    def best(self) -> Best:
        """The setting with the largest expected value (the least where that is sought).

        It follows from released values alone, so it costs no privacy and is public.

        Raises:
            InvalidInput: where nothing was released yet.
        """
        policy = self.learner.policy()
        assert isinstance(policy, PublicPolicy)
        if self.released == 0:
            raise InvalidInput(
                f"nothing was released yet of {self.observed} values; {self.learner.batch_size} "
                "make the first release. Tell more of them."
            )
        unit = best_point(policy)
        mean, deviation = policy.model.predict(unit[None])
        params = self.space.params(unit[None])[0]
        return Best(params, self._sign * float(mean[0]), float(deviation[0]), self.released)

    @property
    def released(self) -> int:
        """The number of values in the current release."""
        return self.learner.published_from

    def predict(self, params: Any) -> tuple[FloatArray, FloatArray]:
        """Mean value and its standard deviation (n,) and (n,) of settings, from released values.

        Args:
            params: a dictionary, a list of such, or a data frame, with the names of the columns.
        """
        mean, deviation = self.learner.policy().model.predict(self.space.read(params))
        return self._sign * mean, deviation

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of each person whose value was taken, derived from the releases."""
        return self.learner.guarantee()

    def save(self, path: str | Path) -> None:
        """Write the whole search to one JSON file, which its owner alone can read.

        Open trials can get their values after it was loaded. Under joint privacy the file is
        secret: save after `ask` and before its trial is shown to anyone (learners/saving.py).
        """
        target = Path(path)
        if not target.parent.is_dir():
            raise InvalidInput(f"the folder of {target} does not exist; make it first.")
        with self.learner.lock:
            content = learner_content(self.learner)
            waiting = [
                [number, each.policy.version, encode(each)]
                for number, each in self._open.items()
                if isinstance(each.policy, GPPolicy)
            ]
            fields = {
                "notice": content["notice"],
                "kind": "search",
                "schema": SCHEMA,
                "columns": self.space.to_fields(),
                "direction": self.direction,
                "asked": self._asked,
                "open": waiting,
                "learner": content,
            }
            write_bytes(target, sealed(fields).encode(), private=True)

    @classmethod
    def load(cls, path: str | Path, noise: NoiseSource | None = None) -> Self:
        """The search in a file that `save` wrote.

        Args:
            path: the file.
            noise: as for a new search; what was released already is never drawn again.

        Raises:
            InvalidInput: a file that cannot be read, or is no search.
        """
        content = read_sealed(path, "search")
        try:
            return cls._restored(content, noise, str(path))
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, LookupError) as error:
            raise InvalidInput(f"the search in {path} is damaged ({error!r}).") from error

    @classmethod
    def _restored(cls, content: Mapping[str, Any], noise: NoiseSource | None, path: str) -> Self:
        joint = content["learner"]["budget"]["trust_model"] == "joint"
        source = SecureNoise() if noise is None else noise
        name = f"the learner of the search in {path}"
        learner = learner_of(content["learner"], source if joint else None, name)
        assert isinstance(learner, PublicGPUCB)
        search = cls.__new__(cls)
        search.space = SearchSpace(tuple(Column(**each) for each in content["columns"]))
        search.direction = content["direction"]
        search.learner, search._noise = learner, _source(learner.budget, source)
        search._asked, search._open = content["asked"], {}
        for number, version, message in content["open"]:
            policy, actions = learner.published(version), decode(message, Actions)
            actions.check_policy(policy)
            search._open[number] = replace(actions, policy=policy)
        return search

    def __getstate__(self) -> dict[str, Any]:
        """A joint search is not copied: of two copies each would release the same values again."""
        if self.learner.budget.is_central:
            refuse_copy("a search", "save(path)")
        return vars(self)

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.space.columns)
        return (
            f"Search({names}; {self.direction}; {self.learner.budget!r}; {self.observed} values, "
            f"{len(self._open)} open)"
        )


def _few(learner: PublicGPUCB, trials: int | None) -> bool:
    """Whether a joint search knows more with noise on each value (see the module)."""
    if not learner.budget.is_central:
        return False
    each = reward_noise(Local(learner.budget.epsilon), 1.0).variance
    sums = learner.budget.noise_multiplier**2
    if trials is None:
        return True
    return each <= _LATE + _EPOCHS * sums * learner.distinct_points / trials


def _source(budget: Any, noise: NoiseSource | None) -> NoiseSource:
    """What draws the noise."""
    source = SecureNoise() if noise is None else noise
    if not isinstance(source, NoiseSource):
        raise InvalidInput(
            f"noise was {source!r:.80}; pass SecureNoise(), or SimulatedNoise(seed) in simulations."
        )
    if budget.private and isinstance(source, Unprotected):
        raise InvalidInput(
            f"noise was {source!r:.80} under {budget!r}; pass SecureNoise(), or the budget "
            "NonPrivate() where values are not people's."
        )
    return source


@dataclass(frozen=True)
class SearchSpace:
    """The settings that columns declare, and their coordinates in the unit cube (see the module).

    Attributes:
        columns: d columns, without rules for missing values or brackets.
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        for column in self.columns:
            if column.thresholds is not None or column.missing == UNKNOWN or column.indicators:
                given = "thresholds" if column.thresholds else f"missing = {UNKNOWN!r}"
                given = "indicators" if column.indicators else given
                raise InvalidInput(
                    f"column {column.name!r} has {given}, but a setting has a value of every "
                    "column; declare bounds or labels alone."
                )

    @cached_property
    def domain(self) -> Box:
        """The unit cube, with the levels of columns whose coordinates have them at equal steps."""
        return Box(
            (0.0,) * len(self.columns),
            (1.0,) * len(self.columns),
            tuple(column.name for column in self.columns),
            tuple(None if column.log else column.levels for column in self.columns),
        )

    @cached_property
    def offered(self) -> PublicBox | PublicSet:
        """The points that a learner chooses from."""
        levels = [column.levels for column in self.columns]
        if math.prod(count or MOST_POINTS + 1 for count in levels) <= MOST_POINTS:
            axes = [np.arange(count) / (count - 1) for count in levels if count]
            steps = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
            low, high = self._ends
            return self._settings(low + steps * (high - low))
        if all(
            each.levels is None or (each.levels <= _PLACES and not each.log)
            for each in self.columns
        ):
            return PublicBox()
        # The size is a power of two, for which the sequence is balanced.
        drawn = qmc.Sobol(len(self.columns), seed=0).random(MOST_POINTS)
        return self._settings(self.values(drawn))

    def _settings(self, values: FloatArray) -> PublicSet:
        """The different settings among values."""
        return PublicSet.of(np.unique(np.round(self.unit(values), 12), axis=0))

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """(d,) and (d,) the least and the largest value."""
        ends = np.array([(column.lower, column.upper) for column in self.columns])
        return ends[:, 0], ends[:, 1]

    @cached_property
    def _logs(self) -> list[int]:
        return [place for place, column in enumerate(self.columns) if column.log]

    def unit(self, values: FloatArray) -> FloatArray:
        """Coordinates of values."""
        values, (low, high) = values.copy(), (each.copy() for each in self._ends)
        for array in (values.T, low, high):
            array[self._logs] = np.log(array[self._logs])
        return np.clip((values - low) / (high - low), 0.0, 1.0)

    def values(self, unit: FloatArray) -> FloatArray:
        """Values at coordinates; of a column with levels the nearest one."""
        low, high = self._ends
        values = low + unit * (high - low)
        for place in self._logs:
            ratio = math.log(high[place] / low[place])
            values[:, place] = low[place] * np.exp(unit[:, place] * ratio)
        for place, column in enumerate(self.columns):
            if column.levels is not None:
                step = (high[place] - low[place]) / (column.levels - 1)
                steps = np.round((values[:, place] - low[place]) / step)
                values[:, place] = low[place] + steps * step
        return np.clip(values, low, high)

    def params(self, unit: FloatArray) -> list[Params]:
        """The settings at coordinates."""
        return [
            {each.name: _shown(each, value) for each, value in zip(self.columns, row, strict=True)}
            for row in self.values(unit).tolist()
        ]

    def read(self, params: Any) -> FloatArray:
        """(n, d) coordinates of settings: a dictionary, a list of such, or a data frame.

        Raises:
            InvalidInput: for names that are missing or too many, labels that are not declared, and
                numbers outside their bounds.
        """
        if not has_names(params):
            raise InvalidInput(
                f"params was {params!r:.80}; give a dictionary with the keys "
                f"{', '.join(self.domain.names)}, a list of such, or a data frame."
            )
        values = rows_by_name(params, self.columns, name="params")
        low, high = self._ends
        outside = ~((values >= low) & (values <= high))
        if outside.any():
            row, place = (int(each) for each in np.argwhere(outside)[0])
            raise InvalidInput(
                f"params had {values[row, place]:g} in column {self.columns[place].name!r}, row "
                f"{row}; the declared bounds are [{low[place]:g}, {high[place]:g}]."
            )
        return self.unit(values)

    def to_fields(self) -> list[dict[str, Any]]:
        """JSON values of the columns: keyword arguments of `Column`."""
        numbers = ("name", "lower", "upper", "levels", "log")
        return [
            {"name": each.name, "values": each.values}
            if each.values
            else {key: getattr(each, key) for key in numbers}
            for each in self.columns
        ]


def _shown(column: Column, value: float) -> float | int | str:
    if column.values:
        return column.values[round(value)]
    if column.levels is None:
        return value
    step = (column.upper - column.lower) / (column.levels - 1)
    return round(value) if column.lower.is_integer() and step.is_integer() else value
