"""Pseudo-labels from a few labels and a graph, by the normalised 1-Laplacian energy (CREPE)."""

from tg_crepe.energy import GraphGradient
from tg_crepe.flow import CheegerPartition, RatioFlow, cheeger_partition
from tg_crepe.graph import FeatureKNNGraph, graph_report, knn_graph
from tg_crepe.models import LGC, CrepePropagation, EnergyModel, Harmonic, NearestNeighbor, PropagationResult
from tg_crepe.warnings import ConvergenceWarning, GraphWarning

__version__ = "0.1.0"

__all__ = [
    "LGC",
    "CheegerPartition",
    "ConvergenceWarning",
    "CrepePropagation",
    "EnergyModel",
    "FeatureKNNGraph",
    "GraphGradient",
    "GraphWarning",
    "Harmonic",
    "NearestNeighbor",
    "PropagationResult",
    "RatioFlow",
    "cheeger_partition",
    "graph_report",
    "knn_graph",
]
