from __future__ import annotations

from dataclasses import dataclass, fields, replace

from tg_crepe._checks import check_choice, check_count, check_positive
from tg_crepe.energy.normaliser import NORMALISERS
from tg_crepe.inference.rate import LARGEST_RATE
from tg_crepe.inference.volumes import PSEUDO_COUNT

#: The least value of every field that is a count.
_COUNTS = {
    **dict.fromkeys(("steps", "patience", "inner_iterations", "affinity_power"), 1),
    **dict.fromkeys(("max_steps", "reweight_rounds", "balancing_rounds", "lazy_steps"), 0),
}

#: Fields that may be zero: nothing is imagined or doubted then.
_NOT_NEGATIVE = ("pseudo_count", "volume_error", "volume_scatter", "affinity_floor")


@dataclass(frozen=True)
class Recipe:
    r"""Every constant of :class:`~tg_crepe.CrepePropagation`; ``docs/recipe.md`` has the measurements behind them.

    The first group is the scheme of the paper, the others are what surrounds it. :meth:`paper` is the scheme alone.

    .. code-block:: python

        from tg_crepe import CrepePropagation, Recipe

        CrepePropagation(Recipe(time=0.2, balancing_rounds=0))

    Args:
        normaliser (str): :math:`H`: :obj:`"degree_quantile"`, balanced at the class volumes (a symmetric median lets
            classes merge), or :obj:`"l1"`, :obj:`"l2"`, :obj:`"median"`, :obj:`"degree_median"`.
        eps (float): The margin :math:`\epsilon` at labelled nodes in units of the mean of :math:`|\mathbf{u}|`: a
            labelled node is as sure as an average one.
        time (float): The length of the flow in units of :math:`1/x` where labels are supported in full: longer flows
            run over their best labels where classes overlap.
        steps (int): The number of steps of that length; more hardly change an error.
        growth (float): The factor between the ends of two steps: the flow is quickest at its start.
        time_step (float, optional): A constant step :math:`\delta t` in units of the mean of :math:`|\mathbf{u}|`,
            taken until the flow converges, instead of a length; nothing is refined after such a flow.
        max_steps (int): The largest number of constant steps.
        patience (int): Constant steps end when no label has changed for this many of them.
        inner_iterations (int): Primal–dual iterations per step before it is tested; more hardly change an error
            (``benchmarks/results/core_inner.md``).

        rate_factor (float): What the screening rate :math:`x` is multiplied by.
        largest_rate (float): What :math:`x` never reaches: a diffusion goes at least about two steps far.

        start_factor (float): The rate of the start's diffusion, in units of :math:`x`.
        start_tol (float): The residual of its solver: the flow smooths what a loose solve leaves.
        reweight_rounds (int): How often edges are re-weighted by the soft labels of the start; 0 keeps the weights. A
            third round brings nothing.
        affinity_power (int): The exponent of the affinity of two soft labels: squared, edges across classes survive.
        affinity_floor (float): The least affinity, so that no edge vanishes.

        pseudo_count (float): Labels of every class that are imagined before any is seen, in the class volumes: few
            labels say little.
        volume_error (float): The relative variance of found volumes over the squared error of left-out labels.
        volume_scatter (float): What one label per class adds to it; more labels share it.
        binding_labels (float): Labels per class at which equal classes are not bound any more.
        balancing_rounds (int): Runs of the flow from labels within these bounds at most.
        lazy_steps (int): Steps of the lazy walk that make balanced labels soft again.

        pool_prior (float): How many labels it takes to trust what is near beside the flow.

        shrinkage (float): What the scores count beside the class volumes: what is found on a graph is less sure than it
            looks.
    """

    normaliser: str = "degree_quantile"
    eps: float = 1.0
    time: float = 0.4
    steps: int = 6
    growth: float = 1.5
    time_step: float | None = None
    max_steps: int = 100
    patience: int = 5
    inner_iterations: int = 10

    rate_factor: float = 1.0
    largest_rate: float = LARGEST_RATE

    start_factor: float = 1.0
    start_tol: float = 1e-4
    reweight_rounds: int = 2
    affinity_power: int = 4
    affinity_floor: float = 1e-3

    pseudo_count: float = PSEUDO_COUNT
    volume_error: float = 0.5
    volume_scatter: float = 2.0
    binding_labels: float = 50
    balancing_rounds: int = 2
    lazy_steps: int = 10

    pool_prior: float = 30.0

    shrinkage: float = 0.75

    def __post_init__(self) -> None:
        check_choice("normaliser", self.normaliser, NORMALISERS)
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if name in _COUNTS:
                check_count(name, value, low=_COUNTS[name])
            elif name in _NOT_NEGATIVE and value == 0:
                continue
            elif isinstance(field.default, float | int) and not isinstance(field.default, bool):
                check_positive(name, value)
        if self.growth <= 1:
            raise ValueError(f"'growth' must be > 1, got {self.growth}")
        if self.time_step is not None:
            check_positive("time_step", self.time_step)

    @property
    def has_constant_steps(self) -> bool:
        """Whether the flow takes constant steps until it converges, as in the paper, instead of having a length."""
        return self.time_step is not None

    @classmethod
    def paper(cls, **changes: object) -> Recipe:
        r"""The paper's scheme: one flow of constant steps, without re-weighting and without refinements.

        The paper gives neither :math:`H`, :math:`\epsilon`, :math:`\delta t` nor :math:`\mathbf{u}_0`. Here
        :math:`H` is the :math:`\ell_1` norm, :math:`\epsilon` a hundredth and :math:`\delta t` once the mean of
        :math:`|\mathbf{u}|`, and :math:`\mathbf{u}_0` the diffusion with equal class masses.

        Args:
            **changes: Fields that differ from that.
        """
        scheme = cls(
            normaliser="l1",
            eps=0.01,
            time_step=1.0,
            reweight_rounds=0,
            balancing_rounds=0,
        )
        return replace(scheme, **changes)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        changed = [f for f in fields(self) if getattr(self, f.name) != f.default]
        return f"Recipe({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in changed)})"
