"""Refused calls as one table; their messages stand in golden files that are reviewed as a diff.

    def test_refusals(refusals: CheckRefusals) -> None:
        refusals("people", [Refused("an empty name", lambda: Column(""), "name")])

`pytest --update-golden` writes `tests/golden/messages/people.txt` anew.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from discreet.validation import InvalidInput

MESSAGES = Path(__file__).parent / "golden" / "messages"


@dataclass(frozen=True)
class Refused:
    """A call that must be refused.

    Attributes:
        name: of the case; unique in its file.
        call: what is refused.
        mentions: what the message must contain: the argument, or what was given.
        error: the class of the exception, exactly.
    """

    name: str
    call: Callable[[], object]
    mentions: str
    error: type[Exception] = InvalidInput


CheckRefusals = Callable[[str, Sequence[Refused]], None]


def check_refusals(file: str, cases: Sequence[Refused], update: bool) -> None:
    """Every call of the table raises its error, and the messages are those of the golden file."""
    made, wrong = [], []
    for case in cases:
        try:
            case.call()
        except Exception as error:
            if type(error) is not case.error:
                raise
            if case.mentions not in str(error):
                wrong.append(f"{case.name}: {case.mentions!r} is not in {error}")
            made.append(f"[{case.name}] " + str(error).replace("\n", "\n    "))
        else:
            wrong.append(f"{case.name}: nothing was raised")
    path = MESSAGES / f"{file}.txt"
    text = "".join(line + "\n" for line in made)
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    names = [case.name for case in cases]
    wrong += sorted({f"{name}: stands twice" for name in names if names.count(name) > 1})
    if text != before:
        wrong += difflib.unified_diff(
            before.splitlines(), text.splitlines(), str(path.name), "now", lineterm="", n=1
        )
    assert not wrong, "\n".join(wrong)
