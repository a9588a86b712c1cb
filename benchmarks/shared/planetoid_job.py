"""What a worker of ``benchmarks/contest graphs`` does: networks, energies and both on a citation graph."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable

import torch
import torch_geometric.transforms as T
from shared import features
from shared.fingerprint import fingerprint, fingerprint_of
from shared.gnns import EPOCHS, Labelled
from shared.grid import Cell, Job, Value
from shared.splits import Split, choose_labels
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import CorrectAndSmooth

from tg_crepe import ConvergenceWarning, CrepePropagation, GraphWarning, choose_shares, join_graphs, knn_graph
from tg_crepe.training import GraphTrainer, GraphTrainingConfig

#: The citation graphs.
GRAPHS = ("Cora", "CiteSeer", "PubMed")

#: How labels come about: as many of every class at random, judged on all other nodes; or the public split, judged on
#: its test nodes, where a seed is that of the networks.
DRAWS = ("20 per class", "public")

#: The neighbours in the graph of the words.
NEIGHBORS = 20


def crepe_alone(given: Labelled) -> Tensor:
    """CREPE on the citations."""
    data = given.data
    return CrepePropagation().propagate(data.y, data.edge_index, data.train_mask, None, given.num_classes).label


def crepe_joined(given: Labelled) -> Tensor:
    """CREPE on citations and words, at shares that labels choose."""
    data = given.data
    graphs = [(data.edge_index, None), word_graph(data.x)]
    share = choose_shares(graphs, data.y, data.train_mask, given.num_classes)
    edge_index, edge_weight = join_graphs(graphs, share, data.num_nodes)
    return CrepePropagation().propagate(data.y, edge_index, data.train_mask, edge_weight, given.num_classes).label


def word_graph(x: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest neighbours of the papers that have a word."""
    rows = (x != 0).any(dim=1).nonzero().view(-1)
    edge_index, edge_weight = knn_graph(x[rows], NEIGHBORS)
    return rows[edge_index], edge_weight


def network_alone(name: str, given: Labelled) -> Tensor:
    """A network that was trained on the labels."""
    return given.train(name).argmax(dim=1)


def corrected(given: Labelled) -> Tensor:
    """A network of the words, corrected and smoothed along the citations, at the settings of PyG's example."""
    data, soft = given.data, given.train("MLP")
    post = CorrectAndSmooth(50, 1.0, 50, 0.8, autoscale=False, scale=20.0)
    y = data.y[data.train_mask]
    soft = post.correct(soft, y, data.train_mask, data.edge_index)
    return post.smooth(soft, y, data.train_mask, data.edge_index).argmax(dim=1)


def together(name: str, given: Labelled) -> Tensor:
    """A network and CREPE in turns."""
    config = GraphTrainingConfig(epochs=EPOCHS, k=NEIGHBORS, seed=given.seed)
    network = given.network(name)
    trainer = GraphTrainer(given.data, network, config=config, optimizer=lambda own: own.optimizer()).fit()
    return trainer.data.pseudo_y


#: What is compared, and about how many seconds of processor time each takes on Cora.
METHODS: dict[str, tuple[Callable[[Labelled], Tensor], float]] = {
    "CREPE": (crepe_alone, 1),
    "CREPE, joined": (crepe_joined, 3),
    "GCN": (functools.partial(network_alone, "GCN"), 3),
    "GAT": (functools.partial(network_alone, "GAT"), 15),
    "APPNP": (functools.partial(network_alone, "APPNP"), 10),
    "MLP + C&S": (corrected, 4),
    "GCN + CREPE": (functools.partial(together, "GCN"), 40),
}

#: How much larger the graphs are than Cora.
_SIZE = {"Cora": 1.0, "CiteSeer": 1.2, "PubMed": 6.0}


def make_cell(graph: str, draw: str, seed: int, method: str) -> Cell:
    """The cell of a method on a draw of labels."""
    run = METHODS[method][0]
    own = run.func if isinstance(run, functools.partial) else run
    code = [fingerprint_of(own, draw_labels, measure, word_graph), fingerprint("shared.gnns")]
    if own in (crepe_alone, crepe_joined):
        code = [code[0], fingerprint("tg_crepe.models.crepe.model", "tg_crepe.inference.shares")]
    elif own is together:
        code.append(fingerprint("tg_crepe.training.graph_trainer", "tg_crepe.models.crepe.model"))
    expected = METHODS[method][1] * _SIZE[graph]
    return Cell({"graph": graph, "draw": draw, "seed": seed, "method": method}, f"{NEIGHBORS} {code}", expected)


def make_job(threads: int) -> Job:
    """The job of a worker."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore", GraphWarning)  # a node that no label reaches counts as an error
    warnings.simplefilter("ignore", ConvergenceWarning)
    return run_cell


@functools.lru_cache(maxsize=1)
def load(graph: str) -> Data:
    """A citation graph; the words of a paper sum to one, as in PyG's examples."""
    return T.NormalizeFeatures()(features.planetoid(graph))


def draw_labels(data: Data, draw: str, seed: int) -> tuple[Tensor, Tensor]:
    """Which nodes are labelled and which are judged, both bool of shape [num_nodes]."""
    if draw == "public":
        return data.train_mask, data.test_mask
    mask = choose_labels(data.y, Split("count", float(draw.split()[0])), seed)
    return mask, ~mask


def run_cell(cell: Cell) -> list[dict[str, Value]]:
    """The row of a cell."""
    data, seed = load(str(cell.point["graph"])), int(cell.point["seed"])
    return [measure(data, *draw_labels(data, str(cell.point["draw"]), seed), seed, str(cell.point["method"]))]


def measure(data: Data, mask: Tensor, judged: Tensor, seed: int, method: str) -> dict[str, Value]:
    """The error of a method, which gets no class but those of the labelled nodes, in per cent."""
    hidden = Data(x=data.x, edge_index=data.edge_index, y=torch.where(mask, data.y, -1), train_mask=mask)
    start, start_cpu = time.perf_counter(), time.process_time()
    label = METHODS[method][0](Labelled(hidden, int(data.y.max()) + 1, seed))
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    wrong = (label != data.y)[judged]
    return {
        "labelled": int(mask.sum()),
        "judged": int(judged.sum()),
        "unreached": int((label[judged] < 0).sum()),
        "error": 100 * float(wrong.double().mean()),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }
