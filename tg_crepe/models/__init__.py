from tg_crepe.models.base import EnergyModel, PropagationResult
from tg_crepe.models.crepe import CrepePropagation
from tg_crepe.models.harmonic import Harmonic
from tg_crepe.models.lgc import LGC
from tg_crepe.models.nearest_neighbor import NearestNeighbor

__all__ = ["LGC", "CrepePropagation", "EnergyModel", "Harmonic", "NearestNeighbor", "PropagationResult"]
