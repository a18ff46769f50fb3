"""Every route over HTTP: what it answers, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest

from discreet.codec import decode
from discreet.learners.policy import Policy, Terms
from discreet.privacy import Guarantee
from discreet.service.server import store
from discreet.service.server.routes import ledger_digest
from tests.chance import RARE
from tests.service.server.web import Web, serving, web

__all__ = ["web"]


class TestStudies:
    def test_a_key_sees_its_studies(self, web: Web) -> None:
        rows = web.ask("GET", "/v1/studies", "device").json()
        assert [row["name"] for row in rows] == ["joint", "local", "other"]
        assert rows[0] == {
            "name": "joint",
            "title": "study joint",
            "trust_model": "joint",
            "state": "running",
        }
        only = web.ask("GET", "/v1/studies", "device of other").json()
        assert [row["name"] for row in only] == ["other"]

    def test_what_a_study_offers(self, web: Web) -> None:
        row = web.ask("GET", "/v1/studies/local", "device").json()
        assert row["learner"] == "kernel"
        assert (row["epsilon"], row["delta"], row["max_contributions"]) == (1.0, 0.0, 1)
        assert row["default_arm"] == "leaflet"
        assert row["sources"] == {"clinic": 2.0}

    def test_terms_are_those_of_the_study(self, web: Web) -> None:
        fields = web.ask("GET", "/v1/studies/local/terms", "device").json()
        assert Terms.from_fields(fields).most_epsilon == 1.0
        row = web.ask("GET", "/v1/studies/local", "device").json()
        assert fields["sha256"] == row["terms_sha256"]

    def test_a_study_that_is_not_there(self, web: Web) -> None:
        for end in ("", "/terms", "/policy", "/policies/0", "/sources/x/policy"):
            answer = web.ask("GET", f"/v1/studies/nothing{end}", "device")
            assert answer.status_code == 404
            assert "there is no study 'nothing' here" in answer.json()["error"]


class TestPolicies:
    def test_the_same_bytes_by_every_way(self, web: Web) -> None:
        now = web.ask("GET", "/v1/studies/local/policy", "device")
        version = now.headers["discreet-policy-version"]
        again = web.ask("GET", f"/v1/studies/local/policies/{version}", "auditor")
        assert now.content == again.content
        assert (
            now.headers["etag"] == f'"{decode(now.text, Policy).digest}"' == again.headers["etag"]
        )
        assert now.headers["cache-control"] == "public, max-age=1"
        assert "immutable" in again.headers["cache-control"]

    @pytest.mark.parametrize("form", ["{}", "W/{}", '"x", {}', "*"])
    def test_etags_avoid_resending_policies(
        self, web: Web, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unpacked = store.unpacked
        read: list[bytes] = []
        monkeypatch.setattr(store, "unpacked", lambda body: read.append(body) or unpacked(body))
        for path in ("/v1/studies/other/policy", "/v1/studies/local/sources/clinic/policies/0"):
            whole = web.ask("GET", path, "device")
            tag = whole.headers["etag"]
            assert tag == f'"{hashlib.sha256(whole.content).hexdigest()}"'
            before = len(read)
            answer = web.ask("GET", path, "device", headers={"if-none-match": form.format(tag)})
            assert len(read) == before, "nothing is unpacked that is not sent"
            assert (answer.status_code, answer.content) == (304, b"")
            assert answer.headers["etag"] == tag
        other = web.ask("GET", path, "device", headers={"if-none-match": '"other"'})
        assert other.status_code == 200

    @pytest.mark.parametrize("version", ["1000", "-1", "01", "+1", "1.0", "1_0", "x"])
    def test_invalid_versions_are_refused(self, web: Web, version: str) -> None:
        answer = web.ask("GET", f"/v1/studies/local/policies/{version}", "device")
        assert answer.status_code == (404 if version == "1000" else 400)

    def test_a_source_has_its_own(self, web: Web) -> None:
        policy = web.ask("GET", "/v1/studies/local/sources/clinic/policy", "device")
        assert policy.json()["kind"] != web.ask("GET", "/v1/studies/local/policy", "device").json()
        for source in ("none", "target"):
            answer = web.ask("GET", f"/v1/studies/local/sources/{source}/policy", "device")
            assert answer.status_code == 404
            assert "it has clinic" in answer.json()["error"]


class TestReports:
    def test_a_repeated_report_is_stored_once(self, web: Web) -> None:
        body = {"reports": [web.reports(2, "other"), json.loads(web.reports(1, "other"))]}
        first = web.ask("POST", "/v1/studies/other/reports", "device", json=body)
        assert (first.status_code, first.json()) == (202, {"stored": 3, "repeated": 0})
        again = web.ask("POST", "/v1/studies/other/reports", "device", json=body)
        assert again.json() == first.json()
        some = web.ask(
            "POST", "/v1/studies/other/reports", "device", json={"reports": body["reports"][:1]}
        )
        assert some.json() == {"stored": 0, "repeated": 2}

    def test_of_a_source(self, web: Web) -> None:
        body = {"reports": [web.reports(3, source="clinic")], "ids": [1, 2, 3]}
        path = "/v1/studies/local/sources/clinic/reports"
        answer = web.ask("POST", path, "device", json=body)
        assert (answer.status_code, answer.json()) == (202, {"stored": 3, "repeated": 0})
        more = web.ask("POST", path, "device", json={**body, "ids": [1, 2, 3, 4]})
        assert more.status_code == 400
        assert "there were 1 more ids than reports" in more.json()["error"]

    def test_a_batch_is_refused_as_a_whole(self, web: Web) -> None:
        good, stranger = web.reports(study="other"), web.reports(study="local")
        body = {"reports": [good, stranger]}
        refused = web.ask("POST", "/v1/studies/other/reports", "device", json=body)
        assert refused.status_code == 400
        taken = web.ask("POST", "/v1/studies/other/reports", "device", json={"reports": [good]})
        assert taken.json() == {"stored": 2, "repeated": 0}

    def test_reports_under_joint_privacy_are_refused(self, web: Web) -> None:
        body = {"reports": [web.reports()]}
        answer = web.ask("POST", "/v1/studies/joint/reports", "device", json=body)
        assert answer.status_code == 400
        assert "ask for a decision" in answer.json()["error"]

    def test_a_release_publishes_the_next_policy(self, tmp_path: Path) -> None:
        with serving(tmp_path) as own:
            body = {"reports": [own.reports(10)]}
            own.ask("POST", "/v1/studies/local/reports", "device", json=body)
            until = time.monotonic() + 20.0
            while own.ask("GET", "/v1/studies/local", "device").json()["version"] == 0:
                assert time.monotonic() < until
                time.sleep(0.05)
            ledger = own.ask("GET", "/v1/studies/local/ledger", "auditor").json()
            mine = [row for row in ledger if row["stream"] == "target"]
            assert [row["version"] for row in mine] == [0, 1]
            assert mine[-1]["reports"] == 10


class TestDecisions:
    def test_a_decision_and_its_reward(self, web: Web) -> None:
        answer = web.ask(
            "POST", "/v1/studies/joint/decisions", "client", json={"context": [[0.1], [0.9]]}
        )
        assert answer.status_code == 201
        made = answer.json()
        assert made["arm"] in (0, 1)
        assert made["propensity"] > 0
        path = f"/v1/studies/joint/decisions/{made['id']}/reward"
        said = [web.ask("POST", path, "client", json={"reward": each}) for each in (0.5, 0.5, 1)]
        assert [each.status_code for each in said] == [202, 202, 409]
        assert [each.json().get("new") for each in said] == [True, False, None]

    @pytest.mark.parametrize("context", [None, [], [["x"]], "x", 3, {"a": 1}])
    def test_invalid_contexts_are_refused(self, web: Web, context: object) -> None:
        answer = web.ask("POST", "/v1/studies/joint/decisions", "client", json={"context": context})
        assert answer.status_code == 400

    def test_decisions_of_other_studies_are_not_found(self, web: Web) -> None:
        for identity, code in [("0" * 32, 404), ("x", 400)]:
            path = f"/v1/studies/joint/decisions/{identity}/reward"
            assert web.ask("POST", path, "client", json={"reward": 0.5}).status_code == code
        answer = web.ask("POST", "/v1/studies/local/decisions", "client", json={"context": [1, 0]})
        assert "chooses on the device" in answer.json()["error"]

    @pytest.mark.parametrize("reward", [True, None, "1", 1.5, -0.1, [0.5]])
    def test_rewards_outside_their_bounds(self, web: Web, reward: object) -> None:
        path = f"/v1/studies/joint/decisions/{web.decision()}/reward"
        answer = web.ask("POST", path, "client", json={"reward": reward})
        assert answer.status_code == 400
        assert web.ask("POST", path, "client", json={"reward": 0.5}).json() == {"new": True}


class TestControl:
    def test_the_certificate_is_that_of_the_ledger(self, web: Web) -> None:
        ledger = web.ask("GET", "/v1/studies/joint/ledger", "auditor").json()
        certificate = web.ask("GET", "/v1/studies/joint/certificate", "auditor").json()
        assert certificate["ledger"] == ledger_digest(ledger)
        assert certificate["server"] == web.service.identity
        guarantee = decode(json.dumps(certificate["guarantee"]), Guarantee)
        assert certificate["sentence"] == guarantee.sentence
        assert certificate["guarantee"] == ledger[-1]["guarantee"]

    def test_releases_are_those_of_the_ledger(self, web: Web) -> None:
        rows = web.ask("GET", "/v1/studies/local/releases", "auditor").json()
        ledger = web.ask("GET", "/v1/studies/local/ledger", "auditor").json()
        assert {row["digest"] for row in rows} == {row["digest"] for row in ledger}

    def test_export_holds_what_was_released(self, tmp_path: Path) -> None:
        with serving(tmp_path) as own:
            own.ask(
                "POST", "/v1/studies/local/reports", "device", json={"reports": [own.reports()]}
            )
            own.decision()
            file = own.ask("GET", "/v1/studies/local/export", "operator").json()
            assert file["counts"]["reports"]["target"] == {"stored": 2, "repeated": 0}
            current = own.ask("GET", "/v1/studies/local/policy", "operator").json()
            mine = [each for each in file["policies"] if each["stream"] == "target"]
            assert mine[-1]["policy"] == current
            joint = own.ask("GET", "/v1/studies/joint/export", "operator").json()
            assert joint["counts"]["decisions"] == {"waiting": 1}

    def test_states_and_who_set_them(self, tmp_path: Path) -> None:
        with serving(tmp_path) as own:

            def put(state: str) -> int:
                body = {"state": state}
                answer = own.ask("POST", "/v1/studies/local/state", "operator", json=body)
                return int(answer.status_code)

            def send() -> int:
                body = {"reports": [own.reports(1)]}
                answer = own.ask("POST", "/v1/studies/local/reports", "device", json=body)
                return int(answer.status_code)

            assert [put("paused"), send(), put("running"), send()] == [200, 409, 200, 202]
            assert [put("finished"), send(), put("running"), put("over")] == [200, 410, 409, 400]
            lines = own.ask("GET", "/v1/operations", "auditor").json()
            mine = own.tokens["operator"].split("_")[1]
            told = [each["what"] for each in lines if each["key"] == mine]
            assert told == [
                "set the state paused",
                "set the state running",
                "set the state finished",
            ]
            after = own.ask("GET", f"/v1/operations?after={lines[-2]['id']}", "auditor").json()
            assert after == lines[-1:]

    def test_keys_are_made_listed_and_revoked_at_once(self, web: Web) -> None:
        body = {"role": "device", "study": "other", "label": "phones"}
        made = web.ask("POST", "/v1/keys", "operator of other", json=body)
        assert made.status_code == 201
        web.tokens["new"] = made.json()["token"]
        assert web.ask("GET", "/v1/studies/other", "new").status_code == 200
        rows = web.ask("GET", "/v1/keys", "operator of other").json()
        assert rows[-1]["label"] == "phones"
        assert {row["study"] for row in rows} == {"other"}
        assert all("hash" not in row for row in rows)
        path = f"/v1/keys/{rows[-1]['id']}"
        gone = [web.ask("DELETE", path, "operator of other").json() for _ in range(2)]
        assert [each["revoked"] for each in gone] == [True, False]
        assert web.ask("GET", "/v1/studies/other", "new").status_code == 401

    def test_an_operator_of_one_study_makes_no_keys_for_others(self, web: Web) -> None:
        for study in (None, "local"):
            body = {"role": "operator", "study": study}
            assert web.ask("POST", "/v1/keys", "operator of other", json=body).status_code == 403
        identity = web.tokens["device"].split("_")[1]
        assert web.ask("DELETE", f"/v1/keys/{identity}", "operator of other").status_code == 404
        assert web.ask("GET", "/v1/studies", "device").status_code == 200


@pytest.mark.chance(RARE)
def test_rewards_are_released_over_http(tmp_path: Path) -> None:
    """Noise is drawn from OpenDP here; nothing that is asserted depends on it."""
    with serving(tmp_path) as own:
        for _ in range(18):
            path = f"/v1/studies/joint/decisions/{own.decision()}/reward"
            assert own.ask("POST", path, "client", json={"reward": 0.5}).json() == {"new": True}
        until = time.monotonic() + 20.0
        while own.ask("GET", "/v1/studies/joint", "client").json()["version"] == 0:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert own.ask("GET", "/v1/studies/joint/ledger", "auditor").json()[-1]["reports"] == 18
