from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tg_crepe._checks import check_tensor
from tg_crepe._files import atomic_file
from tg_crepe.graph.metric import Placement
from tg_crepe.typing import OptTensor

#: The inverse of the penalty, for features of unit mean square: better than 10 on 25 families of data, and no worse
#: than the one of 1, 10, 100 and 1,000 that left-out labels choose.
_INVERSE_PENALTY = 100.0

#: Iterations of L-BFGS at most, the steps that it remembers, and the largest slope at which it ends.
_ITERATIONS, _HISTORY, _SLOPE = 100, 10, 1e-5


class LinearHead:
    r"""A linear model on features, trained on soft labels: multinomial logistic regression.

    .. math::
        \min_{A, b} \; \sum_i a_i\, \mathrm{CE}(P_i, \mathrm{softmax}(A x_i + b)) + \frac{1}{2C} \|A\|^2, \quad C = 100,

    where :math:`P_i` are soft labels and :math:`a_i` what a row counts, such as its certainty. The features stand where
    the graph has them (:class:`~tg_crepe.graph.metric.Placement`: as they are, of unit length, or with standardised
    columns), then they are centred and brought to unit mean square, so that the penalty has no unit.

    .. code-block:: python

        from tg_crepe.heads import LinearHead

        head = LinearHead.fit(x, result.prob, result.certainty)
        head(x_new)                  # probabilities of new points

    Args:
        placement (Placement): Where features stand.
        centre (torch.Tensor): Their mean, of shape :obj:`[num_features]`.
        size (float): The root of their mean square about it.
        weight (torch.Tensor): :math:`A`, of shape :obj:`[num_classes, num_features]`.
        bias (torch.Tensor): :math:`b`, of shape :obj:`[num_classes]`.
    """

    def __init__(self, placement: Placement, centre: Tensor, size: float, weight: Tensor, bias: Tensor) -> None:
        self.placement = placement
        self.centre = centre
        self.size = size
        self.weight = weight
        self.bias = bias

    @classmethod
    def fit(
        cls, x: Tensor, target: Tensor, row_weight: OptTensor = None, placement: Placement | None = None
    ) -> LinearHead:
        r"""Trains a head.

        Args:
            x (torch.Tensor): Features, finite, of shape :obj:`[num_rows, num_features]`.
            target (torch.Tensor): :math:`P`, rows that sum to one, of shape :obj:`[num_rows, num_classes]`.
            row_weight (torch.Tensor, optional): :math:`a \geq 0`, of shape :obj:`[num_rows]`. Rows of weight zero take
                no part in the fit, but in the scale of the features. (default: :obj:`None`, ones)
            placement (Placement, optional): Where features stand. (default: :obj:`None`, as they are)
        """
        check_tensor("x", x)
        if x.dim() != 2 or not bool(torch.isfinite(x).all()):
            raise ValueError(f"'x' must be finite features of shape [num_rows, num_features], got {list(x.shape)}")
        if target.dim() != 2 or target.size(0) != x.size(0):
            raise ValueError(f"'target' must have one row for each of the {x.size(0)} of 'x', got {list(target.shape)}")
        weight = torch.ones_like(target[:, 0]) if row_weight is None else row_weight
        if list(weight.shape) != [x.size(0)]:
            raise ValueError(f"'row_weight' must be of shape [{x.size(0)}], got {list(weight.shape)}")
        if not bool((torch.isfinite(weight) & (weight >= 0)).all()) or not float(weight.sum()) > 0:
            raise ValueError("'row_weight' must be finite, >= 0 and not all 0, got other values")
        used = target[weight > 0].double()
        if not bool(((used >= 0) & (used <= 1)).all()) or float((used.sum(dim=1) - 1).abs().max()) > 1e-3:
            raise ValueError("'target' must hold shares between 0 and 1 that sum to one in every row, got other values")
        placement = placement or Placement("euclidean")
        weights = _empty(x, target)
        centre, size = _standing(placement.place(x))
        head = cls(placement, centre.to(weights[0]), size, *weights)
        head._train(x, target, weight)
        return head

    def _train(self, x: Tensor, target: Tensor, weight: Tensor) -> None:
        """L-BFGS from zero; the problem is convex."""
        used = weight > 0
        rows, target, weight = self._scaled(x[used]), target[used].to(self.weight), weight[used].to(self.weight)
        slope = self.weight.new_zeros(self.weight.numel() + self.bias.numel()).requires_grad_()
        shape, cut = self.weight.shape, self.weight.numel()
        search = torch.optim.LBFGS(
            [slope],
            max_iter=_ITERATIONS,
            history_size=_HISTORY,
            tolerance_grad=_SLOPE,
            tolerance_change=1e-9,
            line_search_fn="strong_wolfe",
        )
        total = weight.sum()

        def loss() -> Tensor:
            search.zero_grad()
            matrix = slope[:cut].view(shape)
            fit = weight @ F.cross_entropy(F.linear(rows, matrix, slope[cut:]), target, reduction="none")
            # Over the sum of the weights, so that the slope at which the search ends is that of a row.
            value = (fit + matrix.square().sum() / (2 * _INVERSE_PENALTY)) / total
            value.backward()
            return value

        with torch.enable_grad():
            search.step(loss)
        found = slope.detach()
        self.weight, self.bias = found[:cut].view(shape), found[cut:]

    def _scaled(self, x: Tensor) -> Tensor:
        return (self.placement.place(x).to(self.centre) - self.centre) / self.size

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """The probabilities of rows, of shape :obj:`[num_rows, num_classes]`, in the floating type of the head.

        Args:
            x (torch.Tensor): Features, of shape :obj:`[num_rows, num_features]`.
        """
        if x.dim() != 2 or x.size(1) != self.weight.size(1):
            raise ValueError(f"'x' must be of shape [num_rows, {self.weight.size(1)}], got {list(x.shape)}")
        return torch.softmax(F.linear(self._scaled(x), self.weight, self.bias), dim=1)

    def save(self, path: str | Path) -> None:
        """Writes the head as json: numbers and names, nothing that runs."""
        factor = self.placement.factor
        content = {
            "kind": "tg_crepe linear head",
            "metric": self.placement.metric,
            "factor": None if factor is None else factor.tolist(),
            "centre": self.centre.tolist(),
            "size": self.size,
            "weight": self.weight.tolist(),
            "bias": self.bias.tolist(),
            "dtype": str(self.weight.dtype).removeprefix("torch."),
        }
        with atomic_file(Path(path)) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> LinearHead:
        """Reads a head that :meth:`save` wrote; anything else is one clear error."""
        try:
            return cls(*_parts(json.loads(Path(path).read_text(encoding="utf-8"))))
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError, RuntimeError) as error:
            raise ValueError(f"'path' must be a file that LinearHead.save wrote, got {path} ({error})") from error

    def __repr__(self) -> str:
        classes, columns = self.weight.shape
        return f"LinearHead(num_features={columns}, num_classes={classes}, placement={str(self.placement)!r})"


