"""Every learner runs through the contract suite; a new learner is one row here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from discreet.learners.base import Learner
from discreet.learners.epochs.features import ContextDistribution
from discreet.learners.registry import LEARNERS, make_learner
from discreet.people.domain import PublicBox
from discreet.privacy import Budget, Joint, Local, NonPrivate, SimulatedNoise

from .contract import (
    ARMS,
    BOUNDS,
    DOMAIN,
    DOSES,
    LEVELS,
    OFFERED,
    ArmScene,
    LearnerContract,
    LevelScene,
    PublicScene,
    Row,
    Scene,
    SetScene,
)

make = partial(
    make_learner,
    domain=DOMAIN,
    arms=ARMS,
    horizon=4000,
    reward_bounds=BOUNDS,
    public_seed=11,
    identity="contract",
)
SETS, SET, BOX = SetScene(), PublicScene(OFFERED), PublicScene(PublicBox())
ARM, LEVELLED, DOSED = ArmScene(), LevelScene(), LevelScene(DOSES)


def maker(
    name: str, scene: Scene, budget: Budget, common: dict[str, Any] | None = None, **options: Any
) -> Callable[[], Learner]:
    """Makes a learner; under joint privacy with noise of its own, always from the same seed."""

    def fresh(identity: str | None = "contract") -> Learner:
        noise = SimulatedNoise(5) if isinstance(budget, Joint) else None
        return make(
            name,
            domain=scene.domain,
            arms=scene.space,
            budget=budget,
            noise=noise,
            options=options,
            identity=identity,
            **(common or {}),
        )

    return fresh


def gp_ucb(scene: Scene, budget: Budget, *, exact: bool = False, **options: Any) -> Row:
    # Updates that come rarely, so that a few batches hold more than a few people.
    rule = {"growth": 1.5, "update_growth": 2.0, **options}
    noisy = isinstance(budget, Local) and scene is SETS
    return Row(maker("gp_ucb", scene, budget, **rule), exact, noisy, scene)


def epochs(name: str, scene: Scene, budget: Budget, **options: Any) -> Row:
    # Sums of rows may have any sign. All people of USCA's horizon come in six batches.
    common = {"horizon": 1000 if name == "usca" else 4000}
    known = ContextDistribution.grid(LEVELS) if scene.domain == LEVELS else scene.contexts(20, 0)
    widths = [60.0, 3.0] if isinstance(scene.space, int) else [60.0, 3.0, 1.5]
    few = {"error": 0.1, "contexts": known, "kernel": f"RBF({widths})"}
    made = maker(name, scene, budget, common, **few, **options)
    return Row(made, not isinstance(budget, Local), True, scene)


def gradients(name: str, budget: Budget, **options: Any) -> Row:
    # Sums of gradients may have any sign.
    return Row(maker(name, ARM, budget, batch=100, growth=0.01, **options), any_sums=True)


def central(name: str, scene: Scene, **options: Any) -> Row:
    # Sums of contributions may have any sign.
    return Row(maker(name, scene, PRIVATE, first=60, **options), True, True, scene)


PRIVATE = Joint(2.0, 1e-5)

KNOWN = {"kernel": "RBF([1.0, 1.0])", "reward_noise": 0.2}
ROWS = {
    "kernel": Row(partial(make, "kernel", budget=Local(1.0)), any_sums=True),
    "kernel, epsilon 6": Row(partial(make, "kernel", budget=Local(6.0)), any_sums=True),
    "kernel, levels": Row(maker("kernel", DOSED, Local(3.0)), any_sums=True, scene=DOSED),
    "kernel, non-private": Row(partial(make, "kernel", budget=NonPrivate()), any_sums=True),
    "kernel, half_life": Row(
        partial(make, "kernel", budget=Local(1.0), options={"half_life": 300}), any_sums=True
    ),
    "best_arm": Row(partial(make, "best_arm", budget=Local(1.0)), any_sums=True),
    "best_arm, non-private": Row(partial(make, "best_arm", budget=NonPrivate()), any_sums=True),
    "best_arm, joint": central("best_arm", ARM),
    "kernel, joint": central("kernel", ARM),
    "kernel, joint levels": central("kernel", DOSED),
    "kernel, joint half_life": central("kernel", ARM, half_life=300),
    "kernel, known": Row(maker("kernel", ARM, Local(3.0), **KNOWN), any_sums=True),
    "kernel, joint known": central("kernel", ARM, **KNOWN),
    "partition": Row(partial(make, "partition", budget=Local(1.0))),
    "partition, epsilon 6": Row(partial(make, "partition", budget=Local(6.0))),
    "partition, non-private": Row(partial(make, "partition", budget=NonPrivate())),
    "partition, half_life": Row(
        partial(make, "partition", budget=Local(1.0), options={"half_life": 300})
    ),
    "published_partition": Row(
        partial(make, "published_partition", budget=Local(4.0), options={"batch_size": 50})
    ),
    "private_linear": gradients("private_linear", Local(1.0)),
    "private_linear, privunit": gradients("private_linear", Local(4.0), mechanism="privunit"),
    "private_linear, non-private": gradients("private_linear", NonPrivate()),
    "private_linear, greedy at once": gradients("private_linear", Local(4.0), warm_up=0),
    "private_neural": gradients("private_neural", Local(1.0)),
    "private_neural, greedy at once": gradients("private_neural", Local(9.0), warm_up=0, hidden=3),
    "private_neural, non-private": gradients("private_neural", NonPrivate()),
    "abse": Row(partial(make, "abse", budget=NonPrivate(), options={"batch_size": 50})),
    "gp_ucb, joint sets": gp_ucb(SETS, PRIVATE, exact=True),
    "gp_ucb, local sets": gp_ucb(SETS, Local(2.0, 1e-5)),
    "gp_ucb, non-private sets": gp_ucb(SETS, NonPrivate(), exact=True),
    "gp_ucb, joint box": gp_ucb(BOX, PRIVATE),
    "gp_ucb, joint set": gp_ucb(SET, PRIVATE),
    "gp_ucb, local box": gp_ucb(BOX, Local(2.0)),
    "gp_ucb, half_life": gp_ucb(SETS, PRIVATE, exact=True, half_life=300),
    "gp_ucb, half_life without noise": gp_ucb(BOX, NonPrivate(), half_life=300),
    "gp_ucb, half_life and local": gp_ucb(SETS, Local(2.0, 1e-5), half_life=300),
    "gp_ucb, local set, epsilon 4": gp_ucb(SET, Local(4.0)),
    "private_glm": Row(maker("private_glm", SETS, Local(2.0)), any_sums=True, scene=SETS),
    "private_glm, logistic": Row(
        maker("private_glm", SETS, Local(6.0), link="logistic"), any_sums=True, scene=SETS
    ),
    "gp_ucb, thompson": gp_ucb(SETS, PRIVATE, exact=True, choose="thompson"),
    "gp_ucb, buffered_toeplitz": gp_ucb(
        SETS, PRIVATE, exact=True, mechanism_name="buffered_toeplitz", every=50
    ),
    **{
        f"capri, {name}": epochs("capri", scene, budget, **options)
        for name, scene, budget, options in [
            ("joint arms", ARM, PRIVATE, {}),
            ("local arms", ARM, Local(2.0), {}),
            ("non-private arms", ARM, NonPrivate(), {}),
            ("joint doses", ArmScene(DOSES), PRIVATE, {}),
            ("local doses and levels", DOSED, Local(2.0), {}),
            ("local gaussian", DOSED, Local(2.0, 1e-5), {"mechanism": "gaussian"}),
            ("local l2_ball", LEVELLED, Local(2.0), {"mechanism": "l2_ball"}),
        ]
    },
    **{
        f"capri, {name} {rule}": epochs("capri", scene, budget, calibration=rule)
        for rule in ("posterior", "bernstein")
        for name, scene, budget in [
            ("joint", DOSED, PRIVATE),
            ("local", LEVELLED, Local(2.0)),
            ("non-private", LEVELLED, NonPrivate()),
        ]
    },
    "usca, joint": epochs("usca", DOSED, PRIVATE),
    "usca, joint arms": epochs("usca", ARM, PRIVATE),
    "usca, non-private": epochs("usca", LEVELLED, NonPrivate()),
    **{
        f"exact_gp_ucb, {name}": Row(maker("exact_gp_ucb", scene, NonPrivate()), scene=scene)
        for name, scene in [("sets", SETS), ("set", SET), ("box", BOX)]
    },
    **{
        f"uniform, {name}": Row(maker("uniform", scene, NonPrivate()), exact=True, scene=scene)
        for name, scene in [("arms", ARM), ("sets", SETS), ("set", SET), ("box", BOX)]
    },
    **{
        f"highest, {name}": Row(
            maker("highest", scene, NonPrivate(), column="score"), exact=True, scene=scene
        )
        for name, scene in [("sets", SETS), ("set", SET)]
    },
}


def test_every_registered_learner_has_a_row() -> None:
    assert set(LEARNERS) == {name.split(",")[0] for name in ROWS}


# Each takes seconds, and has the code of quicker rows beside it.
_SLOW = (
    "capri, joint arms",
    "capri, joint doses",
    "capri, local bernstein",
    "capri, non-private arms",
    "capri, non-private bernstein",
    "gp_ucb, buffered_toeplitz",
    "gp_ucb, half_life and local",
    "gp_ucb, half_life without noise",
    "gp_ucb, joint box",
    "gp_ucb, joint set",
    "gp_ucb, local box",
    "gp_ucb, local set, epsilon 4",
    "kernel, half_life",
    "kernel, joint half_life",
    "kernel, joint levels",
    "kernel, epsilon 6",
    "kernel, levels",
    "partition, epsilon 6",
    "private_neural, greedy at once",
    "private_neural, non-private",
    "usca, joint arms",
)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=name, marks=[pytest.mark.slow] if name in _SLOW else [])
        for name, row in ROWS.items()
    ],
)
class TestContract(LearnerContract):
    pass
