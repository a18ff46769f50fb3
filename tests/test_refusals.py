"""A table of refused calls fails where a call is accepted, misnamed, or says something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from discreet.validation import InvalidInput
from tests import refusals
from tests.refusals import Refused, check_refusals


def refuse(message: str) -> object:
    raise InvalidInput(message)


def test_a_table_is_compared_with_its_golden_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MESSAGES", tmp_path)
    cases = [Refused("negative", lambda: refuse("epsilon was -1"), "epsilon")]
    check_refusals("made", cases, update=True)
    check_refusals("made", cases, update=False)
    for changed, found in [
        (Refused("negative", lambda: None, "epsilon"), "nothing was raised"),
        (Refused("negative", lambda: refuse("epsilon was -1"), "delta"), "'delta' is not in"),
        (
            Refused("negative", lambda: refuse("epsilon was -2"), "epsilon"),
            r"-\[negative\] epsilon was -1",
        ),
        (Refused("another", lambda: refuse("epsilon was -1"), "epsilon"), r"-\[negative\]"),
    ]:
        with pytest.raises(AssertionError, match=found):
            check_refusals("made", [changed], update=False)
    with pytest.raises(AssertionError, match="stands twice"):
        check_refusals("made", cases * 2, update=False)


def test_another_exception_is_not_caught() -> None:
    with pytest.raises(ZeroDivisionError):
        check_refusals("none", [Refused("division", lambda: 1 / 0, "")], update=False)
