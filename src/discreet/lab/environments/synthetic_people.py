"""A synthetic problem in place of a study's, with its columns and arms and without its data.

People are uniform over the declared columns (levels and categories included), and arm k pays most
in the k-th strip of the first column, as in section 4.1 of Ma et al. (2025):

    f_k(x) = 1/2 + contrast (g_k(x) - 1/2),      g_k the `ExponentialMeans`

on rewards of 0 or 1, scaled to the declared bounds of a reward. The difference between the arms is
unknown beforehand: `contrast` is the assumption, 1 for the paper's means, at which the best arm of
some people always pays.

| array    | shape  | meaning                                        |
|----------|--------|------------------------------------------------|
| unit     | (n, d) | contexts on [0, 1]^d                           |
| means    | (n, K) | the mean reward of each arm                    |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet.lab.environments.base import People, Problem
from discreet.lab.environments.catalog import Entry, find_entry
from discreet.lab.environments.logs import LoggedAction, LoggedReward
from discreet.lab.environments.synthetic import ExponentialMeans
from discreet.lab.environments.tables import ClassLabels, RewardColumns
from discreet.people.columns import Column
from discreet.people.domain import Box, RewardBounds
from discreet.toml_files import Place, checked
from discreet.validation import FloatArray, InvalidInput, number_from

CONTRAST = 0.5
_LEAST = 0.01
_PLACES = 1001  # of the first column, where arms are compared


class SyntheticPeople(Problem):
    """People and rewards drawn from declarations alone.

    Args:
        domain: the declared columns.
        arm_names: the declared arms, at least two.
        bounds: of a reward.
        contrast: see the module, from 0.01 to 1.

    Attributes:
        difference: the largest difference between the arms' mean rewards for one person.

    Raises:
        InvalidInput: for a contrast that is not allowed.
    """

    def __init__(
        self,
        domain: Box,
        arm_names: tuple[str, ...],
        bounds: RewardBounds,
        contrast: float = CONTRAST,
    ) -> None:
        self.domain, self.arm_names, self.reward_bounds = domain, arm_names, bounds
        self.contrast = number_from(contrast, "contrast", _LEAST, 1.0)
        self._means = ExponentialMeans(len(arm_names))
        spread = np.ptp(self._shares(np.linspace(0.0, 1.0, _PLACES)[:, None]), axis=1).max()
        self.difference = float(spread) * (bounds.upper - bounds.lower)
        self.source = (
            "Synthetic: the columns and arms of the study, invented people; for one person mean "
            f"rewards of the arms differ by up to {self.difference:.2g}."
        )

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        unit = rng.random((people, self.domain.dimension))
        for column, levels in enumerate(self.domain.levels):
            if levels is not None:
                unit[:, column] = rng.integers(levels, size=people) / (levels - 1)
        shares = self._shares(unit)
        drawn = (rng.random(shares.shape) < shares).astype(np.float64)
        low, width = self.reward_bounds.lower, self.reward_bounds.upper - self.reward_bounds.lower
        contexts: FloatArray = self.domain.from_unit(unit)
        return People(contexts, low + width * drawn, low + width * shares)

    def _shares(self, unit: FloatArray) -> FloatArray:
        """(n, K) the probability that each arm pays."""
        return 0.5 + self.contrast * (self._means(unit) - 0.5)


def synthetic_people(
    content: Mapping[str, Any], place: Place, contrast: float = CONTRAST
) -> SyntheticPeople:
    """The stand-in of a study file's `[problem]`; no data are read.

    Args:
        content: of the study file.
        place: where it stands, for messages.
        contrast: see `SyntheticPeople`.

    Raises:
        InvalidInput: a problem without arms, learners for people who come more than once, or
            declarations that do not fit together.
    """
    options = dict(content.get("problem") or {})
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise InvalidInput(
            place.message("[problem] is without a name; `discreet data list` shows the names.")
        )
    entry = find_entry(name)
    entries = content.get("learners")
    for number, learner in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(learner, Mapping) and learner.get("max_contributions", 1) != 1:
            raise InvalidInput(
                place.within("learners", number).message(
                    f"max_contributions was {learner['max_contributions']!r}, but synthetic people "
                    "come once each, as how often people come is not declared; plan with "
                    "max_contributions = 1, or on an older or public table (--table FILE)."
                )
            )
    values = dict(checked(entry.options, options, place.within("problem")))
    columns, arms, bounds = _declared(entry, values)
    if len(arms) < 2 or not columns:
        ways = "declare them in [problem] as label = {...} or rewards = {...}, or "
        declare = ways if "label" in entry.options.model_fields else ""
        raise InvalidInput(
            place.message(
                f"synthetic people need arms, and the problem {name!r} has none; {declare}plan "
                "on an older or public table (--table FILE), or on a problem of `discreet data "
                "list`."
            )
        )
    return SyntheticPeople(Box.of(columns), tuple(arms), bounds, contrast)


def _declared(
    entry: Entry, values: Mapping[str, Any]
) -> tuple[tuple[Column, ...], tuple[str, ...], RewardBounds]:
    """Columns, arms and the bounds of rewards, as a problem's options declare them."""
    columns = tuple(values.get("columns") or entry.columns)
    label, rewards = values.get("label"), values.get("rewards")
    if isinstance(label, ClassLabels):
        return columns, label.declared()[0].values, RewardBounds()
    if isinstance(rewards, RewardColumns):
        return columns, tuple(rewards.columns), RewardBounds(rewards.lower, rewards.upper)
    action, reward = values.get("action"), values.get("reward")
    if isinstance(action, LoggedAction) and isinstance(reward, LoggedReward):
        return columns, action.names, RewardBounds(reward.lower, reward.upper)
    return columns, entry.arms, RewardBounds()
