"""`discreet aggregate`: reports in Parquet files enter a learner, and the next policy comes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.atomic_files import write_bytes
from discreet.cli.console import (
    AddressOption,
    DataOption,
    EngineName,
    EngineOption,
    cores,
    err,
    out,
    reporting_errors,
    shared,
)
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    from discreet.learners.base import Learner


def aggregate(
    study: Annotated[Path, typer.Argument(help="A study file (TOML).")],
    reports: Annotated[
        list[str] | None,
        typer.Argument(help="Parquet files, folders, patterns or URIs; none to begin."),
    ] = None,
    learner: Annotated[
        Path | None, typer.Option(help="File of the learner; STUDY.learner.json if left out.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="File for the policy; STUDY.policy.json if left out.")
    ] = None,
    engine: EngineOption = EngineName.processes,
    workers: Annotated[int | None, typer.Option(min=1, help="All cores if left out.")] = None,
    address: AddressOption = None,
    folder: Annotated[
        Path | None, typer.Option(help="A folder that all workers share, for intermediate files.")
    ] = None,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave out damaged reports, and name them.")
    ] = False,
    data: DataOption = None,
) -> None:
    """Add reports in Parquet files to the learner of a study."""
    from discreet.codec import encode
    from discreet.learners.saving import load, save

    with reporting_errors():
        try:
            from discreet.service.aggregation.aggregate import aggregate as add
        except ModuleNotFoundError as error:
            raise InvalidInput(
                f"the package {error.name} is missing, which reports in Parquet files need; run "
                'pip install "discreet[parquet]".'
            ) from error
        kept = learner or study.with_suffix(".learner.json")
        written = policy or study.with_suffix(".policy.json")
        seen = kept.with_name(kept.name + ".seen")
        if not kept.exists():
            if reports:
                raise InvalidInput(
                    f"there is no learner in {kept} to take these reports; begin with `discreet "
                    f"aggregate {study}`, without files, and give people its policy."
                )
            begun = _begun(study, data)
            begun.policy()
            save(begun, kept)
            write_bytes(written, encode(begun.policy()).encode())
            out.say(f"Learner: {kept} (new)")
            out.say(f"Policy:  {written}, version 0: give it to people")
            return
        if not reports:
            raise InvalidInput(
                f"reports was left out, and {kept} exists; give the Parquet files of people's "
                "reports."
            )
        known = load(kept)
        count = workers or cores()
        with shared(engine, count, address):
            result = add(
                known,
                reports,
                workers=count,
                folder=folder,
                seen=seen,
                skip_damaged=skip_damaged,
                progress=_say,
            )
        for each in result.damaged:
            err.say(f"Left out: {each}")
        current = known.policy()
        save(known, kept)
        write_bytes(written, encode(current).encode())
        out.say(result.sentence)
        out.say(known.guarantee().sentence)
        out.say(f"Learner: {kept}")
        out.say(f"Policy:  {written}, version {current.version}")


def _begun(path: Path, data: Path | None) -> Learner[Any, Any, Any]:
    """A new learner for the study's people."""
    from discreet.lab.studies import load_study
    from discreet.lab.studies.serving import (
        check_serving,
        served_learner,
        served_setting,
    )
    from discreet.lab.studies.settings import ServeTable
    from discreet.toml_files import Place

    study = load_study(path, data_dir=data)
    table = study.serve or ServeTable()
    check_serving(table, study.settings, study.problem, Place(path.name))
    setting = served_setting(study.settings, table)
    if setting.budget.trust_model != "local":
        raise InvalidInput(
            f"{setting.label} has {setting.budget!r}; only locally private reports are aggregated "
            "from files. Serve this study (`discreet serve`)."
        )
    return served_learner(study, setting, table, None)


def _say(what: str, done: int, total: int) -> None:
    if done == total:
        err.say(f"{what}: {total} parts")
