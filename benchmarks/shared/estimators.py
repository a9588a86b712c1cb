"""What people use on features otherwise: models of scikit-learn, with its defaults but for what few labels forbid."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from tg_crepe.graph.metric import find_placement

#: Their names; linear models learn from the labels alone, self-training and label spreading from all rows.
ESTIMATORS = ("logistic regression", "linear SVM", "kNN", "self-training", "label spreading")

#: The neighbours of the graph of label spreading, and the most of those that vote in kNN.
_NEIGHBORS, _VOTES = 20, 5


def estimate(name: str, x: Tensor, y: Tensor, mask: Tensor) -> np.ndarray:
    """The labels of all rows by one of :data:`ESTIMATORS`.

    Args:
        name (str): Which one.
        x (torch.Tensor): Features, of shape :obj:`[num_rows, num_features]`.
        y (torch.Tensor): Classes, of shape :obj:`[num_rows]`; read where ``mask`` is :obj:`True`.
        mask (torch.Tensor): Which rows are labelled, bool of shape :obj:`[num_rows]`.
    """
    # Linear models on standardised columns, by all rows: the deviation over a few labels would be chance. What asks for
    # neighbours sees the rows as our own graph does.
    if name in ("kNN", "label spreading"):
        rows = find_placement(x, "auto", stacklevel=2).place(x).numpy()
    else:
        rows = ((x - x.mean(dim=0)) / x.std(dim=0).clamp(min=1e-12)).numpy()
    known = mask.numpy()
    classes = int(y[mask].unique().numel())
    model = _model(name, max(1, min(_VOTES, int(mask.sum()) // classes)))
    if name in ("self-training", "label spreading"):
        model.fit(rows, np.where(known, y.numpy(), -1))
    else:
        model.fit(rows[known], y.numpy()[known])
    return np.asarray(model.transduction_ if name == "label spreading" else model.predict(rows))


def _model(name: str, votes: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
    from sklearn.svm import LinearSVC

    return {
        "logistic regression": lambda: LogisticRegression(max_iter=1000),
        "linear SVM": lambda: LinearSVC(),
        "kNN": lambda: KNeighborsClassifier(votes),
        "self-training": lambda: SelfTrainingClassifier(LogisticRegression(max_iter=1000)),
        "label spreading": lambda: LabelSpreading("knn", n_neighbors=_NEIGHBORS),
    }[name]()
