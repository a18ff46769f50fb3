"""`discreet serve`, `keys`, `backup` and `restore` as a user meets them."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import discreet.service
from discreet.cli import service as serving
from discreet.lab.studies import Study, load_study
from discreet.learners.gp_ucb.calibration import KernelCalibration, PosteriorBonus
from discreet.learners.kernel.learner import LocalKernel
from discreet.privacy import Budget, Joint, Local, SecureNoise
from discreet.service.server.app import listen
from discreet.validation import InvalidInput
from tests.cli.cases import STUDY, invoke, write_study

SERVED = STUDY.replace("[1.0, 2.0]", "1.0")


class Running:
    """`discreet serve` in a process of its own."""

    def __init__(
        self,
        folder: Path,
        *arguments: object,
        program: str = "from discreet.cli import main; main()",
    ) -> None:
        self.port = free_port()
        self.errors = folder / "errors"
        words = [sys.executable, "-c", program, "serve"]
        words += [str(each) for each in arguments]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*words, "--port", str(self.port)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def get(self, path: str, token: str = "", seconds: float = 60.0) -> object:
        """The answer, once there is one."""
        end = time.monotonic() + seconds
        address = f"http://127.0.0.1:{self.port}{path}"
        while True:
            try:
                request = urllib.request.Request(
                    address, headers={"Authorization": f"Bearer {token}"} if token else {}
                )
                with urllib.request.urlopen(request, timeout=5) as answer:
                    return json.loads(answer.read())
            except OSError:
                assert self.process.poll() is None, self.errors.read_text()
                assert time.monotonic() < end, "no answer"
                time.sleep(0.1)

    def stop(self) -> tuple[int, str, str]:
        """Exit code and what was printed, after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, out, self.errors.read_text()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'served.db'}"


@pytest.fixture
def running(tmp_path: Path, database: str) -> Iterator[Running]:
    made = Running(tmp_path, write_study(tmp_path, SERVED), "--database", database)
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.communicate()


# SIGTERM arrives in a destructor, where Python ignores exceptions, when a function is called.
ARRIVES = """
import {module} as module
import os, signal

class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

def arriving(*arguments, **options):
    Dying()
    return inner(*arguments, **options)

inner = module.{name}
module.{name} = arriving
from discreet.cli import main
main()
"""


def test_a_day_of_a_server(running: Running, database: str, tmp_path: Path) -> None:
    """Start, keys, a second server, backup, stop, and a start without files that is stopped."""
    assert running.get("/health") == {"status": "ok"}
    code, token, shown = invoke("keys", "make", "--role", "operator", "--database", database)
    assert code == 0
    assert "Shown this once" in shown
    (study,) = running.get("/v1/studies", token.strip())  # type: ignore[misc]
    assert study["name"] == "small"
    code, _, said = invoke("serve", "--port", free_port(), "--database", database)
    assert (code, "served by another process already" in " ".join(said.split())) == (2, True)
    code, _, said = invoke("serve", "--port", running.port, "--database", database)
    assert code == 2
    assert f"port {running.port} is taken" in said
    backup = tmp_path / "backup.db"
    assert invoke("backup", backup, "--database", database)[0] == 0
    code, out, errors = running.stop()
    assert code == 0
    assert "partition at epsilon = 1, local privacy" in out
    # Standard output is no terminal here, so no key is on it, nor in the log.
    assert "dk_" not in out + errors
    assert "There is no operator's key yet" in errors
    assert token.strip() not in errors
    code, out, said = invoke("restore", "--database", f"sqlite:///{backup}")
    assert code == 0
    assert "This is another server" in out
    assert "1 keys open this server" in said
    # SIGTERM arrives just before it listens.
    program = ARRIVES.format(module="gc", name="freeze")
    again = Running(tmp_path, "--database", database, program=program)
    try:
        out, _ = again.process.communicate(timeout=60)
        assert (again.process.returncode, "small: partition" in out) == (0, True)
        assert "Stopped." in again.errors.read_text()
    finally:
        again.process.kill()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("discreet.cli", "_Deferred.imported"),
        pytest.param("discreet.service.server.service", "upgrade", marks=pytest.mark.slow),
    ],
    ids=["before the command", "before the database is ready"],
)
def test_sigterm_stops_a_server_that_starts(
    module: str, name: str, database: str, tmp_path: Path
) -> None:
    program = ARRIVES.format(module=module, name=name)
    starting = Running(tmp_path, "--database", database, program=program)
    try:
        starting.process.communicate(timeout=60)
    finally:
        starting.process.kill()
    assert starting.process.returncode == 143, starting.errors.read_text()
    assert "Stopped." not in starting.errors.read_text()


