"""CREPE with its flow left out, as every table means it."""

from __future__ import annotations

from typing import Any

from tg_crepe import CrepePropagation, Recipe
from tg_crepe.inference.task import LabelTask
from tg_crepe.models.crepe.start import Start
from tg_crepe.solvers.ratio_flow import FlowResult
from tg_crepe.solvers.trace import Trace


class WithoutFlow(CrepePropagation):
    """CREPE whose flows end where they start."""

    def flow(self, task: LabelTask, start: Start, time_steps: Any) -> FlowResult:
        """The start, at unit norm."""
        trace = Trace()
        trace.append(step=0)
        return FlowResult(start.u / start.u.norm(), start.u.new_zeros(0), trace, "converged")


def without_flow(**options: Any) -> WithoutFlow:
    """What CREPE is before its flow: the re-weighted diffusion with the same rate, volumes and decision."""
    return WithoutFlow(Recipe(balancing_rounds=0), **options)
