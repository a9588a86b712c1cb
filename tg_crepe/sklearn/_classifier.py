from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from tg_crepe._checks import check_choice, check_count
from tg_crepe.graph import canonical_graph, knn_graph
from tg_crepe.graph.knn import neighbor_weight
from tg_crepe.graph.metric import METRICS, Placement, find_placement
from tg_crepe.heads import LinearHead, head_evidence
from tg_crepe.inference.extension import extend_soft_labels
from tg_crepe.inference.pool import log_opinion
from tg_crepe.models import EnergyModel
from tg_crepe.sklearn._neighbors import choose_sparse, nearest, place
from tg_crepe.sklearn._targets import labelled_rows, read_targets
from tg_crepe.warnings import GraphWarning

#: Where the graph comes from.
AFFINITIES = ("knn", "precomputed")

#: Models of the features beside the graph.
HEADS = ("linear",)


class GraphClassifier(ClassifierMixin, BaseEstimator):
    """What the classifiers have in common: targets, graph, propagation, and the extension to new points.

    Not for new points alone: fitting labels the rows of ``X`` themselves. A class brings its energy model.
    """

    # The defaults are set by the classes' own constructors, which scikit-learn reads the parameters from.
    n_neighbors: int
    metric: str
    affinity: str
    unlabeled: Any
    random_state: Any

    #: The model of the features beside the graph, for classes that have none as a parameter.
    head: str | None = None

    @abstractmethod
    def _energy_model(self) -> EnergyModel:
        """The model with the parameters of the estimator."""

    def fit(self, X: Any, y: Any, prior: Any = None, **fit_params: Any) -> GraphClassifier:
        """Infers the labels of the unlabelled rows.

        Args:
            X (array-like or sparse matrix): Features of shape (n_samples, n_features); with
                ``affinity="precomputed"`` the weights of a graph, of shape (n_samples, n_samples).
            y (array-like): Labels of shape (n_samples,), the marker ``unlabeled`` where there is none.
            prior (array-like, optional): Soft evidence, such as the probabilities of a zero-shot model: of shape
                (n_samples, n_classes), columns in the order of the sorted classes, a row of NaN where there is no
                opinion. It is trusted as far as labels and graph agree with it, and takes the place of the head's.
                (default: :obj:`None`)
            **fit_params: Nothing; ``sample_weight`` is refused, since the energy has no weight a row.
        """
        if fit_params:
            raise TypeError(
                f"fit() of {type(self).__name__} takes X, y and prior alone, got {', '.join(map(repr, fit_params))}: "
                "the energy has no weight a row; leave rows unlabelled instead"
            )
        self._check_params()
        model = self._energy_model()
        X = self._validate(X, reset=True)
        self.classes_, target = read_targets(y, self.unlabeled)
        check_consistent_length(X, target)
        precomputed = self.affinity == "precomputed"
        if precomputed:
            graph, weight = sparse.csr_array(X), None
        else:
            placement = self._find_placement(X)
            self.metric_ = placement.metric
            self.factor_ = None if placement.factor is None else placement.factor.numpy()
            points = place(X, self.metric_, self.factor_)
            graph, weight = self._make_graph(X, points, placement)
        y_node = torch.from_numpy(target)
        evidence = self._read_prior(prior, len(target))
        features = None
        if not precomputed and self.head is not None and not sparse.issparse(X):
            features = torch.from_numpy(np.ascontiguousarray(X))
            if evidence is None and len(self.classes_) > 1:
                evidence = head_evidence(features, y_node, y_node >= 0, len(self.classes_), placement)
        with warnings.catch_warnings():
            if prior is None:  # nobody has to know that the head is not trusted
                warnings.filterwarnings("ignore", "the labels do not support 'prior'", GraphWarning)
            labelled = y_node >= 0
            result = model.propagate(
                y_node, graph, labelled, weight, len(self.classes_), prior=evidence, spread_prior=prior is not None
            )

        self.status_ = result.status
        self.reached_ = result.reached.numpy()
        self.certainty_ = result.certainty.double().numpy()
        self.label_distributions_ = result.prob.double().numpy()
        self.transduction_ = self._decode(result.label.numpy())
        self.expected_error_ = None if result.expected_error is None else result.expected_error.value
        self._head_trust = result.prior_trust if prior is None and result.prior_trust is not None else 0.0
        self.head_ = None
        if features is not None:
            # Rows that no label reaches have no certainty, and take no part.
            self.head_ = LinearHead.fit(features, result.prob, result.certainty, placement)
        self._rule = model.extension
        self._nodes = np.flatnonzero(self.reached_)  # a new point goes by nodes that know something
        if not precomputed:
            self._points = points if len(self._nodes) == points.shape[0] else points[self._nodes]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The classes of new points; a row that is equal to one of the fitted rows gets what was inferred there.

        Args:
            X (array-like or sparse matrix): Features of shape (n_queries, n_features); with
                ``affinity="precomputed"`` weights towards the fitted rows, of shape (n_queries, n_samples).
        """
        prob = self.predict_proba(X)
        return np.asarray(self.classes_[prob.argmax(axis=1)])

    def predict_proba(self, X: Any) -> np.ndarray:
        """The soft labels of new points, of shape (n_queries, n_classes); see :meth:`predict`."""
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        prob = torch.from_numpy(self.label_distributions_[self._nodes])
        equal: Any = False
        if self.affinity == "precomputed":
            neighbor, weight = _listed(sparse.csr_array(X)[:, self._nodes])
        else:
            neighbor, weight, equal = self._join(place(X, self.metric_, self.factor_))
        known = extend_soft_labels(prob, torch.from_numpy(neighbor), torch.from_numpy(weight), self._rule).numpy()
        if self.head_ is None or sparse.issparse(X):
            return np.asarray(known)
        # The neighbours and the head, as far as the labels trust a head.
        head = log_opinion(self.head_(torch.from_numpy(np.ascontiguousarray(X))).double())
        both = torch.softmax(log_opinion(torch.from_numpy(known)) + self._head_trust * head, dim=1).numpy()
        return np.asarray(np.where(equal, known, both))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy on the rows of ``y`` that are labelled; rows with the marker are left out."""
        rows = labelled_rows(y, self.unlabeled)
        weight = None if sample_weight is None else _safe_indexing(sample_weight, rows)
        return float(super().score(_safe_indexing(X, rows), _safe_indexing(y, rows), weight))

    def _read_prior(self, prior: Any, rows: int) -> torch.Tensor | None:
        """Soft evidence as a tensor, which the model checks further."""
        if prior is None:
            return None
        values = np.asarray(prior, dtype=np.float64)
        if values.shape != (rows, len(self.classes_)):
            raise ValueError(
                f"'prior' must be of shape (n_samples, n_classes) = {(rows, len(self.classes_))}, got {values.shape}"
            )
        return torch.from_numpy(values)

    def _check_params(self) -> None:
        if self.head is not None:
            check_choice("head", self.head, HEADS)
        check_count("n_neighbors", self.n_neighbors)
        check_choice("metric", self.metric, METRICS)
        check_choice("affinity", self.affinity, AFFINITIES)

    def _validate(self, X: Any, reset: bool) -> Any:
        """Features or a graph as scikit-learn wants them checked."""
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=2 if reset else 1,
        )
        if self.affinity == "precomputed" and reset and X.shape[0] != X.shape[1]:
            raise ValueError(f"'X' must be a square matrix for affinity='precomputed', got shape {X.shape}")
        return X

    def _find_placement(self, X: Any) -> Placement:
        """The metric of the graph; the choice is that of the command line and of :func:`~tg_crepe.knn_graph`."""
        if not sparse.issparse(X):
            return find_placement(torch.from_numpy(np.ascontiguousarray(X)), self.metric, stacklevel=3)
        placement = choose_sparse(X) if self.metric == "auto" else Placement(self.metric)
        if placement.note:
            warnings.warn(placement.note, GraphWarning, stacklevel=3)
        return placement

    def _make_graph(self, X: Any, points: Any, placement: Placement) -> tuple[torch.Tensor, torch.Tensor]:
        """The graph of the nearest neighbours; a sparse X is never made dense."""
        k = self._clipped(points.shape[0] - 1)
        if not sparse.issparse(X):
            return knn_graph(torch.from_numpy(np.ascontiguousarray(X)), k, placement)
        neighbor, distance = nearest(points, points, k, leave_out_self=True)
        source = torch.arange(len(neighbor)).repeat_interleave(k)
        directed = torch.stack([source, torch.from_numpy(neighbor).reshape(-1)])
        graph, _ = canonical_graph(directed, _gaussian(distance).reshape(-1).to(_dtype(X)), len(neighbor))
        return torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1), graph.edge_weight.repeat(2)

    def _join(self, queries: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The edges of new points, with weights as in the graph; an equal of a node goes by its equals alone, and which
        points are such."""
        neighbor, distance = nearest(self._points, queries, min(self.n_neighbors, self._points.shape[0]))
        equal = distance == 0
        some = equal.any(axis=1, keepdims=True)
        return neighbor, np.where(some, equal, _gaussian(distance).numpy()), some

    def _clipped(self, most: int) -> int:
        if self.n_neighbors > most:
            warnings.warn(
                f"n_neighbors = {self.n_neighbors} is more than the {most} other row(s) of X; {most} are used",
                GraphWarning,
                stacklevel=4,
            )
        return min(self.n_neighbors, most)

    def _decode(self, label: np.ndarray) -> np.ndarray:
        """Numbers of classes as the user's labels, with the marker where no label reaches."""
        if (label >= 0).all():
            return np.asarray(self.classes_[label])
        marker = np.array([self.unlabeled])
        kind = np.result_type(self.classes_, marker) if self.classes_.dtype.kind == marker.dtype.kind else object
        decoded = self.classes_[label.clip(min=0)].astype(kind)
        decoded[label < 0] = self.unlabeled
        return np.asarray(decoded)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags


def _dtype(X: Any) -> torch.dtype:
    """The type of the weights: that of the features, as in a graph of dense ones."""
    return torch.float32 if X.dtype == np.float32 else torch.float64


def _gaussian(distance: np.ndarray) -> torch.Tensor:
    """The self-tuned weights of the graph for ascending distances of shape [n_rows, k]."""
    values = torch.from_numpy(distance)
    return neighbor_weight("gaussian", values, lambda: values)


def _listed(weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """A sparse matrix as neighbours and weights of one length a row, filled up with weights of zero."""
    count = np.diff(weights.indptr)
    width = max(1, int(count.max(initial=0)))
    neighbor, weight = np.zeros((len(count), width), np.int64), np.zeros((len(count), width))
    inside = np.arange(width) < count[:, None]
    neighbor[inside], weight[inside] = weights.indices, weights.data
    return neighbor, weight
