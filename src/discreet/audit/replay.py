"""Exact replay: the privacy loss between runs on neighbours that share all noisy outcomes.

A `Subject` is code in one state that takes one person's data. It is run on one person while a tape
records, and on every neighbour with the same outcomes played back. Then

* everything public must be equal: policies, others' actions, returned values, lengths,
  certificates, reprs, logs, warnings, printed text, and refusals; any difference distinguishes the
  two with certainty;
* noise must be new for every number, or losses would not add;
* everything must be drawn from the given source, or others could draw it too;
* the input of each draw must move by no more than the sensitivity on record;
* the loss follows from how far the inputs moved (tape.py).

All neighbours share one public past, so every two of them can be compared. The worst two are the
start of a local search.
"""

from __future__ import annotations

import inspect
import io
import logging
import re
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib.util import find_spec
from itertools import combinations
from typing import Any, NamedTuple, Self, TextIO

import numpy as np

from discreet.audit.tape import (
    AddedNoise,
    Loss,
    NoiseTape,
    loss_between,
    shared_noise,
    unrecorded,
    watching,
)
from discreet.codec import Serializable, fields_of
from discreet.learners.policy import Policy
from discreet.privacy import NoiseSource, Release, SecureNoise
from discreet.privacy.accounting import Event, composed_epsilon
from discreet.validation import InvalidInput

# What is proved may exceed a certificate by the rounding of either.
ROUNDING = 1e-9
# Scales and sensitivities on record are equal to what is drawn but for rounding.
_RECORDED = 1e-8
_ROUNDS, _TRIED = 3, 4
# Whether SecureNoise can be attacked here.
SECURE = find_spec("opendp") is not None


@dataclass(frozen=True)
class Claim:
    """A promised (epsilon, delta).

    Attributes:
        epsilon: the certified epsilon; for a known-broken design, the one it claims.
        delta: 0 for a pure promise.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not self.epsilon >= 0.0 or not 0.0 <= self.delta < 1.0:
            raise InvalidInput(
                f"a claim was epsilon = {self.epsilon}, delta = {self.delta}; epsilon must be at "
                "least 0, and delta at least 0 and below 1."
            )

    def exceeded_by(self, epsilon: float) -> bool:
        """Whether that epsilon, at this delta, breaks the promise."""
        return epsilon > self.epsilon * (1.0 + ROUNDING) + ROUNDING


@dataclass(frozen=True)
class Exact:
    """A promise whose epsilon is known exactly, for these neighbours.

    Attributes:
        claim: what is promised.
        epsilon: of the output distributions on the two data sets, at the claim's delta.
        attack: the neighbours, in a few words.
        fault: what breaks the promise with certainty; empty if nothing does.
        subject: the code in its worst state; None where distributions were enumerated.
        pair: the neighbours.
        loss: between them, where code was replayed.
        unaudited: the states that could not be audited here, with the reason; empty for none.
    """

    claim: Claim
    epsilon: float
    attack: str
    fault: str = ""
    subject: Any = None
    pair: tuple[Any, Any] = (None, None)
    loss: Loss | None = None
    unaudited: str = ""

    @property
    def broken(self) -> bool:
        """Whether the promise is broken."""
        return bool(self.fault) or self.claim.exceeded_by(self.epsilon)

    def order(self) -> tuple[bool, bool, float]:
        """A sort key, larger for worse findings: the share of the promise that is used up.

        Shares are rounded to a hundredth, so that the first of several equal findings is shown.
        """
        share = self.epsilon / max(self.claim.epsilon, 1e-12)
        return bool(self.fault), self.broken, round(share, 2)


class NotAudited(InvalidInput):
    """A promise that cannot be audited here; the message gives the reason."""


def secure(seed: object = None) -> NoiseSource:
    """A new SecureNoise, which no seed can repeat."""
    if not SECURE:
        raise NotAudited('OpenDP is not installed; run pip install "discreet[secure]".')
    return SecureNoise()


class NothingToAttack(InvalidInput):
    """No person's data entered anything drawn or shown."""


class AllRefused(InvalidInput):
    """The code refused every person."""


