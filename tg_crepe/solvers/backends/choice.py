from __future__ import annotations

from tg_crepe._checks import check_choice
from tg_crepe._optional import available
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.solvers.backends.numba import NumbaBackend
from tg_crepe.solvers.backends.reference import ReferenceBackend
from tg_crepe.solvers.backends.torch_csr import TorchBackend
from tg_crepe.solvers.chambolle_pock import Backend
from tg_crepe.typing import OptTensor

#: Names of the implementations of an iteration.
BACKENDS = ("auto", "numba", "torch", "reference")


def make_backend(name: str, graph: CanonicalGraph, short: bool = False) -> Backend:
    """The backend of a name, for a graph.

    Args:
        name (str): :obj:`"numba"` (the quickest, CPU), :obj:`"torch"` (any device), :obj:`"reference"` (for reading and
            checking) or :obj:`"auto"`: numba where it is installed and the graph is on the CPU, else torch.
        graph (CanonicalGraph): A graph without isolated nodes.
        short (bool, optional): Whether the dual may be kept in 16 bits, which numba does. (default: :obj:`False`)
    """
    check_choice("backend", name, BACKENDS)
    return ReferenceBackend(graph) if name == "reference" else make_fast_backend(name, graph, short=short)


def make_fast_backend(
    name: str, graph: CanonicalGraph, divisor: OptTensor = None, short: bool = False
) -> NumbaBackend | TorchBackend:
    r"""The backend of a name other than :obj:`"reference"`, for the operator :math:`K = W \mathrm{diag}(s)^{-1}`.

    Its primal step is :math:`\rho s_i / d_i`: where :math:`s` is not the degree, a problem may have no quadratic and no
    linear term.

    Args:
        name (str): See :func:`make_backend`.
        graph (CanonicalGraph): A graph without isolated nodes.
        divisor (torch.Tensor, optional): The :math:`s`, for own and halo nodes, of shape :obj:`[num_local]`.
            (default: :obj:`None`, the degree)
        short (bool, optional): See :func:`make_backend`. (default: :obj:`False`)
    """
    if name == "auto":
        name = "numba" if graph.edge_weight.device.type == "cpu" and available("numba") else "torch"
    return NumbaBackend(graph, divisor, short) if name == "numba" else TorchBackend(graph, divisor)
