import math

import numpy as np
import pytest
import torch

from tg_crepe import _threads
from tg_crepe.graph import reductions
from tg_crepe.graph.reductions import column_dots


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(reductions, "_SLICE", 50)
    monkeypatch.setattr(_threads, "_NUMBERS_AT_A_TIME", 64)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (101, 3), (40, 200), (3, 700)])
def test_sums_are_those_of_numpy_in_double_precision_and_change_nothing(shape, dtype, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(reductions, "_compiles", lambda *tensors: False)
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    mass = torch.rand(shape[0], generator=generator).to(dtype)
    before = [x.clone() for x in (a, b, mass)]
    x, y, m = (t.double().numpy() for t in (a, b, mass))
    for found, expected in (
        (reductions.inner(a, b), (x * y).sum()),
        (reductions.norm(a), np.sqrt((x * x).sum())),
        (reductions.squared_distance(a, b), ((x - y) ** 2).sum()),
        (reductions.absolute_sum(a), np.abs(x).sum()),
        (reductions.plain_sum(a), x.sum()),
        (reductions.plain_sum(mass), m.sum()),
        (reductions.weighted_sum(mass, a), m @ x),
        (reductions.weighted_sum(mass, a > 0), m @ (x > 0)),
        (reductions.column_dots(a, b), (x * y).sum(axis=0)),
    ):
        assert found.dtype == torch.float64
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)
    assert all(torch.equal(t, old) for t, old in zip((a, b, mass), before, strict=True))


def test_a_column_that_is_not_contiguous():
    a = torch.arange(300.0).view(100, 3)
    assert float(reductions.inner(a[:, 1:2], a[:, 1:2])) == float(a[:, 1].double().square().sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_have_the_same_bits_with_one_thread_and_with_two(dtype, monkeypatch):
    monkeypatch.setattr(reductions, "_SLICE", (1 << 15) - 1)
    monkeypatch.setattr(_threads, "_NUMBERS_AT_A_TIME", 1 << 15)
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(90_000, 3, generator=generator).to(dtype) for _ in range(2))
    mass = torch.rand(90_000, generator=generator).to(dtype)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            sums = [reductions.inner(a, b), reductions.squared_distance(a, b), reductions.absolute_sum(a)]
            sums += [reductions.plain_sum(a), reductions.plain_sum(mass)]
            found.append(torch.cat([torch.stack(sums), reductions.weighted_sum(mass, a)]))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(0, 3), (5, 1), (1003, 1), (1000, 2), (999, 7), (801, 150)])
def test_dots_of_columns_are_those_of_exact_arithmetic(shape, dtype):
    generator = torch.Generator().manual_seed(shape[0])
    a, b = (torch.randn(shape, generator=generator, dtype=dtype) for _ in range(2))
    expected = [math.fsum((p.double() * q.double()).tolist()) for p, q in zip(a.t(), b.t(), strict=True)]
    torch.testing.assert_close(column_dots(a, b), torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-10)


def test_dots_of_columns_do_not_depend_on_the_threads():
    a = torch.randn(200_000, 3, generator=torch.Generator().manual_seed(0))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(column_dots(a, a))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


def test_tensors_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"must have one shape to be summed, got \[\(4, 1\), \(4, 3\)\]"):
        reductions.inner(torch.ones(4, 1), torch.ones(4, 3))
