"""Accounting: what one person is promised by several releases, against their exact loss together.

| data                 | releases of it                                                      |
|----------------------|---------------------------------------------------------------------|
| rounds that overlap  | Gaussian noise, for rounds 0 to 9 and for 5 to 14; a person of both |
| a group              | two of unequal noise, of which a person enters one                  |
| Laplace noise        | two releases of it                                                  |
| both kinds           | Laplace and Gaussian noise, the Laplace noise the louder            |
| somebody twice       | one release with two rows of theirs                                 |

The sentence of a certificate must not say less than its numbers.
"""

from __future__ import annotations

import re
from functools import partial

import numpy as np

from discreet.audit.exact import Facts, Promise
from discreet.audit.games import Check, Claim, Exact
from discreet.audit.values import exact_of
from discreet.privacy import Adjacency, OnceEach, Release, Rounds, SimulatedNoise, derive_guarantee
from discreet.privacy.accounting import Event, GaussianEvent, PureEvent
from discreet.privacy.guarantee import Guarantee

DELTA = 1e-5
_FAR, _NEAR, _PURE = 4.0, 2.5, 3.0


def composition_checks() -> list[Check]:
    """One check for each way in which releases come together."""
    return [
        Check(
            f"composition, {name}", "mechanism", "joint", partial(_exact, name), None, about=about
        )
        for name, about in (
            ("rounds", "rounds that overlap"),
            ("group", "releases of which a person enters one"),
            ("Laplace noise", "two releases with Laplace noise"),
            ("both kinds", "Laplace and Gaussian noise"),
            ("repeated", "a person who takes part twice"),
        )
    ]


def _exact(name: str) -> Exact:
    return exact_of(partial(_run, name), [("0", 0.0), ("1", 1.0)])


def _release(event: Event, people: Rounds | OnceEach) -> Release:
    scale = event.noise_multiplier if isinstance(event, GaussianEvent) else 1.0 / event.epsilon
    return Release("noise", event, 1.0, "numbers 1 apart", scale, people, "a number", "simulated")


def _run(name: str, value: float, facts: Facts) -> Promise:
    noise, group = SimulatedNoise(9), OnceEach("a group")
    if name == "rounds":
        releases = [
            _release(GaussianEvent(_FAR), Rounds(0, 10)),
            _release(GaussianEvent(_FAR), Rounds(5, 15)),
        ]
        entered = releases
    elif name == "group":
        releases = [_release(GaussianEvent(one), group) for one in (_FAR, _NEAR)]
        entered = releases[1:]
    elif name == "Laplace noise":
        releases = entered = [_release(PureEvent(one), Rounds(0, 1)) for one in (1.0, 0.5)]
    elif name == "both kinds":
        releases = [
            _release(PureEvent(_PURE), Rounds(0, 1)),
            _release(GaussianEvent(2.0 * _FAR), Rounds(0, 1)),
        ]
        entered = releases
    else:
        releases = entered = [_release(GaussianEvent(_NEAR), group)]
    for release in entered:
        drawn = np.array([2.0 * value if name == "repeated" else value])
        add = noise.add_laplace if isinstance(release.event, PureEvent) else noise.add_gaussian
        facts.add("a release", add(drawn, release.scale).tobytes())
    delta = 0.0 if name == "Laplace noise" else DELTA
    held = derive_guarantee(releases, "joint", Adjacency("a number"), delta)
    if name == "repeated":
        held = held.repeated(2)
    facts.rule(_understated(held))
    claim = Claim(held.epsilon, held.delta)
    return Promise(claim, claim)


def _understated(held: Guarantee) -> str:
    """Whether the sentence of a certificate says less than its numbers; empty if it does not."""
    said = re.search(r"epsilon = ([0-9.e+-]+)", held.sentence)
    if said is None or float(said[1].rstrip(".")) < held.epsilon * (1.0 - 1e-9):
        return f"the certificate's sentence says less than epsilon = {held.epsilon:.6g}"
    return ""
