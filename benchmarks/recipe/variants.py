"""The rows of ``recipe``: CREPE with another constant, another option or another stage, and its rivals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from recipe.cases import Problem
from recipe.stages import (
    GROWTH,
    STEPS,
    AlongTheFlow,
    EvenSources,
    OtherExponent,
    RateWithIslands,
    StartByLGC,
    StartByPoisson,
    StartFromLabels,
    WithoutCoupling,
    WithoutRatio,
)
from shared.fingerprint import fingerprint
from shared.without_flow import WithoutFlow, without_flow

from tg_crepe import LGC, CrepePropagation, EnergyModel, Harmonic, Poisson, PropagationResult, Recipe


@dataclass(frozen=True)
class Variant:
    """A model and its arguments.

    Args:
        make (callable): Makes the model. (default: :class:`CrepePropagation`)
        options (dict): Its arguments; ``class_volume="truth"`` stands for the true shares of the classes.
    """

    make: Callable[..., EnergyModel] = CrepePropagation
    options: dict[str, Any] = field(default_factory=dict)

    def predict(self, problem: Problem) -> tuple[EnergyModel, PropagationResult]:
        """The model and its answer."""
        options = dict(self.options)
        if options.get("class_volume") == "truth":
            options["class_volume"] = problem.truth[problem.truth >= 0].bincount().double()
        model = self.make(**options)
        return model, model.propagate(problem.y, problem.edge_index, problem.mask, problem.edge_weight)

    @property
    def settings(self) -> str:
        """All that the answer depends on but the problem."""
        code = fingerprint("tg_crepe.models.crepe.model") + fingerprint(self.make.__module__)
        return f"{self.make.__qualname__} {self.options} {code}"


def _recipe(make: Callable[..., EnergyModel] = CrepePropagation, **changes: Any) -> Variant:
    """A model with other constants."""
    return Variant(make, {"recipe": Recipe(**changes)})


def _numbered(text: str, values: tuple[float | str, ...], name: str) -> dict[str, Variant]:
    """One constant at several values."""
    return {text.format(value): _recipe(**{name: value}) for value in values}


#: Every row by its name; "CREPE" is the whole recipe.
VARIANTS: dict[str, Variant] = {
    "CREPE": Variant(),
    "no flow": Variant(without_flow),
    "no flow, balanced": Variant(WithoutFlow),
    "start alone": _recipe(WithoutFlow, reweight_rounds=0, balancing_rounds=0, restarts=False),
    "no ratio term": Variant(WithoutRatio),
    "no coupling": Variant(WithoutCoupling),
    "no re-weighting": _recipe(reweight_rounds=0),
    "no class prior": Variant(options={"class_volume": "uniform"}),
    "counts not believed": Variant(options={"sampling": "chosen"}),
    "no balancing": _recipe(balancing_rounds=0),
    "no restarts of two classes": _recipe(restarts=False),
    "the paper's scheme": Variant(CrepePropagation.paper),
    "LGC, α = 0.99": Variant(LGC),
    "harmonic": Variant(Harmonic),
    "Poisson": Variant(Poisson),
    "along the flow": Variant(AlongTheFlow),
    "labels may be outvoted": Variant(options={"outvote": True}),
    "start at x/4": _recipe(start_factor=0.25),
    "start at 4x": _recipe(start_factor=4.0),
    "start LGC 0.99": Variant(StartByLGC),
    "start Poisson": Variant(StartByPoisson),
    "start labels": Variant(StartFromLabels),
    "sources d^-½": Variant(EvenSources),
    "λ_L with islands": Variant(RateWithIslands),
    "true volumes": Variant(options={"class_volume": "truth"}),
    "exact volumes": Variant(options={"bind_volume": "labels"}),
    **{f"exponent {exponent:g}": Variant(OtherExponent, {"exponent": exponent}) for exponent in (0.0, 0.25, 1.0)},
    **{f"steps {steps}": _recipe(steps=steps, growth=GROWTH ** (STEPS / steps)) for steps in (3, 12, 24)},
    **_numbered("H = {}", ("l1", "l2", "median", "degree_median"), "normaliser"),
    **_numbered("ε = {:g}", (0.01, 0.1, 0.3, 3.0, 10.0), "eps"),
    **_numbered("factor {:g}", (0.25, 0.5, 0.7, 1.5, 2.5), "rate_factor"),
    **_numbered("largest rate {:g}", (0.1, 0.2, 0.8, 1.6), "largest_rate"),
    **_numbered("κ = {:g}", (0.1, 0.2, 0.8, 1.0, 1.6, 2.5), "time"),
    **_numbered("pseudo-count {:g}", (0, 1, 20), "pseudo_count"),
    **_numbered("rounds {:g}", (1, 3, 4), "reweight_rounds"),
    **_numbered("power {:g}", (1, 2, 8), "affinity_power"),
    **_numbered("inner {:g}", (5, 20, 40), "inner_iterations"),
    **_numbered("balancing {:g}", (1, 3, 6), "balancing_rounds"),
    **_numbered("volume error {:g}", (0, 0.1, 2), "volume_error"),
    **_numbered("volume scatter {:g}", (0, 0.5, 8), "volume_scatter"),
    **_numbered("binding p = {:g}", (10, 25, 100, 200), "binding_labels"),
    **_numbered("shrinkage {:g}", (0.5, 1.0, 1.5), "shrinkage"),
    **_numbered("lazy steps {:g}", (1, 3, 30), "lazy_steps"),
}
