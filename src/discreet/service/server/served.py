"""Of a study file what is served to people: how, and by which learner."""

from __future__ import annotations

from discreet.lab.experiments import Setting, simulate
from discreet.lab.studies import Study
from discreet.lab.studies.serving import (
    check_served_name,
    check_serving,
    served_learner,
    served_setting,
)
from discreet.lab.studies.settings import ServeTable
from discreet.privacy import Guarantee
from discreet.service.server.deployment import AnyLearner, Deployment, noise_for
from discreet.service.server.ledger import millionths
from discreet.toml_files import Place
from discreet.validation import InvalidInput

# As many people show what the first releases of a learner hold.
_TRIED = 1_000


def deployment_of(study: Study, identity: str | None = None) -> tuple[Deployment, AnyLearner]:
    """How a study is served, and a new learner for it.

    Noise is `SecureNoise`: where people trust the service, the learner draws it; elsewhere reports
    that carry other noise are refused.

    Args:
        study: with a `[serve]` table, or with one private line.
        identity: of the learner; a random one if left out.

    Raises:
        InvalidInput: where several lines could be served, or none; for a line without privacy or
            whose epsilon protects no one; for a learner whose releases hold less than
            requested.
    """
    check_served_name(study.name)
    table = study.serve or ServeTable()
    check_serving(table, study.settings, study.problem, Place(f"the study {study.name!r}"))
    setting = served_setting(study.settings, table)
    _check_holds(study, setting)
    noise = noise_for(setting.budget.trust_model == "joint")
    learner = served_learner(study, setting, table, noise, identity)
    deployment = Deployment(
        name=study.name,
        title=study.title,
        default_arm=table.default_arm,
        expires_days=table.expires_days,
        retention_days=table.retention_days,
        sources=tuple(table.sources.items()),
        text=study.text,
    )
    return deployment, learner


def _check_holds(study: Study, setting: Setting) -> None:
    """Refuse a calibration that promises more than its noise holds, such as some published ones.

    Every release is held to its promise when it is made (ledger.py). This says so before there
    are people, from a short simulation on the study's own.
    """
    people = min(study.rounds, _TRIED)
    guarantee = simulate(study.problem, setting, people, study.seed, 0).guarantee
    assert guarantee is not None
    if not _holds(guarantee, setting):
        raise InvalidInput(
            f"{setting.label} holds epsilon = {guarantee.epsilon:.4g} and delta = "
            f"{guarantee.delta:.3g} where {setting.budget!r} was asked for; a service promises "
            "what is held. Serve another learner, or leave its calibration out."
        )


def _holds(guarantee: Guarantee, setting: Setting) -> bool:
    asked = setting.budget
    return millionths(guarantee.epsilon) <= millionths(asked.epsilon) and (
        guarantee.delta <= asked.delta
    )
