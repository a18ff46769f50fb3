"""What is loaded when: public names on first use, commands when called, a device NumPy alone.

Each test runs in a Python of its own, because this one has loaded everything already. They look at
what is loaded, not at how long it takes; benchmarks/import_time.py measures that.
"""

from __future__ import annotations

import ast
import json
import pkgutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import discreet
import discreet.service.client
from discreet.cli import COMMANDS, _Deferred, app
from discreet.codec import Serializable, homes
from discreet.learners.registry import LEARNERS
from discreet.privacy.noise import _opendp

ROOT = Path(discreet.__file__).parent

# What may be installed on a device, and an import system that knows nothing else.
DEVICE = """
import sys
MORE = set()
from importlib.abc import MetaPathFinder


class Device(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "numpy", "discreet", *MORE}:
            raise ImportError(f"{name} is not on this device")


sys.meta_path.insert(0, Device())
"""


# Of a new Python: the files of discreet that it has loaded.
OWN_FILES = """sorted({
    each.__file__ for name, each in sys.modules.items() if name.partition(".")[0] == "discreet"
})"""


def packed_files() -> set[str]:
    """The modules of the distribution of a device alone."""
    folder = ROOT.parents[1] / "clients" / "python"
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    packed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for path, place in packed.items():
        assert path == f"../../{'LICENSE' if place == 'discreet/LICENSE' else 'src/' + place}"
    return {str((folder / path).resolve()) for path in packed if path.endswith(".py")}


def python(code: str, given: str = "") -> str:
    """What a new Python prints that runs this code, with that on its standard input."""
    paths = [str(ROOT.parent), *sys.path]
    start = f"import sys; sys.path[:] = {paths!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", start + code],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(code: str) -> set[str]:
    """The modules that a new Python has loaded after this code."""
    return set(json.loads(python(f"{code}\nimport json; print(json.dumps(list(sys.modules)))")))


def loaded_by_commands(*commands: list[str]) -> set[str]:
    """The modules that `discreet` has loaded when it ends, called once after the other."""
    return loaded_by(
        f"""
import contextlib, io
from discreet.cli import main
for arguments in {commands!r}:
    sys.argv = ["discreet", *arguments]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()
"""
    )


class TestPublicNames:
    def test_importing_the_package_loads_nothing_else(self) -> None:
        loaded = loaded_by("import discreet")
        assert not loaded & {"numpy", "scipy", "sklearn", "pandas", "opendp", "pydantic"}
        assert {name for name in loaded if name.startswith("discreet")} == {"discreet"}

    def test_a_name_loads_what_it_needs(self) -> None:
        loaded = loaded_by("from discreet import Box, Local, SecureNoise, SimulatedNoise, Terms")
        assert "numpy" in loaded
        assert not loaded & {"scipy", "sklearn", "pandas", "opendp", "pydantic", "dp_accounting"}

    def test_every_name_is_there_and_listed(self) -> None:
        for name in discreet.__all__:
            assert getattr(discreet, name).__name__ == name
        assert set(discreet.__all__) <= set(dir(discreet))
        assert len(set(discreet.__all__)) == len(discreet.__all__)

    @pytest.mark.parametrize(
        "package", [discreet, discreet.service.client], ids=["discreet", "client"]
    )
    def test_type_checkers_see_the_same_names_in_the_same_modules(self, package: Any) -> None:
        """The imports under TYPE_CHECKING, the table used at run time and __all__."""
        tree = ast.parse(Path(package.__file__).read_text())
        seen = {
            alias.name: (node.module or "").removeprefix(f"{package.__name__}.")
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discreet.")
            for alias in node.names
        }
        assert seen == package._MODULES
        assert set(seen) == set(package.__all__)

    def test_importing_the_clients_loads_nothing_else(self) -> None:
        loaded = loaded_by("import discreet.service.client")
        assert {name for name in loaded if name.startswith("discreet")} == {
            "discreet",
            "discreet.service",
            "discreet.service.client",
        }
        assert not loaded & {"numpy", "httpx2"}

    def test_another_name_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match=r"discreet.*has no attribute 'Learner'"):
            discreet.Learner  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(ImportError):
            from discreet import Learner  # type: ignore[attr-defined]  # noqa: F401

    def test_learners_are_found_under_their_names(self) -> None:
        assert all(kind.name == name for name, kind in LEARNERS.items())
        assert len(LEARNERS) == len(list(LEARNERS))


