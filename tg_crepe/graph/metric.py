"""Where rows of features stand when distances between them are taken: the metrics, and the choice among them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe.graph.neighbors import power_of_two
from tg_crepe.warnings import GraphWarning

#: What may be asked for; "auto" is one of the others, with or without standardised columns.
METRICS = ("auto", "cosine", "euclidean")

#: Columns are of very different scale when the distance sees fewer than so many of them, and the widest has more than
#: so many times the standard deviation of the median one.
_FEW_COLUMNS, _WIDE = 3.0, 5.0

#: A graph has hubs when the skewness of its k-occurrence is above this: by convention, "highly skewed".
_HUBS = 1.0

#: Standard errors by which another metric must have fewer hubs.
_CLEARLY = 3.0

#: Rows and neighbours of the graphs whose hubs are compared.
_SAMPLE, _NEIGHBORS = 2000, 10

#: Numbers that are looked at in double precision at a time.
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Placement:
    r"""Where rows stand when Euclidean distances between them are taken.

    .. math::
        x \mapsto x \text{ (euclidean)}, \qquad x \mapsto x / \|x\| \text{ (cosine)}, \qquad
        x_j \mapsto f_j x_j \text{ (euclidean with factors)}

    Args:
        metric (str): :obj:`"cosine"` or :obj:`"euclidean"`.
        factor (torch.Tensor, optional): :math:`f`, one over the standard deviation of each column and 0 for a constant
            one, double of shape :obj:`[num_features]`; the mean needs no mention, since no distance depends on it.
            (default: :obj:`None`)
        note (str): What the user should know of it; empty if nothing.
    """

    metric: str
    factor: Tensor | None = None
    note: str = ""

    def __str__(self) -> str:
        return self.metric if self.factor is None else f"{self.metric}, standardised columns"

    def place(self, x: Tensor) -> Tensor:
        """The rows where they stand; in double precision, except where they stay as they are."""
        if self.metric == "cosine":
            # In double precision: the rounding of a norm depends on the device, and must not decide about an edge.
            return unit_rows(x.double(), warn=False)
        return x if self.factor is None else x.double() * self.factor.to(x.device)


def find_placement(x: Tensor, metric: str, stacklevel: int = 2) -> Placement:
    """The placement of a metric's name; the choice for :obj:`"auto"`, with its note as a warning.

    Args:
        x (torch.Tensor): Finite features, of shape :obj:`[num_nodes, num_features]`.
        metric (str): One of :data:`METRICS`.
        stacklevel (int, optional): Whom the warning names: 2 is the caller. (default: :obj:`2`)
    """
    placement = choose_metric(x) if metric == "auto" else Placement(metric)
    if placement.note:
        warnings.warn(placement.note, GraphWarning, stacklevel=stacklevel + 1)
    return placement


def choose_metric(x: Tensor) -> Placement:
    r"""The metric that fits features, from the features alone: what ``metric="auto"`` stands for.

    1. Columns of very different scale are standardised, and distances are Euclidean. With the variances
       :math:`\sigma_j^2` of the columns this is so when

       .. math::
           \frac{\left(\sum_j \sigma_j^2\right)^2}{\sum_j \sigma_j^4} < 3 \quad \text{and} \quad
           \max_j \sigma_j > 5 \operatorname{median}_j \sigma_j.

       The first number says how many columns a distance sees. A table whose columns have units of their own shows one
       or two; the components of an embedding decay as well, but no two of them hold everything.
    2. Else the metric is the cosine where it removes hubs, rows that are neighbours of very many others:

       .. math::
           S_\text{euclidean} > 1 \quad \text{and} \quad
           S_\text{cosine} < S_\text{euclidean} - 3 \sqrt{6 / n},

       with :math:`S` the skewness of how often a row is among the 10 nearest of the others and :math:`\sqrt{6/n}` its
       standard error. Hubs are an effect of many dimensions and of lengths that say nothing (Radovanović, Nanopoulos
       and Ivanović, 2010), as embeddings of text and images have them. In few dimensions there are none, and there
       the direction alone would throw a whole dimension away.
    3. Else it is Euclidean, on the features as they are; for rows of one length that is the graph of the cosine too.

    Hubs are counted among at most 2,000 rows, spread evenly along a fixed projection of all. Neither the order of the
    rows nor a common factor of all columns changes the choice.

    Args:
        x (torch.Tensor): Finite features, of shape :obj:`[num_nodes, num_features]`.
    """
    x = x.detach()
    scale = power_of_two(float(x.abs().amax()))  # squares of tiny or huge entries must not underflow or overflow
    step = max(1, _BLOCK // x.size(1))
    variance, key = describe_columns(part.double() / scale for part in x.split(step))
    return choose_placement(variance, key, lambda rows: squared_distances(x[rows].double() / scale), scale)


def choose_placement(
    variance: Tensor, key: Tensor, distances: Callable[[Tensor], tuple[Tensor, Tensor]], scale: float = 1.0
) -> Placement:
    """The rule of :func:`choose_metric` for features that are not at hand as one tensor.

    Args:
        variance (torch.Tensor): Of every column, 0 for a constant one, of shape :obj:`[num_features]`.
        key (torch.Tensor): A number for every row that depends on what it holds alone, of shape :obj:`[num_nodes]`.
        distances (callable): From numbers of rows to the squared distances between them under the Euclidean and the
            cosine metric, two square tensors.
        scale (float, optional): What the features were divided by before the variances were taken.
            (default: :obj:`1.0`)
    """
    ratio, count = _unevenness(variance)
    if count < _FEW_COLUMNS and ratio > _WIDE:
        factor = _round(torch.where(variance > 0, variance, math.inf).rsqrt()) / scale
        note = (
            f"columns of 'x' are of very different scale (the widest has {ratio:.3g} times the standard deviation of "
            "the median one): they are standardised; metric='euclidean' or 'cosine' takes them as they are"
        )
        return Placement("euclidean", factor, note)
    order = key.argsort(stable=True)
    # The rows in the order of their keys: among equally far ones the first is taken, whatever order they came in.
    rows = order[torch.linspace(0, len(order) - 1, min(_SAMPLE, len(order)), dtype=torch.float64).round().long()]
    euclidean, cosine = (_hubness(squared) for squared in distances(rows))
    fewer = cosine < euclidean - _CLEARLY * math.sqrt(6 / len(rows))
    return Placement("cosine" if euclidean > _HUBS and fewer else "euclidean")


def describe_columns(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Variances of the columns and keys of the rows, as :func:`choose_placement` wants them.

    Args:
        blocks (iterable): All rows, a block after the other, in double precision.
    """
    keys: list[Tensor] = []
    seen = 0
    for block in blocks:
        if not seen:
            weight = projection(block.size(1)).to(block.device)
            mean = squares = torch.zeros_like(block[0])
            low = high = block[0]
        low, high = torch.minimum(low, block.amin(dim=0)), torch.maximum(high, block.amax(dim=0))
        keys.append((block * weight).sum(dim=1))
        # Means and sums of squared deviations of two parts make those of both, without a second reading.
        own = block.mean(dim=0)
        total = seen + len(block)
        squares = squares + (block - own).square().sum(dim=0) + (own - mean).square() * (seen * len(block) / total)
        mean = mean + (own - mean) * (len(block) / total)
        seen = total
    return torch.where(high > low, squares / seen, 0.0), torch.cat(keys)


