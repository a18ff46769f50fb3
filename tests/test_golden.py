"""Runs that are compared between checkouts take the same routines on every x86-64 processor."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from golden import REFERENCE

_ROUTINES = """
import json, numpy, scipy.linalg, threadpoolctl
blas = [each["architecture"] for each in threadpoolctl.threadpool_info() if "openblas" in str(each)]
print(json.dumps([blas, numpy.show_config(mode="dicts")["SIMD Extensions"].get("found", [])]))
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="routines of x86-64")
def test_golden_runs_take_reference_routines() -> None:
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Haswell", **REFERENCE}
    done = subprocess.run(
        [sys.executable, "-c", _ROUTINES], env=environment, capture_output=True, check=True
    )
    blas, simd = json.loads(done.stdout)
    assert set(blas) == {"Nehalem"}
    assert simd == []
