"""Messages are whole where no terminal shows them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COMMANDS = """
import sys
from discreet.cli import main
for arguments in (["run", sys.argv[1]], ["run", sys.argv[1], "--rounds", "0"]):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as end:
        print(end.code)
    sys.argv[1:] = arguments[1:2]
"""


def test_messages_on_a_pipe_are_one_line_each(tmp_path: Path) -> None:
    # A name with everything that could be taken for markup, an emoji, or a place to break.
    missing = tmp_path.joinpath(*["a folder with a long name " * 3] * 3, "no [b] :car: study.toml")
    command = [sys.executable, "-c", COMMANDS, str(missing)]
    end = subprocess.run(command, capture_output=True, text=True, check=False)
    assert end.stdout.split() == ["2", "2"], end.stderr
    refused, *usage = end.stderr.splitlines()
    assert refused.startswith(f"Refused: the study file {missing} cannot be read (")
    assert usage[-1].startswith("Error: Invalid value for '--rounds': ")