@pytest.mark.slow
def test_a_changed_study_is_refused(running: Running, database: str, tmp_path: Path) -> None:
    running.get("/health")
    running.stop()
    changed = write_study(tmp_path, SERVED.replace("epsilon = 1.0", "epsilon = 9.0"))
    code, _, said = invoke("serve", changed, "--port", free_port(), "--database", database)
    assert code == 2
    assert "another study is served as 'small' already" in " ".join(said.split())


def test_a_joint_study_needs_the_databases_key(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opendp")
    monkeypatch.delenv("DISCREET_DATABASE_KEY", raising=False)
    path = tmp_path / "joint.toml"
    path.write_text(
        'name = "quotes"\nrounds = 50\n[problem]\nname = "random_sets"\n[[learners]]\n'
        'name = "gp_ucb"\ntrust_model = "joint"\nepsilon = 1.0\ndelta = 1e-6\n'
    )
    code, _, said = invoke("serve", path, "--port", free_port(), "--database", database)
    assert code == 2
    assert "discreet keys database" in " ".join(said.split())


def test_the_first_key_is_shown_on_a_terminal_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from discreet.service.server.service import Service

    service = Service.open(f"sqlite:///{tmp_path / 'a.db'}", {})
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    serving._show_key(service.keys, "sqlite:///a.db")
    token = capsys.readouterr().out.split()[-1]
    assert service.keys.check(token).role == "operator"
    serving._show_key(service.keys, "sqlite:///a.db")
    assert capsys.readouterr().out == ""
    service.stop()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-aggregator", "--only-aggregator"], "both given; leave one out"),
        (["--demo", "--no-aggregator"], "a study of its own"),
        (["--only-aggregator"], "share a PostgreSQL database"),
        (["--no-aggregator", "--port", "0"], "share a PostgreSQL database"),
        (["--database", "mysql://x"], "give sqlite:///FILE"),
        (["--host", "192.0.2.1"], "nothing can listen on host '192.0.2.1'"),
        (["--proxy", "127.0.0.1,proxy"], "--proxy had 'proxy'; give addresses"),
        (["--proxy", "0.0.0.0/0"], "--proxy had '0.0.0.0/0'"),
        (["--allow-origin", "*"], "--allow-origin had '*'; give the origin"),
        (["--allow-origin", "https://a.example/"], "without a path"),
        (["--allow-origin", "http://a.example"], "such as https://shop.example.org"),
        (["--allow-origin", "https://A.example"], "in small letters"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, said = invoke("serve", *arguments)
    assert code == 2
    assert message in " ".join(said.split())


def test_the_demo_speaks_before_it_imports_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "discreet.service.server.demo", None)
    _, shown, _ = invoke("serve", "--demo")
    assert shown.startswith("Starting a server on this machine")


def test_where_others_can_reach_it_there_is_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with listen("0.0.0.0", 0) as listening:
        serving._warn(listening, [], None)
        said = " ".join(capsys.readouterr().err.split())
        serving._warn(listening, [], "127.0.0.1")
        assert "--proxy" not in capsys.readouterr().err
    assert "a proxy with TLS" in said
    assert "name it with --proxy" in said
    assert "--allow-host" in said
    with listen("127.0.0.1", 0) as listening:
        serving._warn(listening, [], None)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [["keys", "list"], ["keys", "revoke", "x"], ["backup", "b.db"]])
