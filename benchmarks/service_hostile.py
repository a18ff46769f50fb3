"""Malformed and hostile requests against a server: each is refused with a reason.

    python benchmarks/service_hostile.py [malformed] [hostile] [costly]

10,000 malformed requests (JSON that is none, values of other types, paths, headers and bytes that
are no HTTP) and 1,000 hostile ones (reports of forged policies, other studies' keys, replays, giant
and slow bodies, guessed keys, other pages' browsers) go to a real server over sockets, each on a
connection of its own, from `ATTACKERS` threads. Then come 1,000 with a device's key that hold what
is costly to read and is refused: as many ids, empty reports or objects as a body has room for, and
more. Meanwhile an honest client asks for a policy 50 times a second. The server has the first core,
all clients the second. Printed are the codes of the answers, what was not refused or not in words
(which must be nothing), and how long the honest client waited, before and during the attack.
"""

from __future__ import annotations

import base64
import json
import logging
import multiprocessing
import os
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet import (
    GPUCB,
    Box,
    DecisionSets,
    Joint,
    Local,
    LocalKernel,
    SecureNoise,
    SimulatedNoise,
)
from discreet.codec import decode, encode
from discreet.learners.policy import Policy
from discreet.service.server.app import create_app, listen, run
from discreet.service.server.deployment import Deployment
from discreet.service.server.middleware import Limits, Rate
from discreet.service.server.service import Service

ATTACKERS = 4
HONEST_RATE = 50.0
LIMITS = Limits(body_seconds=0.5, failures=Rate(1e6, 1e6), requests=Rate(1e6, 1e6))
DOMAIN = Box.of({"age": (18, 90), "smoker": ["no", "yes"]})

# Values that no field of a message, context or reward takes.
NASTY: tuple[Any, ...] = (
    None,
    True,
    [],
    {},
    [[]],
    [{}],
    "",
    "x",
    "\x00",
    "\ud800",
    "1e999",
    "NaN",
    -1,
    -0.5,
    2**63,
    2**64,
    10**30,
    1e308,
    [None],
    ["x"],
    [[[[1]]]],
    {"": 1},
    {"__proto__": {}},
    "' OR 1=1 --",
    "A" * 5000,
    [1e308] * 3,
    {"kind": "policy"},
    {"shape": [10**9], "float64": ""},
    "../../etc/passwd",
    "%s%n",
    {"shape": [-1], "float64": "AAAA"},
    "{{7*7}}",
    "<script>",
    "\u202e",
    [[0.1] * 50],
    {"age": 19},
)


@dataclass(frozen=True)
class Attack:
    """A request, as bytes, and what it may be answered.

    Attributes:
        name: its kind.
        sent: its parts, in this order.
        allowed: whether an answer, by code and text, is the right one.
        pause: seconds between the parts.
    """

    name: str
    sent: tuple[bytes, ...]
    allowed: Callable[[int, str], bool]
    pause: float = 0.0


@dataclass
class Target:
    """A server with two studies, `local` and `joint`, another `other`, and keys."""

    port: int
    tokens: dict[str, str]
    report: str
    forged: list[str]
    decision: str