def test_every_kind_of_message_is_known_by_its_module() -> None:
    """A kind that is left out could be read only by who has imported its class by chance."""
    for module in pkgutil.walk_packages(discreet.__path__, "discreet."):
        import_module(module.name)
    defined = {
        vars(found)["kind"]: found.__module__
        for found in descendants(Serializable)
        if found.facts is not None
        and "kind" in vars(found)
        and found.__module__.startswith("discreet.")
    }
    assert defined == homes()


def descendants(base: type) -> set[type]:
    """Everything derived from a class."""
    return {base, *(found for child in base.__subclasses__() for found in descendants(child))}


class TestDevice:
    """A device decodes a policy, checks it, acts, reports and encodes, with NumPy alone."""

    REPORT = """
import numpy as np
from discreet import Box, Policy, SecureNoise, Terms, decode, encode

policy = decode(sys.stdin.read(), Policy)
terms = Terms(Box.of({"x1": (0, 1), "x2": (0, 1)}), arms=3, most_epsilon=2.0)
terms.check(policy)
people = [{"x1": 0.2, "x2": 0.7}, {"x2": 0.1, "x1": 0.9}]
actions, _ = policy.act(people, np.random.default_rng(1))
reports = encode(policy.report(people, actions, [1.0, 0.25], SecureNoise(), terms))
"""
    LOADED = "print(reports); print(*sys.modules)"
    # With a service at the other end: httpx2 too, and what that stands on.
    MORE = """
MORE |= {"httpx2", "httpcore2", "h11", "anyio", "idna", "truststore", "typing_extensions"}
"""
    CLIENT = """
import json, sys, tempfile, time
import httpx2
from discreet import Policy, decode
from discreet.service.client import AsyncDevice, Device, read_ledger

def served(given, source, posted):
    def answer(request):
        if request.method == "POST":
            posted.append(json.loads(request.content))
            return httpx2.Response(202, json={"stored": 1, "repeated": 0})
        if request.url.path.endswith("/policy"):
            tag = decode(given["policy"], Policy).digest
            return httpx2.Response(200, content=given["policy"], headers={"ETag": f'"{tag}"'})
        return httpx2.Response(200, json=given["terms"] if "terms" in request.url.path else {})

    with tempfile.TemporaryDirectory() as folder:
        options = {"store": folder + "/device.db", "agreed": given["terms"]["sha256"]}
        options |= {"key": "k", "transport": httpx2.MockTransport(answer), "source": source}
        with Device("https://x", "s", **options) as device:
            person = {"x1": 0.2, "x2": 0.7}
            identity = device.observe(person, 1) if source else device.act(person).id
            assert device.report(identity, 1.0)
            now, time.time = time.time, lambda: now() + 1e7  # under hold
            device.send()
            time.time = now
        (row,) = read_ledger(options["store"])
        assert row.state == "accepted"

def reports(given, source):
    posted = []
    served(given, source, posted)
    return posted[0]["reports"][0]

print(json.dumps([reports(given, given["source"]) for given in json.loads(sys.stdin.readline())]))
"""
    SHUFFLED = """
MORE |= {"cryptography", "_cffi_backend"}
served(json.loads(sys.stdin.readline()), None, [])
"""
    DOMAIN = discreet.Box.of({"x1": (0, 1), "x2": (0, 1)})
    STREAMS = (("kernel", None), ("kernel", "clinic"), ("best_arm", None), ("partition", None))

    def learners(self) -> list[Any]:
        """One for each stream."""
        made = []
        for name, source in self.STREAMS:
            made.append(discreet.make_learner(name, self.DOMAIN, 3, discreet.Local(2.0)))
            if source:
                made[-1].open_source(source, 1.0)
        return made

    def given(self, learner: Any, source: str | None = None, **terms: Any) -> dict[str, Any]:
        """What a service sends to people of a stream."""
        stream = source or "target"
        fields = replace(learner.streams[stream].terms(), **terms).to_fields()
        policy = learner.policy(source) if source else learner.policy()
        return {"policy": discreet.encode(policy), "terms": fields, "source": source}

    def all_given(self, learners: list[Any]) -> str:
        """What a service sends, for each stream."""
        pairs = zip(learners, self.STREAMS, strict=True)
        return json.dumps([self.given(learner, source) for learner, (_, source) in pairs])

    def learn(self, learners: list[Any], texts: str) -> None:
        """Each learner takes its report."""
        for learner, text in zip(learners, json.loads(texts), strict=True):
            learner.update(discreet.decode(text, discreet.Reports))

    def test_numpy_is_all_that_it_takes(self) -> None:
        domain = discreet.Box((0.0, 0.0), (1.0, 1.0))
        learner = discreet.make_learner("kernel", domain, 3, discreet.Local(2.0))
        code = DEVICE + self.REPORT + self.LOADED
        reports, modules = python(code, discreet.encode(learner.policy())).splitlines()
        outside = {module.partition(".")[0] for module in modules.split()}
        assert not outside & {"scipy", "opendp", "pandas", "pydantic", "sklearn", "dp_accounting"}
        learner.update(discreet.decode(reports, discreet.Reports))

    def test_numpy_and_httpx2_are_all_that_a_service_takes(self) -> None:
        pytest.importorskip("httpx2")
        learners = self.learners()
        budget = discreet.Shuffled(1.0, 1e-6, 50)
        shuffled = discreet.make_learner("partition", self.DOMAIN, 3, budget)
        last = self.given(shuffled, learner_key="09" + 31 * "00")
        code = DEVICE + self.MORE + self.CLIENT + "print(*sys.modules)" + self.SHUFFLED
        code += f"print(json.dumps({OWN_FILES}))"
        texts, modules, files = python(
            code, f"{self.all_given(learners)}\n{json.dumps(last)}"
        ).splitlines()
        outside = {module.partition(".")[0] for module in modules.split()}
        assert "httpx2" in outside
        assert not outside & {"scipy", "opendp", "pandas", "pydantic", "sklearn", "dp_accounting"}
        assert not outside & {"sqlalchemy", "fastapi", "uvicorn", "cryptography"}
        self.learn(learners, texts)
        # No file more and none less than these, so that the other distribution is whole and small.
        assert packed_files() == set(json.loads(files))

    def test_what_makes_requests_is_loaded_with_the_first(self) -> None:
        code = "import sys\nfrom discreet.service.client import Device\nprint(*sys.modules)"
        outside = {module.partition(".")[0] for module in python(code).split()}
        assert "numpy" in outside
        assert not outside & {"httpx2", "email", "cryptography"}

    def test_messages_that_need_more_are_refused_in_words(self) -> None:
        said = python(
            DEVICE
            + """
from discreet import InvalidInput, Policy, decode
try:
    decode('{"kind": "epoch-policy", "schema": 1}', Policy)
except InvalidInput as error:
    print(error)
"""
        )
        assert "'epoch-policy', which cannot be read here" in said
        assert "is not on this device" in said