def test_commands_make_no_database_by_mistake(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, said = invoke(*words)
    assert code == 2
    assert "there is no database discreet.db" in " ".join(said.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [["serve", "no.toml", "--port", "0"], ["restore", "--database", "sqlite:///people.csv"]],
)
def test_what_is_refused_leaves_no_database(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert invoke(*words)[0] == 2
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_of_another_kind_is_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = write_study(tmp_path, SERVED)
    before = (tmp_path / "people.csv").read_bytes(), sorted(tmp_path.iterdir())
    code, _, said = invoke("serve", study, "--port", 0, "--database", "sqlite:///people.csv")
    assert code == 2
    assert "people.csv, which is a file of another kind" in " ".join(said.split())
    assert ((tmp_path / "people.csv").read_bytes(), sorted(tmp_path.iterdir())) == before


@pytest.mark.parametrize("kind", ["mysql", "postgresql+nothing", "postgresql+psycopg2x"])
def test_a_password_is_not_shown(kind: str) -> None:
    code, _, said = invoke("keys", "list", "--database", f"{kind}://ann:geheim@host/name")
    assert code == 2
    assert f"an address of '{kind}'" in " ".join(said.split())
    assert "geheim" not in said


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is imported anew below is not what other tests go on with.
    server = importlib.import_module("discreet.service.server")
    monkeypatch.setattr(discreet.service, "server", server)
    for name in [each for each in sys.modules if each.startswith("discreet.service.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    code, _, said = invoke("keys", "list")
    assert code == 2
    assert 'pip install "discreet[service]"' in " ".join(said.split())


def test_a_key_for_a_database_is_one() -> None:
    from discreet.service.server.encryption import Cipher

    code, key, _ = invoke("keys", "database")
    assert code == 0
    assert Cipher.from_environment({"DISCREET_DATABASE_KEY": key.strip()}) is not None
    assert invoke("keys", "database")[1] != key


def test_the_help_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    code, out, _ = invoke("serve", "--help")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "\N{HORIZONTAL ELLIPSIS}" not in out, "nothing is cut"


# The learner and the deployment of a study.

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
    kernel = STUDY.replace("partition", "kernel")
    text = (
        kernel + '[serve]\nepsilon = 2.0\npeople = 900\ndefault_arm = "b"\nsources.clinic = 3.0\n'
    )
    study = study_of(tmp_path, text)
    deployment, learner = serving.deployment_of(study)
    assert isinstance(learner, LocalKernel)
    assert (learner.budget, learner.horizon) == (Local(2.0), 900)
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
        serving.deployment_of(study_of(tmp_path, text))
    with pytest.raises(InvalidInput, match="line 2: name was"):
        study_of(tmp_path, text + "[serve]\n")


def test_two_servers_of_a_study_have_two_identities(tmp_path: Path) -> None:
    study = study_of(tmp_path, STUDY.replace("[1.0, 2.0]", "1.0").replace("partition", "kernel"))
    (first, one), (second, two) = serving.deployment_of(study), serving.deployment_of(study)
    assert first == second
    assert isinstance(one, LocalKernel)
    assert one.identity != two.identity


def test_noise_is_secure_where_the_service_draws_it(tmp_path: Path) -> None:
    pytest.importorskip("opendp")
    deployment, learner = serving.deployment_of(study_of(tmp_path, JOINT))
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
        serving.deployment_of(study_of(tmp_path, text))


def test_several_lines_are_refused_with_the_choices(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="partition at epsilon = 1; partition at epsilon = 2"):
        serving.deployment_of(study_of(tmp_path, STUDY))
