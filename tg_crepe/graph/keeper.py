from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from tg_crepe.graph.canonical import CanonicalGraph


@dataclass(frozen=True)
class KeptFlow:
    """What a flow needs to go on after a fault as if nothing had happened.

    Args:
        step (int): The outer steps that are done.
        u (torch.Tensor): The iterate, of shape :obj:`[num_nodes, num_classes]`.
        dual (torch.Tensor, optional): The dual of every directed edge, in the order of the graph's rows, of shape
            :obj:`[num_directed_edges, num_classes]`; :obj:`None` for a flow that has ended.
        energy (torch.Tensor): The energy of every class, of shape :obj:`[num_classes]`.
        still (int): Steps since a label last changed.
        status (str, optional): How the flow ended; :obj:`None` while it has not.
        trace (dict): The columns of its trace.
    """

    step: int
    u: Tensor
    dual: Tensor | None
    energy: Tensor
    still: int
    status: str | None
    trace: dict[str, list[Any]]


class Keeper(Protocol):
    """Where flows leave their state after every outer step."""

    wanted: bool

    def resume(self, graph: CanonicalGraph) -> KeptFlow | None:
        """What was kept of the flow that now begins on a graph; flows are told apart by their order."""
        ...

    def keep(self, graph: CanonicalGraph, state: KeptFlow) -> None:
        """Keeps the state of the flow that began last."""
        ...


class _Forgetful:
    """Keeps nothing."""

    wanted = False

    def resume(self, graph: CanonicalGraph) -> KeptFlow | None:
        """Every flow begins anew."""
        return None

    def keep(self, graph: CanonicalGraph, state: KeptFlow) -> None:
        """Nothing to do."""


#: The keeper of those who have nothing to fear.
FORGETFUL = _Forgetful()
