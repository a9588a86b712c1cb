"""The benchmark of CREPE's parts: rows leave out what they say, the report's statistics, one run from end to end."""

import functools
import math
import os
import sys
import warnings

import pytest
import torch

pytest.importorskip("sklearn")

import parts
from shared import family_job, machine, part_job
from shared.families import DRAWS, Family, draw_labels
from shared.family_job import CREPE
from shared.grid import CellStore
from shared.part_job import PARTS
from shared.part_report import GROUPS, PartResults, draw_parts, family_table, part_table, summary
from shared.without_parts import PlainClock, RateNotRaised

from tg_crepe import CrepePropagation, GraphWarning, knn_graph


@pytest.fixture(autouse=True)
def _unreached_nodes_are_expected():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        yield


@functools.cache
def made_up(num_classes: int = 3) -> Family:
    """Clouds of thirty points that overlap."""
    x = torch.randn(30 * num_classes, 2, generator=torch.Generator().manual_seed(3))
    y = torch.arange(30 * num_classes) % num_classes
    x += 2.0 * torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[y]
    return Family("made up", y, *knn_graph(x, 6, metric="euclidean"))


@functools.cache
def with_islands() -> Family:
    """Two cliques of twelve nodes, and four of four that hang on them by weak edges and hold no label."""
    size = [12, 12, 4, 4, 4, 4]
    block = torch.repeat_interleave(torch.arange(6), torch.tensor(size))
    weight = (block.unsqueeze(0) == block.unsqueeze(1)).double().fill_diagonal_(0)
    first = [int((block == b).nonzero()[0]) for b in range(6)]
    links = [(0, 1, 0.5), *((b % 2, b, 0.01 * b) for b in range(2, 6))]
    for one, other, strength in links:
        weight[first[one], first[other]] = weight[first[other], first[one]] = strength
    edge_index = weight.nonzero().t().contiguous()
    return Family("with islands", block % 2, edge_index, weight[edge_index[0], edge_index[1]].float())


def run(model: CrepePropagation, family: Family, mask: torch.Tensor):
    hidden = torch.where(mask, family.y, -1)
    return model.propagate(hidden, family.edge_index, mask, family.edge_weight, family.num_classes)


def rate_of(kind: type[CrepePropagation], family: Family, mask: torch.Tensor) -> float:
    """What the stage ``rate`` gives on the way."""
    seen = []

    class Seen(kind):
        def rate(self, task):
            seen.append(super().rate(task))
            return seen[-1]

    run(Seen(), family, mask)
    return seen[0]


def eigenvalues(family: Family) -> torch.Tensor:
    """Those of I - S, by a dense solver."""
    number = family.y.numel()
    weight = torch.zeros(number, number, dtype=torch.float64)
    weight[family.edge_index[0], family.edge_index[1]] = family.edge_weight.double()
    weight = (weight + weight.t()) / 2
    root = weight.sum(dim=1).rsqrt()
    return torch.linalg.eigvalsh(torch.eye(number).double() - root.unsqueeze(1) * weight * root)


def test_plain_clock_is_the_eigenvalue_whatever_labels_take_part_in():
    family = with_islands()
    mask = torch.zeros_like(family.y, dtype=torch.bool)
    mask[[3, 4, 5, 15, 16, 17]] = True  # three of either large clique
    value = eigenvalues(family)
    # The slowest mode is that of an island, which the plain clock takes for the two classes.
    assert rate_of(PlainClock, family, mask) == pytest.approx(float(value[1]) * math.sqrt(3), rel=0.06)
    assert rate_of(CrepePropagation, family, mask) > 1.5 * float(value[1]) * math.sqrt(3)


def test_plain_clock_leaves_the_package_as_it_was():
    family = with_islands()
    mask = torch.zeros_like(family.y, dtype=torch.bool)
    mask[[3, 15]] = True
    before = rate_of(CrepePropagation, family, mask)
    assert rate_of(PlainClock, family, mask) != before
    assert rate_of(CrepePropagation, family, mask) == before


def test_rate_is_not_raised_where_labels_ask_for_it():
    weight = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    assert CrepePropagation().raised(weight) > 2
    assert RateNotRaised().raised(weight) == 1


