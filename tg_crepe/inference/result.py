from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tg_crepe._html import bar_table
from tg_crepe.graph.communicator import Communicator
from tg_crepe.inference.labels import Labels
from tg_crepe.inference.result_table import result_table
from tg_crepe.inference.task import ExpectedError, LabelTask, Solution
from tg_crepe.solvers.observers import FlowMoments
from tg_crepe.solvers.trace import Status, Trace

if TYPE_CHECKING:
    import pandas as pd

#: Classes that a table in a notebook shows.
_SHOWN = 20

#: The moments of a flow that are kept, as shares of its length.
_MOMENTS = (0.25, 0.5, 1.0)


@dataclass(repr=False)
class PropagationResult:
    r"""The pseudo-labels of every node, on the device of the input.

    Args:
        u (torch.Tensor): The class functions, of shape :obj:`[num_nodes, num_classes]`; 0 where nothing was solved.
        label (torch.Tensor): The hard label, of shape :obj:`[num_nodes]`, :obj:`-1` where no label reaches; for
            multi-label data 0/1 of shape :obj:`[num_nodes, num_classes]`.
        prob (torch.Tensor): The soft label, of shape :obj:`[num_nodes, num_classes]`.
        certainty (torch.Tensor): One minus its relative entropy, of shape :obj:`[num_nodes]`.
        reached (torch.Tensor): Whether the component of the node holds a label, bool of shape :obj:`[num_nodes]`.
        pseudo_mask (torch.Tensor): Reached and not labelled, bool of shape :obj:`[num_nodes]`.
        trace (Trace): One row per step of the solver.
        status (str): :obj:`"converged"`, :obj:`"step_limit"` or :obj:`"stalled"`.
        expected_error (ExpectedError, optional): The share of wrong labels to expect among :obj:`pseudo_mask`, from
            labels that were left out; :obj:`None` for findings and for soft labels that are not calibrated.
        prior_trust (float, optional): The exponent that soft evidence has in the soft labels, beside what it does along
            the edges: 0 where it was ignored; :obj:`None` where none was given.
        moments (FlowMoments, optional): The class functions of some nodes along the flow, where they were asked for and
            there is a flow of known length.
        continued (bool): Whether the call went on from an earlier result (``start`` of
            :meth:`~tg_crepe.EnergyModel.propagate`).
        continuation (object, optional): What a next call on the same prepared graph may go on from, about as large as
            the dual of the flow; :obj:`None` on other graphs.
    """

    u: Tensor
    label: Tensor
    prob: Tensor
    certainty: Tensor
    reached: Tensor
    pseudo_mask: Tensor
    trace: Trace
    status: Status
    expected_error: ExpectedError | None = None
    prior_trust: float | None = None
    moments: FlowMoments | None = None
    continued: bool = False
    continuation: Any = field(default=None, compare=False)

    def to_pandas(self, ids: Sequence[Any] | None = None, class_names: Sequence[str] | None = None) -> pd.DataFrame:
        r"""One row per node, in the columns of ``tg-crepe propagate``.

        These are :obj:`label` (the name of the class, missing where no label reaches; for findings one column
        :obj:`label_<name>` each, 0/1, missing where nothing is known), :obj:`prob_<name>` for every class,
        :obj:`certainty`, :obj:`reached`, and :obj:`labelled`, whether the label was given.

        .. code-block:: python

            table = result.to_pandas(ids=file_names, class_names=["cat", "dog"])
            table[~table.labelled].sort_values("certainty").head()

        Args:
            ids (sequence, optional): What the rows are called, of length :obj:`num_nodes`.
                (default: :obj:`None`, the numbers of the nodes)
            class_names (sequence, optional): What the classes are called, of length :obj:`num_classes`.
                (default: :obj:`None`, their numbers)

        Returns:
            pandas.DataFrame: With the index :obj:`id`. It shares no memory with the result.
        """
        return result_table(self, ids, class_names)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._summary()})"

    def _summary(self) -> str:
        """A line without the numbers of every node."""
        wrong = "" if self.expected_error is None else f", wrong labels to expect: {self.expected_error}"
        return f"{len(self.prob):,} nodes, {int(self.pseudo_mask.sum()):,} pseudo-labels, {self.status}{wrong}"

    def _repr_html_(self) -> str:
        """A small table for notebooks: how many nodes each class has, and how sure their labels are."""
        label, reached = self.label, self.reached
        count = self.prob.size(1)
        if label.dim() == 2:
            sizes = ((label == 1) & reached.unsqueeze(1)).sum(dim=0)
        else:
            sizes = label[reached].bincount(minlength=count)
        total, largest = len(self.prob), max(int(sizes.max()), 1)
        rows = [(f"class {place}", f"{int(size):,}", int(size) / largest) for place, size in enumerate(sizes[:_SHOWN])]
        if count > _SHOWN:
            rows.append((f"and {count - _SHOWN} more", "", 0.0))
        mean = float(self.certainty[self.pseudo_mask].double().mean()) if bool(self.pseudo_mask.any()) else 0.0
        rows.append(("mean certainty", f"{mean:.2f}", mean))
        unreached = int((~reached).sum())
        if unreached:
            rows.append(("out of reach", f"{unreached:,}", unreached / total))
        return bar_table(self._summary(), rows)


