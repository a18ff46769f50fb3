"""A bandit with the habits of MABWiser and scikit-learn: fit, partial_fit, predict.

    bandit = PrivateBandit(["call", "visit"], epsilon=1.0, bounds={"age": (18, 90)})
    bandit.fit(decisions, rewards, contexts)        # a log: somebody else decided
    bandit.predict(contexts)                        # the arm that is expected to be best
    actions, chances = bandit.act(contexts)         # or let it choose, explore and
    bandit.partial_fit(actions, rewards, contexts)  # learn from that

Each row of a log is another person. It is read by this process, which plays the part of each
person's own device: what the learner keeps of them is what devices would have sent.

Decisions that somebody else made are learnt from as learning.py says.

| array        | shape  | meaning                                                           |
|--------------|--------|-------------------------------------------------------------------|
| decisions    | (n,)   | the arms that people were given, by their names                   |
| rewards      | (n,)   | within `rewards`                                                  |
| contexts     | (n, d) | a data frame, dictionaries or an array (domain.py)                |
| propensities | (n,)   | with what probability somebody like them was given that arm       |
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from discreet.estimator.learning import Learning
from discreet.learners.messages import Actions
from discreet.people.columns import Declared
from discreet.people.domain import Box
from discreet.privacy import Guarantee
from discreet.privacy.noise import refuse_copy
from discreet.validation import FloatArray, InvalidInput

_INTERRUPTED = (
    "partial_fit was interrupted: some of these people may have been learnt from already, and "
    "would pay twice. Do not pass them again; go on with others."
)


class PrivateBandit(BaseEstimator):  # type: ignore[misc]
    """A private contextual bandit with scikit-learn's conventions.

    Parameters are checked when it is fitted. **Every fit is paid for**: people who are in the data
    of two fits, of two clones, or of two folds of a search over parameters pay epsilon for each,
    and `guarantee_` speaks of the last fit alone. Choose parameters on other data.

    Args:
        arms: the arms, at least two different texts or numbers.
        epsilon: what one person pays; each row is a person.
        delta: needed under joint privacy.
        bounds: public bounds of contexts, such as `{"age": (18, 90), "region": ["north", "south"]}`
            (`columns.declared_columns`), or a `Box`. Not to be read off the data.
        rewards: the least and the largest reward; public.
        trust_model: "local": what is kept of each person is a private report; "joint": this process
            keeps what happened and releases private sums of it; "none": no privacy.
        learner: the name of a learner (`docs/learners.md`); by default the usual one.
        options: its options.
        least_propensity: the least probability with which anybody in a log was given their arm, for
            joint learners; public. Leave it out where there is no log.
        horizon: how many people are expected to be served by `act`.
        noise: "secure", or "simulated" in simulations.
        random_state: what is random but public, and simulated noise, follow from it; a whole
            number, or None for a new one.

    Attributes:
        learner_: the learner; under joint privacy SECRET.
        arms_: the arms.
        n_features_in_, feature_names_in_: the columns of contexts.
    """

    def __init__(
        self,
        arms: Sequence[Hashable],
        epsilon: float,
        *,
        delta: float | None = None,
        bounds: Declared | Box | None = None,
        rewards: tuple[float, float] = (0.0, 1.0),
        trust_model: str = "local",
        learner: str | None = None,
        options: Mapping[str, Any] | None = None,
        least_propensity: float | None = None,
        horizon: int | None = None,
        noise: str = "secure",
        random_state: int | None = None,
    ) -> None:
        self.arms = arms
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.rewards = rewards
        self.trust_model = trust_model
        self.learner = learner
        self.options = options
        self.least_propensity = least_propensity
        self.horizon = horizon
        self.noise = noise
        self.random_state = random_state

    # Learning.

    def fit(
        self,
        decisions: ArrayLike | Actions,
        rewards: ArrayLike,
        contexts: Any,
        propensities: ArrayLike | None = None,
    ) -> Self:
        """Forget what was learnt, and learn from a log; see `partial_fit`."""
        fresh = Learning(self)
        fresh.hear(decisions, rewards, contexts, propensities)
        self._keep(fresh)
        return self

    def partial_fit(
        self,
        decisions: ArrayLike | Actions,
        rewards: ArrayLike,
        contexts: Any,
        propensities: ArrayLike | None = None,
    ) -> Self:
        """Learn from more people, none of whom was learnt from before.

        Args:
            decisions: (n,) the arms that people were given, whoever decided; or what `act` returned
                for these very people, which says more.
            rewards: (n,) what followed.
            contexts: of these people.
            propensities: (n,) see the module; where a learner needs none they are not used.

        Raises:
            InvalidInput: for what no person can have had; then nothing has changed. After anything
                else that ends it, such as Ctrl-C, some of these people may have been learnt from,
                as a note at the exception says: do not pass them again.
        """
        learning = self._learning if hasattr(self, "learner_") else Learning(self)
        try:
            learning.hear(decisions, rewards, contexts, propensities)
        except InvalidInput:
            raise
        except BaseException as error:
            # Called again, as a cell of a notebook is, it would count them twice.
            error.add_note(_INTERRUPTED)
            raise
        self._keep(learning)
        return self

    def act(self, contexts: Any) -> tuple[Actions, FloatArray]:
        """Choose an arm for each person as the learner would, which explores where that pays.

        Returns:
            `Actions`, whose `names` are the arms as texts (`arms_[actions.arms]` as they were
            given), and the (n,) probabilities with which they were chosen. Keep the actions until
            the rewards come, for `partial_fit`.

        A bandit that was not fitted yet begins here.
        """
        learning = self._learning if hasattr(self, "learner_") else Learning(self)
        chosen = learning.act(contexts)
        self._keep(learning)
        return chosen

    def _keep(self, learning: Learning) -> None:
        self._learning = learning
        self.learner_ = learning.learner
        self.arms_ = learning.arms
        self.n_features_in_ = learning.domain.dimension
        self.feature_names_in_ = np.array(learning.domain.names, dtype=object)

    # What was learnt; all of it from what is private already, or was released.

    def predict(self, contexts: Any) -> NDArray[Any]:
        """(n,) the arm that is expected to be best for each person; nothing is explored."""
        check_is_fitted(self, "learner_")
        places = self._learning.expected(contexts).argmax(axis=1)
        best: NDArray[Any] = self.arms_[places]
        return best

    def predict_expectations(self, contexts: Any) -> Any:
        """The expected reward of each arm for each person.

        Returns:
            A data frame with a column for each arm where contexts are one (with the same index),
            otherwise a list of dictionaries, arm -> expected reward.
        """
        check_is_fitted(self, "learner_")
        expected = self._learning.expected(contexts)
        if hasattr(contexts, "columns"):
            import pandas as pd

            index = getattr(contexts, "index", None)
            return pd.DataFrame(expected, index=index, columns=list(self.arms_))
        arms = self.arms_.tolist()
        return [dict(zip(arms, row, strict=True)) for row in expected.tolist()]

    def predict_proba(self, contexts: Any) -> FloatArray:
        """(n, K) how probable it is that `act` chooses each arm, in the order of `arms_`."""
        check_is_fitted(self, "learner_")
        return self._learning.policy().probabilities(contexts)

    @property
    def guarantee_(self) -> Guarantee:
        """What each person who was learnt from is promised, derived from the releases; of people of
        a log and those served by `act` that of whoever pays more."""
        check_is_fitted(self, "learner_")
        return self._learning.guarantee()

    @property
    def waiting_(self) -> int:
        """How many people were told of, but count in no policy yet: under joint privacy they wait
        for the next release, which an epoch's worth of people make."""
        check_is_fitted(self, "learner_")
        return self._learning.waiting()

    def __getstate__(self) -> dict[str, Any]:
        """A joint bandit is not pickled: of two copies each would release the same people again."""
        learning = vars(self).get("_learning")
        if learning is not None and learning.learner.budget.protects_releases:
            refuse_copy("a fitted bandit", "discreet.save(bandit.learner_, path)")
        state: dict[str, Any] = super().__getstate__()
        return state
