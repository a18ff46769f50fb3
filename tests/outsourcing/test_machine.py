"""Any sequence of releases, questions, repetitions and failures: drawn once, never cheaper.

The machine holds what the modeler has seen. A failing step raises, as on a full disk; what follows
is the same command again, or another one.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from discreet.outsourcing import mechanisms
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.exchange import ReleasedTable
from discreet.outsourcing.key import read_key
from discreet.outsourcing.mechanisms import AnswerRules, Question
from discreet.privacy import Outsourced, SimulatedNoise
from tests.outsourcing.cases import release, table
from tests.outsourcing.stopping import failed

ROWS, REPEATS = 5, 2
RULES = AnswerRules(REPEATS, 1.0, 1e-6, (0.0, 10.0))
BUDGETS = [Outsourced(epsilon, 1e-5, 1.0) for epsilon in (1.0, 2.0)]
drawn: list[float] = []


class Unseeded(SimulatedNoise):
    """Noise that differs each time it is drawn, as secure noise does, and is counted."""

    def __init__(self, seed: object = None) -> None:
        super().__init__(None)

    def add_gaussian(self, values: Any, scale: float) -> Any:
        noisy = super().add_gaussian(values, scale)
        if noisy.size == 1:  # an answer, not rows
            drawn.append(float(noisy[0]))
        return noisy


class CuratorAndModeler(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.key = self.folder / "key"
        self.published: dict[str, Certificate] = {}
        self.rows: dict[str, bytes] = {}
        self.seen: dict[tuple[str, int], Question] = {}
        self.epsilon, self.stops = 0.0, 0
        drawn.clear()

    def _draw(self, budget: Outsourced, again: bool) -> None:
        made = release(
            self.key, table(ROWS), budget=budget, noise=Unseeded(), answers=RULES, again=again
        )
        out = self.folder / made.release
        Curator(self.key).publish(made.release, out)
        arrived = ReleasedTable.read(out).certificate
        content = (out / "rows.csv").read_bytes()
        assert self.rows.setdefault(made.release, content) == content
        self.published.setdefault(made.release, arrived)

    @rule(budget=st.sampled_from(BUDGETS), step=st.integers(0, 40) | st.just(10_000))
    def release_again(self, budget: Outsourced, step: int) -> None:
        """A new release, perhaps stopped at a step and repeated."""
        if len(self.published) < 4 and failed(step, lambda: self._draw(budget, True)):
            self.stops += 1

    @precondition(lambda self: self.published)
    @rule(budget=st.sampled_from(BUDGETS))
    def repeat_a_release(self, budget: Outsourced) -> None:
        """The same wish gives a release that was drawn for it."""
        budgets = {each.budget for each in self.published.values()}
        if budget in budgets:
            self._draw(budget, False)

    @precondition(lambda self: self.published)
    @rule(data=st.data(), step=st.integers(0, 12) | st.just(10_000))
    def ask(self, data: st.DataObject, step: int) -> None:
        """New and repeated questions about any release, perhaps stopped."""
        name = data.draw(st.sampled_from(sorted(self.published)))
        before = [each for (of, _), each in self.seen.items() if of == name]
        times = Counter(each.row for each in before)
        free = [row for row in range(ROWS) if times[row] < REPEATS]
        chosen = data.draw(st.lists(st.sampled_from(free), unique=True, max_size=3)) if free else []
        first = 1 + max((each.number for each in before), default=0)
        new = [Question(first + place, row) for place, row in enumerate(chosen)]
        questions = [*(Question(each.number, each.row) for each in before), *new]
        failed(step, lambda: Curator(self.key).answer(name, questions))
        for each in Curator(self.key).answer(name, questions):
            assert self.seen.setdefault((name, each.number), each) == each

    @invariant()
    def answers_are_drawn_once_and_the_cost_never_falls(self) -> None:
        key = read_key(self.key) if self.key.exists() else None
        if key is None:
            return
        draws = {(each.person, each.turn): each.value for each in key.answers}
        assert all(turn < REPEATS for _, turn in draws)
        assert {each.value for each in key.answers} <= set(drawn)
        assert len(set(draws.values())) == len(draws)
        people = {name: key.find(name).order for name in self.published}
        told: dict[int, set[float | None]] = {}
        for (name, _), each in self.seen.items():
            told.setdefault(int(people[name][each.row]), set()).add(each.answer)
        assert all(len(answers) <= REPEATS for answers in told.values())

        if not key.drawn:
            return
        certificates = [each.certificate for each in key.drawn]
        assert set(self.published) <= {each.release for each in certificates}
        last = certificates[-1]
        assert last.earlier == tuple(each.mechanism for each in certificates[:-1])
        assert last.guarantee.epsilon >= self.epsilon
        self.epsilon = last.guarantee.epsilon

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


@pytest.mark.chance(0)
def test_whatever_is_repeated_or_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanisms, "SimulatedNoise", Unseeded)
    from hypothesis.stateful import run_state_machine_as_test

    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    options = settings(
        max_examples=8, stateful_step_count=10, deadline=None, suppress_health_check=checks
    )
    run_state_machine_as_test(CuratorAndModeler, settings=options)
