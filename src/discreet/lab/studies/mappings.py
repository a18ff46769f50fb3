"""Mappings from Python as TOML has them, so that one reader checks both.

| Python                                   | TOML                            |
|------------------------------------------|---------------------------------|
| tuples, NumPy arrays, pandas' series     | lists                           |
| NumPy's numbers and truth values, paths  | numbers, truth values, texts    |
| scikit-learn kernels                     | their text (kernels/text.py)    |
| None                                     | the key is left out             |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import Kernel

from discreet.kernels.text import kernel_to_text

_BARE = re.compile(r"[A-Za-z0-9_-]+")


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


def toml_text(content: Mapping[str, Any]) -> str:
    """A mapping of TOML values as a study file would have it: keys, then tables."""
    plain = {key: value for key, value in content.items() if not _is_table(value)}
    lines = [f"{_key(key)} = {_written(value)}" for key, value in plain.items()]
    for key, value in content.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{_key(key)}]", *_entries(value)]
        elif key not in plain:
            lines += [line for each in value for line in ("", f"[[{_key(key)}]]", *_entries(each))]
    return "\n".join(lines).lstrip("\n") + "\n"


def _is_table(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, Mapping) for each in value)
    return isinstance(value, Mapping)


def _entries(table: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a table; a list of tables has a line for each of them."""
    for key, value in table.items():
        if isinstance(value, list) and _is_table(value):
            yield f"{_key(key)} = ["
            yield from (f"  {_written(each)}," for each in value)
            yield "]"
        else:
            yield f"{_key(key)} = {_written(value)}"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_written(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    # TOML's texts are JSON's, but for one character that must be written as its number.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
