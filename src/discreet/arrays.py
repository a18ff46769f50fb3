"""Arrays of numbers as JSON values: short ones as nested lists, long ones as text.

An array of more than 5,000 numbers is {shape, float64}, where float64 is the base64 text of its
little-endian numbers in C order: half as long as a list, and bit for bit the same. Both forms are
read for every array.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.validation import FloatArray, InvalidInput, read_array

# Smaller arrays stay readable.
MOST_LISTED = 5_000


def encode_array(values: ArrayLike) -> Any:
    """The array as JSON values (see the module)."""
    array = np.asarray(values, dtype=np.float64)
    if array.size <= MOST_LISTED:
        return array.tolist()
    numbers = base64.b64encode(array.astype("<f8").tobytes()).decode("ascii")
    return {"shape": list(array.shape), "float64": numbers}


def decode_array(value: Any, name: str, dimensions: int) -> FloatArray:
    """The inverse of `encode_array`; only the numbers that were sent take memory.

    Raises:
        InvalidInput: for another form, a wrong number of dimensions, NaN or infinity.
    """
    if not isinstance(value, dict):
        return read_array(value, name, "number", dimensions)
    if set(value) != {"shape", "float64"} or not isinstance(value["float64"], str):
        raise InvalidInput(
            f"{name} had the fields {sorted(map(str, value))}; send nested lists, or exactly shape "
            "and float64, the base64 text of the numbers."
        )
    shape = [int(n) for n in read_array(value["shape"], f"the shape of {name}", "whole", 1)]
    try:
        numbers = base64.b64decode(value["float64"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{name} was not base64 ({error}); send it as made.") from error
    if min(shape, default=0) < 0 or len(numbers) != 8 * math.prod(shape):
        raise InvalidInput(
            f"{name} had the shape {shape} and {len(numbers)} bytes; each number takes 8 bytes. "
            "Send it as made."
        )
    found = np.frombuffer(numbers, dtype="<f8").reshape(shape)
    return read_array(found, name, "number", dimensions)
