from __future__ import annotations

import numpy as np
import pytest
import torch

from tg_crepe import _optional
from tg_crepe.flow.trace import Trace
from tg_crepe.viz import GREY, MARKERS, PALETTE, plot_certainty, plot_energy, plot_points

pytest.importorskip("matplotlib", reason="the figures need the extra 'plot'")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure


def legend_of(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def trace_of(ratio: list[list[float]]) -> Trace:
    trace = Trace()
    for step, row in enumerate(ratio):
        value = torch.tensor(row)
        trace.append(step=step, ratio=value, sum_of_ratios=value.sum(), energy=2 * value)
    return trace


@pytest.fixture
def points() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = torch.arange(14.0).view(7, 2)
    return x, torch.tensor([0, 0, 1, 1, -1, -1, -1]), torch.tensor([True, False, True, False, False, False, False])


def test_points_have_the_colour_of_their_class_and_grey_without_one(points):
    x, label, mask = points
    ax = plot_points(x, label, mask)
    shown = {}
    for artist in ax.collections:
        for position in np.asarray(artist.get_offsets()):
            shown[tuple(position)] = tuple(artist.get_facecolors()[0][:3])
    expected = {-1: to_rgb(GREY), 0: to_rgb(PALETTE[0]), 1: to_rgb(PALETTE[1])}
    assert shown == {tuple(p): expected[int(c)] for p, c in zip(x.numpy(), label, strict=True)}
    assert legend_of(ax) == ["no label", "class 0", "class 1", "labelled"]


def test_labelled_points_are_large_and_ringed_in_black(points):
    x, label, mask = points
    large = [artist for artist in plot_points(x, label, mask).collections if artist.get_sizes()[0] > 100]
    positions = np.concatenate([np.asarray(artist.get_offsets()) for artist in large])
    assert sorted(map(tuple, positions)) == sorted(map(tuple, x[mask].numpy()))
    rings = [artist for artist in large if len(artist.get_offsets())]
    assert all(tuple(artist.get_edgecolors()[0]) == (0, 0, 0, 1) and artist.get_linewidths()[0] > 1 for artist in rings)


def test_indices_and_arrays_draw_what_masks_and_tensors_draw(points):
    x, label, mask = points
    ours = plot_points(x, label, mask)
    other = plot_points(x.numpy(), label.tolist(), mask.nonzero().view(-1))
    for left, right in zip(ours.collections, other.collections, strict=True):
        assert np.array_equal(np.asarray(left.get_offsets()), np.asarray(right.get_offsets()))
    assert legend_of(plot_points(x, label)) == ["no label", "class 0", "class 1"]


def test_uncertain_points_are_paler(points):
    x, label, _ = points
    certainty = torch.linspace(0, 1, 7)
    alpha = np.concatenate(
        [c.get_alpha() for c in plot_points(x, label, None, certainty).collections if c.get_alpha() is not None]
    )
    order = np.concatenate([np.flatnonzero(label == value) for value in (-1, 0, 1)])
    assert (np.diff(alpha[np.argsort(order)]) > 0).all()
    assert alpha.min() > 0
    assert alpha.max() == 1


def test_no_two_of_many_classes_share_colour_and_marker():
    pairs = {(PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)]) for i in range(56)}
    assert len(pairs) == 56
    ax = plot_points(torch.rand(20, 2), torch.arange(20))
    assert len(legend_of(ax)) == 20


def test_energy_and_ratio_are_drawn_against_the_step():
    trace = trace_of([[0.3, 0.2], [0.2, 0.1], [0.1, 0.1]])
    for given in (trace, trace.to_dict()):
        ax = plot_energy(given)
        energy, ratio = ax.lines
        assert energy.get_xdata().tolist() == [0, 1, 2]
        np.testing.assert_allclose(energy.get_ydata(), [1.0, 0.6, 0.4], rtol=1e-6)
        np.testing.assert_allclose(ratio.get_ydata(), [0.5, 0.3, 0.2], rtol=1e-6)
        assert energy.get_marker() != ratio.get_marker()
        assert energy.get_linestyle() != ratio.get_linestyle()
        assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_yscale()) == ("step", "sum over classes", "log")
        assert legend_of(ax) == ["energy $J$", "ratio $J/H$"]


def test_a_ratio_of_zero_is_drawn_on_a_linear_axis():
    assert plot_energy(trace_of([[0.3], [0.0]])).get_yscale() == "linear"


def test_certainty_of_right_and_wrong_is_in_shares_with_unequal_hatches():
    certainty = torch.tensor([0.05, 0.95, 0.96, 1.0, 0.0, 0.15])
    correct = torch.tensor([False, True, True, True, False, False])
    ax = plot_certainty(certainty, correct)
    right, wrong = ax.containers
    assert [bar.get_height() for bar in right] == [0] * 9 + [100]
    np.testing.assert_allclose([bar.get_height() for bar in wrong], [200 / 3, 100 / 3] + [0] * 8)
    hatches = [{bar.get_hatch() for bar in group} for group in (right, wrong)]
    assert len(hatches[0]) == len(hatches[1]) == 1
    assert hatches[0] != hatches[1]
    assert legend_of(ax) == ["right (3)", "wrong (3)"]
    assert ax.get_xlim() == (0, 1)


def test_certainty_without_wrong_labels_is_drawn():
    ax = plot_certainty(np.array([0.5, 0.6]), np.array([True, True]))
    assert legend_of(ax) == ["right (2)", "wrong (0)"]


def test_given_axes_are_used_and_pyplot_holds_no_figure(points, tmp_path):
    x, label, mask = points
    before = pyplot.get_fignums()
    figure = Figure()
    for ax, draw in zip(
        figure.subplots(1, 3),
        (
            lambda ax: plot_points(x, label, mask, ax=ax),
            lambda ax: plot_energy(trace_of([[0.3], [0.2]]), ax),
            lambda ax: plot_certainty([0.1, 0.9], [False, True], ax),
        ),
        strict=True,
    ):
        assert draw(ax) is ax
    figure.savefig(tmp_path / "figure.png")
    plot_points(x, label).figure.savefig(tmp_path / "points.png")
    assert pyplot.get_fignums() == before


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("x", (torch.zeros(3, 3), torch.zeros(3))),
        ("label", (torch.zeros(3, 2), torch.zeros(4))),
        ("mask", (torch.zeros(3, 2), torch.zeros(3), torch.ones(2, dtype=torch.bool))),
        ("certainty", (torch.zeros(3, 2), torch.zeros(3), None, torch.zeros(2))),
    ],
)
def test_wrong_shapes_are_named(name, arguments):
    with pytest.raises(ValueError, match=f"'{name}' must be of shape"):
        plot_points(*arguments)


def test_a_trace_without_energy_and_unequal_lengths_are_refused():
    trace = Trace()
    trace.append(step=3, residual=0.1)
    with pytest.raises(ValueError, match=r"'trace' must hold the columns 'step', 'sum_of_ratios', 'energy', got"):
        plot_energy(trace)
    with pytest.raises(ValueError, match="'correct' must be of shape"):
        plot_certainty([0.1, 0.2], [True])


def test_missing_matplotlib_names_the_extra(monkeypatch, points):
    monkeypatch.setattr(_optional.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"tg-crepe\[plot\]"):
        plot_points(*points)
