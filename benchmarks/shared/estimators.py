"""What people use on features otherwise: models of scikit-learn, with its defaults but for what few labels forbid, and
a head that is tuned by pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from shared.fingerprint import fingerprint, fingerprint_of
from torch import Tensor

from tg_crepe.graph.metric import find_placement

#: Their names, and about how many seconds of processor time they take on 4,000 rows; self-training and label spreading
#: learn from all rows, the others from the labels alone.
ESTIMATORS = {
    "logistic regression": 0.05,
    "linear SVM": 0.05,
    "kNN": 0.02,
    "self-training": 0.3,
    "label spreading": 0.3,
    "contrastive head": 0.1,
}

#: Those that take all rows, -1 where there is no label.
_ALL_ROWS = ("self-training", "label spreading")

#: The neighbours of the graph of label spreading, and the most of those that vote in kNN.
_NEIGHBORS, _VOTES = 20, 5


class Answer(NamedTuple):
    """The labels of all rows, ``[num_rows]``, and their probabilities, ``[num_rows, num_classes]``, where the model has
    some.
    """

    label: np.ndarray
    prob: np.ndarray | None


def estimate(name: str, x: Tensor, y: Tensor, mask: Tensor) -> Answer:
    """What one of :data:`ESTIMATORS` says of all rows.

    Args:
        name (str): Which one.
        x (torch.Tensor): Features, of shape :obj:`[num_rows, num_features]`.
        y (torch.Tensor): Classes, of shape :obj:`[num_rows]`; read where ``mask`` is :obj:`True`.
        mask (torch.Tensor): Which rows are labelled, bool of shape :obj:`[num_rows]`.
    """
    rows, known = scale(name, x), mask.numpy()
    classes = int(y[mask].unique().numel())
    model = _model(name, max(1, min(_VOTES, int(mask.sum()) // classes)))
    if name in _ALL_ROWS:
        model.fit(rows, np.where(known, y.numpy(), -1))
    else:
        model.fit(rows[known], y.numpy()[known])
    label = model.transduction_ if name == "label spreading" else model.predict(rows)
    return Answer(np.asarray(label), _probabilities(model, rows))


def scale(name: str, x: Tensor) -> np.ndarray:
    """The rows as they are best for a model, on other draws (seeds 100 and 101 of 17 families): as our own graph sees
    them, of unit length where that is by the cosine. To standardise all columns costs linear models a third more errors
    on embeddings. Self-training alone is better with it where the graph is Euclidean, and loses its confidence at unit
    length.
    """
    placement = find_placement(x, "auto", stacklevel=2)
    if name != "self-training":
        return placement.place(x).float().numpy()
    return x.numpy() if placement.metric == "cosine" else ((x - x.mean(dim=0)) / x.std(dim=0).clamp(min=1e-12)).numpy()


def code_of(name: str) -> str:
    """A text that changes with the code of a model."""
    own = [fingerprint_of(estimate, scale, _model, _probabilities), fingerprint("tg_crepe.graph.metric")]
    return " ".join([*own, fingerprint("shared.contrastive_head")] if name == "contrastive head" else own)


def _model(name: str, votes: int) -> Any:
    from shared.contrastive_head import ContrastiveHead
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
        "contrastive head": lambda: ContrastiveHead(),
    }[name]()


def _probabilities(model: Any, rows: np.ndarray) -> np.ndarray | None:
    """Those of all rows, in the order of the classes that have a label."""
    if not hasattr(model, "label_distributions_"):
        return np.asarray(model.predict_proba(rows)) if hasattr(model, "predict_proba") else None
    own = model.label_distributions_  # nothing at all where no label reaches a row
    return np.where(own.sum(axis=1, keepdims=True) > 0, own, 1 / own.shape[1])
