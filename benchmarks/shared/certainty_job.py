"""What a worker of ``benchmarks/contest certainty`` does: how sure is a method, how often is it right, and where are
its errors?"""

from __future__ import annotations

import functools
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from shared.estimators import code_of, estimate
from shared.families import Family, draw_labels, load_family
from shared.fingerprint import fingerprint, fingerprint_of
from shared.grid import Cell, Job, Value
from torch import Tensor

from tg_crepe import CrepePropagation, EnergyModel, PropagationResult, get_energy_model
from tg_crepe.inference.task import ExpectedError
from tg_crepe.sklearn import CrepeClassifier
from tg_crepe.training.metrics import reliability_curve

#: Families of different kinds: a text, images, tables and clouds.
FAMILIES = (
    "TREC",
    "CIFAR-10 pretrained",
    "solar cells",
    "digits",
    "PneumoniaMNIST",
    "segment",
    "satimage",
    "letter",
    "spambase",
    "page blocks",
    "two moons",
    "clouds",
)

#: How labels come about.
DRAWS = ("1 per class", "5 per class", "25 per class", "10 % at random")

#: CREPE alone, and what a user of ``tg-crepe propagate`` and ``CrepeClassifier`` gets.
CREPE, HEAD = "CREPE", "CREPE + head"

#: The energies on the graph of the family, by their names in the package.
ENERGIES = {CREPE: "crepe", "LGC": "lgc", "random walk": "random_walk", "WNLL": "wnll"}

#: What is asked, and about how many seconds of processor time it takes on 4,000 rows of ten classes.
METHODS = {
    CREPE: 2.0,
    HEAD: 3.0,
    "LGC": 0.2,
    "random walk": 0.2,
    "WNLL": 0.2,
    "logistic regression": 0.1,
    "label spreading": 0.5,
}

#: The bins of the calibration error, and those of the figure.
BINS, CURVE = 15, 10

#: The least certain rows among which errors are looked for.
LEAST = 0.2


class Opinion(NamedTuple):
    """What a method says of all rows.

    Args:
        label (torch.Tensor): Labels, of shape :obj:`[num_rows]`, -1 where there is none.
        prob (torch.Tensor): Probabilities, of shape :obj:`[num_rows, num_classes]`.
        expected (ExpectedError, optional): The share of wrong labels that it expects, where it expects any.
    """

    label: Tensor
    prob: Tensor
    expected: ExpectedError | None


def make_cell(family: str, draw: str, seed: int, method: str) -> Cell:
    """The cell of a method on a draw of labels."""
    own = ENERGIES.get(method, "crepe")
    if method in (CREPE, HEAD):
        code = fingerprint("tg_crepe.sklearn._crepe", "tg_crepe.models.crepe.model", "tg_crepe.heads.evidence")
    elif method in ENERGIES:
        code = fingerprint(f"tg_crepe.models.{own}")
    else:
        code = code_of(method)
    judging = fingerprint_of(measure, judge, errors_found, ask, ask_classifier)
    point: dict[str, Value] = {"family": family, "draw": draw, "seed": seed, "method": method}
    return Cell(point, f"{fingerprint('shared.families')} {judging} {code}", METHODS[method])


