"""Clients that generators make of the OpenAPI document run a whole local and joint round.

The generators are no part of the development environment: `pipx install openapi-python-client`, and
npm, which fetches openapi-typescript.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

import httpx2
import numpy as np

from discreet import SecureNoise
from discreet.codec import decode, encode
from discreet.learners.policy import Policy
from discreet.service.server.app import create_app
from discreet.service.server.keys import ROLES
from tests.service.server.web import Web, listening, opened

pytestmark = [pytest.mark.slow, pytest.mark.chance(1e-8)]

SCRIPT = Path(__file__).with_name("round.ts")
NPM_PACKAGES = ("openapi-typescript@7", "openapi-fetch@0", "typescript@5", "@types/node@20")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Web, str]]:
    """A service, and where it listens."""
    service = opened(tmp_path_factory.mktemp("generated"))
    tokens = {role: service.keys.make(role) for role in ROLES}
    app = create_app(service)
    with listening(app) as port:
        address = f"http://127.0.0.1:{port}"
        with httpx2.Client(base_url=address) as client:
            yield Web(service, client, tokens), address  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def document(served: tuple[Web, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The OpenAPI document as it is served."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    answer = served[0].ask("GET", "/v1/openapi.json", "device")
    path.write_text(answer.text)
    return path


@pytest.fixture(scope="module")
def python_client(document: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The package that openapi-python-client makes."""
    command = shutil.which("openapi-python-client")
    if command is None:
        pytest.skip("openapi-python-client is not installed")
    pytest.importorskip("dateutil")
    folder = tmp_path_factory.mktemp("client")
    made = subprocess.run(
        [command, "generate", "--path", document, "--output-path", folder / "made", "--meta=none"],
        capture_output=True,
        text=True,
    )
    # It warns of what it leaves out, and ends with 0.
    assert "Unable to parse" not in made.stdout + made.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        # The generated code asks for httpx, whose successor has the same interface.
        patch.setitem(sys.modules, "httpx", httpx2)
        yield "made"
        for name in [each for each in sys.modules if each.partition(".")[0] == "made"]:
            del sys.modules[name]


def test_openapi_python_client(served: tuple[Web, str], python_client: str) -> None:
    web, address = served
    models: Any = import_module(f"{python_client}.models")

    def api(route: str) -> Any:
        return import_module(f"{python_client}.api.{route}")

    def as_(role: str) -> Any:
        made: Any = import_module(python_client).AuthenticatedClient
        return made(base_url=address, token=web.tokens[role])

    device = as_("device")
    facts = api("studies.study").sync("local", client=device)
    terms = api("studies.terms").sync("local", client=device)
    assert facts.terms_sha256 == terms.sha256
    answer = api("studies.policy").sync_detailed("local", client=device)
    policy: Any = decode(answer.content, Policy)
    assert type(answer.parsed).__name__ == f"{type(policy).__name__}Message"
    assert answer.parsed.version == policy.version

    sent = models.SignedReportsMessage.from_dict(json.loads(web.reports(200)))
    body = models.ReportsBody(reports=[sent])
    receipt = api("studies.reports").sync("local", client=device, body=body)
    assert receipt == models.ReportsReceipt(stored=200, repeated=0)
    deadline = time.monotonic() + 60.0
    while api("studies.study").sync("local", client=device).version == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    published = api("control.releases").sync("local", client=as_("auditor"))
    assert [each.people for each in published if each.stream == "target"] == [0, 200]

    client = as_("client")
    decided = models.DecisionBody(context=[[0.1], [0.9]])
    decision = api("studies.decide").sync("joint", client=client, body=decided)
    assert decision.arm in (0, 1)
    reward = models.RewardBody(reward=1.0)
    send = api("studies.reward").sync
    assert send("joint", decision.id, client=client, body=reward) == models.New(new=True)
    assert send("joint", decision.id, client=client, body=reward) == models.New(new=False)
    certificate = api("control.certificate").sync("joint", client=as_("auditor"))
    assert certificate.guarantee.kind == "guarantee"
    (row,) = api("control.ledger_rows").sync("joint", client=as_("auditor"))
    assert row.asked == 1_000_000
    refused = api("control.ledger_rows").sync("joint", client=client)
    assert isinstance(refused, models.Refusal)


def test_openapi_typescript(served: tuple[Web, str], document: Path, tmp_path: Path) -> None:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm and node are not installed")
    web, address = served
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}')
    fetched = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", *NPM_PACKAGES],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    if fetched.returncode:
        pytest.skip(f"npm could not fetch the packages: {fetched.stderr[-200:]}")
    shutil.copy(SCRIPT, tmp_path / "round.ts")
    npx = ["npx", "--no-install"]
    compiled = [
        [*npx, "openapi-typescript", str(document), "-o", "api.d.ts"],
        [*npx, "tsc", "--strict", "--target", "es2022", "--module", "nodenext", "round.ts"],
    ]
    for command in compiled:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    tokens = [web.tokens[role] for role in ("device", "client", "auditor")]
    with subprocess.Popen(
        ["node", "round.js", address, *tokens],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        policy: Any = decode(running.stdout.readline(), Policy)
        rng = np.random.default_rng()
        context = [[40.0, 1.0]]
        actions, _ = policy.act(context, rng)
        terms = web.service.store.study("local").terms
        running.stdin.write(encode(policy.report(context, actions, [1.0], SecureNoise(), terms)))
        running.stdin.write("\n")
        running.stdin.close()
        seen = json.loads(running.stdout.readline())
    assert running.returncode == 0
    assert seen["terms"][0] == seen["terms"][1]
    assert (seen["epsilon"], seen["stored"], seen["new"]) == (1.0, 1, True)
    assert seen["arm"] in (0, 1)
    assert seen["promised"] <= 1.0
    assert "role" in seen["refused"]