def _standing(placed: Tensor) -> tuple[Tensor, float]:
    """The mean of the rows and the root of their mean square about it."""
    centre = placed.double().mean(dim=0)
    square = float(sum((part.double() - centre).square().sum() for part in placed.split(1 << 14))) / len(placed)
    return centre, math.sqrt(square) or 1.0


def _empty(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """A head that knows nothing, in the floating type of the features."""
    dtype = x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32
    weight = torch.zeros(target.size(1), x.size(1), dtype=dtype, device=x.device)
    return weight, weight.new_zeros(target.size(1))


def _parts(content: Any) -> tuple[Placement, Tensor, float, Tensor, Tensor]:
    """The arguments of a head from what a file says, checked."""
    if not isinstance(content, dict) or content.get("kind") != "tg_crepe linear head":
        raise ValueError("another kind of file")
    dtype = {"float32": torch.float32, "float64": torch.float64}[content["dtype"]]
    centre, weight, bias = (torch.tensor(content[name], dtype=dtype) for name in ("centre", "weight", "bias"))
    factor = None if content["factor"] is None else torch.tensor(content["factor"], dtype=torch.float64)
    classes, columns = weight.shape
    sizes = [tuple(centre.shape) == (columns,), tuple(bias.shape) == (classes,)]
    if factor is not None:
        sizes.append(tuple(factor.shape) == (columns,))
    if not all(sizes) or content["metric"] not in ("cosine", "euclidean"):
        raise ValueError("its parts do not fit")
    size = float(content["size"])
    numbers = [part for part in (centre, weight, bias, factor) if part is not None]
    if not 0 < size < math.inf or not all(bool(torch.isfinite(part).all()) for part in numbers):
        raise ValueError("its numbers are not finite")
    return Placement(content["metric"], factor), centre, size, weight, bias