@dataclass(frozen=True)
class Promise:
    """The promise to one person after a run.

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
        """The smaller of budget and certificate."""
        return Claim(min(self.asked.epsilon, self.certified.epsilon), self.asked.delta)

    @property
    def fault(self) -> str:
        """A certificate above the budget, in words; empty if there is none."""
        asked, held = self.asked, self.certified
        if held.epsilon > asked.epsilon * (1.0 + ROUNDING) or held.delta > asked.delta:
            return (
                f"the certificate says ({held.epsilon:.6g}, {held.delta:g}), more than the "
                f"({asked.epsilon:.6g}, {asked.delta:g}) that was asked for"
            )
        return ""


class Transcript:
    """Everything public that a run showed, in order.

    Attributes:
        wanted: whether it is compared; if not, nothing is kept, and code skips what is costly.
        count: how much was shown, kept or not.
        judged: whether rules are tried, which say nothing of the data: in the recorded run alone.
        seen: names and contents.
        refused: the number of refusals.
        fault: the first broken rule, whatever the data; empty for none.
    """

    def __init__(self, wanted: bool = True, judged: bool = True) -> None:
        self.wanted = wanted
        self.judged = judged
        self.seen: list[tuple[str, bytes]] = []
        self.count = 0
        self.refused = 0
        self.fault = ""

    def add(self, name: str, shown: Any) -> None:
        """Note something public; for a message, its repr and its encoded fields."""
        self.count += 1
        if not self.wanted:
            return
        if isinstance(shown, Serializable) and shown.facts is not None:
            self.seen.append((f"the repr of {name}", without_addresses(repr(shown)).encode()))
            shown = fields_of(shown)
        self.seen.append((name, fingerprint(shown)))

    def refusal(self, name: str, error: Exception) -> None:
        """Note a failure: its type is public, its message stays with the person."""
        self.refused += 1
        self.add(f"whether {name} is refused", type(error).__name__)

    def rule(self, broken: str | Callable[[], str]) -> None:
        """Note a broken rule, in words; they are empty for a rule that was kept.

        What is called to try a rule may draw and log: the runs that play this one back do not.
        """
        if not self.judged or self.fault:
            return
        if isinstance(broken, str):
            self.fault = broken
            return
        with unrecorded(), _unheard():
            self.fault = broken()

    def difference(self, other: Transcript) -> str:
        """The name of the first difference; empty if there is none."""
        for (name, mine), (their_name, theirs) in zip(self.seen, other.seen, strict=False):
            if name != their_name:
                return name if name.startswith("whether") else their_name
            if mine != theirs:
                return name
        longer = max(self.seen, other.seen, key=len)
        shorter = min(len(self.seen), len(other.seen))
        return longer[shorter][0] if len(longer) > shorter else ""


@dataclass(frozen=True, kw_only=True)
class Subject(ABC):
    """Code in one state (see the module). A person is the argument of `run`.

    Attributes:
        state: in a few words, for reports.
        tried: the only people to compare; empty for those of `groups`, and a search.
        bases: the number of recorded runs, each of another person and with other outcomes.
    """

    state: str = ""
    tried: tuple[Any, ...] = ()
    bases: int = 1

    @abstractmethod
    def groups(self) -> Iterable[Sequence[Any]]:
        """People of whom every two in a group are neighbours."""

    @abstractmethod
    def run(self, person: Any, transcript: Transcript) -> Promise:
        """Run the code on one person's data, noting everything public."""

    def near(self, person: Any, rng: np.random.Generator) -> Any | None:
        """A person near that one, for the search; None where there is none."""
        return None

    def at(self, base: int) -> Self:
        """The subject of recorded run number `base`, which may place the person elsewhere."""
        return self


class _Ran(NamedTuple):
    """One run."""

    person: Any
    transcript: Transcript
    promise: Promise
    tape: NoiseTape

    def differs(self, other: _Ran) -> str:
        """The first public difference of a run that played this one back; empty for none."""
        return self.transcript.difference(other.transcript) or other.tape.astray

    @property
    def handed_in(self) -> tuple[Any, ...]:
        """What the draws depend on."""
        return tuple(
            (draw.kind, draw.mechanism, draw.value_bytes, np.asarray(draw.public).tobytes())
            for draw in self.tape.draws
        )


def worst_of(subjects: Iterable[Subject], others: int = 4) -> Exact:
    """The worst neighbours over several states.

    A search finds those of the first state that a person's data enter; they are tried in all later
    states, with some others.

    Args:
        subjects: the code in its states.
        others: roughly how many further people are tried in later states.

    Raises:
        InvalidInput: if the first state cannot be replayed, or no state takes a person's data.
    """
    worst: Exact | None = None
    nothing = NothingToAttack("there is no state to attack; give one.")
    missing: dict[str, list[str]] = {}
    for subject in subjects:
        if worst is not None:
            if worst.broken:
                break
            crowd = next(iter(subject.groups()))
            tried = (*worst.pair, *subject.tried, *evenly_spaced(crowd, others))
            subject = replace(subject, tried=tuple(_apart(tried).values()))
        try:
            found = worst_neighbours(subject)
        except NothingToAttack as error:
            # A person of the last batch enters no release, a learner that is sure asks nothing.
            nothing = error
            continue
        except NotAudited as error:
            if worst is None:
                raise
            missing.setdefault(str(error), []).append(subject.state)
            continue
        worst = found if worst is None else max(worst, found, key=Exact.order)
    if worst is None:
        raise nothing
    reasons = [f"not audited {'; '.join(states)}: {why}" for why, states in missing.items()]
    return replace(worst, unaudited=" ".join(reasons))


