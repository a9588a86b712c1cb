from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.feature_knn_graph import FeatureKNNGraph
from tg_crepe.graph.join import join_graphs
from tg_crepe.graph.knn import knn_graph
from tg_crepe.graph.prepare import PreparedGraph, prepare
from tg_crepe.graph.reading import canonical_graph
from tg_crepe.graph.report import GraphReport, graph_report

__all__ = [
    "CanonicalGraph",
    "FeatureKNNGraph",
    "GraphReport",
    "PreparedGraph",
    "canonical_graph",
    "graph_report",
    "join_graphs",
    "knn_graph",
    "prepare",
]