def test_constants_that_leave_a_part_out():
    changed = {name: repr(method.model("1 per class").recipe) for name, method in PARTS.items()}
    assert changed == {
        CREPE: "Recipe()",
        "no flow": "Recipe(balancing_rounds=0)",
        "no pool": "Recipe(pool_prior=1000000000.0)",
        "plain clock": "Recipe()",
        "rate not raised": "Recipe()",
        "no re-weighting": "Recipe(reweight_rounds=0)",
        "no balancing": "Recipe(balancing_rounds=0)",
    }
    assert {method.model("20 chosen").sampling for method in PARTS.values()} == {"chosen"}


@functools.cache
def probabilities(part: str, num_classes: int, draw: str, seed: int = 102) -> torch.Tensor:
    family = made_up(num_classes)
    return run(PARTS[part].model(draw), family, draw_labels(family, draw, seed)).prob


@pytest.mark.parametrize("part", ["no flow", "no pool", "no re-weighting"])
def test_part_makes_a_difference(part):
    whole = probabilities(CREPE, 3, "5 per class")
    assert float((probabilities(part, 3, "5 per class") - whole).abs().max()) > 1e-3


def test_balancing_is_what_runs_again(monkeypatch):
    family, flows = made_up(), []
    mask = torch.zeros_like(family.y, dtype=torch.bool)
    mask[[0, 3, 1, 2]] = True
    plain = CrepePropagation.flow
    monkeypatch.setattr(CrepePropagation, "flow", lambda self, *args: flows.append(self) or plain(self, *args))
    # Volumes that the flow does not end with by itself have to be balanced.
    share = torch.tensor([0.6, 0.2, 0.2])
    for part in (CREPE, "no balancing"):
        flows.clear()
        run(PARTS[part].make(class_volume=share), family, mask)
        assert (len(flows) == 1) == (part == "no balancing")


def row(family: str, draw: str, method: str, error: float, seed: int = 100, **more):
    # 500 unlabelled nodes: half a node is 0.1 points.
    common = {"family": family, "draw": draw, "seed": seed, "method": method, "labelled": 9, "unlabelled": 500}
    return {**common, "error": error, "class_error": error, "ece": 2.0, "cpu_seconds": 0.5, **more}


def hand_made() -> PartResults:
    """Without the flow there are 2, 8 and 1 times as many errors, without the pool 1, ½ and 1 times."""
    return PartResults(
        [
            row("a", "1 per class", CREPE, 0.4),
            row("a", "1 per class", CREPE, 1.4, seed=101),
            row("a", "1 per class", "no flow", 2.9, ece=5.0),
            row("a", "1 per class", "no flow", 0.9, seed=101, ece=7.0),
            row("a", "1 per class", "no pool", 0.9),
            row("a", "1 per class", "no pool", 0.9, seed=101),
            row("a", "5 per class", CREPE, 0.9, cpu_seconds=1.0),
            row("a", "5 per class", "no flow", 7.9, cpu_seconds=0.1),
            row("a", "5 per class", "no pool", 0.4),
            row("b", "1 per class", CREPE, 0.0),
            row("b", "1 per class", "no flow", 0.0),
            row("b", "1 per class", "no pool", 0.0),
        ]
    )


def test_gain_is_of_mean_errors_with_half_a_node_on_both_sides():
    results = hand_made()
    assert results.parts == ["no flow", "no pool"]
    assert results.ratio(("a", "1 per class"), "no flow") == pytest.approx(2)
    assert results.ratio(("b", "1 per class"), "no flow") == pytest.approx(1)  # no error over no error
    assert results.gain("no flow") == pytest.approx(16 ** (1 / 3))
    assert results.gain("no flow", "a") == pytest.approx(4)
    assert results.gain("no flow", draws=["1 per class"]) == pytest.approx(2**0.5)
    assert results.gain("no pool", "a") == pytest.approx(0.5**0.5)
    assert math.isnan(results.gain("no flow", "b", ["5 per class"]))


