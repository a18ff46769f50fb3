"""The `[serve]` table: which line of a study is served to people, and how.

[serve]
learner = "kernel"     # its name or label; needed where several learners are private
epsilon = 1.0                # needed where that learner has several
people = 100_000             # how many are expected; the study's rounds if left out
default_arm = "leaflet"      # what people get while the service cannot be reached
expires_days = 30            # joint privacy: a decision without a reward is forgotten then
retention_days = 0           # joint privacy: so long observations are kept after their release
sources = { clinic = 2.0 }   # auxiliary sources, and what a report of each costs

A study without the table can be served, too, if exactly one of its lines is private.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from discreet.lab.environments.base import Problem
from discreet.lab.experiments import Setting
from discreet.lab.studies.settings import ServeTable
from discreet.learners.base import Learner, check_source_name
from discreet.learners.messages import PUBLIC_COINS
from discreet.learners.policy import check_source_epsilon
from discreet.learners.registry import learner_class, make_learner, variant
from discreet.privacy import Budget, NoiseSource
from discreet.privacy.guarantee import PROTECTS_NOBODY
from discreet.toml_files import Place, toml_value
from discreet.validation import ErrorCollector, InvalidInput, nearest

if TYPE_CHECKING:
    from discreet.lab.studies import Study

# Of the name of a study or a source, as it stands in addresses and in the database.
LONGEST_NAME = 100
# Reports of a shuffled group that is served, as it arrives in one request.
LARGEST_GROUP = 10_000


def served_learner(
    study: Study,
    setting: Setting,
    table: ServeTable,
    noise: NoiseSource | None,
) -> Learner[Any, Any, Any]:
    """A new learner for the people whom a line of a study is served to, its sources open.

    Args:
        study: whose columns, arms and bounds.
        setting: what `served_setting` chose.
        table: what the study says of serving.
        noise: under joint privacy the source of its noise.
    """
    problem = study.problem
    named = list(problem.arm_names) if isinstance(problem.space, int) else problem.space
    learner = make_learner(
        setting.learner,
        problem.domain,
        named or problem.space,
        setting.budget,
        options=setting.options,
        horizon=table.people or study.rounds,
        reward_bounds=problem.reward_bounds,
        public_seed=study.seed % PUBLIC_COINS,
        noise=noise,
    )
    for name, epsilon in table.sources.items():
        learner.open_source(name, epsilon)
    return learner


def served_setting(settings: Sequence[Setting], table: ServeTable) -> Setting:
    """The one line that is served.

    Args:
        settings: all lines of a study.
        table: what it says of serving.

    Raises:
        InvalidInput: where none fits, or several; messages begin with the key that decides.
    """
    private = [each for each in settings if _can_be_served(each)]
    if not private:
        raise InvalidInput(
            "learners were all without privacy, or send the server something whenever a person "
            "acts; give one that acts on the device an epsilon under local or joint privacy."
        )
    named = [each for each in settings if table.learner in (None, each.learner, _label(each))]
    if table.learner is not None and not named:
        known = sorted({_label(each) for each in private})
        raise InvalidInput(
            f"learner was {toml_value(table.learner)}; the private learners of this study are "
            f"{', '.join(known)}.{nearest(table.learner, known)}"
        )
    fitting = [each for each in named if _can_be_served(each)]
    if not fitting:
        raise InvalidInput(
            f"learner was {toml_value(table.learner)}, which promises nothing here, or sends the "
            "server something whenever a person acts; name one of "
            f"{', '.join(sorted({_label(each) for each in private}))}."
        )
    if table.epsilon is not None:
        able = fitting
        fitting = [each for each in able if each.budget.epsilon == table.epsilon]
        if not fitting:
            raise InvalidInput(
                f"epsilon was {table.epsilon:g}; what can be served is {_listed(able)}."
            )
    if len(fitting) > 1:
        several = len({_label(each) for each in fitting}) > 1
        key = "learner" if several else "epsilon"
        given = {"learner": table.learner, "epsilon": table.epsilon}[key]
        raise InvalidInput(
            f"{key} was {'missing' if given is None else given}, and one line of a study is "
            f"served, not several: under [serve] choose one of {_listed(fitting)} by learner and "
            "epsilon."
        )
    setting = fitting[0]
    if setting.budget.epsilon > PROTECTS_NOBODY:
        raise InvalidInput(
            f"epsilon was {setting.budget.epsilon:g}, and above {PROTECTS_NOBODY:g} it protects no "
            "one; protects_nobody = true is for simulations alone. Choose a smaller epsilon."
        )
    check_shuffled(setting.budget, table.sources)
    return setting


def check_shuffled(budget: Budget, sources: Iterable[str]) -> None:
    """Refuse groups that a service does not take, and sources of a shuffled study."""
    shuffled = budget.trust_model == "shuffled"
    if shuffled and not 2 <= budget.group <= LARGEST_GROUP:
        raise InvalidInput(
            f"group was {budget.group}; a service takes groups of 2 to {LARGEST_GROUP:,}."
        )
    for name in sources if shuffled else ():
        raise InvalidInput(
            f"sources had {name!r}, but devices of a shuffled study reach the shuffler alone; "
            "leave sources out, or serve the learner under local privacy."
        )


def check_served_name(name: str) -> None:
    """Refuse a study's name that cannot stand in an address."""
    if not _fits_address(name):
        raise InvalidInput(
            f"name was {toml_value(name):.120}; under it the study is served, so use at most "
            f"{LONGEST_NAME} printable characters, none of them a slash."
        )


