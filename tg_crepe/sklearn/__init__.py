"""The energy models as scikit-learn classifiers, pretrained models as a transformer; needs the extra ``sklearn``."""

from tg_crepe._optional import require

require("sklearn", extra="sklearn")

from tg_crepe.sklearn._crepe import CrepeClassifier  # noqa: E402
from tg_crepe.sklearn._embedder import Embedder  # noqa: E402
from tg_crepe.sklearn._energy import EnergyClassifier  # noqa: E402
from tg_crepe.sklearn._scoring import labelled_scorer  # noqa: E402

__all__ = ["CrepeClassifier", "Embedder", "EnergyClassifier", "labelled_scorer"]
