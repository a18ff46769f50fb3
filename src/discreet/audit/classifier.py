"""Scores where no likelihood is known: a logistic regression on everything in a report.

| array    | shape  | meaning                                                            |
|----------|--------|--------------------------------------------------------------------|
| features | (n, p) | numbers as they are; whole numbers as tokens, one column for each  |

Arrays of whole numbers with the same shape are read together, so a reported bin with its sign is
one token. For reports over a finite alphabet whose log-likelihood ratio is a sum over tokens, as it
is for subset selection and randomised response, the best linear score is that ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from discreet.validation import FloatArray, IntArray

# Whole numbers of more values than this are read as numbers.
_MOST_TOKENS = 4096
_LEFT_OUT = ("tickets",)
# Ridge of the regression, relative to scikit-learn's default, and its steps.
_STEPS = 300

Arrays = Mapping[str, NDArray[np.generic]]


def arrays_of(report: object) -> dict[str, NDArray[np.generic]]:
    """The arrays of a batch of reports by name, without tickets, which are public."""
    arrays = {
        field.name: getattr(report, field.name)
        for field in fields(report)  # type: ignore[arg-type]
        if field.name not in _LEFT_OUT
    }
    return {name: value for name, value in arrays.items() if isinstance(value, np.ndarray)}


@dataclass(frozen=True)
class Reading:
    """How arrays become features: which tokens there are.

    Attributes:
        tokens: for each group of whole-number arrays of one shape, the sorted token codes.
        groups: the names of the arrays of each group.
        numbers: the names of the arrays that are read as numbers.
    """

    tokens: tuple[IntArray, ...]
    groups: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...]

    @classmethod
    def learnt(cls, arrays: Arrays) -> Reading:
        """The reading that suits these arrays (n, ...)."""
        shapes: dict[tuple[int, ...], list[str]] = {}
        numbers = []
        for name, values in arrays.items():
            if values.dtype.kind in "iub":
                shapes.setdefault(values.shape[1:], []).append(name)
            else:
                numbers.append(name)
        tokens, groups = [], []
        for names in shapes.values():
            known = np.unique(_codes(arrays, names))
            if len(known) <= _MOST_TOKENS:
                tokens.append(known)
                groups.append(tuple(names))
            else:
                numbers.extend(names)
        return cls(tuple(tokens), tuple(groups), tuple(numbers))

    def features(self, arrays: Arrays) -> FloatArray:
        """(n, p) the features of reports."""
        rows = len(next(iter(arrays.values())))
        parts = [
            np.asarray(arrays[name], dtype=np.float64).reshape(rows, -1) for name in self.numbers
        ]
        for known, names in zip(self.tokens, self.groups, strict=True):
            codes = _codes(arrays, names).reshape(rows, -1)
            places = np.minimum(np.searchsorted(known, codes), len(known) - 1)
            hit = known[places] == codes
            counted = np.zeros((rows, len(known)))
            np.add.at(counted, (np.nonzero(hit)[0], places[hit]), 1.0)
            parts.append(counted)
        return np.hstack(parts)


def _codes(arrays: Arrays, names: tuple[str, ...] | list[str]) -> IntArray:
    """One code for the values that several whole-number arrays have in a place."""
    code = np.zeros(arrays[names[0]].shape, dtype=np.int64)
    for name in names:
        code = code * 1_000_003 + np.asarray(arrays[name], dtype=np.int64)
    return code


@dataclass(frozen=True)
class Classifier:
    """A trained score.

    Attributes:
        reading: how arrays become features.
        weights: (p,) of the features.
    """

    reading: Reading
    weights: FloatArray

    @classmethod
    def trained(cls, first: Arrays, second: Arrays) -> Classifier:
        """A score that is high for reports like `first` and low for those like `second`."""
        from sklearn.linear_model import LogisticRegression

        joined = {name: np.concatenate([first[name], second[name]]) for name in first}
        reading = Reading.learnt(joined)
        features = reading.features(joined)
        count = len(next(iter(first.values())))
        truth = np.repeat([1, 0], [count, len(features) - count])
        spread = features.std(axis=0)
        scale = 1.0 / np.where(spread > 0.0, spread, 1.0)
        fitted = LogisticRegression(max_iter=_STEPS).fit(features * scale, truth)
        return cls(reading, fitted.coef_[0] * scale)

    def scores(self, arrays: Arrays) -> FloatArray:
        """(n,) scores of reports."""
        scores: FloatArray = self.reading.features(arrays) @ self.weights
        return scores
