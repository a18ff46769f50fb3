"""Tables of results in a real browser: by mouse and keyboard, and as written again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.server.chromium import browser, found

SCRIPT = Path(__file__).parents[2] / "docs" / "_static" / "sort_tables.js"
ROWS = [
    ("strips", "kernel", "1,113 ± 229", "0.069 ≠"),
    ("", "partition", "953 ± 6", ""),
    ("adult", "kernel", "none", "0.5 ="),
    ("", "uniform", "33,766 ± 2,824", "-0.28"),
]
COLUMN = "[...document.querySelectorAll('#numbers tbody tr')].map(row => row.cells[%d].textContent)"
BUTTON = "document.querySelectorAll('#numbers th button')[%d]"
SORTED = "[...document.querySelectorAll('#numbers th')].map(each => each.getAttribute('aria-sort'))"


@pytest.mark.skipif(found() is None, reason="there is no Chromium on this machine")
def test_headers_sort_numbers_and_words_in_both_directions(tmp_path: Path) -> None:
    body = "".join(f"<tr>{''.join(f'<td><p>{cell}</p></td>' for cell in row)}</tr>" for row in ROWS)
    heads = "".join(f"<th><p>{head}</p></th>" for head in ("study", "learner", "1", "paper"))
    words = "<table><thead><tr><th>a<th>b</thead><tbody><tr><td>one<td>two</tbody></table>"
    table = f"<table id=numbers><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    page = tmp_path / "page.html"
    script = f"<script>{SCRIPT.read_text(encoding='utf-8')}</script>"
    page.write_text(f"<!doctype html><meta charset=utf-8><article>{words}{table}</article>{script}")
    with browser(tmp_path / "chromium") as tab:
        tab.visit(page.as_uri())
        # A table without numbers stays as it is.
        assert tab.ask("document.querySelectorAll('th button').length") == 4
        tab.ask(f"{BUTTON % 2}.click()")
        assert tab.ask(COLUMN % 2) == ["953 ± 6", "1,113 ± 229", "33,766 ± 2,824", "none"]
        # Rows carry the label that they had from above.
        assert tab.ask(COLUMN % 0) == ["strips", "strips", "adult", "adult"]
        assert tab.ask(SORTED) == [None, None, "ascending", None]
        tab.ask(f"{BUTTON % 3}.click(), {BUTTON % 3}.click()")
        assert tab.ask(COLUMN % 3) == ["0.5 =", "0.069 ≠", "-0.28", ""]
        assert tab.ask(SORTED) == [None, None, None, "descending"]
        tab.ask(f"{BUTTON % 3}.focus()")
        for kind in ("keyDown", "keyUp"):
            tab.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r")
        rows = [tab.ask(COLUMN % column) for column in range(4)]
        assert list(zip(*rows, strict=True)) == ROWS
        assert tab.ask(SORTED) == [None] * 4
        tab.ask(f"{BUTTON % 1}.click()")
        assert tab.ask(COLUMN % 1) == ["kernel", "kernel", "partition", "uniform"]
