"""What a plan says, where its truth is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from discreet.lab.planning.facts import Answer, Interval
from discreet.lab.planning.race import Standing
from discreet.lab.reporting.plan_view import Plan
from discreet.lab.reporting.plan_words import (
    basis,
    compared,
    epsilon_text,
    loss_text,
    people_text,
    question_text,
    signed,
)
from tests.lab.planning.cases import drawn, forecast, growing

FREE = growing(0.05, 0.5)
REWARD = ("more reward", "less reward")


def plan(**facts: Any) -> Plan:
    private = {1.0: growing(5.0, 0.7), 2.0: growing(2.0, 0.7), 4.0: growing(1.0, 0.7)}
    gains = {
        epsilon: drawn(gain, 6, 0.002, place)
        for place, (epsilon, gain) in enumerate(private.items())
    }
    made: Plan = forecast(gains, drawn(FREE, 6, 0.002, 9), Plan, **facts)
    return made


def flat() -> Plan:
    nothing = drawn(np.zeros(5), 6, 0.01, 1)
    private = {1.0: drawn(np.full(5, -0.02), 6, 0.01, 2)}
    made: Plan = forecast(private, nothing, Plan, seconds_each=1.0)
    return made


def people(value: float | None, low: float = 3900.0, high: float = 7100.0) -> Answer:
    return Answer("people", value, low, high, 250.0, 16_000.0, 6000.0)


def test_a_recommendation_has_three_sentences() -> None:
    made = plan(lose_at_most=0.3)
    told = made.recommendation
    assert told.epsilon == 4.0
    assert told.learner == "partition"
    assert told.word == "yes"
    first, second, third = told.sentences
    assert first.startswith("Yes: with 4,000 people, partition at epsilon = 4 loses at most 30%")
    assert "95% interval" in first
    assert "smallest epsilon tried" in first
    assert "less regret" in second
    assert "than under one choice for everyone" in second
    assert "more regret" in second
    assert "99 out of 100" in third
    assert str(told) == told.text


def test_where_no_epsilon_keeps_enough_it_says_how_many_people_it_would_take() -> None:
    told = plan(lose_at_most=0.05).recommendation
    assert (told.word, told.epsilon) == ("no", None)
    assert told.sentences[0].startswith("No: with 4,000 people, no epsilon that was tried loses at")
    assert "epsilon = 4 loses least" in told.sentences[0]
    assert "more than 16,000 people" in told.sentences[0]


def test_what_beats_one_choice_from_the_first_people_on() -> None:
    gain = {4.0: drawn(np.full(5, 0.1), 6, 0.001, 1)}
    made: Plan = forecast(gain, drawn(np.full(5, 0.2), 6, 0.001, 2), Plan)
    assert "It takes at most 250 people until it beats one choice" in made.recommendation.text


def test_what_cannot_be_told_says_what_it_would_take() -> None:
    told = flat().recommendation
    assert (told.word, told.epsilon, told.learner) == ("cannot tell yet", None, None)
    assert told.sentences[0].startswith("Cannot tell yet: whether choosing by person gains")
    assert "About 111 replicates would tell, in about 2 min" in told.sentences[1]
    close = plan(lose_at_most=0.207).recommendation
    assert close.word == "cannot tell yet"
    assert "replicates would tell" in close.text or "too close to call" in close.text


def test_without_a_gain_nothing_is_recommended() -> None:
    nothing = drawn(np.full(5, -0.02), 6, 0.001, 1)
    made: Plan = forecast({1.0: nothing}, nothing, Plan)
    told = made.recommendation
    assert (told.word, told.epsilon, told.learner) == ("no", None, None)
    assert "gains nothing over one choice for everyone" in told.sentences[0]
    assert "Keep to one choice for everyone" in told.sentences[1]


def test_fewer_people_than_expected_give_no_verdict() -> None:
    first, second, _ = plan(lose_at_most=0.3, wished=8000).recommendation.sentences
    assert first.startswith("Cannot tell yet")
    assert "With 4,000 people (of 8,000 expected)" in first
    assert "with 8,000 people it would lose" in first
    assert "extrapolated" in first
    assert "of the 4,000 simulated" in second
    first, _, _ = plan(lose_at_most=0.3, wished=900_000).recommendation.sentences
    assert "extrapolated" not in first
    assert "with all 900,000 people would tell" in first


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (("people", 2.0, 0.5), "At epsilon = 2, to lose at most 50% of the gain takes about "),
        (("epsilon", 4000.0, 0.4), "With 4,000 people, to lose at most 40% of the gain takes epsi"),
        (("loss", 2.0, 4000.0), "At epsilon = 2 with 4,000 people, the loss is "),
        (("loss", 2.0, 99_000.0), "about 99,000 people nothing can be said: 4,000 were simulated"),
    ],
)
def test_inverse_questions(question: Any, text: str) -> None:
    assert text in question_text(plan(question=question))
    assert not question_text(plan())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (people(5412.0), "about 5,400 people (95% interval 3,900 to 7,100)"),
        (people(7412.0), "about 7,400 people (extrapolated; 95% interval 3,900 to 7,100)"),
        (people(250.0, 250.0, 250.0), "at most 250 people"),
        (people(250.0, 250.0, 400.0), "at most 250 people (95% interval 250 or fewer to 400)"),
        (people(math.inf, 9000.0, math.inf), "9,000 to more than 16,000"),
        (people(math.inf, math.inf, math.inf), "more than 16,000 people"),
        (people(None, math.nan, math.nan), "no gain to keep"),
    ],
)
def test_people_in_words(answer: Answer, text: str) -> None:
    assert people_text(answer).endswith(text) or text in people_text(answer)


def test_epsilons_and_losses_in_words() -> None:
    between = Answer("epsilon", 2.61, 2.4, math.inf, 0.5, 8.0, 8.0)
    assert epsilon_text(between) == "epsilon = 2.6 (95% interval 2.4 to more than 8)"
    assert "above 8" in epsilon_text(replace(between, value=math.inf))
    assert "0.5 at most" in epsilon_text(replace(between, value=0.5))
    assert "no gain" in epsilon_text(replace(between, value=None))
    lost = Answer("loss", 0.123, 0.081, 0.17, -math.inf, math.inf, math.inf)
    assert loss_text(lost) == "12% (95% interval 8.1% to 17%)"
    assert "extrapolated" in loss_text(replace(lost, simulated=-math.inf))
    assert "cannot be told" in loss_text(replace(lost, high=math.inf))


def test_comparisons_say_the_direction() -> None:
    assert compared(Interval(0.14, 0.131, 0.149), REWARD) == (
        "0.1400 more reward (95% interval 0.1310 to 0.1490)"
    )
    assert compared(Interval(-0.2, -0.3, -0.1), REWARD) == (
        "0.20 less reward (95% interval 0.10 to 0.30)"
    )
    assert "0.10 less to 0.30 more" in compared(Interval(0.1, -0.1, 0.3), REWARD)
    assert compared(Interval(0.14, math.nan, math.nan), REWARD) == "0.140 more reward"
    assert signed(Interval(-0.1, -0.2, 0.0)) == "-0.10, 95% interval -0.20 to 0.00"


def test_what_the_numbers_rest_on() -> None:
    made = plan(left_out=("Left out: something, too much.",))
    told = " ".join(basis(made))
    assert "one long run tells about fewer people as well" in told
    assert "Left out: something, too much." in told
    assert "winner's curse" not in told  # nobody raced
    raced = tuple(
        Standing(each.epsilon, each.setting, 4000, 8, -0.1, 0.0, 1.0, True, False)
        for each in made.standings
    )
    told = " ".join(basis(replace(made, standings=raced)))
    assert "winner's curse" in told
    assert "6 fresh ones" in told
    assert "at most 1%" in told