@contextmanager
def serving(folder: Path) -> Iterator[Target]:
    """A server in a process of its own, on a free port, until the block ends."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(folder, there), daemon=True)
    server.start()
    there.close()  # or nothing would end the wait for a server that cannot start
    try:
        yield here.recv()
    finally:
        server.terminate()
        server.join()


def _serve(folder: Path, there: Any) -> None:
    """Prepare studies and keys, say what they are, and serve."""
    pin(0)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    key = base64.urlsafe_b64encode(b"k" * 32).decode()
    service = Service.open(f"sqlite:///{folder}/hostile.db", {"DISCREET_DATABASE_KEY": key})
    learner = LocalKernel(DOMAIN, ["leaflet", "call"], budget=Local(1.0), horizon=2000)
    other = LocalKernel(DOMAIN, ["leaflet", "call"], budget=Local(1.0), horizon=2000)
    trusted = GPUCB(
        Box((0.0,), (1.0,)),
        DecisionSets(most=3),
        Joint(1.0, 1e-6),
        kernel="RBF(length_scale=[.3])",
        noise=SecureNoise(),
        horizon=1000,
    )
    for name, each in [("local", learner), ("other", other), ("joint", trusted)]:
        service.store.register(Deployment(name, name, None, 30.0, 0.0, (), ""), each)
    roles = ("operator", "client", "device", "auditor")
    tokens = {role: service.keys.make(role) for role in roles}
    tokens |= {f"{role} of other": service.keys.make(role, "other") for role in roles}
    revoked = service.keys.make("operator")
    service.keys.revoke(revoked.split("_")[1])
    tokens["revoked"] = revoked
    report, stranger = _report(service, "local"), _report(service, "other")
    made_up = json.loads(report)
    forged = [
        stranger,
        encode(_reported(service, "local", SimulatedNoise(1))),
        json.dumps({**made_up, "policy_version": 7}),
        json.dumps({**made_up, "source": "0" * 32}),
        json.dumps({**made_up, "kind": "epoch-reports"}),
    ]
    service.ingest.add("local", [report], None)
    decision = service.decisions.decide("joint", [[0.1], [0.9]])
    service.decisions.reward("joint", decision.id, 0.5)
    listening = listen("127.0.0.1", 0)
    # Connections wait in the socket until the server accepts them.
    there.send(Target(listening.getsockname()[1], tokens, report, forged, decision.id))
    run(create_app(service, limits=LIMITS), listening)


def pin(core: int) -> None:
    """Run on one of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def _reported(service: Service, study: str, noise: Any) -> Any:
    policy: Any = decode(service.store.policy(study).text, Policy)
    rng = np.random.default_rng(1)
    people = np.array([[30.0, 0.0], [60.0, 1.0]])
    actions, _ = policy.act(people, rng)
    return policy.report(people, actions, [1.0, 0.0], noise, service.store.study(study).terms)


def _report(service: Service, study: str) -> str:
    return encode(_reported(service, study, SecureNoise()))


def http(
    method: str, path: str, token: str | None = None, body: bytes = b"", **headers: str
) -> bytes:
    """A request as bytes; headers with underscores for dashes, in place of the usual ones."""
    lines = {"host": "127.0.0.1", "connection": "close"}
    if body:
        lines |= {"content-length": str(len(body)), "content-type": "application/json"}
    if token is not None:
        lines["authorization"] = f"Bearer {token}"
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def refused(code: int, text: str) -> bool:
    """Refused for what it is, with a reason."""
    if not 400 <= code < 500:
        return False
    try:
        return len(json.loads(text)["error"]) > 10
    except (ValueError, KeyError, TypeError):
        return False


def dropped(code: int, text: str) -> bool:
    """No HTTP: a code of the server's own, or a closed connection."""
    return code == 0 or 400 <= code < 500


def malformed(target: Target, rng: random.Random) -> Attack:
    """One malformed request."""
    kind = rng.choice([_broken_json, _wrong_values, _wrong_values, _path, _header, _garbage])
    return kind(target, rng)


