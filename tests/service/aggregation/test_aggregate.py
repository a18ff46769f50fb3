"""Reports in files enter a learner once, the same to the bit whoever shares the work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import Box, Local, LocalKernel, NonPrivate, Partition, SimulatedNoise
from discreet.codec import encode
from discreet.learners.messages import Reports
from discreet.papers.ma2025.learners.gradients.learner import PrivateLinear
from discreet.parallel import Engine
from discreet.privacy import SecureNoise
from discreet.service.aggregation.aggregate import BUCKETS, Aggregated, aggregate, buckets_of
from discreet.service.aggregation.datasets import write_reports
from discreet.validation import InvalidInput

DOMAIN = Box.of({"age": (18, 90), "smoker": ["no", "yes"]})
ARMS = ["leaflet", "call", "visit"]
PEOPLE = 600
KINDS = (LocalKernel, Partition, PrivateLinear)


@pytest.fixture(autouse=True)
def fewer_buckets(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """One in each group, not 16. Other processes have all: `undo()` before they are compared."""
    module = "discreet.service.aggregation.aggregate"
    monkeypatch.setattr(f"{module}.BUCKETS", 16)
    monkeypatch.setattr(f"{module}._EACH", 1)
    monkeypatch.setattr(f"{module}.buckets_of", lambda *given: buckets_of(*given) // 16)
    return monkeypatch


def begun(kind: type[Any] = Partition, versions: int = 1) -> Any:
    """A learner with so many policies; two of them are the same learner."""
    learner = kind(DOMAIN, ARMS, Local(1.0), horizon=5000, identity="a study")
    for version in range(versions - 1):
        learner.update(made(learner, 400, 100 + version))
        learner.policy()
    learner.policy()
    return learner


def made(learner: Any, people: int, seed: int, version: int | None = None) -> Reports:
    rng = np.random.default_rng(seed)
    policy = learner.policy() if version is None else learner.published(version)
    contexts = np.column_stack([rng.uniform(18, 90, people), rng.integers(0, 2, people)])
    actions, _ = policy.act(contexts, rng)
    rewards = (rng.random(people) < 0.5).astype(float)
    return policy.report(contexts, actions, rewards, SimulatedNoise(seed))


def written(folder: Path, batches: Sequence[Reports], name: str = "part") -> list[str]:
    """The folder with a file for each batch."""
    folder.mkdir(exist_ok=True)
    for number, batch in enumerate(batches):
        write_reports(folder / f"{name}-{number}.parquet", [batch])
    return [str(folder)]


def split(reports: Reports, parts: int, seed: int) -> list[Reports]:
    """The same reports in another order and in other batches."""
    order = np.random.default_rng(seed).permutation(len(reports))
    return [reports.of(rows) for rows in np.array_split(order, parts)]


def sums(learner: Any) -> str:
    return encode(learner._sums)


@pytest.mark.parametrize(
    "kind", [Partition, *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[::2])]
)
def test_sums_do_not_depend_on_files_batches_or_repeats(kind: type[Any], tmp_path: Path) -> None:
    one, other, both = begun(kind), begun(kind), begun(kind)
    reports = made(one, PEOPLE, 1)
    whole = aggregate(one, written(tmp_path / "one", [reports]))
    assert (whole.added, whole.repeated, whole.reports) == (PEOPLE, 0, PEOPLE)
    parts = split(reports, 7, 2)
    again = aggregate(other, written(tmp_path / "other", [*parts, parts[3]]))
    assert (again.added, again.repeated) == (PEOPLE, len(parts[3]))
    assert sums(one) == sums(other)
    # By what the library itself adds, up to the order of its sums.
    both.update(reports)
    assert both.people == one.people == PEOPLE
    assert encode(one.policy()) == encode(other.policy())
    for mine, theirs in zip(_arrays(one), _arrays(both), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


def _arrays(learner: Any) -> list[Any]:
    found: list[Any] = []

    def walk(value: Any) -> None:
        if isinstance(value, np.ndarray):
            found.append(value)
        elif isinstance(value, tuple):
            for each in value:
                walk(each)
        elif hasattr(value, "__dataclass_fields__"):
            for name in value.__dataclass_fields__:
                walk(getattr(value, name))

    walk(learner._sums)
    return found


def test_reports_of_several_versions(tmp_path: Path) -> None:
    learner, same = begun(versions=3), begun(versions=3)
    reports = [made(learner, 200, version, version) for version in range(3)]
    paths = written(tmp_path / "a", reports)
    assert aggregate(learner, paths).added == 600
    mixed = [part for each in reports for part in split(each, 3, 9)][::-1]
    assert aggregate(same, written(tmp_path / "b", mixed)).added == 600
    assert sums(learner) == sums(same)


def test_two_processes_do_what_one_does(tmp_path: Path, fewer_buckets: pytest.MonkeyPatch) -> None:
    fewer_buckets.undo()
    one, two = begun(Partition), begun(Partition)
    paths = written(tmp_path / "a", split(made(one, PEOPLE, 1), 3, 1))
    steps: list[tuple[str, int, int]] = []
    aggregate(one, paths, progress=lambda *step: steps.append(step))
    aggregate(two, paths, workers=2)
    assert sums(one) == sums(two)
    assert steps[0] == ("reading", 1, 3)
    assert steps[-1] == ("summing", 16, 16)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dask", "ray", "spark"])
def test_engines_do_what_processes_do(
    engine: Engine, tmp_path: Path, fewer_buckets: pytest.MonkeyPatch
) -> None:
    fewer_buckets.undo()
    for package in {"spark": ["pyspark"]}.get(engine, [engine]):
        pytest.importorskip(package)
    one, other = begun(), begun()
    paths = written(tmp_path / "a", split(made(one, PEOPLE, 1), 5, 1))
    aggregate(one, paths)
    assert aggregate(other, paths, workers=2, engine=engine).added == PEOPLE
    assert sums(one) == sums(other)


def test_nothing_is_added_by_two_calls(tmp_path: Path) -> None:
    learner, seen = begun(), tmp_path / "seen"
    reports = made(learner, PEOPLE, 1)
    first, second = split(reports, 2, 3)
    aggregate(learner, written(tmp_path / "a", [first]), seen=seen)
    overlapping = written(tmp_path / "b", [first.of(np.arange(50)), second])
    result = aggregate(learner, overlapping, seen=seen)
    assert (result.added, result.before) == (len(second), 50)
    assert result.sentence == (
        f"{len(second)} of {len(second) + 50} reports in 2 files were added, 50 had been added "
        "before."
    )
    assert learner.people == PEOPLE
    before = sums(learner)
    assert aggregate(learner, overlapping, seen=seen).added == 0
    assert sums(learner) == before
    assert [each.name for each in seen.iterdir()] == [str(PEOPLE)]


def test_a_learner_that_was_not_saved_adds_them_again(tmp_path: Path) -> None:
    """What is remembered belongs to a state of the learner: a crash before it was saved loses
    nothing."""
    saved, crashed = begun(), begun()
    paths = written(tmp_path / "a", [made(saved, PEOPLE, 1)])
    aggregate(crashed, paths, seen=tmp_path / "seen")
    assert aggregate(saved, paths, seen=tmp_path / "seen").added == PEOPLE
    assert sums(saved) == sums(crashed)
    elsewhere = tmp_path / "elsewhere"
    with pytest.raises(
        InvalidInput, match=r"remembers nothing, or not all, of a learner with 600 reports"
    ):
        aggregate(saved, paths, seen=elsewhere)
    next((tmp_path / "seen" / str(PEOPLE)).glob("keys-*.npy")).unlink()
    with pytest.raises(InvalidInput, match="or not all"):
        aggregate(saved, paths, seen=tmp_path / "seen")
    assert saved.people == PEOPLE


def damaged(tmp_path: Path) -> tuple[Any, list[str]]:
    learner = begun(versions=2)
    good = written(tmp_path / "a", [made(learner, 100, 1)])
    stranger = Partition(DOMAIN, ARMS, Local(1.0), horizon=5000, identity="another")
    written(tmp_path / "a", [made(stranger, 10, 1)], "stranger")
    written(tmp_path / "a", [replace(made(learner, 10, 2), policy_version=7)], "future")
    (tmp_path / "a" / "text.parquet").write_text("no reports")
    broken = tmp_path / "a" / "broken.parquet"
    write_reports(broken, [made(learner, 300, 3)])
    content = bytearray(broken.read_bytes())
    content[20:60] = bytes(40)
    broken.write_bytes(content)
    return learner, good


def test_all_that_is_damaged_is_named_and_nothing_is_added(tmp_path: Path) -> None:
    learner, paths = damaged(tmp_path)
    before = sums(learner)
    with pytest.raises(InvalidInput) as refused:
        aggregate(learner, paths)
    text = str(refused.value)
    for said in (
        "stranger-0.parquet: its reports are for 'another'",
        "future-0.parquet: it names the policy versions [7]",
        "text.parquet",
        "broken.parquet",
    ):
        assert said in text
    assert len(refused.value.args) == 4
    assert sums(learner) == before


def test_what_is_damaged_is_left_out_if_asked(tmp_path: Path) -> None:
    learner, paths = damaged(tmp_path)
    people = learner.people
    result = aggregate(learner, paths, skip_damaged=True)
    assert (result.added, len(result.damaged)) == (100, 4)
    assert learner.people == people + 100
    assert "4 parts were damaged and left out" in result.sentence


def test_reports_that_nobody_can_have_made_are_found_and_named(tmp_path: Path) -> None:
    learner = begun()
    reports = made(learner, 100, 1)
    places = np.array(reports.places)  # type: ignore[attr-defined]
    places[17] = 10**6
    forged = replace(reports, places=places)  # type: ignore[call-arg]
    paths = written(tmp_path / "a", [made(learner, 50, 2), forged])
    before = sums(learner)
    said = r"row group 0 of .*part-1.parquet: reports had .* outside 0 \.\."
    with pytest.raises(InvalidInput, match=said):
        aggregate(learner, paths)
    assert sums(learner) == before
    result = aggregate(learner, paths, skip_damaged=True)
    assert (result.added, len(result.damaged)) == (50, 1)


def test_of_a_file_only_the_damaged_row_groups_are_left_out(tmp_path: Path) -> None:
    learner, same = begun(Partition), begun(Partition)
    good = [made(learner, 100, seed) for seed in (1, 2)]
    unknown = replace(made(learner, 10, 3), policy_version=7)
    path = tmp_path / "mixed.parquet"
    write_reports(path, [good[0], unknown, good[1]])
    result = aggregate(learner, [path], skip_damaged=True)
    assert result.damaged == (
        f"row group 1 of {path}: it names the policy versions [7], and the learner has published "
        "0 to 0; give it the learner that published them.",
    )
    assert (
        result.sentence
        == "200 of 200 reports in 1 files were added; 1 parts were damaged and left out."
    )
    aggregate(same, written(tmp_path / "a", good))
    assert sums(learner) == sums(same)


def changed(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """The file with other columns and the same metadata."""
    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop_columns(["public_coin"]), "it has no column public_coin"),
        (
            lambda table: table.set_column(0, "policy_version", pa.array(["0"] * 20)),
            "column policy_version was string; it must be int32",
        ),
        (
            lambda table: table.set_column(1, "public_coin", pa.array([None] * 20, pa.int64())),
            "column public_coin has 20 missing values",
        ),
        (lambda table: table.rename_columns([*table.column_names[:-1], "x"]), "reports of"),
        (
            lambda table: table.set_column(2, "places", table["places"].combine_chunks()),
            "without the shape",
        ),
        (lambda table: table.set_column(3, "signs", pa.array(["+"] * 20)), "signs"),
    ],
)
def test_columns_that_are_no_reports_are_named(
    change: Callable[[pa.Table], pa.Table], message: str, tmp_path: Path
) -> None:
    learner = begun(Partition)
    path = Path(written(tmp_path / "a", [made(learner, 20, 1)])[0]) / "part-0.parquet"
    changed(path, change)
    with pytest.raises(InvalidInput) as refused:
        aggregate(learner, [path])
    assert f"row group 0 of {path}: " in str(refused.value)
    assert message in str(refused.value)
    assert learner.people == 0


def test_a_file_without_rows_adds_nothing(tmp_path: Path) -> None:
    learner = begun(Partition)
    path = Path(written(tmp_path / "a", [made(learner, 20, 1)])[0]) / "part-0.parquet"
    changed(path, lambda table: table.slice(0, 0))
    assert aggregate(learner, [path]).sentence == "0 of 0 reports in 1 files were added."


def test_of_two_reports_with_one_public_coin_the_same_is_kept_everywhere(tmp_path: Path) -> None:
    one, other = begun(Partition), begun(Partition)
    reports = made(one, 200, 1)
    forged = replace(reports, signs=-np.array(reports.signs))  # type: ignore[attr-defined, call-arg]
    result = aggregate(one, written(tmp_path / "a", [reports, forged]))
    assert (result.added, result.repeated) == (200, 200)
    aggregate(other, written(tmp_path / "b", [forged, reports]))
    assert sums(one) == sums(other)


def test_one_public_coin_under_two_noises_is_added_once(tmp_path: Path) -> None:
    learner = begun(Partition)
    reports = made(learner, 200, 1)
    other = replace(reports.of(np.arange(50)), noise=SecureNoise.name)
    result = aggregate(learner, written(tmp_path / "a", [reports, other]))
    assert (result.added, result.repeated) == (200, 50)


class Deadly(LocalKernel):
    """Kills the worker that reads it first, and the one that sums first."""

    marks: Path
    home: int

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._kill("reading")

    def statistics(self, *reports: Any) -> Any:
        self._kill("summing")
        return super().statistics(*reports)

    def _kill(self, what: str) -> None:
        if os.getpid() != self.home and not (self.marks / what).exists():
            (self.marks / what).touch()
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", "dask", "ray", "spark"])
def test_killed_workers_change_nothing(
    engine: Engine, tmp_path: Path, fewer_buckets: pytest.MonkeyPatch
) -> None:
    fewer_buckets.undo()
    pytest.importorskip({"processes": "joblib", "spark": "pyspark"}.get(engine, engine))
    one, killed = begun(LocalKernel), begun(Deadly)
    killed.marks, killed.home = tmp_path, os.getpid()
    paths = written(tmp_path / "a", split(made(one, PEOPLE, 1), 5, 1))
    aggregate(one, paths)
    result = aggregate(killed, paths, workers=2, engine=engine, seen=tmp_path / "seen")
    assert (tmp_path / "reading").exists()
    assert (tmp_path / "summing").exists()
    assert result == Aggregated(5, PEOPLE, PEOPLE, 0, 0, ())
    assert sums(one) == sums(killed)
    again = aggregate(killed, paths, seen=tmp_path / "seen")
    assert (again.added, again.before) == (0, PEOPLE)


def test_what_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    learner = begun()
    paths = written(tmp_path / "a", [made(learner, 10, 1)])
    with pytest.raises(InvalidInput, match=r"nowhere names no file"):
        aggregate(learner, [*paths, tmp_path / "nowhere"])
    with pytest.raises(InvalidInput, match="no files were given"):
        aggregate(learner, [])
    with pytest.raises(InvalidInput, match="workers"):
        aggregate(learner, paths, workers=0)
    with pytest.raises(InvalidInput, match=r"engine was 'slurm'.*processes, dask, ray, spark"):
        aggregate(learner, paths, engine="slurm")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"processes run on this machine"):
        aggregate(learner, paths, address="tcp://there:8786")
    trusted = Partition(DOMAIN, ARMS, NonPrivate())
    with pytest.raises(InvalidInput, match="is not local privacy"):
        aggregate(trusted, paths)


def test_buckets_are_even_and_follow_from_the_public_coin() -> None:
    public_coins = np.arange(200_000)
    counts = np.bincount(buckets_of(np.zeros_like(public_coins), public_coins), minlength=BUCKETS)
    assert counts.min() > 600
    assert counts.max() < 1000
    alone = [int(buckets_of(np.array([3]), np.array([each]))[0]) for each in (0, 5, 2**52)]
    together = buckets_of(np.full(3, 3), np.array([0, 5, 2**52]))
    assert alone == together.tolist()


def test_the_sentence() -> None:
    assert Aggregated(2, 3000, 3000, 0, 0, ()).sentence == (
        "3,000 of 3,000 reports in 2 files were added."
    )
    assert Aggregated(1, 9, 4, 3, 2, ()).sentence == (
        "4 of 9 reports in 1 files were added, 3 came twice and 2 had been added before."
    )
