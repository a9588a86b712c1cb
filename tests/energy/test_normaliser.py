import numpy as np
import pytest
import torch
from helpers import random_graph
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from tg_crepe.energy import NORMALISERS, along_degree, get_normaliser
from tg_crepe.energy.normaliser import _selected_quantile, _sorted_quantile, _weighted_quantile

VOLUME = torch.tensor([0.15, 0.5, 0.8], dtype=torch.float64)


def make(name: str):
    return get_normaliser(name, VOLUME, num_classes=3)


def functions(seed: int, ties: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Three class functions on a random graph, with many equal values of u and of u/d if asked for."""
    graph = random_graph(seed, num_nodes=11)
    rng = np.random.default_rng(seed)
    u = rng.integers(-1, 2, (11, 3)).astype(float) if ties else rng.standard_normal((11, 3))
    u = torch.from_numpy(u)
    if ties and seed % 2:
        u = u * graph.degree.unsqueeze(-1)
    return u, graph.degree


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", NORMALISERS)
@given(seed=st.integers(0, 10_000))
def test_subgradient_supports_the_norm_everywhere(name, ties, seed):
    """H(u) = ⟨q, u⟩ and H(u') ≥ ⟨q, u'⟩: what the propositions use of q, and all that they use."""
    u, degree = functions(seed, ties)
    value, q = make(name)(u, degree)
    torch.testing.assert_close((q * u).sum(dim=0), value, atol=1e-9, rtol=1e-9)
    generator = torch.Generator().manual_seed(seed)
    for scale in (0.01, 1.0, 100.0):
        other = u + scale * torch.randn(u.shape, generator=generator, dtype=torch.float64)
        assert bool((make(name)(other, degree)[0] >= (q * other).sum(dim=0) - 1e-9 * scale).all())


@pytest.mark.parametrize("name", NORMALISERS)
@given(seed=st.integers(0, 10_000), factor=st.floats(0.001, 1000))
def test_value_is_positively_homogeneous(name, seed, factor):
    u, degree = functions(seed, ties=False)
    torch.testing.assert_close(make(name)(factor * u, degree)[0], factor * make(name)(u, degree)[0])


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    ("name", "mass"), [("median", "ones"), ("degree_median", "degree"), ("degree_quantile", "degree")]
)
@given(seed=st.integers(0, 10_000))
def test_quantile_norms_minimise_over_the_constant(name, mass, ties, seed):
    """The value equals the least asymmetric deviation, found by a linear program over c."""
    u, degree = functions(seed, ties)
    value, q = make(name)(u, degree)
    m = (torch.ones_like(degree) if mass == "ones" else degree).numpy()
    for column in range(3):
        pi = float(VOLUME[column]) if name == "degree_quantile" else 0.5
        n = m.size
        # min Σ 2(1−π) a_i + 2π b_i  s.t.  u_i − c m_i = a_i − b_i,  a, b ≥ 0
        cost = np.concatenate([np.full(n, 2 * (1 - pi)), np.full(n, 2 * pi), [0.0]])
        equal = np.hstack([np.eye(n), -np.eye(n), m[:, None]])
        bounds = [(0, None)] * (2 * n) + [(None, None)]
        best = linprog(cost, A_eq=equal, b_eq=u[:, column].numpy(), bounds=bounds).fun
        assert float(value[column]) == pytest.approx(best, abs=1e-8)
        assert float((q[:, column].numpy() * m).sum()) == pytest.approx(0, abs=1e-9)
        assert float(q[:, column].min()) >= -2 * pi - 1e-12
        assert float(q[:, column].max()) <= 2 * (1 - pi) + 1e-12


def test_degree_median_is_the_symmetric_quantile_and_blind_to_the_degree():
    u, degree = functions(5, ties=False)
    half = torch.full((3,), 0.5)
    median, quantile = get_normaliser("degree_median"), get_normaliser("degree_quantile", half)
    for one, other in zip(median(u, degree), quantile(u, degree), strict=True):
        torch.testing.assert_close(one, other)
    shifted = u + 3 * degree.unsqueeze(-1)
    torch.testing.assert_close(get_normaliser("degree_median")(shifted, degree)[0], make("degree_median")(u, degree)[0])


def test_indicator_gives_the_cheeger_balance():
    graph = random_graph(7)
    inside = torch.arange(graph.num_nodes) < 4
    value, _ = get_normaliser("degree_median")((graph.degree * inside).unsqueeze(-1), graph.degree)
    volume = graph.degree[inside].sum()
    assert float(value) == pytest.approx(float(torch.minimum(volume, graph.degree.sum() - volume)))


@pytest.mark.parametrize("name", NORMALISERS)
def test_zero_function_has_zero_norm_and_finite_subgradient(name):
    value, q = make(name)(torch.zeros(11, 3, dtype=torch.float64), random_graph(0, 11).degree)
    assert value.tolist() == [0, 0, 0]
    assert bool(torch.isfinite(q).all())


def test_part_along_the_degree_is_the_orthogonal_projection():
    u, degree = functions(1, ties=False)
    part = along_degree(u, degree)
    torch.testing.assert_close(degree @ (u - part), torch.zeros(3, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(part / degree.unsqueeze(-1), (part / degree.unsqueeze(-1))[:1].expand_as(part))


def test_default_volume_is_one_over_the_number_of_classes():
    u, degree = functions(2, ties=False)
    expected = get_normaliser("degree_quantile", torch.full((3,), 1 / 3))(u, degree)[0]
    torch.testing.assert_close(get_normaliser("degree_quantile", num_classes=3)(u, degree)[0], expected)


def test_bad_names_and_volumes_are_refused():
    with pytest.raises(ValueError, match="'normaliser' must be one of 'l1', 'l2', 'median'"):
        get_normaliser("linf")
    with pytest.raises(ValueError, match="'volume' must lie in"):
        get_normaliser("degree_quantile", torch.tensor([0.0, 0.5]))


@pytest.mark.parametrize("kind", ["smooth", "ties", "sorted", "few large masses"])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.999])
def test_a_selected_quantile_is_the_sorted_one(kind, level):
    rng = np.random.default_rng(7)
    v, mass = rng.standard_normal((20_011, 3)), rng.uniform(0.1, 2, 20_011)
    if kind == "ties":
        v = np.round(v)
    elif kind == "sorted":
        v = np.sort(v, axis=0)
    elif kind == "few large masses":
        mass[rng.choice(mass.size, 5)] = 1e5
    levels = torch.full((3,), level, dtype=torch.float64)
    found = _weighted_quantile(torch.from_numpy(v), torch.from_numpy(mass), levels)
    expected = _sorted_quantile(torch.from_numpy(v).t().contiguous(), torch.from_numpy(mass), levels)
    assert found.view(-1).tolist() == expected.view(-1).tolist()


@given(
    st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=40),
    st.floats(0.001, 1.0),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_bits_select_what_sorting_does_over_the_whole_range_of_numbers(values, level, dtype):
    rows = torch.tensor([values], dtype=dtype)
    mass = torch.arange(1, rows.size(1) + 1, dtype=dtype)  # sums are exact in any order
    levels = torch.tensor([level], dtype=torch.float64)
    assert _selected_quantile(rows, mass, levels).item() == _sorted_quantile(rows, mass, levels).item()
