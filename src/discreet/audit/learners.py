"""Every registered learner, under every trust model that promises something.

The list is made from the registry, so a learner is audited from the moment it is registered; one
that the audit's small settings do not suit is listed as not audited, with the reason.

Exact replay shows a wrong sensitivity, a second draw or a leak beside the noise at any epsilon.
Trials of whole runs are dear, so these are at a larger epsilon than mechanisms: what a few hundred
runs can tell apart grows with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from discreet.action_space import ActionSpace, ArmPoints, DecisionSets, PublicBox, PublicSet
from discreet.audit.dishonest import forged_exact
from discreet.audit.exact import worst_of
from discreet.audit.games import Check, Exact, NotAudited
from discreet.audit.makers import Maker
from discreet.audit.played import Reports, Runs
from discreet.audit.states import joint_states, local_states
from discreet.domain import Box, RewardBounds, unit_cube
from discreet.learners.registry import LEARNERS, learner_class
from discreet.learners.sources import SourceLearner
from discreet.privacy import Budget, Joint, Local
from discreet.validation import InvalidInput

JOINT_EPSILON, LOCAL_EPSILON, DELTA = 8.0, 2.0, 1e-5
# People of a run, and those whom a local learner is told to expect.
JOINT_PEOPLE, LOCAL_PEOPLE = 24, 20_000
# So many trials of the usual kind are one whole run, or one report of a learner.
RUN_COST, REPORT_COST = 500, 5
_ARMS = 3
_LEVELS = Box((0.0, 0.0), (1.0, 1.0), levels=(3, 3))
_SQUARE = unit_cube(2)
_BOUNDS = RewardBounds(-2.0, 3.0)
# Small feature maps, and policies that change during a short run.
_KERNEL = {"kernel": "RBF([1.0, 1.0])", "error": 0.1}
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "gp_ucb": {**_KERNEL, "growth": 1.5, "update_growth": 2.0},
    "released_thompson": _KERNEL,
    "capri": _KERNEL,
    "usca": _KERNEL,
    "published_partition": {"batch_size": 20},
    "private_linear": {"batch": 40},
    "private_neural": {"batch": 40, "hidden": 3},
}
_PREDICTIONS = 3
# Reports are cheap, so that many people can be compared in every state.
_OTHERS = 30


def learner_checks() -> list[Check]:
    """One check or more for every learner in the registry."""
    return [check for name in LEARNERS for check in _checks_of(name)]


def _checks_of(name: str) -> Iterator[Check]:
    kind = learner_class(name)
    promising = [model for model in kind.trust_models if model in ("joint", "local")]
    if not promising:
        yield Check(name, "learner", "none", _no_promise, about="promises nothing")
    spaces = _spaces(kind.spaces)
    for model in promising:
        for label, space in spaces:
            full = ", ".join(part for part in (name, model, label) if part)
            maker = _maker(name, model, space)
            yield learner_check(full, maker)
            if model == "local":
                yield _forged(full, maker, False)
        if model == "local" and issubclass(kind, SourceLearner):
            maker = _maker(name, model, spaces[0][1])
            yield Check(
                f"{name}, sources",
                "learner",
                "local",
                partial(_local, maker, True),
                _reports,
                REPORT_COST,
                "a report of an auxiliary source",
            )
            yield _forged(f"{name}, sources", maker, True)
    if name == "usca":
        maker = _maker(name, "joint", _ARMS, {"predictions": _PREDICTIONS}, delta=0.0)
        yield Check(
            "usca, predictions",
            "learner",
            "joint",
            partial(_joint, maker, _PREDICTIONS),
            partial(_runs, False),
            RUN_COST,
            "several predictions from one run",
        )


def learner_check(name: str, maker: Maker) -> Check:
    """The check of one learner as it is made."""
    if maker.budget.trust_model == "joint":
        about = f"a run of {maker.people} people"
        exact, game = partial(_joint, maker), partial(_runs, True)
        return Check(name, "learner", "joint", exact, game, RUN_COST, about)
    about = "a report under a policy learnt from others"
    return Check(
        name, "learner", "local", partial(_local, maker, False), _reports, REPORT_COST, about
    )


def deployed_check(
    name: str,
    learner: str,
    domain: Box,
    space: ActionSpace,
    budget: Budget,
    options: Mapping[str, Any],
    bounds: RewardBounds,
    rounds: int,
) -> Check:
    """The check of a learner as a study would deploy it: its budget, options and people.

    Under local privacy the attack is on one report, made under a policy of the study's horizon.
    Under joint privacy whole runs are attacked, of fewer people than the study has; the horizon is
    that of these runs, so that releases are made.

    Args:
        name: what the study calls it.
        learner: its registered name.
        domain: of contexts or points.
        space: what can be chosen.
        budget: of the study.
        options: of the study.
        bounds: of rewards.
        rounds: how many people the study has.
    """
    joint = isinstance(budget, Joint)
    maker = Maker(
        learner,
        domain,
        space,
        budget,
        min(rounds, JOINT_PEOPLE if joint else LOCAL_PEOPLE),
        options,
        bounds,
        horizon=None if joint else rounds,
    )
    return learner_check(name, maker)


def _spaces(kinds: tuple[type[Any], ...]) -> list[tuple[str, ActionSpace]]:
    """The action spaces to be tried, with a word for each where there are several."""
    offered: list[tuple[str, ActionSpace]] = []
    if int in kinds:
        offered.append(("", _ARMS))
    elif ArmPoints in kinds:
        offered.append(("", ArmPoints.of([0.0, 0.5, 1.0])))
    if DecisionSets in kinds:
        offered.append(("sets", DecisionSets(3)))
    if PublicBox in kinds:
        offered.append(("points", PublicBox()))
    elif PublicSet in kinds:
        offered.append(("points", PublicSet.of([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])))
    return offered


def _maker(
    name: str,
    model: str,
    space: ActionSpace,
    more: Mapping[str, Any] | None = None,
    delta: float = DELTA,
) -> Maker:
    joint = model == "joint"
    budget: Budget = Joint(JOINT_EPSILON, delta) if joint else Local(LOCAL_EPSILON)
    arms = isinstance(space, int | ArmPoints)
    return Maker(
        name,
        _LEVELS if joint and arms else _SQUARE,
        space,
        budget,
        JOINT_PEOPLE if joint else LOCAL_PEOPLE,
        {**_OPTIONS.get(name, {}), **(more or {})},
        _BOUNDS,
        horizon=None,
    )


def _joint(maker: Maker, predictions: int = 0) -> Exact:
    return worst_of(list(joint_states(maker, predictions))).exact


def _runs(gaussian: bool, exact: Exact) -> Runs:
    if gaussian:
        return Runs(exact.claim, exact.subject, exact.pair)
    return Runs(exact.claim, exact.subject, exact.pair, "counts", None)


def _local(maker: Maker, source: bool) -> Exact:
    return worst_of(list(local_states(_with_delta(maker), source)), _OTHERS).exact


def _forged(name: str, maker: Maker, source: bool) -> Check:
    exact, about = partial(_dishonest, maker, source), "a report under policies that are forged"
    return Check(f"{name}, forged", "learner", "local", exact, None, about=about)


def _dishonest(maker: Maker, source: bool) -> Exact:
    return forged_exact(_with_delta(maker), source)


def _reports(exact: Exact) -> Reports:
    return Reports(exact.claim, replace(exact.subject, terms=None, secure=False), exact.pair)


def _with_delta(maker: Maker) -> Maker:
    """Reports without a delta if the learner has such, else with one."""
    try:
        maker.make()
    except InvalidInput:
        budget = Local(maker.budget.epsilon, maker.budget.delta or DELTA)
        maker = replace(maker, budget=budget)
        maker.make()
    return maker


def _no_promise() -> Exact:
    raise NotAudited("it promises nothing, so there is nothing to break.")