def blank_result(labels: Labels, reached: Tensor, dtype: torch.dtype) -> PropagationResult:
    """The result where nothing is known: unreached rows, absent classes."""
    shape = (labels.num_nodes, labels.num_classes)
    device = reached.device
    label = torch.full(shape if labels.multi_label else shape[:1], -1, dtype=torch.long, device=device)
    return PropagationResult(
        u=torch.zeros(shape, dtype=dtype, device=device),
        label=label,
        prob=torch.full(shape, 0.5 if labels.multi_label else 1 / labels.num_classes, dtype=dtype, device=device),
        certainty=torch.zeros(shape[:1], dtype=dtype, device=device),
        reached=reached,
        pseudo_mask=reached & ~labels.labelled,
        trace=Trace(),
        status="converged",
    )


def write_solution(result: PropagationResult, task: LabelTask, solution: Solution, prob: Tensor, nodes: Tensor) -> None:
    """Writes the solution of a task, and its soft labels, into the result of all nodes and classes.

    Args:
        result (PropagationResult): What is known without a solution; it is written into.
        task (LabelTask): The part of the graph and the classes that were solved.
        solution (Solution): The answer.
        prob (torch.Tensor): Its soft labels, of shape :obj:`[num_nodes, num_classes]` of the task.
        nodes (torch.Tensor): The number in the result of every node of the task.
    """
    columns, rows = task.classes, nodes.unsqueeze(1)
    result.u[rows, columns] = solution.u
    if not task.multi_label:
        result.prob[nodes] = 0  # a class without a label is never predicted
    result.prob[rows, columns] = prob.to(result.prob.dtype)
    if task.multi_label:
        result.label[rows, columns] = (solution.score > 0).long()
    else:
        result.label[nodes] = columns[solution.score.argmax(dim=1)]
    result.trace, result.status = solution.trace, solution.status
    result.continuation, result.continued = solution.continuation, solution.continued
    result.expected_error = None if solution.judgement is None else solution.judgement.expected
    moments = None if solution.snapshots is None else solution.snapshots.near(_MOMENTS)
    if moments is not None:
        u = moments.u.new_zeros(*moments.u.shape[:2], result.u.size(1))
        u[:, :, columns.cpu()] = moments.u
        result.moments = replace(moments, node=nodes.cpu()[moments.node], u=u)


def keep_labels(result: PropagationResult, labels: Labels, where: Tensor) -> None:
    """What is known stays as it was given at the nodes ``where`` it is kept."""
    known = (labels.sign != 0) & where.unsqueeze(1)
    given = ((labels.sign + 1) / 2).to(result.prob.dtype)
    result.prob = torch.where(known, given, result.prob)
    if labels.multi_label:
        result.label = torch.where(known, given.long(), result.label)
    else:
        result.label = torch.where(labels.labelled & where, labels.sign.argmax(dim=1), result.label)


def set_priors(result: PropagationResult, labels: Labels, usable: Tensor, communicator: Communicator) -> Tensor:
    """Gives the findings that cannot be inferred their prior, and says at which entries nothing is known."""
    positive, negative = communicator.sum((labels.sign > 0).sum(dim=0)), communicator.sum((labels.sign < 0).sum(dim=0))
    prior = (positive + 1) / (positive + negative + 2)
    unknown = ~usable & (labels.sign == 0) & result.reached.unsqueeze(1)
    result.prob = torch.where(unknown, prior.to(result.prob.dtype), result.prob)
    result.label = torch.where(unknown, (positive > negative).long(), result.label)
    return unknown
