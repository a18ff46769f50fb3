"""Audit of a service: its guarantee, derived again from what it published.

    audit = Auditor(URL, "earnings", key=TOKEN).check()
    audit.holds             # no problem was found
    print(audit)            # the guarantee in words, or every problem

| checked                                | against                                          |
|----------------------------------------|--------------------------------------------------|
| the certificate                        | the last row of the ledger, and its SHA-256      |
| every guarantee under local privacy    | what reports cost under the policies published   |
|                                        | so far, composed                                 |
| every guarantee under joint privacy    | what the mechanisms declared with it cost,       |
|                                        | composed, and what former servers may have cost  |
| every Gaussian mechanism it declares   | its noise beside its sensitivity                 |
| every epsilon, held and asked for      | the guarantee of its row; it never sinks         |
| every policy                           | its SHA-256 in ledger and list of releases       |
| versions                               | 0, 1, 2, .., each once                           |

Under joint privacy that a mechanism is the one declared, and its noise was drawn, is the service's
word (docs/clients.md says what else cannot be seen from outside).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from discreet.codec import Range, decode, from_json
from discreet.learners.policy import TARGET_NAME, Policy
from discreet.privacy import Guarantee, Release, SecureNoise, derive_guarantee
from discreet.privacy.accounting import GaussianEvent
from discreet.service.client.transport import (
    AsyncClient,
    Client,
    Unreachable,
    fields_of,
    study_path,
)
from discreet.validation import InvalidInput

_MILLION = 1_000_000
# Of one row; more would exhaust the auditor's memory.
_MOST_RECORDS = 1_000_000
# OpenDP may be absent here and present there, and its grid changes the last digits.
_FORGIVEN = 1e-6
# So often a service may publish while it is read.
_ATTEMPTS = 5
_DAMAGE = (LookupError, TypeError, ValueError)
# Under these trust models what people pay follows from the policies.
_FROM_POLICIES = ("local", "shuffled")


@dataclass(frozen=True)
class Audit:
    """What an auditor found.

    Attributes:
        study: its name.
        guarantee: what the certificate promises.
        versions: of how many policies each stream was read.
        problems: what is wrong.
    """

    study: str
    guarantee: Guarantee
    versions: Mapping[str, int]
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return "\n".join([f"{self.study}: the certificate does not hold.", *self.problems])
        count = sum(self.versions.values())
        how = f"it follows from the published policies ({count})"
        if self.guarantee.trust_model not in _FROM_POLICIES:
            how = f"it follows from the mechanisms declared for {count} policies"
        return f"{self.study}: {self.guarantee.sentence} The certificate holds: {how}."


class Auditor(Client):
    """Reads and checks what a study promises and published.

    Args:
        url: of the service.
        study: its name.
        key: a token for auditors of this study.
        options: as of `Client`: `patience`, `transport`, `allow_http`.
    """

    def __init__(self, url: str, study: str, *, key: str, **options: Any) -> None:
        super().__init__(url, key=key, **options)
        self.study = study

    def certificate(self) -> dict[str, Any]:
        """The study's certificate: `sentence`, `guarantee`, the `ledger`'s SHA-256."""
        fields: dict[str, Any] = self._read("certificate")
        return fields

    def ledger(self) -> list[dict[str, Any]]:
        """The cost of every release per person, asked for and held, in millionths of epsilon."""
        rows: list[dict[str, Any]] = self._read("ledger")
        return rows

    def releases(self) -> list[dict[str, Any]]:
        """Published policies and their times."""
        rows: list[dict[str, Any]] = self._read("releases")
        return rows

    def check(self) -> Audit:
        """Read everything that was published, and derive the guarantee again.

        Raises:
            Unreachable, Refused: as every request; and where the study published something new
                each time it was read.
        """
        facts = fields_of(self._ask("GET", study_path(self.study)))
        for _ in range(_ATTEMPTS):
            certificate, ledger, releases = self.certificate(), self.ledger(), self.releases()
            if self.certificate() == certificate:
                break
        else:
            raise Unreachable(f"the study {self.study!r} published meanwhile; check it again.")
        try:
            own = [row for row in ledger if row["former"] is None]
            problems = _of_certificate(certificate, ledger, own)
            streams: dict[str, list[dict[str, Any]]] = {}
            for row in sorted(own, key=lambda row: (row["stream"], row["version"])):
                streams.setdefault(row["stream"], []).append(row)
            problems += _of_releases(own, releases)
            guarantee = _guarantee(certificate["guarantee"])
            if guarantee.trust_model != facts["trust_model"]:
                problems.append(
                    f"the study says {facts['trust_model']!r:.20}, its certificate is for "
                    f"{guarantee.trust_model}."
                )
            before = _Before.of(ledger, float(facts["delta"]))
            for stream, rows in streams.items():
                offers = self._policies(stream, rows, problems)
                trust = guarantee.trust_model if stream == TARGET_NAME else "local"
                problems += _of_stream(stream, rows, offers, before, trust)
            versions = {stream: len(rows) for stream, rows in streams.items()}
        except _DAMAGE as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                f"the service sent a damaged ledger ({error!r:.200}); nothing can be verified."
            ) from error
        return Audit(self.study, guarantee, versions, tuple(problems))

    def _policies(
        self, stream: str, rows: list[dict[str, Any]], problems: list[str]
    ) -> list[Policy[Any]]:
        """The policies of a stream, each with the SHA-256 of its row."""
        where = () if stream == TARGET_NAME else ("sources", stream)
        offers = []
        for row in rows:
            path = study_path(self.study, *where, "policies", str(row["version"]))
            offer: Policy[Any] = decode(self._ask("GET", path).content.decode(), Policy)
            if offer.digest != row["digest"] or offer.version != row["version"]:
                problems.append(
                    f"{stream}, version {row['version']}: the policy has the SHA-256 "
                    f"{offer.digest}, the ledger says {row['digest']}."
                )
            offers.append(offer)
        return offers

    def _read(self, what: str) -> Any:
        return fields_of(self._ask("GET", study_path(self.study, what)))


class AsyncAuditor(AsyncClient):
    """An `Auditor` whose methods are awaited."""

    blocking = Auditor


def _guarantee(fields: Any) -> Guarantee:
    return decode(json.dumps(fields), Guarantee)


@dataclass(frozen=True)
class _Before:
    """What people who trust the service may have paid before it was restored.

    Attributes:
        learners: how many there were.
        epsilon, more: epsilon and delta that are not this learner's own.
        delta: this learner's own.
    """

    learners: int
    epsilon: float
    more: float
    delta: float

    @classmethod
    def of(cls, ledger: list[dict[str, Any]], delta: float) -> _Before:
        """From the rows of former learners; each asked for what those before it had, and more."""
        former = [row for row in ledger if row["former"] and row["stream"] == TARGET_NAME]
        asked = max((int(row["asked"]) for row in former), default=0)
        more = max((float(row["delta"]) for row in former), default=0.0)
        return cls(len({row["former"] for row in former}), asked / _MILLION, more, delta)


def _of_certificate(
    certificate: Any, ledger: list[dict[str, Any]], own: list[dict[str, Any]]
) -> list[str]:
    """What is wrong with a certificate beside its ledger."""
    problems = []
    text = json.dumps(ledger, sort_keys=True, separators=(",", ":"))
    if certificate["ledger"] != hashlib.sha256(text.encode()).hexdigest():
        problems.append("the certificate names the SHA-256 of another ledger.")
    target = [row for row in own if row["stream"] == TARGET_NAME]
    last = max(target, key=lambda row: int(row["version"]))
    if certificate["guarantee"] != last["guarantee"]:
        problems.append("the certificate has another guarantee than the last row of the ledger.")
    if certificate["sentence"] != _guarantee(certificate["guarantee"]).sentence:
        problems.append("the certificate says in words something else than in numbers.")
    return problems


def _of_releases(ledger: list[dict[str, Any]], releases: list[dict[str, Any]]) -> list[str]:
    """What is wrong with a list of releases beside the ledger."""
    booked = {(row["stream"], row["version"]): row["digest"] for row in ledger}
    published = {(row["stream"], row["version"]): row["digest"] for row in releases}
    problems = [
        f"{stream}, version {version}: it was published, and the ledger does not know it."
        for stream, version in sorted(published.keys() - booked.keys())
    ]
    problems += [
        f"{stream}, version {version}: the ledger has it, but it was not published."
        for stream, version in sorted(booked.keys() - published.keys())
    ]
    problems += [
        f"{stream}, version {version}: the ledger and the list of releases have two SHA-256."
        for stream, version in sorted(booked.keys() & published.keys())
        if booked[stream, version] != published[stream, version]
    ]
    if len(booked) < len(ledger) or len(published) < len(releases):
        problems.append("the ledger or the list of releases has a version twice.")
    return problems


def _of_stream(
    stream: str, rows: list[dict[str, Any]], offers: list[Policy[Any]], former: _Before, trust: str
) -> list[str]:
    """What is wrong with the rows of a stream beside its policies."""
    problems = []
    versions = [row["version"] for row in rows]
    if versions != list(range(len(rows))):
        problems.append(f"{stream}: the versions are {versions!r:.80}; they count from 0.")
    before, asked = 0.0, rows[0]["asked"]
    for place, row in enumerate(rows):
        name = f"{stream}, version {row['version']}"
        claimed = _guarantee(row["guarantee"])
        held = int(row["held"])
        if claimed.trust_model != trust or row["delta"] != claimed.delta:
            problems.append(
                f"{name}: its guarantee is {claimed.trust_model} at delta = {claimed.delta!r}; the "
                f"row says delta = {row['delta']!r:.40}, and its people are {trust}."
            )
        if held * (1.0 + _FORGIVEN) < claimed.epsilon * _MILLION or held > row["asked"]:
            problems.append(
                f"{name}: it holds {held} millionths of {row['asked']} that were asked for, but "
                f"its guarantee says epsilon = {claimed.epsilon!r}."
            )
        if row["asked"] != asked or claimed.epsilon < before * (1.0 - _FORGIVEN):
            problems.append(f"{name}: less was paid, or something else asked for, than before.")
        before = max(before, claimed.epsilon)
        if claimed.trust_model in _FROM_POLICIES:
            derived, how = _derived(claimed, offers[: place + 1]), "the policies give"
        elif row["declared"] is not None:
            declared = _declared(row["declared"])
            problems += [f"{name}: {wrong}" for wrong in _of_declared(declared)]
            derived, how = _composed(claimed, declared, former), "what it declares gives"
        else:
            problems.append(f"{name}: it declares no mechanisms, so its guarantee is unverified.")
            continue
        if not _follows(claimed, derived):
            problems.append(f"{name}: the ledger claims {claimed.held}, but {how} {derived.held}.")
    return problems


def _derived(claimed: Guarantee, offers: list[Policy[Any]]) -> Guarantee:
    """What people who report under these policies pay, with the noise that a guarantee names."""
    names = claimed.noise or ("",)
    releases = [offer.release(name) for offer in offers for name in names]
    some = [release for release in releases if release is not None]
    return derive_guarantee(some, claimed.trust_model, claimed.adjacency, claimed.delta)


def _declared(fields: Any) -> list[Release]:
    """The records of a row, as often as it says."""
    pairs: tuple[tuple[Annotated[int, Range(1, _MOST_RECORDS)], Release], ...] = from_json(
        fields, tuple[tuple[Annotated[int, Range(1, _MOST_RECORDS)], Release], ...], "declared"
    )
    if sum(times for times, _ in pairs) > _MOST_RECORDS:
        raise InvalidInput(
            f"a row declares more than {_MOST_RECORDS} releases; nothing can be verified."
        )
    return [release for times, release in pairs for _ in range(times)]


def _of_declared(declared: list[Release]) -> list[str]:
    """Mechanisms that cost more than they say: Gaussian noise is as many times its sensitivity as
    its event counts."""
    return [
        f"{release.mechanism} declares a noise multiplier of {release.event.noise_multiplier:g}, "
        f"but its scale is {release.scale:g} and its sensitivity {release.sensitivity:g}."
        for release in dict.fromkeys(declared)
        if isinstance(release.event, GaussianEvent)
        and release.event.noise_multiplier * release.sensitivity > release.scale * (1.0 + _FORGIVEN)
    ]


def _composed(claimed: Guarantee, declared: list[Release], former: _Before) -> Guarantee:
    """What people pay whom these mechanisms met, and who may have been met before."""
    derived = derive_guarantee(declared, claimed.trust_model, claimed.adjacency, former.delta)
    noise = derived.noise
    if former.learners:
        noise = noise or (SecureNoise.name,)
    return replace(
        derived,
        epsilon=derived.epsilon + former.epsilon,
        delta=min(1.0, derived.delta + former.more),
        noise=noise,
        releases=derived.releases + former.learners,
    )


def _follows(claimed: Guarantee, derived: Guarantee) -> bool:
    """Whether a guarantee is what was derived, or a little less."""
    return (
        claimed.epsilon >= derived.epsilon * (1.0 - _FORGIVEN)
        and claimed.delta >= derived.delta * (1.0 - _FORGIVEN)
        and claimed.reports_per_person == derived.reports_per_person
        and claimed.releases == derived.releases
        and set(claimed.data) == set(derived.data)
        and set(claimed.noise) == set(derived.noise)
    )