def _place(target: Target, rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    """A request that would be taken: path, token, values."""
    return rng.choice(
        [
            (
                "/v1/studies/local/reports",
                target.tokens["device"],
                {"reports": [json.loads(target.report)]},
            ),
            ("/v1/studies/joint/decisions", target.tokens["client"], {"context": [[0.1], [0.5]]}),
            (
                f"/v1/studies/joint/decisions/{target.decision}/reward",
                target.tokens["client"],
                {"reward": 0.5},
            ),
            ("/v1/studies/local/state", target.tokens["operator"], {"state": "running"}),
            ("/v1/keys", target.tokens["operator"], {"role": "device", "study": "local"}),
        ]
    )


def _broken_json(target: Target, rng: random.Random) -> Attack:
    path, token, values = _place(target, rng)
    good = json.dumps(values)
    name = next(iter(values))
    body = rng.choice(
        [
            good[: rng.randrange(1, len(good))],
            good + rng.choice(["}", "]", ",", "x", "{}", "\x00"]),
            good.replace(":", "=", 1),
            good.replace('"', "'"),
            good[:-1] + f', "{name}": null}}',
            good[:-1] + ', "more": 1}',
            f'{{"{name}": NaN}}',
            f'{{"{name}": 1e999}}',
            f'{{"{name}": -Infinity}}',
            f'{{"{name}": {"9" * rng.choice([21, 400, 5000])}}}',
            "[" * rng.choice([33, 1000, 100_000]),
            '{"a":' * 5000,
            "null",
            "0",
            '""',
            "[]",
            "{}",
            f'{{"{name}": "\\ud800"}}',
            f'{{"{name}": "\\u0000"}}',
        ]
    ).encode()
    if rng.random() < 0.2:
        cut = rng.randrange(len(body))
        body = body[:cut] + bytes([rng.randrange(128, 256)]) + b"\xff" + body[cut:]
    return Attack("broken JSON", (http("POST", path, token, body),), refused)


def _wrong_values(target: Target, rng: random.Random) -> Attack:
    path, token, values = _place(target, rng)
    nasty = rng.choice(NASTY)
    if "reports" in values and rng.random() < 0.8:
        report = values["reports"][0]
        report[rng.choice(list(report))] = nasty
        values = {"reports": [report if rng.random() < 0.5 else json.dumps(report)]}
    else:
        name = rng.choice(list(values))
        if (name == "study" and nasty in (None, "x", "")) or _fine(name, nasty):
            nasty = 3.5 if name != "reward" else "3.5"
        values[name] = nasty
    return Attack(
        "wrong values", (http("POST", path, token, json.dumps(values).encode()),), refused
    )


def _fine(name: str, value: Any) -> bool:
    """What a field takes of NASTY after all."""
    if name == "study":
        return isinstance(value, str) and len(value) <= 100
    return name == "reward" and type(value) in (int, float) and 0 <= value <= 1


def _path(target: Target, rng: random.Random) -> Attack:
    token = rng.choice(list(target.tokens.values()))
    parts = [
        "..",
        ".",
        "%2e%2e",
        "%2F",
        "%5c",
        "%00",
        "\\",
        "//",
        "%ff",
        "%",
        "%zz",
        ";",
        "a" * 2000,
        "%E2%80%AE",
        "' OR 1=1",
        "<x>",
        "local%0d%0aX:1",
        "local\x00",
        "local/../other",
        "%u0041",
        "-1",
        "1e3",
        "00",
        "policies",
        "reports",
        "*",
        "local?x=" + "y" * 2000,
        "LOCAL",
        "local%20",
    ]
    start = rng.choice(
        ["/v1/studies/", "/v1/keys/", "/v1/studies/local/policies/", "/v1/", "/v1//"]
    )
    path = start + rng.choice(parts) + rng.choice(["", "/", "/policy", "/terms"])
    method = rng.choice(["GET", "GET", "POST", "DELETE", "TRACE", "PROPFIND"])
    return Attack("paths", (http(method, path, token),), _refused_or_dropped)


def _refused_or_dropped(code: int, text: str) -> bool:
    return refused(code, text) or (dropped(code, text) and not text.startswith("{"))


def _header(target: Target, rng: random.Random) -> Attack:
    path, token, values = _place(target, rng)
    body = json.dumps(values).encode()
    sent = rng.choice(
        [
            http(
                "POST",
                path,
                token,
                body,
                host=rng.choice(["evil.example", "127.0.0.1.evil", "a@b", ""]),
            ),
            http(
                "POST",
                path,
                token,
                body,
                content_type=rng.choice(["text/plain", "a", "multipart/x"]),
            ),
            http("POST", path, token, body, content_encoding="gzip"),
            http(
                "POST", path, token, body, content_length=rng.choice(["-1", "x", "1e3", "9" * 30])
            ),
            http(
                "POST",
                path,
                token,
                body,
                transfer_encoding=rng.choice(["chunked", "gzip, chunked"]),
            ),
            http(
                "POST",
                path,
                None,
                body,
                authorization=rng.choice(
                    [
                        "Basic eDp4",
                        "Bearer",
                        "Bearer ",
                        "Bearer dk_",
                        f"Token {token}",
                        f"Bearer {token}x",
                        f"Bearer {token.upper()}",
                        "Bearer \xff\xfe",
                    ]
                ),
            ),
            http(
                "POST", path, token, body, origin=rng.choice(["https://evil.example", "null", "x"])
            ),
            http("POST", path, token, body, cookie="session=1"),
            http("POST", path, token, body, x="y" * 40_000),
            http("POST", path, token, body).replace(b"host:", b"host: evil\r\nhost:"),
            http("POST", path, token, body).replace(b"host:", b"authorization: Bearer x\r\nhost:"),
            http("POST", path, token, body).replace(b"\r\nhost:", b"\r\nho st:"),
            http("POST", path, token, body).replace(b"HTTP/1.1", b"HTTP/9.9"),
        ]
    )
    return Attack("headers", (sent,), _refused_or_dropped)


def _garbage(target: Target, rng: random.Random) -> Attack:
    size = rng.choice([1, 10, 100, 1000])
    sent = rng.choice(
        [rng.randbytes(size), b"\x16\x03\x01" + rng.randbytes(size), b"GET /\r\n" * size]
    )
    return Attack("no HTTP", (sent + b"\r\n\r\n",), dropped)


def hostile(target: Target, rng: random.Random) -> Attack:
    """One hostile request."""
    tokens = target.tokens
    reports = "/v1/studies/local/reports"
    reward = f"/v1/studies/joint/decisions/{target.decision}/reward"

    def taken(path: str, token: str, values: Any, **headers: str) -> bytes:
        return http("POST", path, token, json.dumps(values).encode(), **headers)

    kind = rng.randrange(9)
    if kind == 0:
        text = rng.choice(target.forged)
        return Attack("forged", (taken(reports, tokens["device"], {"reports": [text]}),), refused)
    if kind == 1:
        role = rng.choice(["device", "client", "operator", "auditor"])
        end = rng.choice(["", "/policy", "/ledger", "/export", "/terms", "/certificate", "/state"])
        study = rng.choice(["local", "joint"])
        method = "POST" if end == "/state" else "GET"
        body = b'{"state": "finished"}' if end == "/state" else b""
        sent = http(method, f"/v1/studies/{study}{end}", tokens[f"{role} of other"], body)
        return Attack("other studies' keys", (sent,), lambda code, text: code == 403)
    if kind == 2:
        sent = taken(reports, tokens["device"], {"reports": [target.report]})
        # The answer that it had; whether anything was stored is counted at the end.
        return Attack("replayed reports", (sent,), lambda code, text: code == 202)
    if kind == 3:
        sent = taken(reward, tokens["client"], {"reward": rng.choice([0.25, 0.75, 1.0])})
        return Attack("another reward", (sent,), lambda code, text: code == 409)
    if kind == 4:
        giant = b'{"reports": ["' + b"a" * rng.choice([2**20, 2**22])
        sent = http("POST", reports, tokens["device"], giant)
        if rng.random() < 0.5:
            sent = sent.replace(b"content-length", b"x-length").replace(
                b"connection: close", b"transfer-encoding: chunked"
            )
            head, _, body = sent.partition(b"\r\n\r\n")
            chunk = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
            sent = head + b"\r\n\r\n" + chunk
        return Attack("giant bodies", (sent,), lambda code, text: code == 413)
    if kind == 5:
        whole = taken(reports, tokens["device"], {"reports": [target.report]})
        parts = tuple(whole[at : at + 1] for at in range(len(whole) - 30, len(whole)))
        slow = (whole[:-30], *parts)
        return Attack("slow bodies", slow, lambda code, text: code == 408, pause=0.05)
    if kind == 6:
        guess = "".join(rng.choices("0123456789abcdef", k=16))
        token = rng.choice(
            [f"dk_{guess}_{'A' * 43}", tokens["revoked"], tokens["operator"][:-1] + "!"]
        )
        sent = http("GET", "/v1/studies/local/export", token)
        return Attack("guessed keys", (sent,), lambda code, text: code == 401)
    if kind == 7:
        sent = taken(
            "/v1/studies/local/state",
            tokens["operator"],
            {"state": "finished"},
            origin="https://evil.example",
            cookie="a=b",
        )
        return Attack("other pages", (sent,), lambda code, text: code == 403)
    role = rng.choice(["device", "client", "auditor"])
    sent = taken("/v1/keys", tokens[role], {"role": "operator"})
    return Attack("other roles", (sent,), lambda code, text: code == 403)


def costly_bodies() -> list[bytes]:
    """Bodies that take long to refuse, each of another kind.

    The first two have as many bytes or values as there is room for and more; the others are just
    within all limits, the last by escapes that hide its values.
    """
    room, most = LIMITS.device - 100, LIMITS.device_values - 20
    return [
        b'{"ids":[' + b"1," * (room // 2) + b"1]}",
        b'{"ids":[' + b"1," * 500_000 + b"1]}",
        b'{"ids":[' + b"1," * most + b"1]}",
        b'{"reports":[' + b"1," * most + b"1]}",
        b'{"reports":[' + b"{}," * (most // 2) + b"{}]}",
        b'{"reports":[{"a":[' + b"[]," * (most // 2) + b"[]]}]}",
        b'{"reports":[{"kind":"signed-reports","schema":1,"a":[' + b"[]," * (most // 2) + b"[]]}]}",
        b'{"reports":[{' + b",".join(b'"%d":1' % at for at in range(most)) + b"}]}",
        b'{"reports":["[' + rb"\u005b\u005d\u002c" * (room // 18) + b'[]]"]}',
    ]


def costly(target: Target, rng: random.Random) -> Attack:
    """One request that takes long to refuse."""
    body = rng.choice(costly_bodies())
    sent = http("POST", "/v1/studies/local/reports", target.tokens["device"], body)
    return Attack("costly", (sent,), refused)


def send(port: int, attack: Attack) -> tuple[int, str]:
    """The code and the text of the answer; 0 where there was none."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=15.0) as line:
        try:
            for part in attack.sent:
                line.sendall(part)
                if attack.pause:
                    time.sleep(attack.pause)
        except OSError:
            pass  # closed before all was sent; the answer may be there
        try:
            if attack.name == "no HTTP":
                line.shutdown(socket.SHUT_WR)
            while part := line.recv(65536):
                answer += part
        except OSError:
            pass
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    code = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    return code, body.decode("utf-8", "replace")


@dataclass
class Outcome:
    """What became of attacks.

    Attributes:
        codes: how often each kind got each code.
        wrong: attacks that were not refused as they should be, with code and text.
        leaked: how many answers held the secret of a key.
        stored: how many reports are stored then; two were before.
    """

    codes: Counter[tuple[str, int]]
    wrong: list[tuple[Attack, int, str]]
    leaked: int
    stored: int


def attack_all(
    target: Target, make: Callable[[Target, random.Random], Attack], count: int, seed: int = 0
) -> Outcome:
    """Send so many attacks."""
    rng = random.Random(seed)
    attacks = [make(target, rng) for _ in range(count)]
    with ThreadPoolExecutor(ATTACKERS) as pool:
        answers = list(pool.map(lambda each: send(target.port, each), attacks))
    export = http("GET", "/v1/studies/local/export", target.tokens["operator"])
    _, text = send(target.port, Attack("export", (export,), refused))
    stored = json.loads(text)["counts"]["reports"]["target"]["stored"]
    outcome = Outcome(Counter(), [], 0, stored)
    secrets = [token[-43:] for token in target.tokens.values()]
    for attack, (code, text) in zip(attacks, answers, strict=True):
        outcome.codes[attack.name, code] += 1
        if not attack.allowed(code, text):
            outcome.wrong.append((attack, code, text))
        outcome.leaked += any(secret in text for secret in secrets)
    return outcome


def honest(target: Target, stop: threading.Event, seconds: list[float]) -> None:
    """An honest client, who notes how long each answer takes."""
    attack = Attack(
        "honest",
        (http("GET", "/v1/studies/local/policy", target.tokens["device"]),),
        lambda code, text: code == 200,
    )
    while not stop.is_set():
        started = time.perf_counter()
        code, _ = send(target.port, attack)
        seconds.append(time.perf_counter() - started if code == 200 else float("inf"))
        time.sleep(max(1.0 / HONEST_RATE - seconds[-1], 0.0))


def waited(target: Target, work: Callable[[], Any]) -> tuple[Any, str]:
    """What `work` gives, and how long an honest client waited during it."""
    stop, seconds = threading.Event(), list[float]()
    thread = threading.Thread(target=honest, args=(target, stop, seconds))
    thread.start()
    done = work()
    stop.set()
    thread.join()
    middle, late = np.percentile(seconds, [50, 99]) * 1000
    lost = int(np.isinf(seconds).sum())
    return done, f"{len(seconds)} answers, median {middle:.1f} ms, p99 {late:.1f} ms, {lost} failed"


def main() -> None:
    """Print what became of them."""
    numbers = [int(each) for each in sys.argv[1:]] or [10_000, 1_000, 1_000]
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as target:
        pin(1)
        _, alone = waited(target, lambda: time.sleep(5.0))
        print(f"honest client alone: {alone}")
        for make, count in zip((malformed, hostile, costly), numbers, strict=False):
            if not count:
                continue
            started = time.perf_counter()
            outcome, during = waited(target, lambda m=make, c=count: attack_all(target, m, c))
            took = time.perf_counter() - started
            print(f"\n{count} {make.__name__} requests in {took:.0f} s; honest client: {during}")
            for (name, code), times in sorted(outcome.codes.items()):
                print(f"  {name:22s} {code or 'closed':>6}  {times}")
            failed = sum(times for (_, code), times in outcome.codes.items() if code >= 500)
            print(
                f"not refused: {len(outcome.wrong)}; 5xx: {failed}; leaks: {outcome.leaked}; "
                f"reports stored: {outcome.stored - 2}"
            )
            for attack, code, text in outcome.wrong[:5]:
                print("   ", attack.name, code, text[:200], attack.sent[0][:300])


if __name__ == "__main__":
    main()
