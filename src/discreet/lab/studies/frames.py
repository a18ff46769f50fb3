"""Studies from Python: mappings as TOML has them, and studies around a data frame.

| Python                                   | TOML                            |
|------------------------------------------|---------------------------------|
| tuples, NumPy arrays, pandas' series     | lists                           |
| NumPy's numbers and truth values, paths  | numbers, truth values, texts    |
| scikit-learn kernels                     | their text (kernels/text.py)    |
| None                                     | the key is left out             |

Bounds of a frame's columns are stated and never read off the frame: before the first person comes a
learner may know of people only what is public, and the largest income of a table is one person's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from numbers import Real
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import Kernel

from discreet.kernels.text import kernel_to_text
from discreet.lab.experiments import REFERENCES
from discreet.learners.registry import learner_class
from discreet.people.columns import Column, declared_columns
from discreet.people.tables import column_of
from discreet.toml_files import toml_key, toml_text
from discreet.validation import ErrorCollector, InvalidInput

FRAME = "data frame"  # the path under which the frame stands
_PUBLIC = (
    "State public knowledge: what a questionnaire or a form allows, the law, a census. For example "
    'bounds={"age": (18, 90), "region": ["north", "south"]}.'
)
_WHY = (
    "bounds are public, and bounds read off the data would reveal values of the people in it (the "
    "largest income is one person's)"
)


def table_of_frame(
    frame: pd.DataFrame,
    bounds: object,
    label: object,
    classes: object,
    rewards: object,
    reward_bounds: object,
    radius: float | None,
) -> dict[str, Any]:
    """The table `[problem]` for a frame that stands under the path `FRAME`.

    Raises:
        InvalidInput: bounds that were not stated, and outcomes without arms: all at once.
    """
    errors = ErrorCollector()
    columns: list[dict[str, Any]] = []
    outcome: dict[str, Any] = {}
    with errors.collected():
        columns = _declared(bounds, frame)
    with errors.collected():
        outcome = _outcome(frame, label, classes, rewards, reward_bounds)
    errors.raise_if_any()
    return {"name": "table", "path": FRAME, "columns": columns, **outcome, "radius": radius}


def unstated(frame: pd.DataFrame, table: Mapping[str, Any], people: str | None) -> tuple[str, ...]:
    """Names the columns that take no part, as they have no bounds."""
    label, rewards = table.get("label", {}), table.get("rewards", {})
    used = {column["name"] for column in table["columns"]} | {people, label.get("column")}
    left = [f"{name}" for name in frame.columns if name not in used | {*rewards.get("columns", [])}]
    if not left:
        return ()
    return (f"Columns that take no part, as no bounds are stated for them: {', '.join(left)}.",)


def _declared(bounds: object, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The declared columns, as study files write them."""
    if not isinstance(bounds, Mapping) or not bounds:
        given = "not given" if bounds is None else f"{bounds!r:.80}"
        raise InvalidInput(
            f"bounds was {given}; {_WHY}. {_PUBLIC} The frame has the columns "
            f"{', '.join(map(str, frame.columns[:30]))}."
        )
    errors, columns = ErrorCollector(), list[Column]()
    for name, given in bounds.items():
        with errors.collected():
            if isinstance(given, list) and len(given) == 2 and all(map(_is_number, given)):
                raise InvalidInput(
                    f"the bounds of column {name!r} were {given!r}, which may be bounds or two "
                    f"labels; write ({given[0]}, {given[1]}) in round brackets for bounds, or "
                    f'{{"values": {given!r}}} for labels.'
                )
            columns += declared_columns({str(name): given})
    errors.raise_if_any()
    return [{"name": column.name, **_keys_of(column)} for column in columns]


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _keys_of(column: Column) -> dict[str, Any]:
    """The arguments of a column, without those that follow from others."""
    derived = {"name", "values", "lower", "upper", "levels"} if column.thresholds else {"name"}
    if column.values and not column.thresholds:
        derived |= {"lower", "upper", "levels"}
    usual = {each.name: each.default for each in fields(Column)}
    return {
        name: value
        for name in usual
        if name not in derived and (value := getattr(column, name)) != usual[name]
    }


