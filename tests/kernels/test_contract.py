"""What every feature map owes: certified norms, checked input and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from discreet.kernels import FiniteFeatures
from discreet.people.domain import Box
from discreet.validation import InvalidInput
from tests.kernels.cases import all_maps, inside, received, sent

MAPS = all_maps()
each_map = pytest.mark.parametrize("name", MAPS)


def points_of(given, count: int) -> np.ndarray:
    if isinstance(given, FiniteFeatures):
        return np.asarray(given.points)
    return inside(given.domain, count)


@each_map
def test_no_feature_vector_exceeds_the_certified_norm(name) -> None:
    given = MAPS[name]
    phi = given.transform(points_of(given, 10_000))
    assert phi.shape[1] == given.features
    assert phi.dtype == np.float64
    norms = np.linalg.norm(phi, axis=1)
    assert norms.max() <= given.norm_bound * (1 + 1e-13)
    # The bound is not loose either.
    assert norms.max() >= 0.95 * given.norm_bound


@each_map
def test_inner_products_approximate_the_kernel(name) -> None:
    given = MAPS[name]
    x = points_of(given, 200)
    phi = given.transform(x)
    error = np.abs(given.kernel(x) - phi @ phi.T).max()
    stated = given.sup_error()
    assert error <= 1.3 * stated + 1e-9
    low, high = given.error_range()
    assert stated == max(-low, high, 0.0)


@each_map
def test_copies_by_json_give_the_same_features(name) -> None:
    given = MAPS[name]
    x = points_of(given, 50)
    phi = given.transform(x)
    back = received(json.loads(json.dumps(sent(given))))
    np.testing.assert_array_equal(back.transform(x), phi)
    assert back.norm_bound == given.norm_bound
    assert back.kernel == given.kernel
    assert back.domain == given.domain
    text = repr(given)
    assert text.startswith(f"{type(given).__name__}(columns=[")
    assert f"features={given.features}" in text
    assert len(text) < 300
    assert "\n" not in text


@each_map
def test_groups_partition_the_features_and_stand_alone(name) -> None:
    given = MAPS[name]
    x = points_of(given, 20)
    phi = given.transform(x)
    places = [group.features for group in given.groups]
    assert [p.start for p in places] == [0, *(p.stop for p in places[:-1])]
    assert places[-1].stop == given.features
    for group in given.groups:
        alone = group.map.transform(x[:, list(group.columns)])
        np.testing.assert_allclose(alone, phi[:, group.features], atol=1e-12)


@each_map
def test_bad_inputs_are_refused(name) -> None:
    given = MAPS[name]
    x = points_of(given, 5)
    outside = x.copy()
    outside[2, 1] = given.domain.upper[1] + 1.0
    missing = x.copy()
    missing[1, 0] = np.nan
    for bad in (outside, missing, x[:, :1], x[0], x[:0], [["a"] * x.shape[1]]):
        with pytest.raises(InvalidInput):
            given.transform(bad)


def test_data_frames_are_read_by_name() -> None:
    given = MAPS["trapezoid"]
    x = inside(given.domain, 6)
    table = pd.DataFrame({"x2": x[:, 1], "x1": x[:, 0]})
    np.testing.assert_array_equal(given.transform(table), given.transform(x))


def test_an_unknown_kernel_has_no_error() -> None:
    given = replace(MAPS["trapezoid"], kernel=None)
    with pytest.raises(InvalidInput, match="does not know its kernel"):
        given.sup_error()


def damaged() -> list[tuple[str, dict]]:
    fields = {name: json.loads(json.dumps(sent(MAPS[name]))) for name in MAPS}
    plain, turned, added = fields["trapezoid"], fields["rotated"], fields["additive"]
    # Inner products that overflow to infinity minus infinity are no numbers.
    overflow = np.full(np.shape(turned["axes"]), 1e308)
    overflow[::2, 1:] *= -1.0
    return [
        ("no kind", {**plain, "kind": "unknown"}),
        ("kind no text", {**plain, "kind": ["fourier"]}),
        ("missing", {k: v for k, v in plain.items() if k != "weights"}),
        ("extra", {**plain, "norm_bound": 0.1}),
        ("lengths", {**plain, "weights": plain["weights"][:-1]}),
        ("negative", {**plain, "weights": [-w for w in plain["weights"]]}),
        ("infinite", {**plain, "weights": [float("inf"), *plain["weights"][1:]]}),
        ("text", {**plain, "frequencies": "many"}),
        ("ragged", {**plain, "frequencies": [[0.0], *plain["frequencies"][1:]]}),
        ("kernel", {**plain, "kernel": "open('x')"}),
        ("domain", {**plain, "domain": {"lower": [0]}}),
        ("domain no dict", {**plain, "domain": 3}),
        ("axes too long", {**turned, "axes": (2.0 * np.array(turned["axes"])).tolist()}),
        ("axes overflow", {**turned, "axes": overflow.tolist()}),
        ("axes cut", {**turned, "axes": turned["axes"][:-1]}),
        ("extra axes", {**turned, "eigenvalues": [1.0]}),
        ("no base", {**turned, "base": None}),
        ("no parts", {**added, "parts": []}),
        ("part", {**added, "parts": [[[0]]]}),
        ("columns", {**added, "parts": [[[0, 7], *added["parts"][0][1:]]]}),
        ("box", {**added, "parts": [[[1, 0], *added["parts"][0][1:]]]}),
        ("weight", {**added, "parts": [[*added["parts"][0][:2], True]]}),
        ("maps", {**added, "parts": 5}),
        ("factor", {**fields["scaled"], "parts": [[*fields["scaled"]["parts"][0][:2], "2"]]}),
        ("degree", {**fields["cubic"], "degree": 1000}),
        ("offset", {**fields["cubic"], "sigma_0": -1.0}),
        ("rows", {**fields["finite"], "values": fields["finite"]["values"][:-1]}),
    ]


@pytest.mark.parametrize(("what", "fields"), damaged(), ids=[what for what, _ in damaged()])
def test_damaged_json_is_refused(what, fields) -> None:
    with pytest.raises(InvalidInput):
        received(fields)


@pytest.mark.parametrize("fields", [None, 3, [], {}, "fourier"])
def test_what_is_no_map_is_refused(fields) -> None:
    with pytest.raises(InvalidInput, match="a feature map"):
        received(fields)


def test_deep_nesting_is_refused() -> None:
    fields = sent(MAPS["linear"])
    for _ in range(50):
        fields = {"kind": "rotated", "base": fields, "axes": [[1.0]]}
    with pytest.raises(InvalidInput, match="deep"):
        received(fields)


def test_a_domain_must_be_a_box() -> None:
    fields = sent(MAPS["linear"])
    assert isinstance(received(fields).domain, Box)
    with pytest.raises(InvalidInput, match="Box"):
        replace(MAPS["linear"], domain=((0.0, 1.0),))