def projection(num_features: int) -> Tensor:
    """The fixed direction along which rows are put in order, of shape :obj:`[num_features]`."""
    return torch.rand(num_features, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 0.5


def squared_distances(x: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distances between rows in double precision, Euclidean and of their directions."""

    def between(points: Tensor) -> Tensor:
        length = points.square().sum(dim=1)
        return length.unsqueeze(1) + length - 2 * points @ points.t()

    return between(x - x.mean(dim=0)), between(unit_rows(x, warn=False))


def _unevenness(variance: Tensor) -> tuple[float, float]:
    """How many times wider than the median column the widest is, and how many columns a distance sees."""
    share = variance[variance > 0] / variance.amax()
    if not len(share):
        return 1.0, 0.0
    # The lower median: of two columns one is the widest and the other the median.
    return float(share.median().rsqrt()), float(share.sum().square() / share.square().sum())


def _hubness(squared: Tensor) -> float:
    """The skewness of the k-occurrence in the graph of the nearest neighbours; 0 where all are as frequent."""
    squared = squared.clone().fill_diagonal_(math.inf)
    near = squared.topk(min(_NEIGHBORS, len(squared) - 1), dim=1, largest=False)[1]
    count = torch.bincount(near.reshape(-1), minlength=len(squared)).double()
    spread = count - count.mean()
    deviation = float(spread.square().mean().sqrt())
    return float(spread.pow(3).mean()) / deviation**3 if deviation > 0 else 0.0


def _round(value: Tensor) -> Tensor:
    """Numbers with 24 bits: the last bits of a sum depend on the order of the rows, which must not change an edge."""
    mantissa, exponent = torch.frexp(value)
    return torch.ldexp((mantissa * 2**24).round() / 2**24, exponent)


def unit_rows(x: Tensor, warn: bool) -> Tensor:
    """Rows of unit length; zero rows stay zero and are counted."""
    # Scaled by the largest entry first: squares of tiny or huge entries must not underflow or overflow.
    scale = x.abs().amax(dim=1, keepdim=True)
    scaled = x / torch.where(scale > 0, scale, 1.0)
    norm = scaled.norm(dim=1, keepdim=True)
    zero = int((norm == 0).sum())
    if zero and warn:
        warnings.warn(f"{zero} zero row(s) of 'x' have no direction and stay at the origin", GraphWarning, stacklevel=3)
    return scaled / torch.where(norm > 0, norm, 1.0)
