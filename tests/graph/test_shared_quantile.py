import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.graph.communicator import ALONE
from tg_crepe.graph.reductions import shared_quantile


def sorted_quantile(values, mass, wanted):
    order = np.argsort(values, kind="stable")
    enough = np.flatnonzero(np.cumsum(mass[order].astype(np.float64)) >= wanted)
    return values[order][enough[0]] if enough.size else values.max()


@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 200),
    level=st.floats(0, 1),
    exponent=st.integers(-30, 30),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_it_is_the_quantile_of_the_sorted_numbers_to_the_bit(seed, size, level, exponent, dtype):
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal((size, 3)) * 10.0**exponent).astype(dtype)
    values[:, 1] = np.round(rng.standard_normal(size))  # many ties, zeros of either sign
    mass = rng.integers(1, 9, size).astype(dtype)  # whole numbers, so that sums do not depend on their order
    wanted = np.full(3, level * mass.sum(dtype=np.float64))
    columns = torch.from_numpy(values).unbind(1)
    found = shared_quantile(columns, [torch.from_numpy(mass)] * 3, torch.from_numpy(wanted), ALONE)
    expected = [sorted_quantile(values[:, c], mass, wanted[c]) for c in range(3)]
    assert found.dtype == columns[0].dtype
    np.testing.assert_array_equal(found.numpy(), np.array(expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_infinities_are_in_order(dtype):
    values = torch.tensor([torch.inf, -torch.inf, 0.0, 1.0, -1.0], dtype=dtype)
    wanted = torch.arange(1, 6, dtype=torch.float64)
    found = shared_quantile([values] * 5, [torch.ones(5)] * 5, wanted, ALONE)
    assert found.tolist() == values.sort()[0].tolist()
