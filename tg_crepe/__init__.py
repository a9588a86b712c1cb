"""Pseudo-labels from a few labels and a graph, by the normalised 1-Laplacian energy (CREPE)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tg_crepe._waiting import set_passive

if TYPE_CHECKING:
    from tg_crepe.energy import GraphGradient
    from tg_crepe.graph import FeatureKNNGraph, PreparedGraph, graph_report, join_graphs, knn_graph, prepare
    from tg_crepe.inference.shares import choose_shares
    from tg_crepe.models import (
        LGC,
        WNLL,
        CenteredKernel,
        CrepePropagation,
        CutSSL,
        EnergyModel,
        Harmonic,
        NearestNeighbor,
        PLaplace,
        Poisson,
        PoissonMBO,
        PropagationResult,
        RandomWalk,
        Recipe,
        SparseLP,
        VolumeMBO,
        get_energy_model,
    )
    from tg_crepe.solvers import CheegerPartition, RatioFlow, cheeger_partition
    from tg_crepe.warnings import ConvergenceWarning, GraphWarning

set_passive()

__version__ = "0.3.0"

__all__ = [
    "LGC",
    "WNLL",
    "CenteredKernel",
    "CheegerPartition",
    "ConvergenceWarning",
    "CrepePropagation",
    "CutSSL",
    "EnergyModel",
    "FeatureKNNGraph",
    "GraphGradient",
    "GraphWarning",
    "Harmonic",
    "NearestNeighbor",
    "PLaplace",
    "Poisson",
    "PoissonMBO",
    "PreparedGraph",
    "PropagationResult",
    "RandomWalk",
    "RatioFlow",
    "Recipe",
    "SparseLP",
    "VolumeMBO",
    "cheeger_partition",
    "choose_shares",
    "get_energy_model",
    "graph_report",
    "join_graphs",
    "knn_graph",
    "prepare",
]

#: Where public names live. They are imported when first asked for: PyG takes seconds to import, and the help of the
#: command line should not wait for it.
_ROOMS = ("warnings", "graph", "energy", "solvers", "inference.shares", "models")


def __getattr__(name: str) -> Any:
    for room in _ROOMS if name in __all__ else ():
        module = import_module(f"tg_crepe.{room}")
        if hasattr(module, name):
            value = globals()[name] = getattr(module, name)
            return value
    raise AttributeError(f"module 'tg_crepe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
