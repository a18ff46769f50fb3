"""Measure every number of README.md and docs/ again, and write it where it stands.

    python docs/regenerate.py [--only NAME ...] [--jobs N] [--data DIR] [--peers PEERS]
    python docs/regenerate.py --list

Every block between <!-- numbers: NAME --> and <!-- end --> is run and written, one after another,
with the pictures that belong to it. Blocks that need data which no package brings, or others'
programs, are left as they are without --data or --peers. Everything but times is the same on every
run on one kind of processor: linear algebra rounds differently on others, where totals
differ.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from measured.catalog import BLOCKS
from measured.commands import NeedsData, Runner
from measured.layout import Block
from measured.markers import ROOT, replaced


def listing() -> str:
    """Each block with its page, its processor time and its commands."""
    lines = []
    for block in BLOCKS.values():
        minutes = max(1, round(block.seconds / 60))
        lines.append(f"{block.name:20} {block.page:20} about {minutes:>2} min of one core")
        lines += [f"    {command}" for command in block.commands]
    total = sum(block.seconds for block in BLOCKS.values()) / 60
    return "\n".join([*lines, f"all together: about {total:.0f} min of one core"])


def regenerate(block: Block, runner: Runner, root: Path = ROOT) -> bool:
    """Write one block into its page; whether that changed it."""
    page = root / block.page
    before = page.read_text(encoding="utf-8")
    after = replaced(before, block.name, block.written(runner))
    page.write_text(after, encoding="utf-8")
    return after != before


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(BLOCKS), metavar="NAME", default=BLOCKS)
    parser.add_argument("--list", action="store_true", help="the blocks, and how long they take")
    parser.add_argument("--jobs", type=int, default=1, help="processes of a command (1)")
    parser.add_argument("--data", type=Path, help="folder with data that no package brings")
    parser.add_argument("--peers", type=Path, help="folder with checkouts of others' programs")
    wish = parser.parse_args()
    if wish.list:
        print(listing())
        return
    with tempfile.TemporaryDirectory() as folder:
        folders = {"DIR": wish.data, "PEERS": wish.peers}
        folders = {name: path and path.resolve() for name, path in folders.items()}
        runner = Runner(Path(folder), wish.jobs, folders)
        left_out = []
        for name in wish.only:
            try:
                changed = regenerate(BLOCKS[name], runner)
            except NeedsData as error:
                left_out.append(name)
                print(f"{name}: left as it was; {error}")
                continue
            print(f"{name}: {'changed' if changed else 'as it was'}", flush=True)
    sys.exit(1 if left_out else 0)


if __name__ == "__main__":
    main()
