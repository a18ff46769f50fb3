"""Whether two checkouts learn the same: results of every learner and trust model, side by side.

    python benchmarks/golden.py --write golden.json                 of this checkout
    python benchmarks/golden.py --source ../old/src --write old.json
    python benchmarks/golden.py old.json golden.json                what differs

A change that is to leave the numbers alone leaves every line equal to the last bit; where one must
differ, both results are printed. Studies run from the command line: trust models, sources, visits,
decision sets, logs and discounting. `ROUNDS` drives each learner through the interface: parts of
reports merged, saved and loaded halfway, values and guarantees. Two processor minutes.

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
            ("kernel", "local", (1.0, 4.0), {}),
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
        [("partition", "local", (1.0,), {}), ("kernel", "local", (1.0,), {})],
    ),
    "grid": (
        "name = 'kernel_grid'",
        4000,
        [
            ("kernel", "joint", (1.0,), KERNEL),
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
    "discounted": (
        "name = 'exponential'",
        3000,
        [(name, "local", (2.0,), {"half_life": 1000}) for name in ("kernel", "partition")],
    ),
    "discounted points": (
        "name = 'camelback'",
        1000,
        [
            (
                "gp_ucb",
                "joint",
                (8.0,),
                {"kernel": "'RBF(length_scale=[1.4, 0.7])'", "half_life": 500},
            )
        ],
    ),
    "visits": (
        """name = "table"
path = "people.csv"
columns = [{ name = "age", lower = 0, upper = 1 }]
label = { column = "arm", classes = [0, 1] }
[people]
id = "person\"""",
        1500,
        [
            ("kernel", "local", (4.0,), {}),
            ("kernel", "joint", (4.0,), {}),
        ],
    ),
    "log": (
        """name = "log"
path = "people.csv"
columns = [{ name = "age", lower = 0, upper = 1 }]
action = { column = "arm", names = [0, 1] }
reward = { column = "reward", lower = 0, upper = 1 }
propensity = { value = 0.5 }
replay = "rejection\"""",
        1200,
        [("kernel", "local", (4.0,), {})],
    ),
    "linear sets": ("name = 'random_sets'", 1500, [("private_glm", "local", (4.0,), {})]),
    "table": (
        "name = 'earnings'",
        6000,
        [("kernel", "local", (2.0,), {}), ("partition", "local", (2.0,), {})],
    ),
}
REFERENCES = ("uniform", "best_fixed", "oracle")
# Learners through the interface: late reports, parts merged, saved and loaded halfway.
ROUNDS = """
import json, tempfile, traceback
from pathlib import Path
import numpy as np
from discreet import (Box, DecisionSets, Joint, Local, NonPrivate, PublicBox, PublicSet,
                      SimulatedNoise, Unprotected, load, make_learner, save)

BOX = Box((0.0, -1.0), (2.0, 1.0))
POINTS = PublicSet(np.stack(np.meshgrid(np.linspace(0, 2, 9), np.linspace(-1, 1, 9)), -1)
                   .reshape(-1, 2))
KERNEL = {"kernel": "RBF(length_scale=[0.6, 0.6])"}
CASES = [
    ("kernel", 3, Local(2.0), {}), ("kernel", 3, NonPrivate(), {}),
    ("partition", 3, Local(2.0), {}), ("partition", 3, NonPrivate(), {}),
    ("published_partition", 3, Local(4.0), {}), ("private_linear", 3, Local(2.0), {}),
    ("private_neural", 3, Local(2.0), {}), ("abse", 3, NonPrivate(), {}),
    ("kernel", 3, Joint(2.0, 1e-6), {"first": 100}),
    ("capri", 3, Joint(2.0, 1e-6), KERNEL),
    ("capri", 3, Local(4.0), KERNEL), ("usca", 3, Joint(4.0, 1e-6), KERNEL),
    ("gp_ucb", POINTS, Joint(2.0, 1e-6), KERNEL), ("gp_ucb", PublicBox(), Local(2.0), KERNEL),
    ("gp_ucb", POINTS, NonPrivate(), KERNEL),
    ("gp_ucb", DecisionSets(4), Joint(2.0, 1e-6), KERNEL),
    ("gp_ucb", DecisionSets(4), Local(8.0, 1e-6), KERNEL),
    ("private_glm", DecisionSets(4), Local(4.0), {}),
    ("exact_gp_ucb", POINTS, NonPrivate(), KERNEL),
    ("uniform", 3, NonPrivate(), {}),
    ("best_arm", 3, Local(2.0), {}), ("best_arm", 3, NonPrivate(), {}),
]


def rounds(name, space, budget, options):
    rng, noise = np.random.default_rng(5), SimulatedNoise(7)
    own = SimulatedNoise(8) if budget.trust_model == "joint" else None
    learner = make_learner(name, BOX, space, budget, horizon=900, noise=own,
                           identity="golden", options=options)
    # partition rounds rewards to signs on a person's side, under no budget too.
    plain = budget.trust_model in ("none", "joint") and name != "partition"
    device = Unprotected() if plain else noise
    total, late = 0.0, None
    for number in range(6):
        policy = learner.policy()
        sets = isinstance(space, DecisionSets)
        shape = (150, 4, 2) if sets else (150, 2)
        contexts = np.array(BOX.lower) + 2.0 * rng.random(shape)
        given = contexts if sets or isinstance(space, int) else 150
        actions, propensities = policy.act(given, np.random.default_rng(number))
        at = contexts if isinstance(space, int) else actions.points
        mean = 0.5 + 0.4 * np.sin(2 * at[:, 0] + np.asarray(actions) % 3) * at[:, 1]
        rewards = (rng.random(150) < mean).astype(float)
        total += float(mean.sum() + propensities.sum())
        halves = [slice(0, 90), slice(90, 150)]
        parts = [
            policy.report(given[half] if hasattr(given, "shape") else half.stop - half.start,
                          actions[half], rewards[half], device)
            for half in halves
        ]
        if late is not None:
            learner.update(late)
        learner.merge(learner.statistics(parts[0]))
        late = parts[1]
        if number == 3:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "learner.json"
                save(learner, path)
                learner = load(path, noise=own) if own else load(path)
    out = {"total": total, "people": learner.people}
    guarantee = learner.guarantee()
    out["guarantee"] = [guarantee.epsilon, guarantee.delta, len(learner.releases)]
    try:
        worth = learner.value()
        out["value"] = [worth.mean, worth.lower, worth.upper]
    except Exception as error:
        out["value"] = type(error).__name__
    return out


found = {}
for number, (name, space, budget, options) in enumerate(CASES):
    try:
        out = rounds(name, space, budget, options)
    except Exception as error:
        traceback.print_exc()
        out = {"failed": type(error).__name__}
    where = f"{number} {name} {type(space).__name__} {budget.trust_model}"
    found |= {f"rounds {where} {key}": value for key, value in out.items()}
print(json.dumps(found))
"""


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
            text += ["max_contributions = 2"] if name == "visits" else []
        text += ["non_private = true"] if model != "local" or learner == "partition" else []
        if options:
            text.append("[learners.options]")
            text += [f"{key} = {value}" for key, value in options.items()]
    return "\n".join(text) + "\n"


