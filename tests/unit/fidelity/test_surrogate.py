"""Tangent planes of convex functions: exact where they were taken, below everywhere else."""

import numpy as np
import pytest

from autotune.fidelity.surrogate import Surrogate


def lanes(point):
    """Two figures of a pass that computes for ``point[0]`` and copies for ``point[1]``."""
    return np.array([max(point[0], point[1]), point[0] + 2 * point[1]])


def build_surrogate(*points):
    surrogate = Surrogate(lanes, np.ones(2))
    for point in points:
        surrogate.add_plane(np.asarray(point, dtype=float))
    return surrogate


def test_surrogate_is_exact_where_planes_were_taken():
    points = np.array([[3.0, 1.0], [1.0, 3.0], [2.0, 0.5]])
    assert build_surrogate(*points).evaluate(points) == pytest.approx(np.array([lanes(point) for point in points]))


def test_adding_a_plane_tells_the_figures_there():
    assert Surrogate(lanes, np.ones(2)).add_plane(np.array([3.0, 1.0])) == pytest.approx([3.0, 5.0])


def test_plane_of_one_side_is_below_the_other():
    (found,) = build_surrogate([3.0, 1.0]).evaluate(np.array([[1.0, 3.0]]))
    assert found == pytest.approx([1.0, 7.0])
    (found,) = build_surrogate([3.0, 1.0], [1.0, 3.0]).evaluate(np.array([[1.0, 2.5]]))
    assert found == pytest.approx([2.5, 6.0])


def test_slopes_are_taken_on_the_scale_of_each_argument():
    surrogate = Surrogate(lambda point: np.array([point[0] / 1e9 + point[1] * 1e9]), np.array([1e9, 1e-9]))
    surrogate.add_plane(np.array([2e9, 3e-9]))
    assert surrogate.evaluate(np.array([[4e9, 5e-9]])) == pytest.approx(np.array([[9.0]]))