def _outcome(
    frame: pd.DataFrame, label: object, classes: object, rewards: object, reward_bounds: object
) -> dict[str, Any]:
    """The table `label` or `rewards` as study files write them."""
    if (label is None) == (rewards is None):
        raise InvalidInput(
            "give either label (the column to predict; arms are its classes) or "
            "rewards (a column for each arm), "
            + ("not both." if label is not None else "as the study needs arms.")
        )
    if label is not None:
        if isinstance(label, Mapping):
            return {"label": {"classes": classes, **label}}
        if classes is None:
            raise InvalidInput(
                f"classes was not given for the label {label!r:.80}; the arms are public, and a "
                "list read off the data would show labels that only a few people have. "
                f"{_classes_of(column_of(frame, str(label)))}"
            )
        return {"label": {"column": label, "classes": classes}}
    if isinstance(rewards, Mapping) and reward_bounds is None:
        return {"rewards": dict(rewards)}
    if not isinstance(reward_bounds, list | tuple) or len(reward_bounds) != 2:
        given = "not given" if reward_bounds is None else f"{reward_bounds!r:.80}"
        raise InvalidInput(
            f"reward_bounds was {given}; {_WHY}. Give the lowest and the highest reward that there "
            "can be, such as reward_bounds=(0, 5)."
        )
    bounds = {"lower": reward_bounds[0], "upper": reward_bounds[1]}
    columns = rewards if isinstance(rewards, Mapping) else {"columns": rewards}
    return {"rewards": {**bounds, **columns}}


def _classes_of(series: pd.Series[Any]) -> str:
    """How to state the classes of a label, by the type of its column, not its values."""
    if series.dtype.kind == "b":
        return "Give classes=[False, True]."
    if series.dtype.kind in "iuf":
        return (
            f'Cut numbers into brackets, label={{"column": "{series.name}", "thresholds": [..]}}, '
            "at public cuts; or, where they are codes, give all codes there can be "
            "as classes=[..]."
        )
    return "Give all labels that a form or a register knows as classes=[..], each once."


def learner_entries(
    learners: Sequence[str | Mapping[str, Any]] | str | None,
    epsilon: object,
    delta: float | None,
    trust_model: str | None,
    non_private: bool,
) -> list[dict[str, Any]]:
    """The tables `[[learners]]`.

    Args:
        learners: names, and tables as in a study file; None for the usual learner beside choosing
            at random.
        epsilon, delta, trust_model, non_private: of each learner that takes a budget and has
            neither an epsilon nor non_private of its own.

    Raises:
        InvalidInput: a list that is none, and no epsilon where none is named.
    """
    budget = {
        "epsilon": epsilon,
        "delta": delta,
        "trust_model": trust_model,
        "non_private": non_private or None,
    }
    if learners is None:
        if epsilon is None or (isinstance(epsilon, Sequence | np.ndarray) and not len(epsilon)):
            given = "not given" if epsilon is None else f"{epsilon!r:.80}"
            raise InvalidInput(
                f"epsilon was {given}; give the cost that one person may bear, such as "
                "epsilon=[1, 4] for one line of the result each, or name learners."
            )
        return [budget, {"name": "uniform"}]
    named = [learners] if isinstance(learners, str | Mapping) else learners
    if not isinstance(named, Sequence):
        raise InvalidInput(f"learners was {learners!r:.80}; give a list of names or dictionaries.")
    return [_entry(each, budget) for each in named]


def _entry(given: object, budget: Mapping[str, Any]) -> Any:
    """One learner under the common budget, where it takes one and has none of its own."""
    entry = {"name": given} if isinstance(given, str) else given
    if not isinstance(entry, Mapping) or {"epsilon", "non_private"} & set(entry):
        return entry
    name, taken = entry.get("name"), dict(budget)
    if name in REFERENCES:
        return entry
    if isinstance(name, str):
        try:
            models = learner_class(name).trust_models
        except InvalidInput:  # reported with everything else that is wrong with the study
            return entry
        if models == ("none",):
            return entry
        if "none" not in models:
            del taken["non_private"]
    return {**taken, **entry}


# Mappings.


def toml_values(value: Any) -> Any:
    """A value as TOML's reader would give it; what TOML cannot hold stays as it is."""
    if isinstance(value, Mapping):
        return {str(key): toml_values(each) for key, each in value.items() if each is not None}
    if isinstance(value, np.ndarray | pd.Series | pd.Index):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [toml_values(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Kernel):
        return kernel_to_text(value)
    return str(value) if isinstance(value, PurePath) else value


def study_text(content: Mapping[str, Any]) -> str:
    """A mapping of TOML values as a study file: keys, then tables."""
    plain = {key: value for key, value in content.items() if not _is_table(value)}
    lines = [f"{toml_key(key)} = {toml_text(value)}" for key, value in plain.items()]
    for key, value in content.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{toml_key(key)}]", *_entries(value)]
        elif key not in plain:
            lines += [x for each in value for x in ("", f"[[{toml_key(key)}]]", *_entries(each))]
    return "\n".join(lines).lstrip("\n") + "\n"


def _is_table(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, Mapping) for each in value)
    return isinstance(value, Mapping)


def _entries(table: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a table; a list of tables has a line for each of them."""
    for key, value in table.items():
        if isinstance(value, list) and _is_table(value):
            yield f"{toml_key(key)} = ["
            yield from (f"  {toml_text(each)}," for each in value)
            yield "]"
        else:
            yield f"{toml_key(key)} = {toml_text(value)}"
