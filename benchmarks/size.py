"""How large the house is, and how much of it each use loads: python benchmarks/size.py

    python benchmarks/size.py            every figure, beside its budget
    python benchmarks/size.py --check    exit code 1 where a figure is above its budget

Lines are those of Python files, counted as `wc -l` does. A use counts the files of `discreet` that
a new Python has loaded when it ends. `BUDGETS` goes up only with a capability, in the commit that
states its price.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "discreet"
APARTMENTS = ("lab", "audit", "service", "papers", "cli")
DIALECT = re.compile(
    r"\b(said|told|heard|whoever|so many|nobody|somebody|worked out|what is left)\b", re.IGNORECASE
)
START = """
import json
import numpy as np
from discreet import {kind}, Box, Local, SimulatedNoise
learner = {kind}(Box((0.0,), (1.0,)), ["a", "b"], Local(2.0), horizon=100{options})
policy = learner.policy()
"""
ROUND = """
contexts = np.linspace(0.1, 0.9, 5)[:, None]
actions, _ = policy.act(contexts, np.random.default_rng(0))
learner.update(policy.report(contexts, actions, np.full(5, 0.5), SimulatedNoise(0)))
learner.policy()
"""
DEVICE = """
import numpy as np
from discreet import Box, Policy, SimulatedNoise, Terms, decode, encode
policy = decode({policy!r}, Policy)
contexts = np.array([[0.5]])
actions, _ = policy.act(contexts, np.random.default_rng(0))
terms = Terms(Box((0.0,), (1.0,)), ["a", "b"], 2.0)
encode(policy.report(contexts, actions, [0.5], SimulatedNoise(0), terms))
"""
STUDY = """
import contextlib, io, sys
from discreet.cli import main
sys.argv = ["discreet", "run", {study!r}, "--rounds", "500", "--replicates", "1", "--jobs", "1"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
"""
# files, lines
BUDGETS: dict[str, tuple[int, int]] = {
    "src": (255, 77_850),
    "service": (46, 12_123),
    "library": (107, 33_259),
    "lab": (44, 14_978),
    "LocalKernel, a round": (31, 11_348),
    "Capri, a round": (40, 12_684),
    "a policy on a device": (17, 5_752),
    "a study run": (64, 19_563),
}
MOST_IN_MRO, MOST_DIALECT = 5, 20


def lines_of(paths: list[Path]) -> tuple[int, int]:
    """How many files, and how many lines they have together."""
    return len(paths), sum(path.read_bytes().count(b"\n") for path in paths)


def loaded(code: str) -> tuple[int, int]:
    """Files and lines of discreet that a new Python has loaded after this code."""
    tail = """
import json, sys
files = {getattr(each, "__file__", None) for name, each in sys.modules.items()
         if name.partition(".")[0] == "discreet"}
print(json.dumps(sorted(each for each in files if each)))
"""
    start = f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", start + code + tail], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"a use failed:\n{code}\n{done.stderr[-2000:]}")
    return lines_of([Path(each) for each in json.loads(done.stdout.splitlines()[-1])])


def device_code() -> str:
    """What a device runs with a policy that was sent to it."""
    code = f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r})\n"
    code += START.format(kind="LocalKernel", options="")
    code += "from discreet import encode\nprint(encode(policy))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return DEVICE.format(policy=done.stdout.strip())


def classes() -> dict[type, str]:
    """Every class that a module of discreet defines, with the module."""
    sys.path.insert(0, str(SOURCE.parent))
    package = import_module("discreet")
    found = {}
    for module in pkgutil.walk_packages(package.__path__, "discreet."):
        if ".migrations" in module.name:
            continue
        for each in vars(import_module(module.name)).values():
            if inspect.isclass(each) and each.__module__ == module.name:
                found[each] = module.name
    return found


def inheritance() -> tuple[int, list[str]]:
    """The largest number of our classes in an MRO, and the classes whose bases meet again."""
    longest, diamonds = 0, []
    for kind in classes():
        own = [each for each in kind.__mro__ if each.__module__.startswith("discreet.")]
        longest = max(longest, len(own))
        ancestors = [
            {each for each in base.__mro__ if each.__module__.startswith("discreet.")}
            for base in kind.__bases__
        ]
        if sum(map(len, ancestors)) > len(set().union(*ancestors)):
            diamonds.append(kind.__name__)
    return longest, sorted(diamonds)


def twice() -> list[str]:
    """Public class names that stand in several modules."""
    places: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(str(path))
    return sorted(name for name, paths in places.items() if len(paths) > 1)


def dialect() -> int:
    """How often words of our own stand where the field has a term."""
    texts = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.j2"), *(ROOT / "docs").rglob("*.md")]
    return sum(len(DIALECT.findall(path.read_text())) for path in [*texts, ROOT / "README.md"])


def sizes() -> dict[str, tuple[int, int]]:
    """Files and lines of every part and use."""
    everything = sorted(SOURCE.rglob("*.py"))
    apart = {
        each: [path for path in everything if path.relative_to(SOURCE).parts[0] == each]
        for each in APARTMENTS
    }
    rest = [path for path in everything if path.relative_to(SOURCE).parts[0] not in APARTMENTS]
    study = str(ROOT / "examples" / "earnings.toml")
    return {
        "src": lines_of(everything),
        "library": lines_of(rest),
        **{each: lines_of(paths) for each, paths in apart.items()},
        "tests": lines_of(sorted((ROOT / "tests").rglob("*.py"))),
        "LocalKernel, a round": loaded(START.format(kind="LocalKernel", options="") + ROUND),
        "Capri, a round": loaded(
            START.format(kind="Capri", options=', kernel="RBF(length_scale=0.3)"') + ROUND
        ),
        "a policy on a device": loaded(device_code()),
        "a study run": loaded(STUDY.format(study=study)),
    }


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the budgets alone")
    check = parser.parse_args().check
    above = []
    for name, (files, lines) in sizes().items():
        budget = BUDGETS.get(name)
        beside = f"   budget {budget[0]:4d} {budget[1]:7,d}" if budget else ""
        print(f"{name:24s} {files:4d} files {lines:7,d} lines{beside}")
        if budget and (files > budget[0] or lines > budget[1]):
            above.append(name)
    longest, diamonds = inheritance()
    print(f"longest MRO: {longest} of our classes; diamonds: {', '.join(diamonds) or 'none'}")
    names = twice()
    print(f"public class names with several meanings: {len(names)} ({', '.join(names)})")
    words = dialect()
    print(f"words of our own in src, docs and README: {words}")
    if longest > MOST_IN_MRO or diamonds or names or words > MOST_DIALECT:
        above.append("classes, names or words")
    if check and above:
        raise SystemExit(
            f"above budget: {', '.join(above)}; bring the code down, not the budget up"
        )


if __name__ == "__main__":
    main()
