"""Which rows are labelled, and the classes of those that are."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from tg_crepe._labels import is_unlabelled


def unlabelled_rows(y: Any, unlabeled: Any) -> np.ndarray:
    """Where ``y`` is the marker or missing (blank, NaN, None, pandas' NA), bool of shape [n_samples]."""
    return np.array([is_unlabelled(value, unlabeled) for value in y], dtype=bool)


def labelled_rows(y: Any, unlabeled: Any) -> np.ndarray:
    """The rows of ``y`` that hold a label, at least one."""
    rows = np.flatnonzero(~unlabelled_rows(y, unlabeled))
    if not len(rows):
        raise ValueError(f"'y' must hold a label other than the marker unlabeled={unlabeled!r}, got none")
    return rows


def read_targets(y: Any, unlabeled: Any) -> tuple[np.ndarray, np.ndarray]:
    """The classes in order, and the number of its class for every row, -1 where it is unlabelled."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    values = column_or_1d(y, warn=True)
    rows = labelled_rows(values, unlabeled)
    known = values[rows]
    assert_all_finite(known, input_name="y")
    check_classification_targets(known)
    if known.dtype == object:  # the marker made it an object array; the classes by themselves have a type of their own
        known = np.array(known.tolist())
    classes, number = np.unique(known, return_inverse=True)
    target = np.full(len(values), -1, dtype=np.int64)
    target[rows] = number
    return classes, target
