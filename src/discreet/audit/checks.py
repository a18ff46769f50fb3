"""What an audit checks: a promise, who sees what, and how exact replay attacks it.

| trust model | the adversary sees                                                              |
|-------------|---------------------------------------------------------------------------------|
| local       | one person's report; all that came before it, the policy and the public coin    |
| shuffled    | groups of reports in random order, and all policies; of learners one report     |
| joint       | all releases and policies, and everybody else's actions                         |
| outsourced  | the release, with the place of the row that may have moved                      |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from discreet.audit.replay import Exact, Promise, Transcript, exact_of
from discreet.audit.trials import Bound
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.accounting import TrustModel

Kind = Literal["mechanism", "learner", "surface", "known-broken"]


@dataclass(frozen=True)
class Check:
    """One line of the audit.

    Attributes:
        name: as `discreet audit NAME` takes it.
        kind: `mechanism`, `learner`, `surface`, or `known-broken` for a design with a known flaw.
        trust_model: who sees what.
        exact: replays it exactly; None where there is no promise to break.
        about: what is audited, in one line.
        bound: how trials of whole runs bound epsilon (trials.py); None for no trials.
    """

    name: str
    kind: Kind
    trust_model: TrustModel
    exact: Callable[[], Exact] | None = field(default=None, repr=False)
    about: str = ""
    bound: Bound | None = None


@dataclass(frozen=True, kw_only=True)
class Design:
    """A mechanism, or a design that is known to be broken: a function of data and noise.

    Attributes:
        name: see `Check`, as for `kind`, `trust_model` and `about`.
        release: what is released of data with some noise.
        promise: of data and what was released of it.
        neighbours: groups of data sets, with words, of which every two are neighbours.
        source: makes the noise from a seed.
        shown: what is released, in words.
    """

    name: str
    kind: Kind = "mechanism"
    trust_model: TrustModel
    release: Callable[[Any, NoiseSource], Any]
    promise: Callable[[Any, Any], Promise]
    neighbours: Sequence[Sequence[tuple[str, Any]]]
    source: Callable[[int], NoiseSource] = SimulatedNoise
    shown: str = "the release"
    about: str = ""

    @property
    def check(self) -> Check:
        """The check of this design."""
        return Check(self.name, self.kind, self.trust_model, self.exact, self.about)

    def exact(self) -> Exact:
        """The exact loss between the worst neighbours."""
        return exact_of(self._run, *self.neighbours)

    def _run(self, data: Any, transcript: Transcript) -> Promise:
        released = self.release(data, self.source(1))
        transcript.add(self.shown, released)
        return self.promise(data, released)