def results(source: Path, studies: bool = True) -> dict[str, object]:
    """What every line of every study earned or lost in each replicate, and what `ROUNDS` prints."""
    found: dict[str, object] = {}
    environment = {**os.environ, "PYTHONPATH": str(source), **REFERENCE}
    with tempfile.TemporaryDirectory() as folder:
        people(Path(folder) / "people.csv")
        for name in STUDIES if studies else ():
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
        done = subprocess.run(
            [sys.executable, "-c", ROUNDS], env=environment, capture_output=True, text=True
        )
        print(done.stderr[-2000:], end="", file=sys.stderr)
        found |= json.loads(done.stdout or "{}")
    return found


def people(path: Path) -> None:
    """Write a table of 3,000 visits of 1,800 people."""
    rng = np.random.default_rng(3)
    rows = [
        f"{rng.integers(1800)},{x:.6f},{arm},{int(rng.random() < (x if arm else 0.5))}"
        for x, arm in zip(rng.random(3000), rng.integers(2, size=3000), strict=True)
    ]
    path.write_text("\n".join(["person,age,arm,reward", *rows]) + "\n")


def main() -> None:
    """Write results, or compare two files of them; exit code 1 if they differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="two files to compare")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="folder of the package")
    parser.add_argument("--write", type=Path, help="where to write the results")
    parser.add_argument("--quick", action="store_true", help="without studies; half a minute")
    asked = parser.parse_args()
    if asked.write:
        found = results(asked.source.resolve(), studies=not asked.quick)
        asked.write.write_text(json.dumps(found, indent=1))
        return
    before, after = (json.loads(path.read_text()) for path in asked.files)
    if asked.quick:
        before = {key: value for key, value in before.items() if key.startswith("rounds ")}
    differ = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
    for key in differ:
        print(f"{key}: {before.get(key)} became {after.get(key)}")
    print(f"{len(differ)} of {len({*before, *after})} lines differ")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
