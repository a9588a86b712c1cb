"""Whether a change of the code changes an answer: about a hundred small cases, kept before and compared after.

    python benchmarks/fixed_cases.py record before.npz                  # labels, u and probabilities of every case
    python benchmarks/fixed_cases.py compare before.npz                 # which differ, and by how much
    python benchmarks/fixed_cases.py compare before.npz crepe/ train/   # cases whose name begins so

Every model, backend and soft label, single and multi-label, warm starts, the paper's scheme, shards on threads,
estimators and the trainer. Floats are compared bit by bit; a refactoring that leaves the arithmetic alone says "same
bits" everywhere, on one machine with one set of packages. Takes about two minutes on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits, make_blobs, make_moons
from torch import Tensor

from tg_crepe import (
    LGC,
    CrepePropagation,
    EnergyModel,
    Harmonic,
    Recipe,
    SparseLP,
    cheeger_partition,
    get_energy_model,
    knn_graph,
)
from tg_crepe.energy.normaliser import NORMALISERS
from tg_crepe.models.registry import ENERGY_MODELS

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # for ranks on threads

Arrays = dict[str, np.ndarray]

#: The expected or bound shares of the classes of :func:`unequal_digits`.
SHARES = torch.tensor([3.0, 3, 3, 1, 1, 1, 1, 1, 1, 1])


class Problem(NamedTuple):
    """What :meth:`EnergyModel.propagate` is given, in its order."""

    y: Tensor
    edge_index: Tensor
    mask: Tensor
    edge_weight: Tensor


def _problem(x: np.ndarray, y: np.ndarray, mask: np.ndarray, k: int = 10, **options: Any) -> Problem:
    options = {"metric": "cosine", **options}
    edge_index, edge_weight = knn_graph(torch.from_numpy(x).to(options.pop("dtype", torch.float32)), k, **options)
    return Problem(torch.from_numpy(y), edge_index, torch.from_numpy(mask), edge_weight)


def _few(y: np.ndarray, per_class: int, seed: int = 100) -> np.ndarray:
    """As many labels of every class."""
    rng, mask = np.random.default_rng(seed), np.zeros(len(y), bool)
    for c in np.unique(y):
        mask[rng.choice(np.flatnonzero(y == c), per_class, replace=False)] = True
    return mask


def digits(per_class: int = 5, size: int = 900, **options: Any) -> Problem:
    """Ten classes with labels that are equally many."""
    x, y = load_digits(return_X_y=True)
    return _problem(x[:size], y[:size], _few(y[:size], per_class), **options)


def unequal_digits() -> Problem:
    """Three large classes and seven small ones, a random tenth labelled."""
    x, y = load_digits(return_X_y=True)
    keep = (y < 3) | (np.arange(len(y)) % 5 == 0)
    x, y = x[keep], y[keep]
    mask = np.random.default_rng(101).random(len(y)) < 0.1
    mask[[np.flatnonzero(y == c)[0] for c in range(10)]] = True
    return _problem(x, y, mask)


def moons(per_class: int = 3, size: int = 300, seed: int = 100, noise: float = 0.1, **options: Any) -> Problem:
    """Two classes."""
    x, y = make_moons(size, noise=noise, random_state=seed)
    return _problem(x, y, _few(y, per_class, seed), metric="euclidean", **options)


def blobs(per_class: int = 4) -> Problem:
    """A graph that is large enough to be put into a local order."""
    x, y = make_blobs(7000, n_features=8, centers=12, cluster_std=4.0, random_state=100)
    return _problem(x, y % 6, _few(y % 6, per_class), k=20, metric="euclidean")


def islands() -> Problem:
    """Moons beside a triangle without a label, an unlabelled and a labelled node without an edge."""
    y, edge_index, mask, edge_weight = moons(size=160)
    triangle = len(y) + torch.tensor([[0, 1, 2], [1, 2, 0]])
    mask = torch.cat([mask, torch.tensor([False, False, False, False, True])])
    y = torch.cat([y, torch.zeros(5, dtype=torch.long)])
    return Problem(y, torch.cat([edge_index, triangle], dim=1), mask, torch.cat([edge_weight, torch.ones(3)]))


def findings() -> Problem:
    """Three findings, a tenth of the entries known."""
    x, digit = load_digits(return_X_y=True)
    x, digit = x[:500], digit[:500]
    y = np.stack([digit % 2, digit > 4, digit == 3], axis=1).astype(np.int64)
    known = np.random.default_rng(100).random(y.shape) < 0.1
    known[:6] = True
    return _problem(x, np.where(known, y, -1), known.any(axis=1))


def gaps() -> Problem:
    """Classes of which every second has no node."""
    problem = digits()
    return problem._replace(y=2 * problem.y)


def propagate(model: EnergyModel, make: Callable[[], Problem], **options: Any) -> Arrays:
    """The answer of a model."""
    result = model.propagate(*make(), **options)
    names = ("u", "label", "prob", "certainty", "reached", "pseudo_mask")
    return {name: getattr(result, name).numpy() for name in names} | {"status": np.array(result.status)}


def warm(model: EnergyModel, make: Callable[[], Problem]) -> Arrays:
    """A model that starts where it has ended."""
    return propagate(model, make, u0=model.propagate(*make()).u)


def partition() -> Arrays:
    """Two parts without any label."""
    problem = moons()
    found = cheeger_partition(problem.edge_index, problem.edge_weight)
    return {"u": found.u.numpy(), "label": found.partition.numpy(), "ratio": np.array(found.ratio)}


def shards(model: EnergyModel, make: Callable[[], Problem], world: int) -> Arrays:
    """A model on a graph that several ranks share, threads of this process."""
    from rank_threads import infer_on_threads

    y, edge_index, mask, edge_weight = make()
    owner = torch.arange(len(y)) * world // len(y)
    whole, _ = infer_on_threads(model, world, edge_index, edge_weight, y, mask, owner)
    return {name: value.numpy() for name, value in whole.items()}


def estimator(name: str, **options: Any) -> Arrays:
    """An estimator on digits, and its answer for new points."""
    from tg_crepe import sklearn

    x, truth = load_digits(return_X_y=True)
    y = np.where(np.arange(1200) < 120, truth[:1200], -1)
    model = getattr(sklearn, name)(n_neighbors=10, **options).fit(x[:1200], y)
    new = {"prob": model.predict_proba(x[1200:]), "new": model.predict(x[1200:])}
    return {"label": model.transduction_, "certainty": model.certainty_, **new}


def label_next() -> Arrays:
    """The nodes that should be labelled next."""
    from tg_crepe import active

    problem = digits()
    prob = CrepePropagation().propagate(*problem).prob
    chosen = active.label_next(prob, problem.mask, problem.edge_index, problem.edge_weight, n=20)
    return {"label": chosen.numpy()}


def train(source: str = "crepe", **options: Any) -> Arrays:
    """Three epochs of the trainer on digits."""
    from tg_crepe.datasets import RandomLabelSplit
    from tg_crepe.datasets import load_digits as load_images
    from tg_crepe.training import HybridTrainer, TrainingConfig

    images = load_images()
    split = RandomLabelSplit(5, unit="per_class", seed=0).draw(images)
    config = TrainingConfig(epochs=3, warmup_epochs=1, **options)
    run = HybridTrainer(images, split, "small_cnn", source, config).fit()
    arrays = {
        "error": np.array(run.final["error"]),
        "weights": torch.cat([p.detach().flatten() for p in run.model.parameters()]).numpy(),
        "loss": np.array([epoch["loss"] for epoch in run.history]),
    }
    if run.data.get("pseudo_y") is not None:
        arrays |= {"label": run.data.pseudo_y.numpy(), "prob": run.data.pseudo_prob.numpy()}
        arrays |= {"certainty": run.data.certainty.numpy()}
    return arrays


#: Models that need no argument but their name.
_NAMED = {name: get_energy_model(name) for name in ENERGY_MODELS}

#: What is recorded, by name.
CASES: dict[str, Callable[[], Arrays]] = {
    **{f"{name}/digits": partial(propagate, model, digits) for name, model in _NAMED.items()},
    **{f"{name}/islands": partial(propagate, model, islands) for name, model in _NAMED.items()},
    **{f"{name}/findings": partial(propagate, model, findings) for name, model in _NAMED.items()},
    **{
        f"{name}/bound": partial(propagate, get_energy_model(name, bind_volume="uniform"), unequal_digits)
        for name in ENERGY_MODELS
    },
    **{
        f"backend/{backend}/{kind}": partial(propagate, CrepePropagation(backend=backend), make)
        for backend in ("numba", "torch", "reference")
        for kind, make in (("digits", digits), ("findings", findings), ("double", partial(digits, dtype=torch.float64)))
    },
    "crepe/one_label": partial(propagate, CrepePropagation(), partial(digits, 1)),
    "crepe/two_labels": partial(propagate, CrepePropagation(), partial(digits, 2)),
    "crepe/many_labels": partial(propagate, CrepePropagation(), partial(digits, 40)),
    "crepe/moons_one_label": partial(propagate, CrepePropagation(), partial(moons, 1, noise=0.15)),
    "crepe/moons_double": partial(propagate, CrepePropagation(), partial(moons, 1, seed=103, dtype=torch.float64)),
    "crepe/unequal": partial(propagate, CrepePropagation(), unequal_digits),
    "crepe/large": partial(propagate, CrepePropagation(), blobs),
    "crepe/large_one_label": partial(propagate, CrepePropagation(), partial(blobs, 1)),
    "crepe/gap_in_classes": partial(propagate, CrepePropagation(), gaps, num_classes=22),
    "crepe/outvote": partial(propagate, CrepePropagation(outvote=True), digits),
    "crepe/outvote_findings": partial(propagate, CrepePropagation(outvote=True), findings),
    "crepe/uniform_volume": partial(propagate, CrepePropagation(class_volume="uniform"), unequal_digits),
    "crepe/given_volume": partial(propagate, CrepePropagation(class_volume=SHARES), unequal_digits),
    "crepe/chosen_labels": partial(propagate, CrepePropagation(sampling="chosen"), unequal_digits),
    "crepe/bound_given": partial(propagate, CrepePropagation(bind_volume=SHARES), unequal_digits),
    "crepe/bound_labels": partial(propagate, CrepePropagation(bind_volume="labels"), unequal_digits),
    "crepe/relative": partial(propagate, CrepePropagation(soft_label="relative"), digits),
    "crepe/relative_bound": partial(propagate, CrepePropagation(soft_label="relative", bind_volume="uniform"), digits),
    "crepe/mean_symmetrize": partial(propagate, CrepePropagation(symmetrize="mean"), digits),
    "crepe/no_reweighting": partial(propagate, CrepePropagation(Recipe(reweight_rounds=0)), digits),
    "crepe/constant_step": partial(propagate, CrepePropagation(Recipe(time_step=0.5, max_steps=30)), digits),
    "crepe/short": partial(propagate, CrepePropagation(Recipe(time=0.1, eps=0.3, inner_iterations=20)), digits),
    **{
        f"paper/{name}": partial(propagate, CrepePropagation.paper(Recipe.paper(normaliser=name)), digits)
        for name in NORMALISERS
    },
    "paper/moons": partial(propagate, CrepePropagation.paper(), moons),
    "paper/one_label": partial(propagate, CrepePropagation.paper(), partial(moons, 1)),
    "paper/findings": partial(propagate, CrepePropagation.paper(), findings),
    "warm/digits": partial(warm, CrepePropagation(), digits),
    "warm/one_label": partial(warm, CrepePropagation(), partial(digits, 1)),
    "warm/paper": partial(warm, CrepePropagation.paper(), digits),
    "lgc/large": partial(propagate, LGC(), blobs),
    "lgc/auto": partial(propagate, LGC(alpha="auto"), digits),
    "lgc/balanced": partial(propagate, LGC(balanced=True), unequal_digits),
    "harmonic/auto": partial(propagate, Harmonic(label_weight="auto"), digits),
    "sparse_lp/large": partial(propagate, SparseLP(max_iterations=300), blobs),
    "sparse_lp/published": partial(propagate, SparseLP(as_published=True), digits),
    "cheeger": partition,
    "shards/crepe": partial(shards, CrepePropagation(), moons, 2),
    "shards/lgc": partial(shards, LGC(), partial(digits, 4, 300), 3),
    "sklearn/crepe": partial(estimator, "CrepeClassifier"),
    "sklearn/energy": partial(estimator, "EnergyClassifier", model="poisson"),
    "active/label_next": label_next,
    **{f"train/{source}": partial(train, source) for source in ("crepe", "lgc", "network", "none")},
    "train/hold_out": partial(train, hold_out=True),
    "train/mixup_soft_warm": partial(train, mixup_alpha=0.5, soft_targets=True, warm_start=True),
    "train/align": partial(train, align_classes=True),
    "train/refresh": partial(train, refresh_every=2, certainty_weight=False, class_weight=False),
}


def record(path: Path, names: list[str]) -> None:
    """Keeps the arrays of some cases beside those that the file has already."""
    kept = dict(np.load(path, allow_pickle=False)) if path.exists() else {}
    for name in names:
        start = time.perf_counter()
        kept |= {f"{name}::{key}": np.asarray(value) for key, value in CASES[name]().items()}
        print(f"{name:28} {time.perf_counter() - start:5.1f} s", flush=True)
    np.savez_compressed(path, **kept)


def difference(key: str, before: np.ndarray, after: np.ndarray | None) -> tuple[str, bool]:
    """How an array differs in a few words, none where it does not; and whether by more than rounding may explain."""
    if after is None or before.shape != after.shape:
        return f"{key} has another shape" if after is not None else f"{key} is missing", True
    if before.dtype.kind != "f":
        count = int((before != after).sum())
        return (f"{count} of {before.size} {key} differ", True) if count else ("", False)
    if np.array_equal(before, after, equal_nan=True):
        return "", False
    return f"{key} ~ {np.nanmax(np.abs(before.astype(float) - after.astype(float))):.1e}", False


def compare(path: Path, names: list[str]) -> list[str]:
    """Says of every case whether it is as it was; the names of those with other labels, or without an answer."""
    before: dict[str, Arrays] = {}
    with np.load(path, allow_pickle=False) as file:
        for key in file.files:
            case, _, array = key.partition("::")
            before.setdefault(case, {})[array] = file[key]
    changed = []
    for name in names:
        if name not in before:
            print(f"{name:28} not recorded")
            continue
        try:
            after = CASES[name]()
        except Exception:
            found = [(f"failed: {traceback.format_exc(limit=-1).splitlines()[-1]}", True)]
        else:
            found = [difference(key, value, after.get(key)) for key, value in before[name].items()]
        changed += [name] * any(serious for _, serious in found)
        print(f"{name:28} {', '.join(text for text, _ in found if text) or 'same bits'}", flush=True)
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("file", type=Path, help="a .npz file")
    parser.add_argument("prefix", nargs="*", help="what the names of cases begin with (default: all)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    names = [name for name in CASES if name.startswith(tuple(options.prefix or [""]))]
    if not names:
        parser.error(f"no case begins with {' or '.join(options.prefix)}")
    if options.action == "record":
        record(options.file, names)
        return
    changed = compare(options.file, names)
    print(f"changed: {', '.join(changed) or 'none'}")
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
