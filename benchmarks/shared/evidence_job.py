"""What a worker of ``benchmarks/evidence.py`` does: CREPE with somebody else's guesses, good and bad, beside none."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from shared.families import draw_labels, load_family
from shared.fingerprint import fingerprint
from shared.grid import Cell, Job, Value
from torch import Tensor

from tg_crepe import ConvergenceWarning, CrepePropagation, GraphWarning

#: Images, texts and tables; two classes and many, equal and not.
FAMILIES = ("digits", "TREC", "segment", "phoneme", "breast cancer")

#: How many labels there are.
DRAWS = ("1 per class", "2 per class", "5 per class", "10 per class")


def _noise(y: np.ndarray, num_classes: int, rng: np.random.Generator) -> np.ndarray:
    score = np.exp(2 * rng.normal(size=(len(y), num_classes)))
    return score / score.sum(axis=1, keepdims=True)


def _sure_noise(y: np.ndarray, num_classes: int, rng: np.random.Generator) -> np.ndarray:
    return _said(rng.integers(0, num_classes, len(y)), np.full(len(y), 0.95), num_classes)


def _constant(y: np.ndarray, num_classes: int, rng: np.random.Generator) -> np.ndarray:
    return np.tile(rng.dirichlet(np.ones(num_classes)), (len(y), 1))


def _wrong(y: np.ndarray, num_classes: int, rng: np.random.Generator) -> np.ndarray:
    return _said((y + 1) % num_classes, np.full(len(y), 0.9), num_classes)


def guess(accuracy: float, y: np.ndarray, num_classes: int, rng: np.random.Generator) -> np.ndarray:
    """A zero-shot model: its accuracy differs by up to 15 points from class to class, three of five of its errors on a
    class name the same other class, and its confidence is right on average."""
    own = np.clip(accuracy + rng.uniform(-0.15, 0.15, num_classes), 0.01, 0.99)
    own = np.clip(own + accuracy - own[y].mean(), 0.01, 0.99)
    favourite = (np.arange(num_classes) + rng.integers(1, num_classes, num_classes)) % num_classes
    other = (y + rng.integers(1, num_classes, len(y))) % num_classes
    wrong = np.where(rng.random(len(y)) < 0.6, favourite[y], other)
    said = np.where(rng.random(len(y)) < own[y], y, wrong)
    sure = np.clip(accuracy + 0.1 * rng.normal(size=len(y)), 1 / num_classes + 0.02, 0.98)
    return _said(said, sure, num_classes)


def _said(said: np.ndarray, sure: np.ndarray, num_classes: int) -> np.ndarray:
    """Probabilities that name a class so surely, and all others alike."""
    prob = np.repeat(((1 - sure) / (num_classes - 1))[:, None], num_classes, axis=1)
    prob[np.arange(len(said)), said] = sure
    return prob


#: What somebody else says, by name: nothing, what should be ignored, and guesses that are right so often.
KINDS: dict[str, Callable[[np.ndarray, int, np.random.Generator], np.ndarray] | None] = {
    "none": None,
    "noise": _noise,
    "sure noise": _sure_noise,
    "constant": _constant,
    "wrong": _wrong,
    **{
        f"{accuracy} % right": lambda y, num_classes, rng, accuracy=accuracy: guess(  # type: ignore[misc]
            accuracy / 100, y, num_classes, rng
        )
        for accuracy in (40, 60, 80)
    },
}


def make_cell(family: str, draw: str, seed: int, kind: str) -> Cell:
    """The cell of a kind of evidence on a draw of labels."""
    code = [fingerprint("shared.families"), fingerprint("shared.evidence_job")]
    code.append(fingerprint("tg_crepe.models.crepe.model", "tg_crepe.inference.trust"))
    return Cell({"family": family, "draw": draw, "seed": seed, "kind": kind}, " ".join(code), 1.0)


def make_job(threads: int) -> Job:
    """The job of a worker."""
    torch.set_num_threads(threads)
    for category in (GraphWarning, ConvergenceWarning):  # that evidence is ignored is what is measured
        warnings.simplefilter("ignore", category)
    return run_cell


def run_cell(cell: Cell) -> list[dict[str, Value]]:
    """The row of a cell; none where the draw leaves too little of the data."""
    family, seed = load_family(str(cell.point["family"])), int(cell.point["seed"])
    mask = draw_labels(family, str(cell.point["draw"]), seed)
    if mask is None:
        return []
    prior = evidence(str(cell.point["kind"]), family.y, family.num_classes, seed)
    y = torch.where(mask, family.y, -1)
    result = CrepePropagation().propagate(
        y, family.edge_index, mask, family.edge_weight, family.num_classes, prior=prior
    )
    wrong = ((result.label != family.y) | ~result.reached)[~mask]
    alone = 100.0 if prior is None else 100 * float((prior.argmax(dim=1) != family.y)[~mask].double().mean())
    trust = 0.0 if result.prior_trust is None else result.prior_trust
    return [{"error": 100 * float(wrong.double().mean()), "alone": alone, "trust": trust}]


def evidence(kind: str, y: Tensor, num_classes: int, seed: int) -> Tensor | None:
    """What somebody says of all nodes, of shape [num_nodes, num_classes]; the truth reaches CREPE through it alone."""
    make = KINDS[kind]
    return None if make is None else torch.from_numpy(make(y.numpy(), num_classes, np.random.default_rng(seed)))
