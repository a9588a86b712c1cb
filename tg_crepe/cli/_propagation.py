"""A propagation from what the commands read, and the files of its run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tg_crepe._unfinished import temporary_folder
from tg_crepe.cli._embedding import EmbedOptions, is_source, read_embedded

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from torch import Tensor

    from tg_crepe._labels import ClassRule
    from tg_crepe.cli._inputs import Features, NodeLabels
    from tg_crepe.graph.knn import NeighborGraph
    from tg_crepe.graph.metric import Placement
    from tg_crepe.models import EnergyModel, PropagationResult
    from tg_crepe.runs import RunFolder


@dataclass(frozen=True)
class GraphOptions:
    """The energy and the graph that a user has chosen."""

    energy: str = "crepe"
    sampling: str | None = None
    k: int = 20
    metric: str = "auto"
    head: bool = True

    def check(self) -> None:
        """Raise before any work where they are none."""
        from tg_crepe._checks import check_choice
        from tg_crepe.graph.knn import check_knn_options
        from tg_crepe.models.registry import ENERGY_MODELS

        check_choice("--energy", self.energy, ENERGY_MODELS)
        if self.sampling is not None and self.energy != "crepe":
            raise typer.BadParameter("it goes with the model crepe", param_hint="'--sampling'")
        self.model(asked=False)
        check_knn_options(self.k, self.metric, "auto", "gaussian", "max", 0.99)

    def model(self, asked: bool) -> EnergyModel:
        """The energy model; labels that were asked for are no random sample."""
        from tg_crepe.models import get_energy_model

        sampling = "chosen" if asked and self.sampling is None and self.energy == "crepe" else self.sampling
        return get_energy_model(self.energy, **({} if sampling is None else {"sampling": sampling}))


@dataclass(frozen=True)
class Inferred:
    """Pseudo-labels, and the model and the graph that they are of."""

    energy: EnergyModel
    placement: Placement
    graph: NeighborGraph
    result: PropagationResult

    def settings(self, nodes: Features) -> dict[str, Any]:
        """What a run notes of them."""
        recall = "all found" if self.recall is None else f"{self.recall:.2%} found"
        return {
            "model": repr(self.energy),
            "embedding": nodes.model,
            "metric": str(self.placement),
            "neighbours": recall,
        }

    @property
    def recall(self) -> float | None:
        """The share of the true neighbours in the graph, as measured; :obj:`None` where the search was exact."""
        return self.graph.recall


def read_nodes(path: Path, options: EmbedOptions, progress: Console, labels: Sequence[Path] | None = None) -> Features:
    """The features of a file, or of the files of a source by a pretrained model."""
    from tg_crepe.cli._inputs import read_features

    if is_source(path, options):
        return read_embedded(path, options, progress, labels)
    with progress.status("reading"):
        return read_features(path)


def with_source(nodes: Features, path: Path, text: str | None) -> Features:
    """Features with the images or texts that their ids stand for."""
    from tg_crepe._files import damaged_file
    from tg_crepe.embed import open_source

    source = open_source(path, None, text)
    if missing := sorted(set(nodes.ids) - set(source.ids)):
        raise damaged_file(
            path,
            f"{len(missing)} ids of the features are none of its {source.kind}, the first is '{missing[0]}' "
            f"(its ids look like '{source.ids[0]}')",
        )
    return replace(nodes, source=source)


def read_node_labels(
    path: Path, labels: Sequence[Path] | None, nodes: Features, rule: ClassRule | None = None
) -> NodeLabels:
    """The labels of tables, or those that the folders of a folder give."""
    from tg_crepe.cli._inputs import labels_of_folders, read_labels

    if labels is None:
        return labels_of_folders(nodes, path)
    return read_labels(labels, nodes.ids, nodes.left_out, rule)


def infer(
    nodes: Features, known: NodeLabels, choice: GraphOptions, progress: Console, prior: np.ndarray | None = None
) -> Inferred:
    """The pseudo-labels of all nodes; a head of the features is evidence for CREPE where there is no other."""
    energy = choice.model(known.asked)
    with progress.status("graph of the nearest neighbours"):
        placement, graph = _make_graph(nodes, choice.k, choice.metric)
    evidence, spread = prior, True
    if prior is None and choice.head and choice.energy == "crepe":
        with progress.status("linear head"):
            evidence, spread = _head(nodes, known, placement), False
    with progress.status(f"pseudo-labels by {type(energy).__name__}"):
        return Inferred(energy, placement, graph, solve(energy, known, graph, evidence, spread))


def _head(nodes: Features, known: NodeLabels, placement: Placement) -> np.ndarray:
    """What a linear model of the features says, out of fold."""
    import torch

    from tg_crepe.heads import head_evidence

    x, y = torch.from_numpy(nodes.x), torch.from_numpy(known.y)
    x = x if x.dtype in (torch.float32, torch.float64) else x.float()
    return head_evidence(x, y, y >= 0, len(known.class_names), placement).numpy()


def _make_graph(nodes: Features, k: int, metric: str) -> tuple[Placement, NeighborGraph]:
    """The metric as it was chosen, and the graph."""
    import torch

    from tg_crepe.graph import knn_graph
    from tg_crepe.graph.metric import find_placement

    x = torch.from_numpy(nodes.x)
    placement = find_placement(x, metric)
    return placement, knn_graph(x, k, placement)


@contextmanager
def run_of(
    path: Path,
    labels: list[Path] | None,
    options: EmbedOptions,
    k: int,
    progress: Console,
    rule: ClassRule | None = None,
) -> Iterator[RunFolder]:
    """An earlier run, or that of files and their labels, which is gone afterwards."""
    from tg_crepe.runs import RunFolder, stage_run

    if labels is None and options == EmbedOptions():
        if (path / "project.json").is_file():
            with temporary_folder() as place:
                yield _run_of_project(path, place / path.resolve().name, progress)
            return
        yield _open_run(path)
        return
    if (path / "run.json").is_file():
        raise typer.BadParameter(
            f"{path} is a run, which has its labels and features", param_hint="'--labels', '--model'"
        )
    choice = GraphOptions(k=k)
    choice.check()
    nodes = read_nodes(path, options, progress, labels)
    known = read_node_labels(path, labels, nodes, rule)
    found = infer(nodes, known, choice, progress)
    tables = None if labels is None else ", ".join(map(str, labels))
    settings = {"features": path, "labels": tables, **found.settings(nodes), "k": k}
    with temporary_folder() as place:
        folder = place / path.resolve().name
        with stage_run(folder, "propagate", settings) as unfinished:
            write_propagation(unfinished, nodes, known, None, found.graph, found.result)
        yield RunFolder.open(folder)


def _open_run(path: Path) -> RunFolder:
    """An earlier run; files that are none lack their labels."""
    from tg_crepe.runs import RunFolder
    from tg_crepe.runs.folder import RUN_FILES

    strange = path.is_dir() and {item.name for item in path.iterdir()}.isdisjoint(RUN_FILES) and any(path.iterdir())
    if path.is_file() or strange:
        raise typer.BadParameter(f"'{path}' is no run, and files need a table of labels", param_hint="'--labels'")
    return RunFolder.open(path)


def _run_of_project(path: Path, folder: Path, progress: Console) -> RunFolder:
    """What the labels of a project of ``tg-crepe label`` lead to, on its own graph."""
    from tg_crepe.cli._inputs import Features, NodeLabels
    from tg_crepe.label import Project
    from tg_crepe.label.exports import labels_of_project
    from tg_crepe.runs import RunFolder, stage_run

    project, choice = Project.open(path), GraphOptions()
    y, class_names = labels_of_project(project)
    known = NodeLabels(y, class_names, asked=True)
    nodes = Features(project.x, project.ids, source=project.open_items().whole_source())
    energy, prepared = choice.model(asked=True), project.prepared
    graph = (prepared.edge_index, prepared.edge_weight)
    with progress.status("pseudo-labels"):
        result = solve(energy, known, graph, _head(nodes, known, prepared.placement), False)
    settings = {"features": project.source, "labels": str(path), **project.info["settings"], "model": repr(energy)}
    with stage_run(folder, "label", settings) as unfinished:
        write_propagation(unfinished, nodes, known, None, graph, result)
    return RunFolder.open(folder)


def solve(
    energy: EnergyModel,
    known: NodeLabels,
    graph: tuple[Tensor, Tensor],
    prior: np.ndarray | None = None,
    spread_prior: bool = True,
) -> PropagationResult:
    """The pseudo-labels of a model, and some moments of its flow."""
    import torch

    from tg_crepe.runs.kept_nodes import nodes_with_moments

    y = torch.from_numpy(known.y)
    with warnings.catch_warnings():
        if not spread_prior:  # nobody has to know that the head is not trusted
            warnings.filterwarnings("ignore", "the labels do not support 'prior'")
        return energy.propagate(
            y,
            graph[0],
            None,
            graph[1],
            len(known.class_names),
            snapshot_nodes=nodes_with_moments(len(y), y >= 0),
            prior=prior,
            spread_prior=spread_prior,
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
    import torch

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
        suggested = suggest_nodes(result.prob, labelled, graph, multi_label=False)
        size = nodes.dataset.fetch(torch.arange(1)).numel()
        node = nodes_with_image(len(nodes.ids), suggested, labelled, size)
        run.write_thumbnails(node, nodes.dataset.fetch(node))
    elif nodes.source is not None:
        from tg_crepe.cli._previews import PREVIEW_BYTES, write_previews

        suggested = suggest_nodes(result.prob, labelled, graph, multi_label=False)
        node = nodes_with_image(len(nodes.ids), suggested, labelled, PREVIEW_BYTES)
        write_previews(run, nodes.source, nodes.ids, node)
    expected = result.expected_error
    run.finish(result.status, **({} if expected is None else {"expected_error": asdict(expected)}))
