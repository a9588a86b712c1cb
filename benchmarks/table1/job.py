"""What a worker of ``table1`` does: it reads the graph once, then labels, predicts and counts errors."""

from __future__ import annotations

import functools
import hashlib
import os
import time
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from shared import features, machine
from shared.fingerprint import fingerprint
from shared.grid import Cell, Job, Value
from shared.splits import Split, choose_labels
from table1.methods import METHODS, Problem
from torch import Tensor

from tg_crepe import ConvergenceWarning, GraphWarning, knn_graph


@dataclass(frozen=True)
class GraphData:
    """A graph with the true classes."""

    name: str
    k: int  # neighbours of every node in the search, 0 where the graph is given
    y: Tensor  # [num_nodes], long
    edge_index: Tensor  # [2, num_edges], both directions
    edge_weight: Tensor  # [num_edges]
    public: tuple[Tensor, Tensor] | None  # which nodes are labelled and which are tested, where a split came with it
    content: str  # a hash of all of it

    @cached_property
    def component(self) -> Tensor:
        """The number of the component of every node, of shape [num_nodes]."""
        size = self.y.numel()
        edges = csr_matrix((np.ones(self.edge_index.size(1)), tuple(self.edge_index.numpy())), (size, size))
        return torch.from_numpy(connected_components(edges, directed=False)[1]).long()


def prepare_graph(name: str, limit: int | None = None, k: int | None = None) -> Path:
    """Makes the graph of a data set, or finds it in the cache; a file that :func:`read_graph` reads.

    Args:
        name (str): See :func:`shared.features.load`.
        limit (int, optional): How many of the first rows are taken. (default: all)
        k (int, optional): The number of neighbours. (default: that of the data set)
    """
    data = features.load(name)
    y = data.y[:limit]
    arrays = {"name": np.array(data.name if limit is None else f"{data.name}_{limit}"), "y": y.numpy()}
    if data.x is None:
        source, k = data.edge_index.numpy().tobytes(), 0  # a given graph has its neighbours
        if data.train_mask is not None and data.test_mask is not None:
            arrays |= {"train_mask": data.train_mask.numpy(), "test_mask": data.test_mask.numpy()}
    else:
        source, k = data.x[:limit].numpy().tobytes(), k or data.k
    key = hashlib.sha256(source + y.numpy().tobytes() + fingerprint("tg_crepe.graph.knn").encode() + bytes([k]))
    path = machine.cache_folder() / f"{arrays['name']}_graph_{key.hexdigest()[:16]}.npz"
    if path.exists():
        return path
    if data.x is None:
        edge_index, edge_weight = data.edge_index, torch.ones(data.edge_index.size(1))
    else:
        print(f"searching the {k} nearest neighbours of {len(y):,} nodes")
        edge_index, edge_weight = knn_graph(data.x[:limit], k, metric="euclidean")
    arrays |= {"k": np.array(k), "edge_index": edge_index.numpy(), "edge_weight": edge_weight.numpy()}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")  # two runs at once must not write to one file
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
    temporary.replace(path)
    return path


def read_graph(path: Path) -> GraphData:
    """A graph from the cache."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in sorted(file.files)}
    content = hashlib.sha256()
    for array in arrays.values():
        content.update(array.tobytes())
    public = None
    if "train_mask" in arrays:
        public = (torch.from_numpy(arrays["train_mask"]), torch.from_numpy(arrays["test_mask"]))
    y, edge_index, edge_weight = (torch.from_numpy(arrays[name]) for name in ("y", "edge_index", "edge_weight"))
    return GraphData(
        str(arrays["name"]), int(arrays["k"]), y, edge_index, edge_weight, public, content.hexdigest()[:12]
    )


def make_job(graph: Path, threads: int) -> Job:
    """The job of a worker.

    Args:
        graph (Path): What :func:`prepare_graph` gave.
        threads (int): How many threads this worker may use.
    """
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore", GraphWarning)  # a node that no label reaches counts as an error
    warnings.simplefilter("ignore", ConvergenceWarning)  # the status is a column of the table
    return functools.partial(run_cell, read_graph(graph))


def run_cell(data: GraphData, cell: Cell) -> list[dict[str, Value]]:
    """Labels some nodes, lets the method predict the rest and counts its errors."""
    split, seed = Split(str(cell.point["split"]), float(cell.point["amount"])), int(cell.point["seed"])
    if split.kind == "public":
        if data.public is None:
            raise ValueError(f"'data' must come with a public split, got {data.name} without one")
        labelled, tested = data.public
    else:
        labelled = choose_labels(data.y, split, seed)
        tested = ~labelled
    method = next(method for method in METHODS if method.name == cell.point["method"])
    # A method gets no class but those of the labelled nodes.
    problem = Problem(torch.where(labelled, data.y, -1), labelled, data.edge_index, data.edge_weight, seed)
    start, start_cpu = time.perf_counter(), time.process_time()
    predictions = method.predict(problem)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    rows: list[dict[str, Value]] = []
    # Some methods give nodes that no label reaches the first class: what they then get right is luck.
    reached = torch.isin(data.component, data.component[labelled])
    for found in predictions:
        error = 100 * float(((found.label != data.y) | ~reached)[tested].double().mean())
        rows.append(
            {
                "method": found.name or method.name,
                "role": found.role or method.role,
                "error": error,
                "status": found.status,
                "choice": found.choice,
                "seconds": seconds,  # of the whole cell
                "cpu_seconds": cpu_seconds,
            }
        )
    return rows
