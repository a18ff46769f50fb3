"""What of a study file is served: one private line, by a learner that holds its promise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from discreet.lab.studies import Study, load_study
from discreet.learners.gp_ucb.calibration import KernelCalibration, PosteriorBonus
from discreet.learners.local_kernel.learner import LocalKernel
from discreet.privacy import Budget, Joint, Local, SecureNoise
from discreet.service.server.served import deployment_of
from discreet.validation import InvalidInput
from tests.cli.cases import STUDY, write_study

JOINT = """
name = "quotes"
rounds = 500
[problem]
name = "random_sets"
[[learners]]
name = "gp_ucb"
trust_model = "joint"
epsilon = 1.0
delta = 1e-6
[serve]
retention_days = 3
"""


def study_of(folder: Path, text: str) -> Study:
    return load_study(write_study(folder, text))


def test_a_local_study(tmp_path: Path) -> None:
    local_kernel = STUDY.replace("partition", "local_kernel")
    text = (
        local_kernel
        + '[serve]\nepsilon = 2.0\npeople = 900\ndefault_arm = "b"\nsources.clinic = 3.0\n'
    )
    study = study_of(tmp_path, text)
    deployment, learner = deployment_of(study, "abc")
    assert isinstance(learner, LocalKernel)
    assert (learner.budget, learner.horizon, learner.identity) == (Local(2.0), 900, "abc")
    assert learner.arm_names == ("a", "b")
    assert learner.sources == ("clinic",)
    assert learner.streams["clinic"].budget == Local(3.0)
    assert (deployment.name, deployment.default_arm) == ("small", "b")
    assert deployment.sources == (("clinic", 3.0),)
    assert deployment.text == study.text


@pytest.mark.parametrize("name", ["x" * 101, "calls/sources/clinic", "..", "a\\tb", "a\\\\b"])
def test_a_name_that_cannot_stand_in_an_address_is_refused(tmp_path: Path, name: str) -> None:
    text = STUDY.replace('"small"', f'"{name}"').replace("[1.0, 2.0]", "1.0")
    with pytest.raises(InvalidInput, match=r"name was .* none of them a slash"):
        deployment_of(study_of(tmp_path, text))
    with pytest.raises(InvalidInput, match="line 2: name was"):
        study_of(tmp_path, text + "[serve]\n")


def test_two_servers_of_a_study_have_two_identities(tmp_path: Path) -> None:
    study = study_of(
        tmp_path, STUDY.replace("[1.0, 2.0]", "1.0").replace("partition", "local_kernel")
    )
    (first, one), (second, two) = deployment_of(study), deployment_of(study)
    assert first == second
    assert isinstance(one, LocalKernel)
    assert one.identity != two.identity


def test_noise_is_secure_where_the_service_draws_it(tmp_path: Path) -> None:
    pytest.importorskip("opendp")
    deployment, learner = deployment_of(study_of(tmp_path, JOINT))
    assert learner.budget == Joint(1.0, 1e-6)
    assert isinstance(learner.noise, SecureNoise)
    assert learner.horizon == 500
    assert deployment.retention_days == 3.0


def test_a_calibration_that_does_not_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KernelCalibration, "kinds", dict(KernelCalibration.kinds))

    @dataclass(frozen=True)
    class HalfTheNoise(PosteriorBonus):
        name: ClassVar[str] = "half_the_noise"

        def noise_multiplier(self, budget: Budget, features: int) -> float:
            return super().noise_multiplier(budget, features) / 2.0

    text = JOINT.replace("[serve]", '[learners.options]\ncalibration = "half_the_noise"\n[serve]')
    with pytest.raises(InvalidInput, match=r"holds epsilon = .* was asked for"):
        deployment_of(study_of(tmp_path, text))


def test_several_lines_are_refused_with_the_choices(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="partition at epsilon = 1; partition at epsilon = 2"):
        deployment_of(study_of(tmp_path, STUDY))