@pytest.mark.slow
def test_wheel_of_a_device_alone(tmp_path: Path) -> None:
    """Under 1 MB, and with NumPy and httpx2 a device: nothing else is installed."""

    def run(*arguments: str | Path, given: str = "") -> str:
        words = list(map(str, arguments))
        return subprocess.run(words, input=given, capture_output=True, text=True, check=True).stdout

    pip = (sys.executable, "-m", "pip", "-q")
    run(*pip, "wheel", "--no-deps", "-w", tmp_path, ROOT.parents[1] / "clients" / "python")
    (wheel,) = tmp_path.glob("discreet_device-*.whl")
    assert wheel.stat().st_size < 1_000_000
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    (program,) = (tmp_path / "venv").glob("*/python")
    run(*pip, "--python", program, "install", "--no-compile", wheel)
    device = TestDevice()
    learners = device.learners()
    absent = "from importlib.util import find_spec; print(find_spec('scipy'), find_spec('pandas'))"
    code = device.CLIENT + absent
    texts, found = run(program, "-I", "-c", code, given=device.all_given(learners)).splitlines()
    assert found == "None None"
    device.learn(learners, texts)


def test_secure_noise_loads_little_of_opendp() -> None:
    pytest.importorskip("opendp")
    loaded = loaded_by("from discreet import SecureNoise; SecureNoise().check_additive()")
    assert "opendp.measurements" in loaded
    assert not loaded & {"sklearn", "scipy"}


