"""How things say what they are: in a repr, and in the log.

Both show public facts only: never a context, an action, a reward or a sum of them, nor reports or
anything else computed from data without noise.

The log is Python's own, under the name `discreet` with a child for each module. It is silent until
a handler is attached, `logging.getLogger("discreet").setLevel(logging.DEBUG)` and a handler:

| level   | what                                                                       |
|---------|----------------------------------------------------------------------------|
| WARNING | how many reports were refused                                              |
| INFO    | policies that were published                                               |
| DEBUG   | releases with their mechanism and scale, length scales, how trees are cut  |

What a learner without privacy learnt is not logged: it follows from people's data as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

_MOST = 6  # names of a list that are shown
_LONGEST = 120  # characters of a value

_ROOT = logging.getLogger("discreet")
_ROOT.addHandler(logging.NullHandler())


def logger(name: str) -> logging.Logger:
    """The logger of a module of this package, by its `__name__`."""
    return logging.getLogger(name)


def described(name: str, **facts: object) -> str:
    """`Name(fact=value, ..)`; facts that are None are left out."""
    shown = (f"{key}={_text(value)}" for key, value in facts.items() if value is not None)
    return f"{name}({', '.join(shown)})"


def short_id(identity: str) -> str:
    """The beginning of a long random identity; a name in words stays as it is."""
    return f"{identity[:8]}.." if len(identity) > 12 and " " not in identity else identity


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > _MOST:
        return f"[{', '.join(map(repr, value[:_MOST]))}, .. {len(value)} in all]"
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 2] + ".."
