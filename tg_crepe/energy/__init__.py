from tg_crepe.energy.constraint import Constraint, Coupling, IndependentLabels, KnownValues, LabelCoupling
from tg_crepe.energy.dirichlet import dirichlet_energy, ratio, total_variation
from tg_crepe.energy.gradient import GraphGradient
from tg_crepe.energy.normaliser import NORMALISERS, Normaliser, along_degree, get_normaliser

__all__ = [
    "NORMALISERS",
    "Constraint",
    "Coupling",
    "GraphGradient",
    "IndependentLabels",
    "KnownValues",
    "LabelCoupling",
    "Normaliser",
    "along_degree",
    "dirichlet_energy",
    "get_normaliser",
    "ratio",
    "total_variation",
]
