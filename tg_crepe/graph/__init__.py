from tg_crepe.graph.canonical import CanonicalGraph, canonical_graph
from tg_crepe.graph.knn import knn_graph
from tg_crepe.graph.report import GraphReport, graph_report
from tg_crepe.graph.transform import FeatureKNNGraph

__all__ = ["CanonicalGraph", "FeatureKNNGraph", "GraphReport", "canonical_graph", "graph_report", "knn_graph"]
