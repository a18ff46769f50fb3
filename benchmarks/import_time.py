"""How long a start takes, beyond Python and NumPy: python benchmarks/import_time.py

Each command runs a few times in turn with `import numpy`; what counts is the shortest of each, and
the difference of the two.
"""

from __future__ import annotations

import subprocess
import sys
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


def seconds(arguments: tuple[str, ...]) -> float:
    """Of one run."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """A line for each command."""
    print(f"{'':28}{'seconds':>9}{'beyond NumPy':>14}{'ratio':>8}")
    for name, arguments in COMMANDS.items():
        pairs = [(seconds(NUMPY), seconds(arguments)) for _ in range(RUNS)]
        numpy, own = (min(times) for times in zip(*pairs, strict=True))
        print(f"{name:28}{own:9.2f}{own - numpy:14.2f}{own / numpy:8.1f}", flush=True)


if __name__ == "__main__":
    main()
