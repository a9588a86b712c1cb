from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.solvers.observers import FlowObserver, Snapshots
from tg_crepe.solvers.trace import Status, Trace
from tg_crepe.typing import OptTensor


@dataclass(frozen=True)
class LabelTask:
    r"""What a model gets to see: the part of the graph that labels reach, and the labels.

    Args:
        graph (CanonicalGraph): The reached subgraph, without isolated nodes.
        sign (torch.Tensor): What is known: :obj:`1` (is of this class), :obj:`-1` (is not) or :obj:`0` (unknown), in
            the floating type of the graph, of shape :obj:`[num_nodes, num_classes]`. A labelled row of a multi-class
            task has one :obj:`1` and no :obj:`0`. Every class has a labelled node.
        multi_label (bool): Whether the columns are findings on their own rather than exclusive classes.
        classes (torch.Tensor): The user's number of every column (classes without a label are left out), of shape
            :obj:`[num_classes]`.
        total_classes (int): The user's number of classes, with those that were left out.
        u0 (torch.Tensor, optional): A start given by the user, of the shape of ``sign``.
        observers (tuple): What looks on while flows run. (default: nobody)
        snapshot_rows (torch.Tensor, optional): Nodes whose class functions are kept along the flow, of shape
            :obj:`[num_kept]`. (default: :obj:`None`, none)
        evidence (torch.Tensor, optional): What somebody else says of the nodes, as far as labels trust it: soft labels
            in double precision, of the shape of ``sign``. (default: :obj:`None`, nobody)
        spread_evidence (bool): Whether the evidence of a node speaks for its neighbours too. (default: :obj:`True`)
        hold_evidence (bool): Whether the exponent of the evidence is one in any pool, whatever labels say: the user has
            said how far it goes, or no label can. (default: :obj:`False`)
        previous (object, optional): What an earlier solution has left as its ``continuation``. (default: :obj:`None`)
        keep (bool): Whether the solution is to leave one. (default: :obj:`False`)
    """

    graph: CanonicalGraph
    sign: Tensor
    multi_label: bool
    classes: Tensor
    total_classes: int
    u0: OptTensor = None
    observers: tuple[FlowObserver, ...] = ()
    snapshot_rows: OptTensor = None
    evidence: OptTensor = None
    spread_evidence: bool = True
    hold_evidence: bool = False
    previous: Any = None
    keep: bool = False

    @property
    def spread(self) -> OptTensor:
        """The evidence as far as it speaks for neighbours; :obj:`None` where it does not."""
        return self.evidence if self.spread_evidence else None

    @property
    def num_classes(self) -> int:
        """The number of classes or findings."""
        return self.sign.size(1)

    @property
    def positive_count(self) -> Tensor:
        """The number of nodes known to be of every class, of shape :obj:`[num_classes]`."""
        return self.graph.communicator.sum((self.sign > 0).sum(dim=0))

    @property
    def known_count(self) -> Tensor:
        """The number of nodes of which it is known whether they are of a class, of shape :obj:`[num_classes]`."""
        return self.graph.communicator.sum((self.sign != 0).sum(dim=0))

    @cached_property
    def labelled(self) -> Tensor:
        """Which nodes have a known entry, bool of shape :obj:`[num_nodes]`."""
        return (self.sign != 0).any(dim=1)

    @property
    def y(self) -> Tensor:
        """The class of every labelled node of a multi-class task, :obj:`-1` elsewhere, of shape :obj:`[num_nodes]`."""
        return self.sign.argmax(dim=1).where(self.labelled, -1)

    @property
    def sources(self) -> Tensor:
        """The known classes as columns of ones; for findings the known positives, then the known negatives.

        Of shape :obj:`[num_nodes, num_classes]`, or with twice as many columns for findings.
        """
        positive = (self.sign > 0).to(self.sign.dtype)
        if not self.multi_label:
            return positive
        return torch.cat([positive, (self.sign < 0).to(self.sign.dtype)], dim=1)

    def without(self, nodes: Tensor) -> LabelTask:
        """The task with the labels of some nodes left out, bool of shape :obj:`[num_nodes]`."""
        return replace(self, sign=self.sign.masked_fill(nodes.unsqueeze(1), 0))


@dataclass(frozen=True)
class Solution:
    r"""What a model answers.

    Args:
        u (torch.Tensor): The class functions, of shape :obj:`[num_nodes, num_classes]`.
        score (torch.Tensor): What decides: the largest entry of a row (multi-class) or the positive ones
            (multi-label), of the same shape.
        trace (Trace): One row per step.
        status (str): How the solve ended.
        rate (float, optional): The screening rate of the diffusion that it began with, where there was one.
        snapshots (Snapshots, optional): What was kept along the flow, where there was one.
        judgement (Judgement, optional): What labels that were left out say of it, where the model has asked them.
        evidence_trust (float): The exponent of the evidence of the task in the scores. (default: :obj:`1.0`)
        continuation (object, optional): What a call with a few more labels may go on from.
        continued (bool): Whether it went on from an earlier one. (default: :obj:`False`)
    """

    u: Tensor
    score: Tensor
    trace: Trace
    status: Status
    rate: float | None = None
    snapshots: Snapshots | None = None
    judgement: Judgement | None = None
    evidence_trust: float = 1.0
    continuation: Any = None
    continued: bool = False


@dataclass(frozen=True)
class ExpectedError:
    r"""The share of wrong labels to expect among the unlabelled nodes.

    Args:
        value (float): The expected error, between 0 and 1.
        low (float): The lower end of the interval that should hold the truth with a probability of 90 %.
        high (float): The upper end.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f} %)"


@dataclass(frozen=True)
class Judgement:
    r"""What labels that were left out say of an answer.

    Args:
        expected (ExpectedError): How many of its labels are wrong.
        support (torch.Tensor, optional): Soft labels of a plain diffusion, of shape :obj:`[num_nodes, num_classes]`: a
            node whose class they do not share is less sure. (default: :obj:`None`: the scores are logarithms of
            probabilities as they are)
        trust (object, optional): How far they trust each of several opinions that were pooled.
    """

    expected: ExpectedError
    support: OptTensor = None
    trust: Any = None
