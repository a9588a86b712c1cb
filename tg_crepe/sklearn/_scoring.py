from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.metrics import get_scorer
from sklearn.utils import _safe_indexing

from tg_crepe.sklearn._targets import labelled_rows


def labelled_scorer(scoring: str = "accuracy") -> Callable[[Any, Any, Any], float]:
    """A scorer for cross-validation that leaves unlabelled rows out.

    Args:
        scoring (str, optional): A name that :func:`sklearn.metrics.get_scorer` knows. (default: :obj:`"accuracy"`)
    """
    scorer = get_scorer(scoring)

    def score(estimator: Any, X: Any, y: Any) -> float:
        rows = labelled_rows(y, _marker(estimator))
        return float(scorer(estimator, _safe_indexing(X, rows), _safe_indexing(y, rows)))

    return score


def _marker(estimator: Any) -> Any:
    """The marker of an estimator, or of the last step of a pipeline."""
    return getattr(estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator, "unlabeled", -1)
