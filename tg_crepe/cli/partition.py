from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tg_crepe.cli._options import Force, Json
from tg_crepe.cli._outputs import show_json

if TYPE_CHECKING:
    import numpy as np

    from tg_crepe.distributed import NodeLabels, Shard
    from tg_crepe.graph import CanonicalGraph


def partition(
    ctx: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES|GRAPH",
            help="Features: .npy (read in blocks), .npz, .pt, .csv or .parquet. A graph: .npz of a SciPy sparse "
            "matrix, or with edge_index and, where there are some, edge_weight, num_nodes and ids.",
        ),
    ],
    parts: Annotated[int, typer.Option("--parts", "-n", min=1, help="The number of processes to come.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder of shards to write.")],
    labels: Annotated[
        Path | None,
        typer.Option(help="A csv file id,label; blank or absent means unlabelled. Ids of rows without name: 0, 1, …"),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours in the graph of features.")] = 20,
    metric: Annotated[str, typer.Option(help="auto, cosine or euclidean, for features.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="The seed.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Divide features or a graph among several processes, one shard each.

    Features are divided by where they lie, without holding all of them; their graph is built from the shards by the
    processes together. A graph is divided by METIS, with few edges between the shards.

    Example: tg-crepe partition features.npy -n 8 -o shards --labels labels.csv
    """
    _check_folder(out, force)
    from tg_crepe.graph.knn import check_knn_options

    check_knn_options(k, metric, "auto", "gaussian", "max", 1.0)
    progress: Console = ctx.obj
    start = time.perf_counter()
    with progress.status("reading"):
        graph = _read_graph(source)
    with progress.status("dividing"):
        if graph is None:
            summary = _divide_features(source, out, parts, labels, k, metric, seed)
        else:
            summary = _divide_graph(*graph, out, parts, labels, seed)
    summary = {**summary, "seconds": round(time.perf_counter() - start, 3), "out": str(out)}
    if as_json:
        show_json(summary)
    else:
        _tell(summary)


def _check_folder(folder: Path, force: bool) -> None:
    """Raise unless shards may be written to ``folder``: not there, empty, or with ``force`` earlier shards."""
    if not folder.exists():
        if not folder.absolute().parent.is_dir():
            raise typer.BadParameter(f"the folder {folder.absolute().parent} does not exist", param_hint="'--out'")
        return
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is a file, not a folder", param_hint="'--out'")
    if not any(folder.iterdir()):
        return
    if not (folder / "manifest.json").is_file():
        raise typer.BadParameter(f"{folder} is not empty and holds no shards; it is left alone", param_hint="'--out'")
    if not force:
        raise typer.BadParameter(f"{folder} holds shards; --force replaces them", param_hint="'--out'")
    from tg_crepe.distributed import Manifest

    Manifest.read(folder)  # somebody else's manifest.json is not ours to remove


def _read_graph(path: Path) -> tuple[CanonicalGraph, np.ndarray | None] | None:
    """The graph of an .npz file and the names of its nodes, or nothing if the file holds no graph."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return None
    import torch
    from scipy.sparse import load_npz

    from tg_crepe._files import damaged_file, read_arrays
    from tg_crepe.graph import canonical_graph

    arrays = read_arrays(path, ())
    try:
        if "edge_index" in arrays:
            weight = torch.from_numpy(arrays["edge_weight"]) if "edge_weight" in arrays else None
            count = int(arrays["num_nodes"]) if "num_nodes" in arrays else None
            graph, _ = canonical_graph(torch.from_numpy(arrays["edge_index"]), weight, count)
        elif "indptr" in arrays or "row" in arrays:
            graph, _ = canonical_graph(load_npz(path))
        else:
            return None
    except (ValueError, TypeError) as error:
        raise damaged_file(path, f"it holds no graph ({error})") from error
    names = arrays.get("ids")
    if names is not None and names.shape != (graph.num_nodes,):
        raise damaged_file(
            path, f"it must name each of its {graph.num_nodes} nodes, got ids of shape {list(names.shape)}"
        )
    return graph, None if names is None else names.astype(str)


def _divide_features(
    source: Path, out: Path, parts: int, labels: Path | None, k: int, metric: str, seed: int
) -> dict[str, Any]:
    import numpy as np

    from tg_crepe.distributed import partition_features

    features: Path | np.ndarray = source
    names = None
    if source.suffix.lower() == ".npy":
        num_nodes = 0 if labels is None else _count_rows(source)
    else:
        from tg_crepe.cli._inputs import read_features

        nodes = read_features(source)
        features, num_nodes = nodes.x, len(nodes.ids)
        if nodes.ids != [str(i) for i in range(num_nodes)]:
            names = np.array(nodes.ids)
    known = _read_labels(labels, num_nodes, names)
    found = partition_features(features, out, parts, k, metric, known, seed)
    return {
        "nodes": len(found.owner),
        "cells": found.num_cells,
        "estimated_cut": found.cut,
        "imbalance": found.imbalance,
        "parts": [{"nodes": size} for size in np.bincount(found.owner, minlength=parts).tolist()],
    }


def _count_rows(path: Path) -> int:
    from tg_crepe.distributed.feature_files import FeatureRows

    return FeatureRows(path).num_nodes


def _read_labels(path: Path | None, num_nodes: int, names: np.ndarray | None) -> NodeLabels:
    """The labels of a table for named nodes, or for nodes that are called by their numbers."""
    import numpy as np

    from tg_crepe._files import read_table
    from tg_crepe.cli._inputs import read_labels
    from tg_crepe.distributed import NodeLabels

    if path is None:
        return NodeLabels(names=names)
    if names is not None:
        known = read_labels([path], names.tolist())
        return NodeLabels(known.y, known.class_names, names)
    # Only the nodes of the table are named: names for all would take more memory than everything else.
    listed = [row["id"] for row in read_table(path, ("id", "label"))] if path.is_file() else []
    named = [name for name in listed if name.isdecimal() and str(int(name)) == name and int(name) < num_nodes]
    known = read_labels([path], named)
    y = np.full(num_nodes, -1)
    y[np.array(named, dtype=np.int64)] = known.y
    return NodeLabels(y, known.class_names)


def _divide_graph(
    graph: CanonicalGraph, names: np.ndarray | None, out: Path, parts: int, labels: Path | None, seed: int
) -> dict[str, Any]:
    from tg_crepe._files import atomic_folder
    from tg_crepe.distributed import partition_graph, write_shards

    known = _read_labels(labels, graph.num_nodes, names)
    owner = partition_graph(graph, parts, seed)
    with atomic_folder(out) as unfinished:
        report = write_shards(unfinished, _shards(graph, owner, parts, known))
    return {"nodes": graph.num_nodes, **report.as_dict()}


def _shards(graph: CanonicalGraph, owner: Any, parts: int, known: NodeLabels) -> Iterator[Shard]:
    """The shards of a graph, one at a time."""
    from dataclasses import replace

    import torch

    from tg_crepe.distributed.shard import cut_shard

    y = None if known.y is None else torch.from_numpy(known.y)
    for rank in range(parts):
        mask = None if y is None else y >= 0
        shard = cut_shard(graph, owner, rank, parts, y, mask, num_classes=known.num_classes)
        names = None if known.names is None else known.names[shard.node_id.numpy()]
        yield replace(shard, class_names=known.class_names, names=names)


def _tell(summary: dict[str, Any]) -> None:
    """The size of every shard, and what is between them."""
    columns = list(summary["parts"][0])
    typer.echo("  ".join(f"{name:>12}" for name in ("part", *columns)))
    for place, part in enumerate(summary["parts"]):
        typer.echo("  ".join(f"{value:>12,}" for value in (place, *part.values())))
    if "estimated_cut" in summary:
        typer.echo(
            f"{summary['nodes']:,} rows from {summary['cells']:,} cells; about {summary['estimated_cut']:.1%} of the "
            f"edges will be between parts; imbalance {summary['imbalance']:.3f} (rows)"
        )
    else:
        typer.echo(
            f"{summary['nodes']:,} rows, {summary['num_edges']:,} edges, {summary['cut_edges']:,} of them "
            f"({summary['cut']:.1%}) between parts; imbalance {summary['imbalance']:.3f} (edges)"
        )
    typer.echo(f"written: {summary['out']}, {summary['seconds']:.1f} s")
    line = f"torchrun --nproc-per-node {len(summary['parts'])} -m tg_crepe propagate {summary['out']} -o pseudo"
    typer.echo(f"next, on one machine: {line}")
