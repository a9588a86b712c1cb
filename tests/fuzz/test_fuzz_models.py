"""Any graph and any labels: every model is right or raises one clear error, and changes nothing that it was given."""

import warnings

import torch
from fuzz_strategies import fuzzed, propagations
from hypothesis import strategies as st

from tg_crepe import get_energy_model
from tg_crepe.models.registry import ENERGY_MODELS


def check(name, problem):
    y, edge_index, weight, num_nodes = problem
    given = [None if value is None else value.clone() for value in (y, edge_index, weight)]
    model = get_energy_model(name)

    def solve():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.propagate(y, edge_index, None, weight, num_nodes=num_nodes)

    try:
        result = solve()
    except ValueError as error:
        assert "\n" not in str(error)
        assert str(error).startswith("'")  # it names the argument
        return
    for now, before in zip((y, edge_index, weight), given, strict=True):
        assert now is before or torch.equal(now, before)
    for field in ("u", "prob", "certainty"):
        assert bool(torch.isfinite(getattr(result, field)).all()), field
    assert float(result.prob.min()) >= 0
    assert float(result.prob.max()) <= 1 + 1e-6
    assert float(result.certainty.min()) >= 0
    assert float(result.certainty.max()) <= 1 + 1e-6
    assert result.status in ("converged", "step_limit", "stalled")
    if y.dim() == 1:
        known = y >= 0
        torch.testing.assert_close(result.prob.sum(dim=1), torch.ones_like(result.prob[:, 0]), atol=1e-5, rtol=0)
        assert set(result.label.tolist()) <= {-1, *y[known].tolist()}
        assert bool((result.label[~result.reached] == -1).all())
        if not model.outvote:
            assert torch.equal(result.label[known], y[known])
    again = solve()
    assert torch.equal(again.label, result.label)
    assert torch.equal(again.prob, result.prob)


def claim(name, problem):
    check(name, problem)


test_models_quickly, test_models_at_length = fuzzed(
    66, name=st.sampled_from(sorted(ENERGY_MODELS)), problem=propagations()
)(claim)
