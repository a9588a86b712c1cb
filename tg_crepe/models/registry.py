from __future__ import annotations

from importlib import import_module
from typing import Any

from tg_crepe._checks import check_choice
from tg_crepe.models.base import EnergyModel

#: The models by name: the name is that of the file in this folder, the value that of the class in it.
ENERGY_MODELS = {
    "crepe": "CrepePropagation",
    "harmonic": "Harmonic",
    "lgc": "LGC",
    "random_walk": "RandomWalk",
    "sparse_lp": "SparseLP",
    "wnll": "WNLL",
    "centered_kernel": "CenteredKernel",
    "poisson": "Poisson",
    "poisson_mbo": "PoissonMBO",
    "volume_mbo": "VolumeMBO",
    "cut_ssl": "CutSSL",
    "p_laplace": "PLaplace",
    "nearest_neighbor": "NearestNeighbor",
}


def get_energy_model(name: str, **options: Any) -> EnergyModel:
    r"""Makes an energy model by its name.

    .. code-block:: python

        from tg_crepe import get_energy_model

        result = get_energy_model("poisson", bind_volume="labels").propagate(y, edge_index, mask, edge_weight)

    Args:
        name (str): :obj:`"crepe"`, :obj:`"harmonic"`, :obj:`"lgc"`, :obj:`"random_walk"`, :obj:`"sparse_lp"`,
            :obj:`"wnll"`, :obj:`"centered_kernel"`, :obj:`"poisson"`, :obj:`"poisson_mbo"`,
            :obj:`"volume_mbo"`, :obj:`"cut_ssl"`, :obj:`"p_laplace"` or :obj:`"nearest_neighbor"`.
        **options: The arguments of the model.
    """
    check_choice("name", name, ENERGY_MODELS)
    model: EnergyModel = getattr(import_module(f"tg_crepe.models.{name}"), ENERGY_MODELS[name])(**options)
    return model
