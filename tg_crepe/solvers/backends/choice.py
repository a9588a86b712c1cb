from __future__ import annotations

from tg_crepe._checks import check_choice
from tg_crepe._optional import available
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.solvers.backends.numba import NumbaBackend
from tg_crepe.solvers.backends.reference import ReferenceBackend
from tg_crepe.solvers.backends.torch_csr import TorchBackend
from tg_crepe.solvers.chambolle_pock import Backend

#: Names of the implementations of an iteration.
BACKENDS = ("auto", "numba", "torch", "reference")


def make_backend(name: str, graph: CanonicalGraph) -> Backend:
    """The backend of a name, for a graph.

    Args:
        name (str): :obj:`"numba"` (the quickest, CPU), :obj:`"torch"` (any device), :obj:`"reference"` (for reading and
            checking) or :obj:`"auto"`: numba where it is installed and the graph is on the CPU, else torch.
        graph (CanonicalGraph): A graph without isolated nodes.
    """
    check_choice("backend", name, BACKENDS)
    if name == "auto":
        name = "numba" if graph.edge_weight.device.type == "cpu" and available("numba") else "torch"
    if name == "numba":
        return NumbaBackend(graph)
    return TorchBackend(graph) if name == "torch" else ReferenceBackend(graph)
