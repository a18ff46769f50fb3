"""Breaks of the promise that tests and audit must notice: mutations.toml, one line of source each.

    python benchmarks/mutations.py                     every mutation
    python benchmarks/mutations.py --by audit          what exact replay catches
    python benchmarks/mutations.py laplace gp_ucb      with such a word in name, file or kind
    python benchmarks/mutations.py --json caught.jsonl

The source is copied to a temporary folder, one mutation is made there, and the test files that
concern it run on the copy until one fails. A mutation that no test notices survives: then the tests
lack something, or the mutation changes nothing. Tests that fail on the source as it is are left
out. Exit code 1 if anything survives or is left out. About six processor minutes in all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "benchmarks" / "mutations.toml"
# Programs that import the client in JavaScript by its place.
NODE = Path("tests", "service", "client", "javascript")
# Of one run of tests; the longest takes half a minute on an idle machine.
MOST_SECONDS = 1800


@dataclass(frozen=True)
class Mutation:
    """One break; mutations.toml says what the fields are."""

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: list[str]
    audit: list[str]
    kind: str = "other"

    def apply(self, source: Path) -> None:
        """Make the change in a copy of src/discreet."""
        path = source / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise SystemExit(
                f"{self.name!r}: {self.file} has {text.count(self.old)} times {self.old!r}; "
                "bring mutations.toml up to date with the source."
            )
        path.write_text(text.replace(self.old, self.new))


def mutations(words: list[str]) -> list[Mutation]:
    """Those of the table with one of the words in their name, file or kind; all without words."""
    table = tomllib.loads(TABLE.read_text())["mutation"]
    listed = [Mutation(**fields) for fields in table]
    return [
        mutation
        for mutation in listed
        if not words
        or any(word in f"{mutation.name} {mutation.file} {mutation.kind}" for word in words)
    ]


def python(source: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python with the package in `source`, run in a folder."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
    )


def failing(source: Path, tests: list[str], left_out: list[str], first: bool) -> list[str]:
    """The tests that fail on the package in `source`, or the first of them."""
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *(["-x"] if first else [])]
    words += [str(ROOT / "tests" / name) for name in tests]
    words += [word for name in left_out for word in ("--deselect", name)]
    done = python(source, ROOT, *words)
    marks = ("FAILED ", "ERROR ")
    lines = [line for line in done.stdout.splitlines() if line.startswith(marks)]
    if done.returncode != 0 and not lines:
        raise SystemExit(f"pytest did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return [line.split(" ", 1)[1].split(" - ")[0] for line in lines]


def audit_fails(source: Path, checks: list[str]) -> str | None:
    """The first check whose exact replay fails on the package in `source`; None if all hold."""
    done = python(source, source, "-c", _AUDIT, *checks)
    # Code that breaks before it can be audited has not passed the audit either.
    return done.stdout.strip() or (done.stderr.strip() or None if done.returncode else None)


_AUDIT = """
import sys
from discreet.audit.runner import audit, checks_named
from discreet.records import Finding

for name in sys.argv[1:]:
    for check in checks_named(name):
        for found in audit([check], trials=0):
            if isinstance(found, Finding) and found.failed:
                print(f"{found.name}: {found.verdict}, {found.exact:.4g} of "
                      f"{found.epsilon:.4g} {found.fault}"[:200])
                sys.exit()
"""


def main() -> None:
    """Print one line for each mutation."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only mutations with such a word")
    by = ("tests", "audit")
    parser.add_argument("--by", nargs="+", choices=by, default=by, help="who is to catch them")
    parser.add_argument("--json", type=Path, help="where to write the findings, a line each")
    asked = parser.parse_args()
    chosen = mutations(asked.words)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"

        def fresh() -> Path:
            shutil.rmtree(source, ignore_errors=True)
            # With its bytecode, so that only the file with the break is compiled.
            shutil.copytree(ROOT / "src", source)
            shutil.copytree(ROOT / NODE, Path(folder) / NODE, dirs_exist_ok=True)
            return source / "discreet"

        fresh()
        broken = []
        if "tests" in asked.by:
            files = sorted({name for mutation in chosen for name in mutation.tests})
            broken = failing(source, files, [], first=False)
            for name in broken:
                print(f"LEFT OUT  {name} fails on the source as it is")
        if "audit" in asked.by:
            checks = sorted({name for mutation in chosen for name in mutation.audit})
            if failed := audit_fails(source, checks):
                raise SystemExit(
                    f"{failed}: the audit fails on the source as it is; mend that first."
                )
        findings = []
        for mutation in chosen:
            mutation.apply(fresh())
            started = time.perf_counter()
            caught: dict[str, str | None] = {}
            if "tests" in asked.by:
                caught["tests"] = next(iter(failing(source, mutation.tests, broken, True)), None)
            if "audit" in asked.by:
                caught["audit"] = audit_fails(source, mutation.audit)
            seconds = time.perf_counter() - started
            verdict = "caught" if any(caught.values()) else "SURVIVED"
            print(f"{verdict:8}  {seconds:5.1f} s  {mutation.name}", flush=True)
            for way, how in caught.items():
                print(f"{'':21}{way}: {how or '-'}", flush=True)
            if verdict == "SURVIVED":
                print(f"{'':21}{mutation.why}", flush=True)
            findings.append({**asdict(mutation), "caught": caught})
    for kind in dict.fromkeys(mutation.kind for mutation in chosen):
        alike = [finding for finding in findings if finding["kind"] == kind]
        counts = (
            f"{sum(bool(finding['caught'][way]) for finding in alike):4} by the {way}"
            for way in asked.by
        )
        print(f"{kind:20}{len(alike):4} made, caught{','.join(counts)}")
    for way in asked.by:
        count = sum(bool(finding["caught"][way]) for finding in findings)
        print(f"{count} of {len(findings)} caught by the {way}")
    survivors = sum(not any(finding["caught"].values()) for finding in findings)
    if asked.json:
        asked.json.write_text("".join(json.dumps(finding) + "\n" for finding in findings))
    sys.exit(1 if survivors or broken else 0)


if __name__ == "__main__":
    main()
