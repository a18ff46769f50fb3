"""Values of policies over decision sets: features of a public sample, and errors of the model.

Nothing is released of people's own decision sets, so a public sample of them must be given.
"""

from __future__ import annotations

import math
from typing import Any

from discreet.kernels import FeatureMap
from discreet.learners.gp_ucb.posterior import UNIFORM_VARIANCE
from discreet.people.domain import Box, Candidates
from discreet.validation import FloatArray, InvalidInput

# Deviations for model errors (learners/values.py): at the peaks of test functions means were too
# low by up to twice the first. Axes along which few people were given anything are shrunk away
# (posterior.py), so of points that are not recommended only the prior is known.
MODEL_ERROR_AVERAGE = 0.02
MODEL_ERROR_UNCHOSEN = math.sqrt(UNIFORM_VARIANCE)


def set_features(
    sets: Any, domain: Box, most: int, features: FeatureMap, norm: float
) -> tuple[Candidates, FloatArray]:
    """The candidates of decision sets, and their features (n, c, m); for an average over them.

    Raises:
        InvalidInput: where none are given, or they are malformed.
    """
    if sets is None:
        raise InvalidInput(
            "contexts was left out, but everybody brings a decision set of their own here, and "
            "nothing is released of whose; give a public sample of decision sets."
        )
    people = Candidates.read(sets, domain, most)
    count, width, columns = people.points.shape
    phi = features.transform(people.points.reshape(-1, columns)) / norm
    return people, phi.reshape(count, width, -1)
