"""What an epsilon means for one person: by Bayes' rule on mechanisms that reach the bound."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from discreet.lab.planning.odds import (
    PRIORS,
    chance_text,
    explain,
    out_of_100,
    posterior_odds,
    tail_probability,
)
from discreet.learners.base import LOCAL_RECORD
from discreet.privacy import Adjacency, Guarantee
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.validation import InvalidInput

from .cases import promised

JOINT = Guarantee("joint", 1.0, 1e-6, LOCAL_RECORD, ("all",), ("noise",), 1, 1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("prior", [*PRIORS, 0.3])
def test_randomised_response_moves_a_belief_just_so_far(epsilon: float, prior: float) -> None:
    truth = math.exp(epsilon) / (1.0 + math.exp(epsilon))  # with which the answer is true
    yes = prior * truth / (prior * truth + (1.0 - prior) * (1.0 - truth))
    no = prior * (1.0 - truth) / (prior * (1.0 - truth) + (1.0 - prior) * truth)
    moved = posterior_odds(epsilon, prior)
    assert moved.most == pytest.approx(yes)
    assert moved.least == pytest.approx(no)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_mechanism_of_that_epsilon_moves_it_further(epsilon: float) -> None:
    """Random mechanisms with ten outcomes, scaled until they keep epsilon exactly."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        first = rng.dirichlet(np.ones(10))
        ratio = np.exp(rng.uniform(-0.5, 0.5, 10) * epsilon)
        second = first * ratio / (first * ratio).sum()
        assert np.abs(np.log(second / first)).max() <= epsilon
        for prior in PRIORS:
            after = prior * first / (prior * first + (1.0 - prior) * second)
            moved = posterior_odds(epsilon, prior)
            assert after.max() <= moved.most + 1e-12
            assert after.min() >= moved.least - 1e-12


def test_delta_is_what_may_be_told_outright() -> None:
    """The best guess between two equally likely records is right with (e^epsilon + delta) /
    (1 + e^epsilon): as with one answer in 1 / delta that says everything."""
    epsilon, delta = 1.0, 0.1
    told, kept = delta, (1.0 - delta) * posterior_odds(epsilon).most
    assert told + kept == pytest.approx((math.exp(epsilon) + delta) / (1.0 + math.exp(epsilon)))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_a_single_output_exceeds_the_bounds_as_rarely_as_is_said(
    epsilon: float, delta: float
) -> None:
    """Gaussian noise, whose privacy loss is normal, and the mechanism that reaches the tail."""
    mean = 1.0 / gaussian_noise_multiplier(epsilon, delta)

    def beyond(loss: float) -> float:
        return float(ndtr(mean / 2 - loss / mean) + ndtr(-mean / 2 - loss / mean))

    assert beyond(epsilon) > delta, "delta itself is no such probability"
    for more in (0.5, 1.0, 2.0):
        assert beyond(epsilon + more) <= tail_probability(epsilon, delta, more)
        # P(S) = p, Q(S) = q p with q slightly below e^-(epsilon + more); and the mirror image.
        q = math.exp(-epsilon - more)
        p = min(delta / (1.0 - q * math.exp(epsilon)), 1.0)
        assert p - math.exp(epsilon) * q * p <= delta * (1.0 + 1e-12)
        assert p + q * p == pytest.approx(tail_probability(epsilon, delta, more))


def test_chances_are_never_understated() -> None:
    assert out_of_100(posterior_odds(1.0).most) == 74  # 73.1
    assert out_of_100(0.5) == 50
    assert chance_text(0.07 + 1e-12) == "at most 7 out of 100"
    assert chance_text(posterior_odds(8.0).most).startswith("more than 99 out of 100")
    assert posterior_odds(0.0).most == posterior_odds(0.0).least == 0.5
    certain = posterior_odds(2000.0, 0.01)
    assert (certain.most, certain.least) == (1.0, 0.0)


def test_local_words() -> None:
    text = explain(promised(1.0)).text
    assert "If you do not take part, it stays 50 out of 100" in text
    assert "at most 74 out of 100, or lower it to 26" in text
    assert "What is protected is your context, action and reward." in text
    assert "at most 3 out of 100 if you do" in text
    assert "including the organisation that asks" in text
    assert "may say more" not in text
    assert "can be learnt without you" in text


def test_joint_words_name_the_organisation_that_sees_the_data() -> None:
    text = explain(JOINT).text
    assert "everyone except the organisation that asks, which sees your data" in text
    assert "disclosed to no one but you" in text
    assert "is right at most 74 out of 100 times, and 1e-06 of the time besides" in text
    # (1 + e^-2) 1e-6 / (1 - e^-1) is 1 in 556,769.
    assert "a factor above 7.39 with a probability of at most 1 in 556,769" in text
    assert "On average" not in explain(replace(JOINT, epsilon=6.0)).text
    assert "Some outputs" in explain(replace(JOINT, epsilon=1e4)).text


def test_what_counts_as_taking_part() -> None:
    assert "up to 3 times" in explain(promised(1.0).repeated(3)).scope
    visit = replace(promised(1.0), adjacency=Adjacency("a contribution", unit="contribution"))
    assert "without limit" in explain(visit).scope
    near = replace(JOINT, trust_model="outsourced", adjacency=Adjacency("row", radius=0.5))
    assert "within distance 0.5" in explain(near).scope
    assert "not against the curator" in explain(near).scope


def test_what_cannot_be_explained_is_refused() -> None:
    free = replace(promised(1.0), trust_model="none", epsilon=math.inf)
    with pytest.raises(InvalidInput, match="promises nothing"):
        explain(free)
    with pytest.raises(InvalidInput, match=r"epsilon was -1"):
        posterior_odds(-1.0)
    with pytest.raises(InvalidInput, match="prior was 1"):
        posterior_odds(1.0, 1.0)
