"""A search by asking and telling: which setting is best, where values are people's.

    search = Search({"dose": (0, 200), "form": ["pill", "drop"]}, Joint(1.0, 1e-6))
    trial = search.ask()                  # trial.params
    search.tell(trial, value)             # once, in any order, many open at a time
    search.best()                         # from what was released alone

Settings are public: they follow from earlier releases and public tickets, so whoever looks at the
trials learns nothing about anybody. **Each value is one person's**: what that person's data gave
under the setting of the trial. A budget covers one value of each person. A value that was computed
from many people's data, such as the score of a model on all of them, is as much everybody's as the
data is, and no epsilon here speaks of it.

Under local privacy `tell` draws the noise on each value, and keeps nothing else of it. Under joint
privacy there is a choice, made once from the budget, the columns and the number of trials:

* noise on each value as it is told, as under `Local(epsilon)`, whose promise implies the joint one;
* values kept until an epoch is complete, and noise on their sums.

*Notes.* With noise of variance v on each value, n values at P distinct points know each mean to
about (s^2 + v) P / n. With sums of epochs whose noise has variance w on each of P coordinates it is
(b s^2 + c w P / n) P / n, where c is 3.6 to 5 for what epochs lose to one sum, b
is 1.5 as a release lacks the epoch that is under way, of growth 1.5, and s^2 is 1/4 at most. So
noise on each value is less where v <= (b - 1) s^2 + c w P / n: with few trials, and for epsilon 4
and above always. `benchmarks/searches.py` measures both on either side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from discreet.atomic_files import write_bytes
from discreet.codec import SCHEMA
from discreet.learners.gp_ucb.learner import GPUCB
from discreet.learners.gp_ucb.policy import GPPolicy
from discreet.learners.gp_ucb.public_points import PublicPoints, PublicPolicy
from discreet.learners.messages import TICKETS, Actions
from discreet.learners.saving import learner_content, learner_of, read_sealed, sealed
from discreet.learners.schema import decode, encode
from discreet.learners.terms import Terms
from discreet.people.columns import Declared, declared_columns
from discreet.people.domain import RewardBounds
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
from discreet.search.space import Params, SearchSpace
from discreet.validation import (
    FloatArray,
    InvalidInput,
    Refusals,
    finite_number,
    instance_of,
    one_of,
    whole_number,
)

DIRECTIONS = ("maximize", "minimize")
# c and (b - 1) s^2, by which sums of epochs are noisier and later (see the module).
_EPOCHS, _LATE = 5.0, 0.125


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
    """The setting that is believed to be best, from what was released.

    Attributes:
        params: the setting.
        value: the mean value that is expected of it.
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
            "drop"], "times": {"lower": 1, "upper": 4, "levels": 4}}` (search/space.py). An order of
            labels that makes sense helps.
        budget: `Joint(epsilon, delta)`, `Local(epsilon)`, or `NonPrivate()` for values that are
            nobody's.
        bounds: the least and the largest value; public.
        direction: "maximize" or "minimize".
        trials: how many values are expected; it decides how long it pays to look around, and under
            joint privacy where noise is drawn (see the module; few where it is left out). Searches
            with noise on sums take no more than these.
        kernel: a scikit-learn kernel, or its text, in shares of each column's width (of its
            logarithm where `log=True`).
        noise: `SecureNoise()` by default, or `SimulatedNoise(seed)` in simulations. Not saved.
        seed: of what is public and random.

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
        refusals = Refusals()
        with refusals.collected():
            self.space = SearchSpace(declared_columns(columns))
        with refusals.collected():
            self.direction = one_of(direction, "direction", DIRECTIONS)
        with refusals.collected():
            given = _value_bounds(bounds)
        with refusals.collected():
            wanted = "Joint(epsilon, delta), Local(epsilon) or NonPrivate()"
            instance_of(budget, "budget", Budget, wanted)
            self._noise = _source(budget, noise)
        if trials is not None:
            with refusals.collected():
                whole_number(trials, "trials", minimum=1)
        with refusals.collected():
            whole_number(seed, "seed", maximum=TICKETS - 1)
        refusals.raise_if_any()
        turned = given if self._sign > 0 else RewardBounds(-given.upper, -given.lower)
        if budget.protects_releases and budget.visits > 1:
            raise InvalidInput(
                f"visits was {budget.visits}; a search is not told whose a value is, so it cannot "
                "count visits under joint privacy. Leave visits out, and take one value of each "
                "person."
            )

        def learner(kept: Joint | Local | NonPrivate) -> GPUCB:
            return GPUCB(
                self.space.domain,
                self.space.offered,
                kept,
                kernel=kernel,
                horizon=trials,
                reward_bounds=turned,
                public_seed=seed,
                noise=self._noise if kept.protects_releases else None,
            )

        self.learner = learner(budget)
        if _few(self.learner, trials):
            self.learner = learner(Local(budget.epsilon, protects=budget.protects))
        self._asked = 0
        self._open: dict[int, Actions] = {}

    @property
    def _sign(self) -> float:
        return 1.0 if self.direction == DIRECTIONS[0] else -1.0

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value."""
        bounds = self.learner.reward_bounds
        ends = sorted((self._sign * bounds.lower, self._sign * bounds.upper))
        return ends[0], ends[1]

    @property
    def open_trials(self) -> tuple[Trial, ...]:
        """The trials that wait for their value, first come first."""
        return tuple(self._trial(number) for number in self._open)

    @property
    def told(self) -> int:
        """How many values were told."""
        return self._asked - len(self._open)

    def ask(self) -> Trial:
        """The next setting to try; any number of them may wait for their values.

        Raises:
            InvalidInput: with noise on sums once `trials` values were told, because a further
                value could not be told.
        """
        with self.learner.lock:
            number = self._asked
            told, most = number - len(self._open), self.learner.horizon
            joint = self.learner.budget.trust_model == "joint"
            if joint and most is not None and told >= most:
                raise InvalidInput(
                    f"{told} values were told, and the search was declared for {most} trials. "
                    "Read best(), or start another search with more trials."
                )
            rng = np.random.default_rng([self.learner.public_seed, number])
            self._open[number] = self.learner.policy().act(1, rng)[0]
            self._asked += 1
            return self._trial(number)

    def _trial(self, number: int) -> Trial:
        points = self._open[number].points
        assert points is not None
        return Trial(number, self.space.params(points)[0])

    def tell(self, trial: Trial | int, value: float) -> None:
        """What one person's data gave under the setting of a trial; once for each trial.

        Args:
            trial: what `ask` returned, or its number.
            value: within `bounds`; under local privacy another one counts as the nearest within.

        Raises:
            InvalidInput: for a trial that was never asked for or was told already, or a value that
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
                    f"trial {number} was told already; a second value would be a second person's, "
                    "so ask() for another trial."
                )
            reward = self._reward(value)
            actions = self._open[number]
            policy = actions.policy
            assert isinstance(policy, GPPolicy)
            self.learner.update(policy.report(1, actions, [reward], *self._reporting()))
            del self._open[number]

    def _reward(self, value: Any) -> float:
        """What a value is to the learner. Where it is private when it is told, none is refused for
        what it is, because silence is not private; there it counts as the nearest that is allowed.
        """
        low, high = self.bounds
        if self.learner.budget.protects_reports and isinstance(value, float | np.floating):
            return self._sign * float(value)
        number = finite_number(value, "value")
        if not low <= number <= high and not self.learner.budget.protects_reports:
            raise InvalidInput(
                f"value was {value:g}; the declared bounds are [{low:g}, {high:g}]. Declare wider "
                "bounds, or cut values by a rule that is public."
            )
        return self._sign * number

    def _reporting(self) -> tuple[NoiseSource, Terms | None]:
        """What a person's side reports with."""
        learner = self.learner
        if not learner.budget.protects_reports:
            return Unprotected(), None
        return self._noise, Terms(
            learner.domain,
            learner.space,
            learner.budget.epsilon,
            learner.reward_bounds,
            learner.budget.delta,
            learner.budget.visits,
        )

    def best(self) -> Best:
        """The setting with the largest expected value (the least where that is sought).

        It follows from released values alone, so it costs nobody anything, and anyone may see it.

        Raises:
            InvalidInput: where nothing was released yet.
        """
        policy = self.learner.policy()
        assert isinstance(policy, PublicPolicy)
        if self.released == 0:
            raise InvalidInput(
                f"nothing was released yet of {self.told} values; {self.learner.batch_size} make "
                "the first release. Tell more of them."
            )
        unit = np.full(self.space.domain.dimension, 0.5)
        for columns, points, _ in policy.sent():  # groups do not depend on each other
            tried = np.tile(unit, (len(points), 1))
            tried[:, list(columns)] = points
            unit = tried[int(np.argmax(policy.model.predict(tried)[0]))]
        mean, deviation = policy.model.predict(unit[None])
        params = self.space.params(unit[None])[0]
        return Best(params, self._sign * float(mean[0]), float(deviation[0]), self.released)

    @property
    def released(self) -> int:
        """How many values the present policy follows from."""
        return self.learner.published_from

    def predict(self, params: Any) -> tuple[FloatArray, FloatArray]:
        """Mean value and its standard deviation (n,) and (n,) of settings, from what was released.

        Args:
            params: a dictionary, a list of such, or a data frame, with the names of the columns.
        """
        mean, deviation = self.learner.policy().model.predict(self.space.read(params))
        return self._sign * mean, deviation

    @property
    def guarantee(self) -> Guarantee:
        """What each person whose value was told is promised, derived from the releases."""
        return self.learner.guarantee()

    # Files.

    def save(self, path: str | Path) -> None:
        """Write the whole search to one JSON file, which its owner alone can read; open trials can
        be told after it was loaded. Under joint privacy it is secret, as its notice says: save
        after `ask` and before a trial that it gave is shown to anybody (learners/saving.py)."""
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
            text = sealed(
                {
                    "notice": content["notice"],
                    "kind": "search",
                    "schema": SCHEMA,
                    "columns": self.space.to_fields(),
                    "direction": self.direction,
                    "asked": self._asked,
                    "open": waiting,
                    "learner": content,
                }
            )
            write_bytes(target, text.encode(), private=True)

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
        budget = content["learner"]["budget"]["trust_model"]
        source = SecureNoise() if noise is None else noise
        name = f"the learner of the search in {path}"
        learner = learner_of(content["learner"], source if budget == "joint" else None, name)
        columns = {each["name"]: dict(each) for each in content["columns"]}
        for each in columns.values():
            del each["name"]
        search = cls.__new__(cls)
        search.space = SearchSpace(declared_columns(columns))
        search.direction = one_of(content["direction"], "direction", DIRECTIONS)
        if not isinstance(learner, GPUCB) or (learner.domain, learner.space) != (
            search.space.domain,
            search.space.offered,
        ):
            raise InvalidInput(f"{name} is of other columns; load a file as save() wrote it.")
        search.learner, search._noise = learner, _source(learner.budget, source)
        search._asked = whole_number(content["asked"], "asked")
        search._open = {}
        for number, version, message in content["open"]:
            policy, actions = learner.published(version), decode(message, Actions)
            actions.check_policy(policy)
            place = whole_number(number, "a trial", 0, search._asked - 1)
            search._open[place] = replace(actions, policy=policy)
        if search.told != learner.people:
            raise InvalidInput(
                f"the search in {path} was told {search.told} values, its learner "
                f"{learner.people}; load a file as save() wrote it."
            )
        return search

    def __getstate__(self) -> dict[str, Any]:
        """A joint search is not copied: of two copies each would release the same values again."""
        if self.learner.budget.protects_releases:
            refuse_copy("a search", "save(path)")
        return vars(self)

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.space.columns)
        return (
            f"Search({names}; {self.direction}; {self.learner.budget!r}; {self.told} told, "
            f"{len(self._open)} open)"
        )


def _few(learner: GPUCB, trials: int | None) -> bool:
    """Whether a joint search knows more with noise on each value (see the module)."""
    if not learner.budget.protects_releases:
        return False
    assert isinstance(learner.mode, PublicPoints)
    each = reward_noise(Local(learner.budget.epsilon), 1.0).variance
    sums = learner.budget.noise_multiplier**2
    if trials is None:
        return True
    return each <= _LATE + _EPOCHS * sums * learner.mode.distinct_points / trials


def _value_bounds(bounds: Any) -> RewardBounds:
    """The declared bounds of a value."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise InvalidInput(
            f"bounds was {bounds!r:.80}; give the least and the largest value, such as (0, 1)."
        )
    return RewardBounds(*bounds)


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
            "NonPrivate() where values are nobody's."
        )
    return source
