"""All blocks of all pages."""

from __future__ import annotations

from measured.arms import ARMS
from measured.layout import Block
from measured.papers import PAGE, PAPERS, Record
from measured.points import POINTS

_MEASURED: tuple[Block, ...] = (*ARMS, *POINTS, *PAPERS)
_RECORD = Record(name="record", page=PAGE, seconds=0, blocks=_MEASURED)
BLOCKS: dict[str, Block] = {block.name: block for block in (*_MEASURED, _RECORD)}
