"""CREPE with one part of its rate left out, each a subclass; a constant of the recipe switches the other parts off."""

from __future__ import annotations

import importlib
from unittest import mock

import torch
from torch import Tensor

from tg_crepe import CrepePropagation
from tg_crepe.graph.communicator import Communicator
from tg_crepe.inference.task import LabelTask


class PlainClock(CrepePropagation):
    """CREPE whose clock is the L-th eigenvalue as labels excite it: every mode counts as one."""

    def rate(self, task: LabelTask) -> float:
        """The rate of the other eigenvalue."""
        # The counts are made deep inside the search for the eigenvalue, which also ends by them: with the function
        # replaced for a moment it is the same search, and the package needs no option that nobody else would use.
        search = importlib.import_module("tg_crepe.graph.cluster_eigenvalue")
        with mock.patch.object(search, "_taking_part", _in_full):
            return super().rate(task)


def _in_full(mode: Tensor, num_classes: int, volume: float, communicator: Communicator) -> Tensor:
    """What every mode counts: one."""
    return torch.ones_like(mode[0])


class RateNotRaised(CrepePropagation):
    """CREPE whose rate is the formula's, whatever the labels that were left out say of it."""

    def raised(self, weight: Tensor) -> float:
        """One."""
        return 1.0