def test_a_secure_mechanism_that_is_audited_first_holds() -> None:
    pytest.importorskip("opendp")
    code = """
from discreet.audit.runner import audit, checks_named
*_, found = audit(checks_named("laplace, secure"), trials=0)
print(found.verdict, found.fault)
"""
    assert python(code).strip() == "holds"


@pytest.mark.parametrize("name", ["gp_ucb", "capri", "kernel", "usca"])
def test_learners_that_add_noise_are_not_made_without_opendp(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under joint privacy: not when they are asked to release what they have been told."""
    for module in ("opendp", "opendp.prelude"):
        monkeypatch.setitem(sys.modules, module, None)
    _opendp.cache_clear()
    noise, budget = discreet.SecureNoise(), discreet.Joint(1.0, 1e-6)
    space = discreet.PublicBox() if name == "gp_ucb" else 2
    with pytest.raises(discreet.InvalidInput, match=r'pip install "discreet\[secure\]"'):
        discreet.make_learner(
            name, discreet.Box((0.0,), (1.0,)), space, budget, noise=noise, horizon=100
        )


class TestCommandLine:
    @pytest.mark.parametrize("commands", [[["--version"], ["version"]], [["--help"]]])
    def test_the_first_answers_load_no_library(self, commands: list[list[str]]) -> None:
        loaded = loaded_by_commands(*commands)
        heavy = {"numpy", "scipy", "sklearn", "pandas", "joblib", "matplotlib", "dp_accounting"}
        assert loaded & heavy == set()
        own = {name for name in loaded if name.startswith("discreet.")}
        assert own == {"discreet.cli"}
        if commands != [["--help"]]:
            assert "rich.console" not in loaded

    def test_the_help_of_commands_loads_no_library_but_numpy(self) -> None:
        names = ["run", "audit", "model", "init", "check", "data"]
        loaded = loaded_by_commands(*([name, "--help"] for name in names))
        assert loaded & {"scipy", "sklearn", "pandas", "joblib", "matplotlib", "opendp"} == set()

    def test_every_command_is_listed_with_its_own_summary(self) -> None:
        shown = CliRunner().invoke(app, ["--help"]).output
        listed = [line.split()[1] for line in shown.splitlines() if line.startswith("│ ")]
        names = [*COMMANDS, "version"]
        assert [one for one in listed if one in names] == names
        for name, known in COMMANDS.items():
            command = _Deferred(name, known).imported()
            assert " ".join((command.help or "").split()).startswith(known.summary)

    def test_commands_are_called_under_their_names(self) -> None:
        for name, known in COMMANDS.items():
            done = CliRunner().invoke(app, [name, "--help"])
            assert done.exit_code == 0
            assert f"Usage: discreet {name}" in done.output
            example = f"Example: discreet {known.example}"
            assert example in " ".join(done.output.split())
        done = CliRunner().invoke(app, ["nonsense"])
        assert done.exit_code == 2
        assert isinstance(app, typer.Typer)