def make_job(threads: int) -> Job:
    """The job of a worker."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")  # linear models that have not converged, nodes that no label reaches
    return run_cell


def run_cell(cell: Cell) -> list[dict[str, Value]]:
    """The row of a cell; none where the draw leaves too little of the data."""
    family, mask = labelled(str(cell.point["family"]), str(cell.point["draw"]), int(cell.point["seed"]))
    return [] if mask is None else [measure(str(cell.point["method"]), family, mask)]


@functools.lru_cache(maxsize=1)
def labelled(name: str, draw: str, seed: int) -> tuple[Family, Tensor | None]:
    """A family and a draw of labels, as in ``contest energies``."""
    family = load_family(name)
    return family, draw_labels(family, draw, seed)


def measure(method: str, family: Family, mask: Tensor) -> dict[str, Value]:
    """Asks a method, which gets no class but those of the labelled rows, and judges what it says of the others."""
    start = time.process_time()
    opinion = ask(method, family, torch.where(mask, family.y, -1), mask)
    return {**judge(opinion, family.y, mask), "cpu_seconds": time.process_time() - start}


def ask(method: str, family: Family, y: Tensor, mask: Tensor) -> Opinion:
    """What a method says of all rows."""
    if method == HEAD:
        return ask_classifier(family, y)
    if method in ENERGIES:
        model = get_energy_model(ENERGIES[method])
        result = model.propagate(y, family.edge_index, mask, family.edge_weight, family.num_classes)
        return Opinion(torch.where(result.reached, result.label, -1), result.prob, result.expected_error)
    assert family.x is not None  # only families that have features
    label, prob = estimate(method, family.x, y, mask)
    assert prob is not None  # only methods that say how sure they are
    return Opinion(torch.from_numpy(label), torch.from_numpy(prob), None)


class _Keeping(CrepePropagation):
    """CREPE that keeps its last result: the classifier hands on no interval of the error."""

    last: PropagationResult

    def propagate(self, *args: Any, **options: Any) -> PropagationResult:
        self.last = super().propagate(*args, **options)
        return self.last


def ask_classifier(family: Family, y: Tensor) -> Opinion:
    """What a user of :class:`~tg_crepe.sklearn.CrepeClassifier` gets."""
    model = _Keeping()

    class Classifier(CrepeClassifier):
        def _energy_model(self) -> EnergyModel:
            return model

    assert family.x is not None
    fitted = Classifier().fit(family.x.numpy(), y.numpy())
    prob = torch.from_numpy(fitted.label_distributions_)
    return Opinion(torch.from_numpy(np.asarray(fitted.transduction_)), prob, model.last.expected_error)


def judge(opinion: Opinion, truth: Tensor, mask: Tensor) -> dict[str, Value]:
    r"""How sure it is and how often right on the unlabelled rows, in per cent.

    Certainty is :math:`1 - H(p) / \log L` of the probabilities, for all methods alike. ``found`` is the share of the
    errors among the least certain fifth of the rows, ``most`` the largest that it could be for so many errors, and
    ``left`` the error when somebody has put that fifth right.
    ``rows_1`` to ``right_10`` are the bins of the reliability curve, as shares of the rows.
    """
    prob = opinion.prob[~mask].double().clamp(0, 1)
    wrong = (opinion.label != truth)[~mask]
    # As a finding "this label is right", so that a row without a label is wrong whatever its largest probability.
    confidence, right = prob.amax(dim=1, keepdim=True), (~wrong).long().unsqueeze(1)
    entropy = -torch.special.xlogy(prob, prob).sum(dim=1)
    certainty = 1 - entropy / np.log(max(prob.size(1), 2))
    share, bounds = float(wrong.double().mean()), ("low", "high")
    found = errors_found(certainty, wrong) if share > 0 else 0.0
    return {
        "labelled": int(mask.sum()),
        "unlabelled": wrong.numel(),
        "error": 100 * share,
        "ece": 100 * (reliability_curve(confidence, right, BINS).expected_error or 0.0),
        **{name: "" if opinion.expected is None else 100 * float(getattr(opinion.expected, name)) for name in bounds},
        "found": "" if share == 0 else 100 * found,
        "most": "" if share == 0 else 100 * min(1.0, LEAST / share),
        "left": 100 * share * (1 - found),
        **_curve(confidence.view(-1), right.view(-1)),
    }


def errors_found(certainty: Tensor, wrong: Tensor) -> float:
    """The share of the errors among the least certain fifth; rows that are equally certain count in equal parts, so
    that no order among them decides.
    """
    values, place, count = certainty.unique(return_inverse=True, return_counts=True)
    errors = torch.bincount(place, wrong.double(), minlength=len(values))
    before = count.cumsum(0) - count
    taken = ((LEAST * len(wrong) - before) / count).clamp(0, 1)
    return float((taken * errors).sum() / errors.sum())


def _curve(confidence: Tensor, right: Tensor) -> dict[str, Value]:
    """The share of the rows in every bin of confidence, their summed confidence and how many of them are right."""
    place = (confidence * CURVE).long().clamp(max=CURVE - 1)
    found: dict[str, Value] = {}
    for name, weight in (("rows", torch.ones_like(confidence)), ("sure", confidence), ("right", right.double())):
        total = torch.bincount(place, weight, minlength=CURVE) / len(confidence)
        found |= {f"{name}_{i + 1}": float(value) for i, value in enumerate(total)}
    return found
