"""Exact replay: what two neighbours' runs show beside equal noisy outcomes, and the loss of those.

A `Subject` is code in one state with one person's data open. It is run on one person with the
ledger recording, and on every neighbour with the same outcomes played back. Then

* everything public in between must be equal: policies, others' actions, what the code returned,
  lengths, certificates, and whether anything was refused; what differs tells the two apart;
* noise must be drawn afresh for every number, or losses would not add;
* what was handed to each draw must move by no more than the sensitivity on record;
* the loss follows from how far it moved (losses.py).

Since all neighbours were run with one public past, every two of them can be compared. The worst two
are the start of a search nearby.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from discreet.audit.games import ROUNDING, Claim, Exact
from discreet.audit.ledger import Draw, Ledger
from discreet.audit.losses import Loss, additive, distance, loss_between, shared_noise
from discreet.privacy import Release
from discreet.validation import InvalidInput

# Scales and sensitivities on record are equal to what is drawn but for rounding.
_RECORDED = 1e-8
_ROUNDS, _TRIED = 3, 6


class NothingToAttack(InvalidInput):
    """Nobody's data entered what was drawn or shown."""


class AllRefused(InvalidInput):
    """The code refused everybody."""


@dataclass(frozen=True)
class Promise:
    """What the code says that one person is promised, once it has run.

    Attributes:
        asked: the budget.
        certified: what the certificate says.
        releases: on record; None for code that keeps no records.
    """

    asked: Claim
    certified: Claim
    releases: Sequence[Release] | None = None

    @property
    def claim(self) -> Claim:
        """The smaller of what was asked and what is certified."""
        return Claim(min(self.asked.epsilon, self.certified.epsilon), self.asked.delta)

    @property
    def fault(self) -> str:
        """Whether the certificate is above the budget."""
        asked, held = self.asked, self.certified
        if held.epsilon > asked.epsilon * (1.0 + ROUNDING) or held.delta > asked.delta:
            return (
                f"the certificate says ({held.epsilon:.6g}, {held.delta:g}), more than the "
                f"({asked.epsilon:.6g}, {asked.delta:g}) that was asked for"
            )
        return ""


class Facts:
    """Everything public that a run showed, in order.

    Attributes:
        wanted: whether anybody looks; code need not work out what is dear if not.
        seen: names and contents.
        refused: how often something was refused.
        fault: a rule that was broken whatever the data; empty if none was.
    """

    def __init__(self, wanted: bool = True) -> None:
        self.wanted = wanted
        self.seen: list[tuple[str, bytes]] = []
        self.refused = 0
        self.fault = ""

    def add(self, name: str, content: bytes | str) -> None:
        """Note something public."""
        self.seen.append((name, content.encode() if isinstance(content, str) else content))

    def refusal(self, name: str, error: Exception) -> None:
        """Note that something failed; its kind is public, its message stays with the person."""
        self.refused += 1
        self.add(f"whether {name} is refused", type(error).__name__)

    def rule(self, fault: str) -> None:
        """Note the first rule that was broken; empty for one that was kept."""
        self.fault = self.fault or fault

    def difference(self, other: Facts) -> str:
        """What differs first; empty if nothing does."""
        for (name, mine), (their_name, theirs) in zip(self.seen, other.seen, strict=False):
            if name != their_name:
                return name if name.startswith("whether") else their_name
            if mine != theirs:
                return name
        longer = max(self.seen, other.seen, key=len)
        shorter = min(len(self.seen), len(other.seen))
        return longer[shorter][0] if len(longer) > shorter else ""


@dataclass(frozen=True)
class Subject(ABC):
    """Code in one state (see the module). A person is whatever `run` takes.

    Attributes:
        state: in a few words, for reports.
        tried: the only people to compare; empty for all that the subject knows, and a search.
        bases: so many runs are recorded, of other people and with other outcomes.
    """

    state: str = ""
    tried: tuple[Any, ...] = ()
    bases: int = 1

    @abstractmethod
    def groups(self) -> Iterable[Sequence[Any]]:
        """People of whom every two in a group are neighbours."""

    @abstractmethod
    def run(self, person: Any, facts: Facts) -> Promise:
        """Run the code on one person's data, noting everything public."""

    def near(self, person: Any, rng: np.random.Generator) -> Any | None:
        """Somebody like that person, for the search; None where there is nobody else."""
        return None


@dataclass(frozen=True, eq=False)
class _Ran:
    """One run."""

    person: Any
    facts: Facts
    draws: Sequence[Draw]
    astray: str
    promise: Promise
    ledger: Ledger = field(repr=False)


@dataclass(frozen=True, eq=False)
class Worst:
    """The two people who are told apart best.

    Attributes:
        subject: the code.
        pair: the people.
        loss: between them.
        promise: of the run on the first.
        fault: what is wrong whoever they are; empty if nothing is.
    """

    subject: Subject
    pair: tuple[Any, Any]
    loss: Loss
    promise: Promise
    fault: str = ""

    @property
    def exact(self) -> Exact:
        """As the audit shows it."""
        claim = self.promise.claim
        words = f"{self.pair[0]} or {self.pair[1]}"
        attack = f"{self.subject.state}; {words}" if self.subject.state else words
        fault = self.fault or self.loss.reason
        return Exact(claim, self.loss.epsilon(claim.delta), attack, fault, self.subject, self.pair)

    @property
    def order(self) -> tuple[bool, bool, float]:
        """What worse findings are larger in: the share of the promise that is used up. Of shares
        that are alike to a hundredth the one that was found first is shown."""
        exact = self.exact
        share = exact.epsilon / max(exact.claim.epsilon, 1e-12)
        return bool(exact.fault), exact.broken, round(share, 2)


