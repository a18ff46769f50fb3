"""How long a start takes, beyond Python and NumPy: python benchmarks/import_time.py

Each command runs a few times in turn with `import numpy`; what counts is the shortest of each, and
the difference of the two. Modules are compiled before, as pip compiles them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

RUNS = 7
CLI = "import sys; from discreet.cli import main; sys.argv[0] = 'discreet'; main()"
NUMPY = ("-c", "import numpy")
COMMANDS: dict[str, tuple[str, ...]] = {
    "import discreet": ("-c", "import discreet"),
    "SecureNoise, Terms, decode": ("-c", "from discreet import SecureNoise, Terms, decode"),
    "service.client.Device": ("-c", "from discreet.service.client import Device"),
    "every public name": ("-c", "from discreet import *"),
    "discreet --version": ("-c", CLI, "--version"),
    "discreet --help": ("-c", CLI, "--help"),
    "discreet run --help": ("-c", CLI, "run", "--help"),
    "discreet curate --help": ("-c", CLI, "curate", "--help"),
    "discreet data list": ("-c", CLI, "data", "list"),
}


def seconds(arguments: tuple[str, ...], compiled: str) -> float:
    """Of one run, with compiled modules in this folder."""
    start = time.perf_counter()
    where = {"PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
    command, given = [sys.executable, *arguments], os.environ | where
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=given)
    return time.perf_counter() - start


def main() -> None:
    """A line for each command."""
    print(f"{'':28}{'seconds':>9}{'beyond NumPy':>14}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in COMMANDS.items():
            pairs = [(seconds(NUMPY, folder), seconds(arguments, folder)) for _ in range(RUNS)]
            numpy, own = (min(times) for times in zip(*pairs, strict=True))
            print(f"{name:28}{own:9.2f}{own - numpy:14.2f}{own / numpy:8.1f}", flush=True)


if __name__ == "__main__":
    main()
