from __future__ import annotations

import numpy as np
import pytest
import torch

from tg_crepe import _optional
from tg_crepe.solvers.trace import Trace
from tg_crepe.training.metrics import reliability_curve
from tg_crepe.viz import (
    GREY,
    MARKERS,
    PALETTE,
    plot_certainty,
    plot_class_balance,
    plot_confusion,
    plot_energy,
    plot_epochs,
    plot_graph,
    plot_points,
    plot_reliability,
)

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
    pairs = {(PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)]) for i in range(88)}
    assert len(pairs) == 88
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


def test_certainty_without_truth_is_one_kind():
    ax = plot_certainty(np.array([0.05, 0.95, 0.96]))
    (bars,) = ax.containers
    np.testing.assert_allclose([bar.get_height() for bar in bars], [100 / 3] + [0] * 8 + [200 / 3])
    assert legend_of(ax) == ["pseudo-labels (3)"]


def test_graph_has_each_edge_once_the_images_and_the_nodes(points):
    x, label, mask = points
    edges = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 1, 3, 4]])
    weight = torch.tensor([1.0, 1.0, 0.5, 0.5, 9.0, 0.25])
    images = np.zeros((2, 1, 8, 8), np.uint8)
    ax = plot_graph(x, edges, label, weight, mask, images=images, image_node=[0, 3])
    (lines,) = [artist for artist in ax.collections if hasattr(artist, "get_segments")]
    ends = {tuple(map(tuple, segment)) for segment in lines.get_segments()}
    assert ends == {(tuple(x[i].tolist()), tuple(x[j].tolist())) for i, j in ((0, 1), (1, 2), (3, 4))}
    alpha = dict(zip([tuple(map(tuple, s)) for s in lines.get_segments()], lines.get_colors()[:, 3], strict=True))
    by_weight = [alpha[(tuple(x[i].tolist()), tuple(x[j].tolist()))] for i, j in ((3, 4), (1, 2), (0, 1))]
    assert by_weight == sorted(by_weight)
    assert len(ax.artists) == 2
    frames = [box.patch.get_linewidth() for box in ax.artists]
    assert frames[0] > frames[1]  # node 0 is labelled, node 3 is not
    assert len(plot_graph(x, edges[:, :0], label).collections) == len(plot_points(x, label).collections)


def test_of_very_many_edges_the_heaviest_are_drawn():
    generator = torch.Generator().manual_seed(0)
    x, here = torch.rand(200, 2, generator=generator), torch.combinations(torch.arange(200)).T
    weight = torch.rand(here.size(1), generator=generator)
    ax = plot_graph(x, here, torch.zeros(200), weight)
    (lines,) = [artist for artist in ax.collections if hasattr(artist, "get_segments")]
    drawn = {tuple(segment.reshape(-1).tolist()) for segment in lines.get_segments()}
    heaviest = here[:, weight.argsort(descending=True)[:5000]].T
    assert drawn == {tuple(x[pair].double().reshape(-1).tolist()) for pair in heaviest}


def test_errors_are_drawn_where_they_were_measured():
    rows = [
        {"epoch": 1, "error": 0.5, "pseudo_error": None},
        {"epoch": 2, "error": 0.25, "pseudo_error": 0.125},
    ]
    network, energy = plot_epochs(rows).lines
    assert (list(network.get_xdata()), list(network.get_ydata())) == ([1, 2], [50, 25])
    assert (list(energy.get_xdata()), list(energy.get_ydata())) == ([2], [12.5])
    assert network.get_linestyle() != energy.get_linestyle()
    assert len(plot_epochs(rows[:1]).lines) == 1
    with pytest.raises(ValueError, match="'metrics' must hold 'error' or 'pseudo_error' in some row, got none"):
        plot_epochs([{"epoch": 1}])


def test_reliability_has_the_diagonal_and_the_calibration_error():
    prob, truth = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), torch.tensor([0, 1, 1])
    ax = plot_reliability({"before": reliability_curve(prob, truth), "after": reliability_curve(prob, truth)})
    diagonal, before, after = ax.lines
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata())
    np.testing.assert_allclose(sorted(before.get_xdata()), [0.6, 0.8, 0.9], rtol=1e-6)
    np.testing.assert_array_equal(before.get_xdata(), after.get_xdata())
    bins = [part for part in ax.collections if len(part.get_offsets())]
    assert len({str(part.get_paths()[0].vertices.tolist()) for part in bins}) == 2  # a shape of its own for each
    expected = 100 * (0.1 + 0.6 + 0.2) / 3
    assert legend_of(ax) == [f"before, ECE {expected:.1f} %", f"after, ECE {expected:.1f} %"]


def test_a_bin_of_many_predictions_has_a_large_marker():
    prob = torch.tensor([[0.95, 0.05]] * 9 + [[0.55, 0.45]])
    ax = plot_reliability({"all": reliability_curve(prob, torch.zeros(10, dtype=torch.long))})
    bins = ax.collections[0]
    small, large = bins.get_sizes()[np.argsort(np.asarray(bins.get_offsets())[:, 0])]
    assert large > 3 * small


def test_confusion_counts_known_pairs_in_rows_of_true_classes():
    ax = plot_confusion([0, 0, 1, -1, 1], [0, 1, 1, 0, -1], ["a$b$", "x" * 30])
    np.testing.assert_allclose(ax.images[0].get_array(), [[0.5, 0.5], [0, 1]])
    assert sorted((text.get_position(), text.get_text()) for text in ax.texts) == [
        ((0, 0), "1"),
        ((1, 0), "1"),
        ((1, 1), "1"),
    ]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [r"a\$b\$", "x" * 17 + "…"]
    assert not plot_confusion(np.arange(40), np.arange(40), list(map(str, range(40)))).texts


def test_class_balance_is_in_shares_with_unequal_hatches():
    ax = plot_class_balance({"given": [1, 3], "pseudo": torch.tensor([10, 10])}, ["a", "b"])
    given, pseudo = ax.containers
    assert [bar.get_height() for bar in given] == [25, 75]
    assert [bar.get_height() for bar in pseudo] == [50, 50]
    assert given[0].get_hatch() != pseudo[0].get_hatch()
    assert legend_of(ax) == ["given (4)", "pseudo (20)"]
    with pytest.raises(ValueError, match=r"'counts\['given'\]' must be of shape \[3\]"):
        plot_class_balance({"given": [1, 3]}, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("edge_index", {"edge_index": torch.zeros(3, 2, dtype=torch.long)}),
        ("edge_weight", {"edge_weight": torch.ones(3)}),
        ("image_node", {"images": np.zeros((2, 1, 4, 4), np.uint8), "image_node": [1]}),
        ("images", {"images": np.zeros((2, 1, 4, 4), np.uint8)}),
    ],
)
def test_a_graph_that_does_not_fit_is_refused(points, name, options):
    x, label, _ = points
    with pytest.raises(ValueError, match=f"'{name}'"):
        plot_graph(**{"x": x, "edge_index": torch.zeros(2, 1, dtype=torch.long), "label": label, **options})
