"""All blocks of all pages."""

from __future__ import annotations

from measured.arms import ARMS
from measured.layout import Block
from measured.papers import PAPERS
from measured.points import POINTS

BLOCKS: dict[str, Block] = {block.name: block for block in (*ARMS, *POINTS, *PAPERS)}
