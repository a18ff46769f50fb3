"""Whether two checkouts learn the same: results of every learner and trust model, side by side.

    python benchmarks/golden.py --write golden.json                 of this checkout
    python benchmarks/golden.py --source ../old/src --write old.json
    python benchmarks/golden.py old.json golden.json                what differs

A change that is to leave the numbers alone leaves every line equal to the last bit; where one must
differ, both results are printed. Only the command line is used, so that the inside may change
freely. Half a processor minute.

OpenBLAS, NumPy and the C library choose their routines by the processor, and a last bit that
differs can change whom a learner asks next. Runs here therefore take the routines of the oldest
processors (x86-64-v2, SSE4.2; `REFERENCE`), so that files of two x86 machines compare.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
# Environment variables that select routines without AVX and fused multiplication.
REFERENCE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": " ".join(
        np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])  # type: ignore[index]
    ),
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F",
}
KERNEL = {"kernel": "'RBF(length_scale=0.3)'"}
# problem, people, options of the problem, and lines of (learner, trust model, epsilons, options).
STUDIES = {
    "strips": (
        "name = 'exponential'",
        4000,
        [
            ("local_kernel", "local", (1.0, 4.0), {}),
            ("partition", "local", (1.0, 4.0), {}),
            ("published_partition", "local", (4.0,), {}),
            ("private_linear", "local", (2.0,), {}),
            ("abse", "none", (), {}),
            ("uniform", "none", (), {}),
            ("best_fixed", "none", (), {}),
            ("oracle", "none", (), {}),
        ],
    ),
    "neural": ("name = 'exponential'", 1500, [("private_neural", "local", (2.0,), {})]),
    "jumpstart": (
        "name = 'symmetric'",
        3000,
        [("partition", "local", (1.0,), {}), ("local_kernel", "local", (1.0,), {})],
    ),
    "grid": (
        "name = 'kernel_grid'",
        4000,
        [
            ("released_thompson", "joint", (1.0,), KERNEL),
            ("released_thompson", "local", (2.0,), KERNEL),
            ("capri", "joint", (1.0,), KERNEL),
            ("capri", "local", (4.0,), KERNEL),
            ("usca", "joint", (4.0,), KERNEL),
        ],
    ),
    "points": (
        "name = 'camelback'",
        2000,
        [
            ("gp_ucb", "joint", (1.0, 10.0), {"kernel": "'RBF(length_scale=[1.4, 0.7])'"}),
            ("gp_ucb", "local", (8.0,), {"kernel": "'RBF(length_scale=[1.4, 0.7])'"}),
        ],
    ),
    "sets": (
        "name = 'dose'",
        1500,
        [
            (
                "gp_ucb",
                model,
                (4.0,),
                {"kernel": "'RBF(length_scale=[280, 60, 60, 60])'", "error": 0.05},
            )
            for model in ("joint", "local")
        ],
    ),
    "table": (
        "name = 'earnings'",
        6000,
        [("local_kernel", "local", (2.0,), {}), ("partition", "local", (2.0,), {})],
    ),
}
REFERENCES = ("uniform", "best_fixed", "oracle")


def study_file(name: str) -> str:
    """The study of that name as TOML."""
    problem, people, lines = STUDIES[name]
    text = [f'name = "{name}"', f'title = "{name}"', f"rounds = {people}", "replicates = 2"]
    text += ["seed = 77", "[problem]", problem]
    for learner, model, epsilons, options in lines:
        text += ["[[learners]]", f'name = "{learner}"']
        if learner in REFERENCES:
            continue
        text.append(f'label = "{learner}, {model}"')
        if epsilons:
            text += [f'trust_model = "{model}"', f"epsilon = {list(epsilons)}"]
            text += ["delta = 1e-6"] if model == "joint" or name == "sets" else []
        text += ["non_private = true"] if model != "local" or learner == "partition" else []
        if options:
            text.append("[learners.options]")
            text += [f"{key} = {value}" for key, value in options.items()]
    return "\n".join(text) + "\n"


def results(source: Path) -> dict[str, float]:
    """What every line of every study earned or lost in each replicate."""
    found: dict[str, float] = {}
    environment = {**os.environ, "PYTHONPATH": str(source), **REFERENCE}
    with tempfile.TemporaryDirectory() as folder:
        for name in STUDIES:
            study, out = Path(folder) / f"{name}.toml", Path(folder) / f"{name}.jsonl"
            study.write_text(study_file(name))
            words = ["run", str(study), "--jobs", "1", "--json", str(out)]
            program = f"from discreet.cli import main; import sys; sys.argv[1:] = {words}; main()"
            done = subprocess.run(
                [sys.executable, "-c", program],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
            )
            if not out.exists():
                print(f"{name}: {done.stdout[-600:]} {done.stderr[-600:]}", file=sys.stderr)
                continue
            for line in out.read_text().splitlines():
                row = json.loads(line)
                keys = (row[key] for key in ("learner", "trust_model", "epsilon", "replicate"))
                found[" ".join(map(str, (name, *keys)))] = row["value"]
    return found


def main() -> None:
    """Write results, or compare two files of them; exit code 1 if they differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="two files to compare")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="folder of the package")
    parser.add_argument("--write", type=Path, help="where to write the results")
    asked = parser.parse_args()
    if asked.write:
        asked.write.write_text(json.dumps(results(asked.source.resolve()), indent=1))
        return
    before, after = (json.loads(path.read_text()) for path in asked.files)
    differ = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
    for key in differ:
        print(f"{key}: {before.get(key)} became {after.get(key)}")
    print(f"{len(differ)} of {len({*before, *after})} lines differ")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