def evenly_spaced(people: Sequence[Any], count: int) -> Sequence[Any]:
    """Roughly `count` people, evenly spaced by an odd step, since rewards alternate."""
    step = max(1, len(people) // count) | 1
    return people[step // 2 :: step]


def worst_neighbours(subject: Subject) -> Exact:
    """The two neighbours with the largest loss.

    Raises:
        InvalidInput: for code that cannot be replayed, that refuses every person, or that no
            person's data enter.
    """
    groups = [subject.tried] if subject.tried else subject.groups()
    findings: list[Exact] = []
    refused: AllRefused | None = None
    with watching(), capturing():
        for group in groups:
            for base in range(min(subject.bases, len(group))):
                people = [group[base], *group[:base], *group[base + 1 :]]
                try:
                    findings.append(_worst_of_group(subject.at(base), people, base))
                except AllRefused as error:
                    refused = error  # from this place; others may get through
    if refused is not None and not findings:
        raise refused
    worst = max(findings, key=Exact.order)
    if not worst.fault and worst.loss == Loss():
        raise NothingToAttack(
            f"no person's data entered what {subject.state or 'the code'} draws or shows, so there "
            "is nothing to attack; give a state in which a release is made."
        )
    return worst


def _worst_of_group(subject: Subject, people: Sequence[Any], seed: int) -> Exact:
    # The first run may draw for what is made once and cached, such as feature maps.
    for _ in range(2):
        first = _ran(subject, people[0], None, seed)
        runs = [first, *(_ran(subject, person, first.tape) for person in people[1:])]
        if len(runs) > 1 and not any(map(first.differs, runs)):
            break
        # Whether the code depends on the data, or on nothing that is replayed.
        difference = first.differs(_ran(subject, people[0], first.tape))
        if not difference:
            break
    else:
        if not first.tape.foreign and not first.transcript.fault:
            raise InvalidInput(
                f"{subject.state or 'the code'} cannot be replayed: two runs on the same data with "
                f"the same outcomes differ ({difference}). Draw all noise from the noise source "
                "that is given."
            )
    if all(run.transcript.refused for run in runs):
        raise AllRefused(
            f"{subject.state or 'the code'} refused all people that were tried; give people that "
            "it accepts."
        )
    foreign = next((run.tape.foreign for run in runs if run.tape.foreign), "")
    fault = first.transcript.fault or first.promise.fault or foreign
    fault = fault or shared_noise(first.tape.draws)
    loss, pair = _worst_pair(runs, first)
    rng, known = np.random.default_rng(3), set(_apart(run.person for run in runs))
    for _ in range(0 if loss.reason or fault or subject.tried else _ROUNDS):
        near = [subject.near(pair[turn % 2].person, rng) for turn in range(_TRIED)]
        new = [(key, each) for key, each in _apart(near).items() if key not in known]
        more = [_ran(subject, person, first.tape) for _, person in new if person is not None]
        if not more:
            break
        known.update(key for key, _ in new)
        runs.extend(more)
        loss, pair = _worst_pair([*pair, *more], first)
        if loss.reason:
            break
    if not loss.reason:
        fault = fault or _beyond_record(runs, first.promise.releases)
    persons, claim = (pair[0].person, pair[1].person), first.promise.claim
    words = f"{persons[0]} or {persons[1]}"
    attack = f"{subject.state}; {words}" if subject.state else words
    epsilon = loss.epsilon(claim.delta)
    return Exact(claim, epsilon, attack, fault or loss.reason, subject, persons, loss)


def _ran(subject: Subject, person: Any, recorded: NoiseTape | None, seed: int = 0) -> _Ran:
    tape, transcript = NoiseTape(seed), Transcript(judged=recorded is None)
    with (
        written_out(transcript),
        tape.recording() if recorded is None else tape.playing(recorded),
        _exact_reprs(),
    ):
        promise = subject.run(person, transcript)
    return _Ran(person, transcript, promise, tape)


def _worst_pair(runs: Sequence[_Ran], first: _Ran) -> tuple[Loss, tuple[_Ran, _Ran]]:
    """The two runs with the largest loss; a run whose public past differs is one of them."""
    for run in runs:
        difference = first.differs(run)
        if difference:
            return Loss(reason=f"{difference} depends on the data"), (first, run)
    # Runs that handed in the same have the same losses, and none between them.
    unlike: dict[tuple[Any, ...], _Ran] = {}
    for run in runs:
        unlike.setdefault(run.handed_in, run)
    pairs = [
        (loss_between(one.tape.draws, other.tape.draws), (one, other))
        for one, other in combinations(unlike.values() if len(unlike) > 1 else runs[:2], 2)
    ]
    return max(pairs, key=lambda pair: pair[0].order)


def _beyond_record(runs: Sequence[_Ran], releases: Sequence[Release] | None) -> str:
    """Whether something moved further than the sensitivity on record, or has another scale."""
    if releases is None:
        return ""
    for number, draws in enumerate(zip(*(run.tape.draws for run in runs), strict=True)):
        first = draws[0]
        if not isinstance(first, AddedNoise):
            continue
        scale = first.mechanism
        recorded = [
            release.reach for release in releases if abs(release.scale - scale) <= _RECORDED * scale
        ]
        if not recorded:
            return f"draw {number + 1} has noise of scale {scale:.6g}, which no record has"
        moved = max(first.distance(draw) for draw in draws[1:])
        if moved > max(recorded) * (1.0 + _RECORDED):
            return (
                f"draw {number + 1} moves by {moved:.6g}, more than the sensitivity of "
                f"{max(recorded):.6g} on record"
            )
    return ""


# Subjects that are one function of one value, for mechanisms and designs that are broken.


class Labelled(NamedTuple):
    """One data set, with a few words for it."""

    label: str
    data: Any

    def __str__(self) -> str:
        return self.label


# Runs on a value, notes what comes out, and says what is promised.
Code = Callable[[Any, Transcript], Promise]


@dataclass(frozen=True, kw_only=True)
class Values(Subject):
    """Code that takes a value.

    Attributes:
        code: that is run.
        neighbours: groups of values of which every two are neighbours.
    """

    code: Code
    neighbours: Sequence[Sequence[Labelled]]

    def groups(self) -> Iterable[Sequence[Labelled]]:
        return self.neighbours

    def run(self, person: Labelled, transcript: Transcript) -> Promise:
        return self.code(person.data, transcript)


def exact_of(code: Code, *groups: Sequence[tuple[str, Any]], state: str = "") -> Exact:
    """The exact loss between the worst two values of a group."""
    neighbours = [[Labelled(*value) for value in group] for group in groups]
    return worst_neighbours(Values(state=state, code=code, neighbours=neighbours))


def promised(
    asked: Claim, events: Sequence[Event], releases: Sequence[Release] | None = None
) -> Promise:
    """A budget, and what the accounting says of these events at its delta."""
    return Promise(asked, Claim(composed_epsilon(events, asked.delta), asked.delta), releases)


# What code shows.


@contextmanager
def _unheard() -> Iterator[None]:
    """Nothing that is logged or warned of meanwhile is noted."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class _Log(logging.Handler):
    """Keeps every record of the log as text."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = without_addresses(logging.Formatter().format(record))
        self.lines.append(f"{record.name} {record.levelname} {text}")


class _Printed(io.StringIO):
    """Takes what its own thread prints; another's, as of progress, goes where it would."""

    def __init__(self, usual: TextIO) -> None:
        super().__init__()
        self._usual, self._thread = usual, threading.get_ident()

    def write(self, text: str) -> int:
        own = threading.get_ident() == self._thread
        return super().write(text) if own else self._usual.write(text)

    def flush(self) -> None:
        if threading.get_ident() != self._thread:
            self._usual.flush()


# Lines of the log, warnings and printed text, while they are captured; else empty.
_CAPTURED: list[tuple[list[str], list[warnings.WarningMessage], tuple[_Printed, _Printed]]] = []


@contextmanager
def capturing() -> Iterator[None]:
    """Capture the library's log, warnings and printed text, for `written_out`.

    Entered once around many runs, it saves the cost of redirecting them in each.
    """
    if _CAPTURED:
        yield
        return
    log, handler = logging.getLogger("discreet"), _Log()
    printed = _Printed(sys.stdout), _Printed(sys.stderr)
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            redirect_stdout(printed[0]),
            redirect_stderr(printed[1]),
        ):
            _CAPTURED.append((handler.lines, warned, printed))
            yield
    finally:
        _CAPTURED.clear()
        log.setLevel(level)
        log.propagate = propagate
        log.removeHandler(handler)


@contextmanager
def written_out(transcript: Transcript) -> Iterator[None]:
    """Note what the library logs at any level, warns of, or prints meanwhile."""
    with capturing():
        # Earlier runs may have changed the filters and the level.
        warnings.simplefilter("always")
        if (log := logging.getLogger("discreet")).level != logging.DEBUG:
            log.setLevel(logging.DEBUG)
        logged, warned, printed = _CAPTURED[-1]
        del logged[:], warned[:]
        for each in printed:
            each.seek(0)
            each.truncate()
        yield
        transcript.add("what is logged", logged)
        transcript.add("a warning", [str(each.message) for each in warned])
        transcript.add("what is printed", "".join(each.getvalue() for each in printed))


# What the learner shows too (releases, policies), and what enters a file marked as secret.
_OF_STREAMS = ("drawn", "guarantee", "policies", "releases", "saved")


def public_values(thing: object, but: Sequence[str] = ()) -> Iterator[tuple[str, bytes]]:
    """Everything that an object shows under a name without an underscore: attributes, properties,
    and what methods return that need no argument, and its repr. Names in `but` are left out. Of a
    learner's streams, which hold sums, what each of them shows."""
    if "repr" not in but:
        yield "repr", without_addresses(repr(thing)).encode()
    for name in dir(thing):
        if name.startswith("_") or name in but:
            continue
        try:
            value = getattr(thing, name)
            if inspect.ismethod(value):
                if inspect.isclass(value.__self__) or _needs_arguments(value.__func__):
                    continue
                value = value()
        except Exception as error:
            value = type(error).__name__
        if name == "streams" and isinstance(value, dict):
            for stream in value.values():
                for each, shown in public_values(stream, _OF_STREAMS):
                    yield f"{each} of stream {stream.name!r}", shown
        else:
            yield name, fingerprint(value)


def reprs_within(thing: object) -> list[str]:
    """The reprs of an object and of all objects of the library that it holds, at any depth, but for
    policies and releases, which are public."""
    found: dict[int, object] = {id(thing): thing}
    waiting: list[Any] = [vars(thing)]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)
        elif _may_hold_data(each) and id(each) not in found:
            found[id(each)] = each
            waiting.append(getattr(each, "__dict__", {}))
    return [without_addresses(repr(each)) for each in found.values()]