def worst_of(subjects: Sequence[Subject], others: int = 4) -> Worst:
    """The worst neighbours over several states: those of the first, found by a search, are tried in
    all of them, with so many `others`.

    Raises:
        InvalidInput: if one of them cannot be replayed, or nobody's data enters any.
    """
    found = [worst_neighbours(subjects[0])]
    for subject in subjects[1:]:
        known = max(found, key=lambda one: one.order)
        if known.exact.broken:
            break
        crowd = next(iter(subject.groups()))
        tried = (*known.pair, *crowd[:: max(1, len(crowd) // others)])
        try:
            found.append(worst_neighbours(replace(subject, tried=tried)))
        except NothingToAttack:
            continue  # a person of the last batch enters no release
    return max(found, key=lambda one: one.order)


def worst_neighbours(subject: Subject) -> Worst:
    """The two neighbours that are told apart best.

    Raises:
        InvalidInput: for code that cannot be replayed, that refuses everybody, or that nobody's
            data enters.
    """
    groups = [subject.tried] if subject.tried else subject.groups()
    found = [
        _worst_of_group(subject, [group[base], *group[:base], *group[base + 1 :]], base)
        for group in groups
        for base in range(min(subject.bases, len(group)))
    ]
    worst = max(found, key=lambda one: one.order)
    if not worst.fault and worst.loss == Loss():
        raise NothingToAttack(
            f"nobody's data entered what {subject.state or 'the code'} draws or shows, so there is "
            "nothing to attack; give a state in which a release is made."
        )
    return worst


def _worst_of_group(subject: Subject, people: Sequence[Any], seed: int) -> Worst:
    # What is made once and kept (feature maps) is made in the first run, which may draw for it.
    for _ in range(2):
        first = _ran(subject, people[0], None, seed)
        again = _ran(subject, people[0], first.ledger)
        told = first.facts.difference(again.facts) or again.astray
        if not told:
            break
    if first.ledger.own_noise:
        told = "it makes a generator without a seed"
    if told:
        raise InvalidInput(
            f"{subject.state or 'the code'} cannot be replayed: two runs on the same data with the "
            f"same outcomes differ ({told}). Draw all noise from the noise source that is given."
        )
    runs = [first, *(_ran(subject, person, first.ledger) for person in people[1:])]
    if all(run.facts.refused for run in runs):
        raise AllRefused(
            f"{subject.state or 'the code'} refused everybody whom the audit tried; give people "
            "whom it takes."
        )
    fault = first.facts.fault or first.promise.fault or shared_noise(first.draws)
    loss, pair = _worst_pair(runs)
    rng = np.random.default_rng(3)
    for _ in range(0 if loss.reason or fault or subject.tried else _ROUNDS):
        near = [subject.near(pair[turn % 2].person, rng) for turn in range(_TRIED)]
        more = [_ran(subject, one, first.ledger) for one in near if one is not None]
        if not more:
            break
        runs.extend(more)
        loss, pair = _worst_pair([*pair, *more], first)
        if loss.reason:
            break
    if not loss.reason:
        fault = fault or _beyond_record(runs, first.promise.releases)
    return Worst(subject, (pair[0].person, pair[1].person), loss, first.promise, fault)


def _ran(subject: Subject, person: Any, recorded: Ledger | None, seed: int = 0) -> _Ran:
    ledger, facts = Ledger(seed), Facts()
    with ledger.recording() if recorded is None else ledger.playing(recorded):
        promise = subject.run(person, facts)
    return _Ran(person, facts, ledger.draws, ledger.astray, promise, ledger)


def _worst_pair(runs: Sequence[_Ran], first: _Ran | None = None) -> tuple[Loss, tuple[_Ran, _Ran]]:
    """All runs have the same public past, that of the first, or are told from it for sure."""
    base = first or runs[0]
    for run in runs:
        told = base.facts.difference(run.facts) or run.astray
        if told:
            return Loss(reason=f"{told} depends on the data"), (base, run)
    pairs = [(loss_between(a.draws, b.draws), (a, b)) for a, b in combinations(runs, 2)]
    return max(pairs, key=lambda one: one[0].order)


def _beyond_record(runs: Sequence[_Ran], releases: Sequence[Release] | None) -> str:
    """Whether something moved further than the sensitivity on record, or has another scale."""
    if releases is None:
        return ""
    declared: dict[float, float] = {}
    for release in releases:
        declared[release.scale] = max(declared.get(release.scale, 0.0), release.sensitivity)
    for number, draws in enumerate(zip(*(run.draws for run in runs), strict=True)):
        if not additive(draws[0]):
            continue
        scale = draws[0].mechanism
        known = [
            sensitivity
            for recorded, sensitivity in declared.items()
            if abs(recorded - scale) <= _RECORDED * scale
        ]
        if not known:
            return f"draw {number + 1} has noise of scale {scale:.6g}, which no record has"
        moved = max(distance(draws[0], draw) for draw in draws[1:])
        if moved > max(known) * (1.0 + _RECORDED):
            return (
                f"draw {number + 1} moves by {moved:.6g}, more than the sensitivity of "
                f"{max(known):.6g} on record"
            )
    return ""