def test_tables_are_those_of_the_hand_made_rows():
    results = hand_made()
    ends = "family that it helps most | family that it helps least | processor seconds | ECE in % |"
    assert part_table(results) == [
        f"| left out | all cells | 1–2 per class | 5–25 per class | {ends}",
        "|---" * 8 + "|",
        "| CREPE | – | – | – | – | – | 0.67 | 2.00 |",
        "| no flow | 2.520 | 1.414 | 8.000 | 4.00 (a) | 1.00 (b) | 0.37 | 3.33 |",
        "| no pool | 0.794 | 1.000 | 0.500 | 1.00 (b) | 0.71 (a) | 0.50 | 2.00 |",
    ]
    assert family_table(results)[2:] == ["| a | 4.00 | 0.71 |", "| b | 1.00 | 1.00 |"]
    text = summary(results, failed=2)
    for table in (part_table(results), family_table(results)):
        assert "\n".join(table) in text
    assert "2 families, 3 cells (family × draw of labels), seeds 100 to 101." in text
    assert "**2 cells failed and are missing.**" in text
    assert "failed" not in summary(results)
    for part in set(PARTS) - {CREPE}:
        assert f"\n- {part}: " in text


def test_every_draw_is_in_one_group():
    assert sorted(draw for draws in GROUPS.values() for draw in draws) == sorted(DRAWS)


def test_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    draw_parts(hand_made(), tmp_path / "parts.png")
    assert (tmp_path / "parts.png").read_bytes().startswith(b"\x89PNG")


def test_only_the_whole_table_is_written_unasked(tmp_path):
    assert parts.parse_arguments([]).out == machine.RESULTS
    assert parts.parse_arguments(["--seeds", "100", "103"]).out == machine.RESULTS
    for some in (["--seeds", "0", "3"], ["--families", "iris"], ["--draws", "1 per class"]):
        assert parts.parse_arguments(some).out is None
        assert parts.parse_arguments([*some, "--out", str(tmp_path)]).out == tmp_path


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--seeds", "3", "3"], "--seeds must be FIRST < END"),
        (["--workers", "0"], "--workers must be at least 1, got 0"),
        (["--families", "banana"], "--families must be of"),  # it took no part in the development, and keeps so
    ],
)
def test_bad_arguments_are_refused(arguments, match, capsys):
    with pytest.raises(SystemExit):
        parts.parse_arguments(arguments)
    assert match in capsys.readouterr().err


def test_command_reports_finished_cells_and_writes_where_it_is_told(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("TG_CREPE_CACHE", str(tmp_path / "cache"))
    found = made_up()
    monkeypatch.setattr(
        family_job, "load_family", lambda name: Family(name, found.y, found.edge_index, found.edge_weight)
    )
    out, draws = tmp_path / "out", ["5 per class", "100 chosen"]
    base = ["parts.py", "--seeds", "100", "101", "--families", "iris", "--draws", *draws]

    def command(*more: str) -> str:
        monkeypatch.setattr(sys, "argv", [*base, *more])
        with pytest.raises(SystemExit, match="0"):
            parts.main()
        return capsys.readouterr().out

    monkeypatch.setattr(sys, "argv", [*base, "--plan"])
    parts.main()
    assert "2 cells, 2 left" in capsys.readouterr().out
    assert "| no flow |" not in command("--report")
    # The cells are finished here and not by workers, which would not know of the made-up family.
    path, store = family_job.prepare_family("iris"), CellStore(tmp_path / "cache" / "families_cells")
    job = part_job.make_job(store.folder, (("iris", path),), torch.get_num_threads())
    cells = [part_job.make_cell(path, draw, 100) for draw in draws]
    rows, none = (job(cell) for cell in cells)
    assert none == []  # the draw leaves too little
    store.write(cells[0], rows)
    store.write(cells[1], none)
    mask = draw_labels(found, "5 per class", 100)
    assert [own["method"] for own in rows] == list(PARTS)
    label = run(PlainClock(), found, mask).label
    error = next(own["error"] for own in rows if own["method"] == "plain clock")
    assert error == pytest.approx(100 * float((label != found.y)[~mask].double().mean()))
    # The contest of the energies finds the rows that it has too.
    again = family_job.make_job((CREPE, "no flow"), store.folder, (("iris", path),), torch.get_num_threads())
    assert again(family_job.make_cell(path, "5 per class", 100, (CREPE, "no flow"))) == rows[:2]
    text = command()
    assert "2 cells, 0 left" in text
    assert "| no flow |" in text
    assert not out.exists()
    command("--report", "--out", str(out))
    assert sorted(os.listdir(out)) == ["parts.csv", "parts.md", "parts.png"]
    assert (out / "parts.csv").read_text().count("\n") == 1 + len(PARTS)
