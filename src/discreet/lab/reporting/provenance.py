"""Where a page or a file of results comes from: what a signer has to know.

`Provenance` is made in one place. It is on the pages of a run, a plan, an audit and a search over a
release, in the records of the first three, and on the certificates of a service. The digest of a
private table is a function of people's data: readers who can guess the table can confirm the guess.
So pages that show it say so, and the JSON of a certificate, which is passed on alone, has no digest
of a table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from discreet.lab.studies import Study
from discreet.records import ORIGIN, Record, Value, values_of

# What computes, and what draws noise: NumPy in simulations, OpenDP where noise protects people.
_LIBRARIES = ("discreet", "numpy", "opendp")


@dataclass(frozen=True)
class Provenance:
    """The origin of results.

    Attributes:
        made: date and time, UTC.
        study: its name, or that of what the results are of.
        study_sha256: of the study file; "" without one.
        tables: name and SHA-256 of each table that was read.
        private: whether these tables hold people's data.
        learners: registered names.
        seed: of everything that is drawn; None where nothing can be drawn again.
        versions: of discreet and of the libraries that draw noise.
        kind: what the name is of: a `study`, a `release`, a `reproduction`, or what was `audited`.
    """

    made: str
    study: str
    study_sha256: str
    tables: tuple[tuple[str, str], ...]
    private: bool
    learners: tuple[str, ...]
    seed: int | None
    versions: str
    kind: str = "study"

    def certificate(self, learner: str) -> dict[str, Value]:
        """What the JSON of a learner's certificate says of its origin."""
        return {
            "made": self.made,
            "study": self.study,
            "study_sha256": self.study_sha256,
            "learner": learner,
            "seed": self.seed,
            "versions": self.versions,
        }

    def stamped(self, records: Iterable[Record]) -> list[Record]:
        """Records with their origin, as it stands on the page."""
        tables = "; ".join(f"{name}: {digest}" for name, digest in self.tables)
        facts = (self.made, self.study, self.study_sha256, tables, self.seed, self.versions)
        origin: dict[str, Value] = dict(zip(ORIGIN, facts, strict=True))
        return [{**values_of(record), **origin} for record in records]


def provenance(study: Study) -> Provenance:
    """The origin of results of a study."""
    problem = study.problem
    text = study.text.encode() if study.path is None else study.path.read_bytes()
    files = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in problem.files]
    frames = [(f"data frame {place}", each) for place, each in enumerate(problem.tables, start=1)]
    return Provenance(
        _now(),
        study.name,
        hashlib.sha256(text).hexdigest(),
        (*files, *frames),
        bool(problem.exposure),
        tuple(dict.fromkeys(setting.learner for setting in study.settings)),
        study.seed,
        _versions(),
    )


def provenance_of_seed(name: str, seed: int, kind: str = "audited") -> Provenance:
    """The origin of an audit, or a reproduction, that reads no study."""
    return Provenance(_now(), name, "", (), False, (), seed, _versions(), kind)


def provenance_of_release(name: str, file: str, sha256: str, seed: int) -> Provenance:
    """The origin of a search over a released table, whose rows are public."""
    return Provenance(_now(), name, "", ((file, sha256),), False, (), seed, _versions(), "release")


def provenance_of_service(name: str, text: str, learner: str) -> Provenance:
    """The origin of a study that is served, from the text of its file."""
    digest = hashlib.sha256(text.encode()).hexdigest() if text else ""
    return Provenance(_now(), name, digest, (), False, (learner,), None, _versions())


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _versions() -> str:
    found = versions_of(_LIBRARIES)
    return ", ".join(f"{name} {found.get(name, 'not installed')}" for name in _LIBRARIES)


def versions_of(libraries: Iterable[str]) -> dict[str, str]:
    """The version of each library that is installed."""
    versions = {}
    for name in libraries:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
