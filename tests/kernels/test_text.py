"""Kernels as text: read safely, written exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Kernel,
    Matern,
    WhiteKernel,
)

from discreet.kernels import Additive, kernel_from_text, kernel_to_text
from discreet.validation import InvalidInput

positive = st.floats(1e-5, 1e5)
leaves = st.one_of(
    positive.map(RBF),
    st.lists(positive, min_size=2, max_size=3).map(RBF),
    st.builds(Matern, positive, nu=st.sampled_from([0.5, 1.5, 2.5, 3.3])),
    positive.map(ConstantKernel),
    positive.map(DotProduct),
)
kernels = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, st.integers(1, 5)).map(lambda pair: pair[0] ** pair[1]),
        inner.map(Additive),
        st.lists(inner, min_size=2, max_size=2).map(lambda two: Additive(two, ((0,), (1, 2)))),
    ),
    max_leaves=6,
)


@given(kernels)
def test_text_and_back_is_the_same_kernel(kernel) -> None:
    text = kernel_to_text(kernel)
    back = kernel_from_text(text)
    assert kernel_to_text(back) == text
    assert back == kernel


@settings(max_examples=40)
@given(st.text("RBFMatern()[]{}0.15+*-=,_'\"inf \0\n\u00e9\u221e\U0001f600", max_size=60))
def test_any_text_is_a_kernel_or_refused(text) -> None:
    refused = ""
    try:
        kernel = kernel_from_text(text)
    except InvalidInput as error:
        refused = str(error)
    assert "RBF(length_scale)" in refused or isinstance(kernel, Kernel)


def test_examples() -> None:
    assert kernel_from_text("1.0 * RBF(length_scale=0.3) + Matern(nu=2.5)") == (
        1.0 * RBF(0.3) + Matern(nu=2.5)
    )
    assert kernel_from_text("RBF([0.1, 2])") == RBF([0.1, 2.0])
    assert kernel_from_text("DotProduct(sigma_0=0) ** 2") == DotProduct(0.0) ** 2
    assert kernel_from_text("Additive(RBF(0.5), groups=[[0], [1, 2]])") == Additive(
        RBF(0.5), ((0,), (1, 2))
    )
    assert kernel_from_text("2") == ConstantKernel(2.0)
    assert kernel_to_text(RBF(0.1 + 0.2)) == "RBF(length_scale=0.30000000000000004)"
    assert kernel_to_text(RBF(np.array([0.5, 1.0]))) == "RBF(length_scale=[0.5, 1.0])"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "RBF",
        "[RBF()]",
        "__import__('os').system('true')",
        "RBF.__class__()",
        "(lambda: RBF())()",
        "WhiteKernel()",
        "RBF(length_scale='a')",
        "RBF(length_scale=-1)",
        "RBF(length_scale=0)",
        "RBF(length_scale=1e999)",
        "RBF(length_scale=[])",
        "RBF(length_scale=True)",
        "RBF(width=1)",
        "RBF(1, 2)",
        "RBF(1, length_scale=2)",
        "RBF(**{})",
        "RBF(*[1])",
        "RBF() ** 99",
        "RBF() ** RBF()",
        "2 ** RBF()",
        "2 ** 9999999999",
        "RBF() - RBF()",
        "-RBF()",
        "-1 * RBF()",
        "RBF() + [1]",
        "Additive()",
        "Additive(3)",
        "Additive(RBF(), groups=[0, 1])",
        "Additive(RBF(), groups=[[0.5]])",
        "Additive(RBF(), groups=[])",
        "RBF(); RBF()",
        "(" * 500 + "RBF()" + ")" * 500,
        "RBF()" + " + RBF()" * 1000,
        "RBF()" + " " * 30_000,
        3,
        None,
    ],
)
def test_everything_else_is_refused_with_a_list_of_what_is_allowed(text) -> None:
    with pytest.raises(InvalidInput, match=r"RBF\(length_scale\), Matern"):
        kernel_from_text(text)


def test_a_kernel_without_a_name_has_no_text() -> None:
    with pytest.raises(InvalidInput, match="has no text"):
        kernel_to_text(RBF() + WhiteKernel())
