"""Blocks of a page that a command writes: find them, replace what they hold."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"(<!-- numbers: (?P<name>\S+) -->\n)(?P<text>.*?)(?=<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """README.md and its neighbours, and everything under docs/ that people read."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(text: str) -> dict[str, str]:
    """The blocks of a page by name.

    Raises:
        ValueError: for a name that is there twice, or a comment without its partner.
    """
    matches = list(_BLOCK.finditer(text))
    names = [match["name"] for match in matches]
    if len(set(names)) < len(names):
        raise ValueError(f"a block is there twice; the blocks are {', '.join(names)}.")
    if not len(names) == text.count("<!-- numbers:") == text.count("<!-- end -->"):
        raise ValueError("a block has no beginning or no <!-- end -->.")
    return {match["name"]: match["text"] for match in matches}


def without_blocks(text: str) -> str:
    """What people wrote on a page."""
    return _BLOCK.sub("", text)


def replaced(text: str, name: str, block: str) -> str:
    """The page with other text in one of its blocks.

    Raises:
        KeyError: if the page has no such block.
    """
    if name not in blocks_of(text):
        raise KeyError(name)
    return _BLOCK.sub(lambda match: match[1] + (block if match["name"] == name else match[3]), text)