def _may_hold_data(thing: object) -> bool:
    return type(thing).__module__.startswith("discreet.") and not isinstance(
        thing, Policy | Release
    )


def _exact_reprs() -> AbstractContextManager[Any]:
    """Reprs show arrays whole and exactly, in a fraction of the time that NumPy's own take."""
    return np.printoptions(override_repr=lambda array: fingerprint(array).hex())


def _apart(people: Iterable[Any]) -> dict[str, Any]:
    """Each of these people once."""
    with _exact_reprs():
        return {repr(person): person for person in people}


def without_addresses(text: str) -> str:
    """The text without addresses in memory, which differ from run to run."""
    return re.sub(r"0x[0-9a-f]+", "0x", text)


@cache
def _needs_arguments(function: Callable[..., Any]) -> bool:
    """Whether a method needs arguments besides `self`."""
    _, *others = inspect.signature(function).parameters.values()
    return any(
        parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        for parameter in others
    )


_PLAIN = frozenset({type(None), bool, int, float, str})
_PRINTED, _LISTS = (int, float, str, np.generic), (list, tuple)
_LONG = 8


def fingerprint(value: Any) -> bytes:
    """Bytes that are equal for equal values; of objects their public attributes."""
    kind: Any = type(value)
    if kind in _PLAIN or isinstance(value, _PRINTED):
        return repr(value).encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str} {value.shape}".encode() + value.tobytes()
    if isinstance(value, dict):
        items = (fingerprint(key) + b":" + fingerprint(item) for key, item in value.items())
        return b"{" + b",".join(items) + b"}"
    if isinstance(value, _LISTS):
        kinds = set(map(type, value))
        # Policies hold long lists of numbers; equal bytes are equal numbers.
        if len(value) > _LONG and kinds == {float}:
            return b"floats" + array("d", value).tobytes()
        if kinds <= _PLAIN:
            return repr([*value]).encode()
        return b"[" + b",".join(map(fingerprint, value)) + b"]"
    name = type(value).__name__.encode()
    if inspect.isroutine(value) or inspect.isclass(value):
        return name
    if is_dataclass(value):
        shown = {each: getattr(value, each) for each in _fields(kind)}
    else:
        attributes = getattr(value, "__dict__", {})
        shown = {key: item for key, item in attributes.items() if not key.startswith("_")}
    return name + fingerprint(shown)


@cache
def _fields(kind: type[Any]) -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(kind))
