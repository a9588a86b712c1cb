"""Figures: one function each, axes in and axes out. In grey every line, bar and class still differs in form."""

from tg_crepe.viz._style import GREY, MARKERS, PALETTE
from tg_crepe.viz.certainty import plot_certainty
from tg_crepe.viz.classes import plot_class_balance, plot_confusion
from tg_crepe.viz.energy import plot_energy
from tg_crepe.viz.epochs import plot_epochs
from tg_crepe.viz.graph import plot_graph
from tg_crepe.viz.points import plot_points
from tg_crepe.viz.reliability import plot_reliability

__all__ = [
    "GREY",
    "MARKERS",
    "PALETTE",
    "plot_certainty",
    "plot_class_balance",
    "plot_confusion",
    "plot_energy",
    "plot_epochs",
    "plot_graph",
    "plot_points",
    "plot_reliability",
]
