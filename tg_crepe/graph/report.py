from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from tg_crepe._checks import check_mask, check_tensor
from tg_crepe._html import pair_table
from tg_crepe.graph.reading import canonical_graph
from tg_crepe.typing import Adjacency, OptTensor


@dataclass(frozen=True)
class GraphReport:
    """What one should know of a graph before labels are propagated on it; ``print`` it or read the fields."""

    num_nodes: int
    num_edges: int
    num_labels: int
    isolated_nodes: int
    components: int
    components_without_label: int
    unreached_nodes: int
    degree_min: float
    degree_median: float
    degree_max: float
    homophily: float | None
    repairs: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain Python values."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """The same as a table for notebooks."""
        rows = [
            ("nodes", f"{self.num_nodes:,}"),
            ("edges (each once)", f"{self.num_edges:,}"),
            ("labelled nodes", f"{self.num_labels:,}"),
            ("isolated nodes", f"{self.isolated_nodes:,}"),
            ("components", f"{self.components:,}"),
            ("without a label", f"{self.components_without_label:,} ({self.unreached_nodes:,} nodes)"),
            ("degree min/median/max", f"{self.degree_min:.4g} / {self.degree_median:.4g} / {self.degree_max:.4g}"),
        ]
        if self.homophily is not None:
            rows.append(("homophily", f"{self.homophily:.3f}"))
        return pair_table("Graph", [*rows, *(("repaired", note) for note in self.repairs)])

    def __str__(self) -> str:
        lines = [
            f"nodes                    {self.num_nodes:>10,}",
            f"edges (each once)        {self.num_edges:>10,}",
            f"labelled nodes           {self.num_labels:>10,}",
            f"isolated nodes           {self.isolated_nodes:>10,}",
            f"components               {self.components:>10,}",
            f"  without a label        {self.components_without_label:>10,}  ({self.unreached_nodes:,} nodes)",
            f"degree min/median/max    {self.degree_min:.4g} / {self.degree_median:.4g} / {self.degree_max:.4g}",
        ]
        if self.homophily is not None:
            lines.append(f"homophily                {self.homophily:>10.3f}  (weight of edges within a class)")
        return "\n".join(lines + [f"repaired: {note}" for note in self.repairs])


def graph_report(
    edge_index: Adjacency,
    edge_weight: OptTensor,
    mask: Tensor,
    y: OptTensor = None,
    num_nodes: int | None = None,
) -> GraphReport:
    r"""Says how well the labelled nodes reach the rest of a graph.

    Homophily is the share of weight on edges between known nodes of one class,
    :math:`\sum_{y_i = y_j} w_{ij} / \sum_{ij} w_{ij}`, over the edges whose two ends have :math:`y \geq 0`.

    Args:
        edge_index: The graph, in any form that the models take.
        edge_weight (torch.Tensor, optional): Its weights of shape :obj:`[num_edges]`.
        mask (torch.Tensor): Which nodes are labelled: bool of shape :obj:`[num_nodes]`, or indices.
        y (torch.Tensor, optional): Class of every node, of shape :obj:`[num_nodes]`; negative where it is unknown.
            (default: :obj:`None`, no homophily)
        num_nodes (int, optional): The number of nodes. (default: :obj:`None`, from ``y``, ``mask`` or the graph)
    """
    check_tensor("mask", mask)
    if y is not None:
        y = _check_classes(y, num_nodes)
        num_nodes = y.numel()
    if num_nodes is None and mask.dtype == torch.bool:
        num_nodes = mask.numel()
    graph, notes = canonical_graph(edge_index, edge_weight, num_nodes)
    labelled = check_mask(mask, graph.num_nodes)
    isolated = torch.bincount(graph.edge_index.view(-1), minlength=graph.num_nodes) == 0
    components = int(graph.component.max()) + 1 if graph.num_nodes else 0
    with_label = graph.component[labelled].unique()
    reached = torch.isin(graph.component, with_label)
    degree = graph.degree.double()
    return GraphReport(
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        num_labels=int(labelled.sum()),
        isolated_nodes=int(isolated.sum()),
        components=components,
        components_without_label=components - with_label.numel(),
        unreached_nodes=int((~reached).sum()),
        degree_min=float(degree.min()) if degree.numel() else 0.0,
        degree_median=float(degree.median()) if degree.numel() else 0.0,
        degree_max=float(degree.max()) if degree.numel() else 0.0,
        homophily=None if y is None else _homophily(graph.edge_index, graph.edge_weight, y),
        repairs=tuple(notes),
    )


def _check_classes(y: Tensor, num_nodes: int | None) -> Tensor:
    """One class a node: a plain tensor of shape :obj:`[num_nodes]`."""
    if check_tensor("y", y).dim() == 2 and y.size(1) == 1:
        y = y.squeeze(1)
    if y.dim() != 1 or (num_nodes is not None and y.numel() != num_nodes):
        expected = "[num_nodes]" if num_nodes is None else f"[num_nodes] = [{num_nodes}]"
        raise ValueError(f"'y' must be of shape {expected} (one class a node), got {list(y.shape)}")
    return y


def _homophily(edge_index: Tensor, edge_weight: Tensor, y: Tensor) -> float | None:
    """The share of weight within classes, over edges with two known ends."""
    first, second = y[edge_index]
    known = (first >= 0) & (second >= 0)
    total = edge_weight[known].double().sum()
    if not total > 0:
        return None
    return float(edge_weight[known & (first == second)].double().sum() / total)
