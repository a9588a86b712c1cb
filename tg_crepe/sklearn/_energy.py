from __future__ import annotations

from typing import Any

from tg_crepe.models import EnergyModel, get_energy_model
from tg_crepe.sklearn._classifier import GraphClassifier


class EnergyClassifier(GraphClassifier):
    r"""Semi-supervised classification by any energy model of this package, with scikit-learn's interface.

    A new point takes from its neighbours what minimises the model's energy: the weighted median for sums of absolute
    differences (see :class:`CrepeClassifier`), else the weighted mean of their soft labels.

    .. code-block:: python

        from tg_crepe import LGC
        from tg_crepe.sklearn import EnergyClassifier

        EnergyClassifier("harmonic").fit(X, y).predict(X_new)
        EnergyClassifier(LGC(alpha=0.9)).fit(X, y)

    Args:
        model (str or EnergyModel, optional): A name that :func:`~tg_crepe.get_energy_model` knows, or a model.
            (default: :obj:`"lgc"`)
        n_neighbors (int, optional): See :class:`CrepeClassifier`. (default: :obj:`20`)
        metric (str, optional): See :class:`CrepeClassifier`. (default: :obj:`"auto"`)
        affinity (str, optional): See :class:`CrepeClassifier`. (default: :obj:`"knn"`)
        unlabeled (optional): See :class:`CrepeClassifier`. (default: :obj:`-1`)
        random_state (optional): See :class:`CrepeClassifier`. (default: :obj:`None`)

    The learned attributes are those of :class:`CrepeClassifier`.
    """

    def __init__(
        self,
        model: str | EnergyModel = "lgc",
        n_neighbors: int = 20,
        metric: str = "auto",
        affinity: str = "knn",
        unlabeled: Any = -1,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.affinity = affinity
        self.unlabeled = unlabeled
        self.random_state = random_state

    def _energy_model(self) -> EnergyModel:
        if isinstance(self.model, EnergyModel):
            return self.model
        return get_energy_model(self.model)
