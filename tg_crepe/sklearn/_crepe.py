from __future__ import annotations

from typing import Any

from tg_crepe.models import CrepePropagation
from tg_crepe.sklearn._classifier import GraphClassifier


class CrepeClassifier(GraphClassifier):
    r"""Semi-supervised classification by the normalised 1-Laplacian energy, with scikit-learn's interface.

    Fitting makes the graph of the nearest neighbours and infers the labels of the unlabelled rows with
    :class:`~tg_crepe.CrepePropagation`, with a linear model of the features as evidence. A new point takes the weighted
    median of its neighbours,

    .. math::
        \mathbf{v}(x) = \arg\min_{\mathbf{v}} \sum_j w_{xj} |\mathbf{v} - \mathbf{v}_j|, \qquad v = u/d,

    which minimises the same energy while all else stays, times what the linear model says of it, as far as labels
    trust that.

    .. code-block:: python

        from tg_crepe.sklearn import CrepeClassifier

        model = CrepeClassifier(n_neighbors=10).fit(X, y)  # y is -1 where there is no label
        model.transduction_, model.certainty_, model.predict(X_new)

    Args:
        n_neighbors (int, optional): The number of neighbours; clipped to the other rows with a warning.
            (default: :obj:`20`)
        metric (str, optional): :obj:`"euclidean"`, :obj:`"cosine"`, or :obj:`"auto"`, one of the two and standardised
            columns where these are of very different scale (:func:`~tg_crepe.knn_graph`). (default: :obj:`"auto"`)
        affinity (str, optional): :obj:`"knn"`, or :obj:`"precomputed"` where ``X`` is itself a (sparse) matrix of
            weights. (default: :obj:`"knn"`)
        unlabeled (optional): What stands in ``y`` where there is no label: a number, a string, None or NaN.
            (default: :obj:`-1`)
        class_volume (str or torch.Tensor, optional): See :class:`~tg_crepe.CrepePropagation`.
            (default: :obj:`"labels"`)
        head (str, optional): :obj:`"linear"`, a linear model of the features beside the graph: what it says of the
            rows, out of fold, is evidence that is trusted as far as the labels agree with it. Trained on the soft
            labels of all rows (:class:`~tg_crepe.heads.LinearHead`) it has a word for new points too, as far as it is
            trusted. :obj:`None`: the graph alone. Not for sparse features, nor with a given graph.
            (default: :obj:`"linear"`)
        sampling (str, optional): See :class:`~tg_crepe.CrepePropagation`. (default: :obj:`"auto"`)
        bind_volume (str or torch.Tensor, optional): See :class:`~tg_crepe.EnergyModel`. (default: :obj:`None`)
        random_state (optional): Taken for the sake of tools that set it; nothing here is random.
            (default: :obj:`None`)

    Attributes:
        classes_ (numpy.ndarray): The classes.
        transduction_ (numpy.ndarray): The label of every fitted row, the marker where no label reaches.
        label_distributions_ (numpy.ndarray): Their soft labels, of shape (n_samples, n_classes).
        certainty_ (numpy.ndarray): How far to trust them, between 0 and 1.
        reached_ (numpy.ndarray): Whether a label reaches the row at all.
        metric_ (str): The metric of the graph, :obj:`"euclidean"` or :obj:`"cosine"`; not with a given graph.
        factor_ (numpy.ndarray or None): What the columns are multiplied by where they are standardised, those of new
            points too: one over the standard deviation, 0 for a constant column, of shape (n_features,).
        head_ (LinearHead or None): The linear model of the features, trained on all soft labels.
        expected_error_ (float or None): The share of wrong labels to expect among the unlabelled rows.
        status_ (str): How the solver ended, :obj:`"converged"` if all is well.
    """

    def __init__(
        self,
        n_neighbors: int = 20,
        metric: str = "auto",
        affinity: str = "knn",
        unlabeled: Any = -1,
        class_volume: Any = "labels",
        head: str | None = "linear",
        sampling: str = "auto",
        bind_volume: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.affinity = affinity
        self.unlabeled = unlabeled
        self.class_volume = class_volume
        self.head = head
        self.sampling = sampling
        self.bind_volume = bind_volume
        self.random_state = random_state

    def _energy_model(self) -> CrepePropagation:
        return CrepePropagation(class_volume=self.class_volume, sampling=self.sampling, bind_volume=self.bind_volume)