def _fits_address(name: str) -> bool:
    """Whether a server takes a path with this part, which can be read in one way only."""
    whole = name not in (".", "..") and not set(name) & {"/", "\\", "\ufffd"}
    return whole and len(name) <= LONGEST_NAME and name.isprintable()


def check_serving(
    table: ServeTable, settings: Sequence[Setting], problem: Problem, place: Place
) -> None:
    """Refuse what cannot be served; everything that is wrong, with its line.

    Args:
        table: what the study says of serving.
        settings: its lines.
        problem: what there is to choose.
        place: where the table stands.
    """
    errors = ErrorCollector()
    setting = None
    with errors.collected(), place.at():
        setting = served_setting(settings, table)
    with errors.collected(), place.at():
        _check_default(table.default_arm, problem)
    for name, epsilon in table.sources.items():
        with errors.collected(), place.at("sources", name):
            _check_source(name, epsilon, setting)
    errors.raise_if_any()


def _check_default(arm: str | None, problem: Problem) -> None:
    names = problem.arm_names
    if arm is not None and arm not in names:
        others = f"the arms are {', '.join(names)}.{nearest(arm, names)}" if names else ""
        raise InvalidInput(
            f"default_arm was {toml_value(arm)}; "
            f"{others or 'actions are points here, so leave it out.'}"
        )


def _check_source(name: str, epsilon: float, setting: Setting | None) -> None:
    check_source_name(name)
    if not _fits_address(name):
        raise InvalidInput(
            f"sources had the name {name!r:.120}; it stands in addresses: use at most "
            f"{LONGEST_NAME} printable characters, none of them a slash."
        )
    if check_source_epsilon(epsilon) > PROTECTS_NOBODY:
        raise InvalidInput(
            f"sources had epsilon = {epsilon:g} for {name!r}, and above {PROTECTS_NOBODY:g} it "
            "protects no one; choose a smaller one."
        )
    if setting is None:
        return
    model = setting.budget.trust_model
    if not variant(learner_class(setting.learner), None, model).takes_sources:
        raise InvalidInput(
            f"sources had {name!r}, but {setting.learner} learns from no sources under {model} "
            "privacy; leave sources out, or serve kernel."
        )


def _can_be_served(setting: Setting) -> bool:
    private = setting.budget.trust_model in ("local", "shuffled", "joint")
    return private and learner_class(setting.learner).acts_silently


def _label(setting: Setting) -> str:
    """The label of its learner, which its lines share."""
    return setting.label.removesuffix(f", epsilon {setting.budget.epsilon:g}")


def _listed(settings: Sequence[Setting]) -> str:
    return "; ".join(f"{_label(each)} at epsilon = {each.budget.epsilon:g}" for each in settings)


def serving_sentence(
    settings: Sequence[Setting], table: ServeTable | None, rounds: int
) -> str | None:
    """What `discreet serve` would serve, in words; None where the study does not say which line.

    Args:
        settings: the lines of the study.
        table: its `[serve]`; None without one.
        rounds: how many people it has, if the table does not say how many are expected.
    """
    wish = table or ServeTable()
    try:
        setting = served_setting(settings, wish)
    except InvalidInput:
        if table is not None:
            raise
        return None
    budget = setting.budget
    text = (
        f"Served would be {_label(setting)} at epsilon = {budget.epsilon:g} under "
        f"{budget.trust_model} privacy, to {wish.people or rounds:,} people"
    )
    if wish.sources:
        each = (f"{name} at epsilon = {epsilon:g}" for name, epsilon in wish.sources.items())
        text += f", with reports of {', '.join(each)}"
    if wish.default_arm is not None:
        text += f"; while the service is down they get {wish.default_arm}"
    if budget.trust_model == "joint":
        kept = f"{wish.retention_days:g} days" if wish.retention_days else "not at all"
        text += (
            f"; a decision without a reward is forgotten after {wish.expires_days:g} days, and "
            f"observations are kept {kept} after their release"
        )
    return f"{text}."
