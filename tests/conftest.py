"""One thread of linear algebra for all tests, and randomness that is fixed or accounted for.

Their matrices are small, and threads that fight over a few cores make them many times slower.
chance.py says how tests draw real randomness.
"""

from __future__ import annotations

import gc
import os
import random
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import hypothesis
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from discreet.privacy import SecureNoise
from tests.chance import MOST
from tests.refusals import CheckRefusals, check_refusals

# The same examples in every run, however busy the machine is.
hypothesis.settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("fixed")

_SPENT = pytest.StashKey[dict[str, float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")


@pytest.fixture
def refusals(request: pytest.FixtureRequest) -> CheckRefusals:
    """Check a table of refused calls against its golden file (refusals.py)."""
    update = request.config.getoption("--update-golden")
    return lambda file, cases: check_refusals(file, cases, update)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count what the tests that will run may spend, in every process that runs some of them; and
    what was imported is never garbage: to look for it again takes a tenth of a run."""
    chances = {item.nodeid: chance_of(item) for item in session.items}
    spent = {name: chance for name, chance in chances.items() if chance is not None}
    check_spent(spent)
    session.config.stash[_SPENT] = spent
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SPENT] = {}


def chance_of(item: pytest.Item) -> float | None:
    """What the marks of a test declare in all; None without one."""
    marks = list(item.iter_markers("chance"))
    for mark in marks:
        if len(mark.args) != 1 or mark.kwargs or not 0.0 <= mark.args[0] < MOST:
            raise pytest.UsageError(f"{item.nodeid}: write chance(p) with p from 0 to {MOST:g}")
    return sum(mark.args[0] for mark in marks) if marks else None


def check_spent(spent: Mapping[str, float]) -> None:
    """Refuse a run that may fail by accident more often than is allowed."""
    if sum(spent.values()) > MOST:
        raise pytest.UsageError(
            f"tests may fail by accident with probability {sum(spent.values()):.2g}, {MOST:g} is "
            "allowed; give them smaller chances."
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fix what is random before the test's fixtures are made, unless it says what it may spend."""
    with pytest.MonkeyPatch.context() as patch:
        if chance_of(item) is None:
            _fix(patch, item.nodeid)
        return (yield)


def _fix(patch: pytest.MonkeyPatch, name: str) -> None:
    """Replace every source of the operating system's randomness by a stream with this name."""
    seed = zlib.crc32(name.encode())
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the state that libraries fall back on
    stream = random.Random(seed)
    patch.setattr(os, "urandom", stream.randbytes)
    # Behind `secrets`, and with it behind generators without a seed.
    patch.setattr(random, "_urandom", stream.randbytes)
    for method in ("add_laplace", "add_gaussian"):
        patch.setattr(SecureNoise, method, _refused(getattr(SecureNoise, method)))


def _refused(real: Callable[..., Any]) -> Callable[..., Any]:
    def instead(self: SecureNoise, values: Any, scale: float) -> Any:
        pytest.fail(
            "this test draws additive noise from OpenDP, which takes no seed: say how likely it "
            "fails by accident, @pytest.mark.chance(p), or use SimulatedNoise(seed)"
        )

    return instead


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    spent = terminalreporter.config.stash[_SPENT]
    if spent:
        terminalreporter.write_line(
            f"{len(spent)} tests drew real randomness; the chance that any of them fails by "
            f"accident is at most {sum(spent.values()):.2g} (allowed: {MOST:g})"
        )
