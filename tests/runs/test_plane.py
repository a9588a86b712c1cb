from __future__ import annotations

import numpy as np

from tg_crepe.runs.plane import principal_plane


def test_plane_is_that_of_the_singular_value_decomposition():
    x = np.random.default_rng(0).standard_normal((50, 6)) @ np.diag([5, 3, 1, 1, 0.5, 0.1]) + 7
    centred = x - x.mean(axis=0)
    left, size, right = np.linalg.svd(centred, full_matrices=False)
    expected = left[:, :2] * size[:2]
    plane = principal_plane(x)
    assert plane.dtype == np.float32
    np.testing.assert_allclose(np.abs(plane), np.abs(expected), rtol=1e-4, atol=1e-4)
    for column, axis in zip(plane.T, right[:2], strict=True):  # the largest entry of an axis is positive
        direction = axis if axis[np.abs(axis).argmax()] > 0 else -axis
        np.testing.assert_allclose(column, centred @ direction, rtol=1e-4, atol=1e-4)


def test_few_columns_and_rows_that_are_not_finite_have_a_place():
    line = principal_plane(np.array([[1.0], [2.0], [3.0]]))
    np.testing.assert_allclose(line, [[-1, 0], [0, 0], [1, 0]], atol=1e-6)
    x = np.array([[0.0, 0.0], [2.0, 2.0], [np.nan, 5.0]])
    np.testing.assert_allclose(principal_plane(x)[2], 0, atol=1e-6)
    assert not principal_plane(np.full((2, 3), np.nan)).any()
    assert principal_plane(np.zeros((0, 3))).shape == (0, 2)
