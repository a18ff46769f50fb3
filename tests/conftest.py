"""One thread of linear algebra for all tests: their matrices are small, and threads that fight over
a few cores make them many times slower."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield
