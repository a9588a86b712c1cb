"""A propagation from what the commands read, and the files of its run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from tg_crepe.cli._inputs import Features, NodeLabels
    from tg_crepe.models import EnergyModel, PropagationResult
    from tg_crepe.runs import RunFolder


def solve(energy: EnergyModel, known: NodeLabels, graph: tuple[Tensor, Tensor]) -> PropagationResult:
    """The pseudo-labels of a model, and some moments of its flow."""
    import torch

    from tg_crepe.runs.kept_nodes import nodes_with_moments

    y = torch.from_numpy(known.y)
    return energy.propagate(
        y, graph[0], None, graph[1], len(known.class_names), snapshot_nodes=nodes_with_moments(len(y))
    )


def write_propagation(
    run: RunFolder,
    nodes: Features,
    known: NodeLabels,
    truth: np.ndarray | None,
    graph: tuple[Tensor, Tensor],
    result: PropagationResult,
) -> None:
    """Writes all files of a run and notes how it ended.

    Args:
        run (RunFolder): Where to.
        nodes (Features): The nodes.
        known (NodeLabels): The labels that the model has seen.
        truth (numpy.ndarray, optional): True labels, which no model sees, of shape :obj:`[num_nodes]`.
        graph (tuple): Edges and their weights.
        result (PropagationResult): What the model gave.
    """
    import numpy as np

    from tg_crepe.runs import RunResult
    from tg_crepe.runs.kept_nodes import moment_fields, nodes_with_image, suggest_nodes
    from tg_crepe.runs.plane import principal_plane

    labelled = known.y >= 0
    run.write_result(
        RunResult(
            ids=np.array(nodes.ids),
            label=result.label.numpy(),
            prob=result.prob.numpy(),
            certainty=result.certainty.numpy(),
            reached=result.reached.numpy(),
            labelled=labelled,
            class_names=np.array(known.class_names),
            position=principal_plane(nodes.x),
            truth=truth,
            **moment_fields(result.moments),
        )
    )
    run.write_graph(*graph, len(nodes.ids))
    run.write_trace(result.trace)
    if nodes.dataset is not None:
        node = nodes_with_image(len(nodes.ids), suggest_nodes(result.prob, labelled, graph, multi_label=False))
        run.write_thumbnails(node, nodes.dataset.fetch(node))
    expected = result.expected_error
    run.finish(result.status, **({} if expected is None else {"expected_error": asdict(expected)}))
