from tg_crepe.inference.result import PropagationResult
from tg_crepe.models.base import EnergyModel
from tg_crepe.models.centered_kernel import CenteredKernel
from tg_crepe.models.crepe import CrepePropagation, Recipe
from tg_crepe.models.cut_ssl import CutSSL
from tg_crepe.models.harmonic import Harmonic
from tg_crepe.models.lgc import LGC
from tg_crepe.models.nearest_neighbor import NearestNeighbor
from tg_crepe.models.p_laplace import PLaplace
from tg_crepe.models.poisson import Poisson
from tg_crepe.models.poisson_mbo import PoissonMBO
from tg_crepe.models.random_walk import RandomWalk
from tg_crepe.models.registry import ENERGY_MODELS, get_energy_model
from tg_crepe.models.sparse_lp import SparseLP
from tg_crepe.models.volume_mbo import VolumeMBO
from tg_crepe.models.wnll import WNLL

__all__ = [
    "ENERGY_MODELS",
    "LGC",
    "WNLL",
    "CenteredKernel",
    "CrepePropagation",
    "CutSSL",
    "EnergyModel",
    "Harmonic",
    "NearestNeighbor",
    "PLaplace",
    "Poisson",
    "PoissonMBO",
    "PropagationResult",
    "RandomWalk",
    "Recipe",
    "SparseLP",
    "VolumeMBO",
    "get_energy_model",
]
