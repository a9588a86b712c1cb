"""The benchmark of more and more labels: what a cell holds, how changes are counted, one run from end to end."""

import functools
import os
import sys
import warnings

import pytest
import torch

pytest.importorskip("sklearn")

import more_labels
from shared import family_job, machine, step_job
from shared.families import Family, draw_labels
from shared.grid import CellStore
from shared.step_report import Change, Results, change_table, draw_curves, error_table, overall_table, summary

from tg_crepe import LGC, CrepePropagation, GraphWarning, get_energy_model, knn_graph
from tg_crepe.active import LabelLoop

STEPS = (6, 20, 27)


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    monkeypatch.setattr(step_job, "STEPS", STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        yield


@functools.cache
def made_up() -> Family:
    """Ninety points in three clouds that overlap."""
    x = torch.randn(90, 2, generator=torch.Generator().manual_seed(3))
    y = torch.arange(90) % 3
    x += 2.0 * torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[y]
    return Family("made up", y, *knn_graph(x, 6, metric="euclidean"))


@pytest.fixture
def cached(monkeypatch, tmp_path):
    """The made-up family in a cache of its own, under every name of the benchmark."""
    monkeypatch.setenv("TG_CREPE_CACHE", str(tmp_path / "cache"))
    found = made_up()
    monkeypatch.setattr(
        family_job, "load_family", lambda name: Family(name, found.y, found.edge_index, found.edge_weight)
    )
    return family_job.prepare_family("made up")


def error_of(model, mask, judged):
    family = made_up()
    hidden = torch.where(mask, family.y, -1)
    label = model.propagate(hidden, family.edge_index, mask, family.edge_weight, 3).label
    return 100 * float((label != family.y)[judged].double().mean())


@pytest.mark.parametrize("way", step_job.WAYS)
def test_steps_are_exact_and_keep_the_labels_before(way):
    masks = step_job.ask(made_up(), way, 100)
    assert [int(mask.sum()) for mask in masks] == list(STEPS)
    first = draw_labels(made_up(), "1 per class", 100)
    for before, after in zip([first, *masks], masks, strict=False):
        assert not (before & ~after).any()


def test_labels_are_those_of_the_default_loop_ten_at_a_time():
    family = made_up()
    first = draw_labels(family, "1 per class", 100)
    loop = LabelLoop(family.y, family.edge_index, first, family.edge_weight, num_classes=3)
    for n in (3, 10, 4, 7):  # up to 6, 20 and 27 labels, never more than ten at once
        nodes = loop.suggest(n)
        loop.answer(nodes, family.y[nodes])
    assert step_job.ask(family, "chosen", 100)[-1].equal(loop.mask)
    # What the table says of CREPE is what the loop itself answers.
    wrong = (loop.result.label != family.y)[~loop.mask].double().mean()
    row = next(r for r in step_job.measure(family, "chosen", 100) if (r["labels"], r["method"]) == (27, "crepe"))
    assert row["error"] == pytest.approx(100 * float(wrong))


def test_chance_differs_by_seed_and_does_not_look_at_answers():
    family = made_up()
    one, other = (step_job.ask(family, "random", seed)[-1] for seed in (100, 101))
    assert not one.equal(other)
    assert not one.equal(step_job.ask(family, "chosen", 100)[-1])
    # The same nodes are asked for on a graph with other weights, hence other answers.
    changed = Family("changed", family.y, family.edge_index, torch.ones_like(family.edge_weight))
    assert one.equal(step_job.ask(changed, "random", 100)[-1])


def test_family_that_is_too_small_has_no_rows(monkeypatch):
    monkeypatch.setattr(step_job, "STEPS", (20, 90))
    assert step_job.measure(made_up(), "chosen", 100) == []
    monkeypatch.setattr(step_job, "STEPS", (3, 20))  # no label is left to choose
    assert step_job.measure(made_up(), "chosen", 100) == []


@pytest.mark.parametrize(("way", "sampling"), [("chosen", "chosen"), ("random", "auto")])
def test_cell_judges_every_method_on_the_labels_of_every_step(cached, way, sampling):
    cell = step_job.make_cell(cached, way, 100)
    assert cell.point == {"family": "made up", "way": way, "seed": 100}
    rows = step_job.make_job((("made up", cached),), torch.get_num_threads())(cell)
    models = {
        "crepe": CrepePropagation(sampling=sampling),
        "lgc": LGC(),
        "lgc balanced": LGC(balanced=True),
        "wnll": get_energy_model("wnll"),
    }
    assert [(row["labels"], row["method"]) for row in rows] == [(n, m) for n in STEPS for m in models]
    masks = dict(zip(STEPS, step_job.ask(made_up(), way, 100), strict=True))
    for row in rows:
        mask, model = masks[row["labels"]], models[row["method"]]
        assert (row["labelled"], row["unlabelled"]) == (row["labels"], 90 - row["labels"])
        assert row["error"] == pytest.approx(error_of(model, mask, ~mask))
        assert row["same_error"] == pytest.approx(error_of(model, mask, ~masks[27]))


def test_cell_is_another_one_with_other_steps_ways_and_seeds(cached, monkeypatch):
    keys = {step_job.make_cell(cached, way, seed).key for way in step_job.WAYS for seed in (100, 101)}
    assert len(keys) == 4
    monkeypatch.setattr(step_job, "STEPS", (6, 20))
    assert step_job.make_cell(cached, "chosen", 100).key not in keys


def rows_of(way: str, method: str, errors: dict[int, list[float]], shift: float = 0.0):
    """Rows of the seeds 100, 101, … with these errors; those of the same nodes are lower by ``shift`` a step."""
    common = {"family": "a", "way": way, "method": method}
    return [
        {**common, "labels": labels, "seed": 100 + i, "error": error, "same_error": error - step * shift}
        for step, (labels, own) in enumerate(errors.items())
        for i, error in enumerate(own)
    ]


def hand_made() -> Results:
    return Results(
        rows_of("chosen", "crepe", {20: [10.0, 8.0, 6.0], 50: [7.0, 8.5, 6.0], 100: [9.0, 8.5, 6.5]}, shift=1.0)
        + rows_of("chosen", "lgc", {20: [12.0, 12.0, 12.0], 50: [9.0, 9.0, 9.0], 100: [8.0, 8.0, 8.0]})
        + rows_of("random", "crepe", {20: [20.0], 50: [15.0, 9.0]})
    )


def test_changes_pair_the_seeds_and_count_rises():
    first, second = hand_made().changes("a", "chosen", "crepe")
    assert first.values == pytest.approx((-3, 0.5, 0))  # no change is no rise
    assert (first.mean, first.rises) == (pytest.approx(-2.5 / 3), [0.5])
    assert (second.mean, second.rises) == (pytest.approx(2.5 / 3), [2.0, 0.5])
    same = hand_made().changes("a", "chosen", "crepe", "same_error")
    assert [change.rises for change in same] == [[], [1.0]]
    # A seed without the step before does not count, a step without any seed is missing.
    alone, missing = hand_made().changes("a", "random", "crepe")
    assert (alone.values, missing) == ((-5.0,), None)


def test_change_reads_as_mean_count_and_largest_rise():
    assert str(Change((-1.0, -2.0))) == "−1.50 (0 of 2 rose)"
    assert str(Change((-3.0, 0.5, 0.25))) == "−0.75 (2 of 3 rose, by 0.50 at most)"
    assert str(Change((1.0, 0.0))) == "**+0.50 (1 of 2 rose, by 1.00 at most)**"
    assert str(Change((0.0,))) == "0.00 (0 of 1 rose)"


def test_tables_are_those_of_the_hand_made_rows():
    results = hand_made()
    assert error_table(results, "a") == [
        "| a, error in % | 20 labels | 50 labels | 100 labels |",
        "|---|---|---|---|",
        "| crepe, label_next | 8.00 | 7.17 | 8.00 |",
        "| lgc, label_next | 12.00 | 9.00 | 8.00 |",
        "| crepe, at random | 20.00 | 12.00 | – |",
    ]
    changes = change_table(results, "a", "error")
    assert changes[0] == "| change in points, nodes without a label | 20 → 50 | 50 → 100 |"
    assert changes[2].endswith("| −0.83 (1 of 3 rose, by 0.50 at most) | **+0.83 (2 of 3 rose, by 2.00 at most)** |")
    assert changes[4].endswith("| −5.00 (0 of 1 rose) | – |")
    overall = overall_table(results)
    assert overall[2] == "| crepe, label_next | 1 of 2 | 3 of 6 | 2.00 | 0 of 2 | 1 of 6 | 1.00 |"
    assert overall[3] == "| lgc, label_next | 0 of 2 | 0 of 6 | – | 0 of 2 | 0 of 6 | – |"


def test_report_holds_every_table_and_says_what_failed():
    text = summary(hand_made(), failed=2)
    for table in (error_table(hand_made(), "a"), change_table(hand_made(), "a", "same_error")):
        assert "\n".join(table) in text
    assert "Seeds 100 to 102" in text
    assert "**2 cells failed and are missing.**" in text
    assert "failed" not in summary(hand_made())


@pytest.mark.parametrize("families", [1, 3])
def test_picture_is_written(tmp_path, families):
    pytest.importorskip("matplotlib")
    rows = [{**row, "family": f"family {i}"} for i in range(families) for row in hand_made().rows]
    draw_curves(Results(rows), tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_only_the_whole_table_is_written_unasked(tmp_path):
    assert more_labels.parse_arguments([]).out == machine.RESULTS
    assert more_labels.parse_arguments(["--families", *reversed(more_labels.FAMILIES)]).out == machine.RESULTS
    for part in (["--seeds", "100", "103"], ["--families", "digits"], ["--ways", "chosen"]):
        assert more_labels.parse_arguments(part).out is None
        assert more_labels.parse_arguments([*part, "--out", str(tmp_path)]).out == tmp_path


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--seeds", "3", "3"], "--seeds must be FIRST < END"),
        (["--workers", "0"], "--workers must be at least 1, got 0"),
        (["--families", "iris"], "--families must be of CIFAR-10 pretrained"),
    ],
)
def test_bad_arguments_are_refused(arguments, match, capsys):
    with pytest.raises(SystemExit):
        more_labels.parse_arguments(arguments)
    assert match in capsys.readouterr().err


def test_command_reports_finished_cells_and_writes_where_it_is_told(cached, monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    base = ["more_labels.py", "--seeds", "100", "101", "--families", "digits"]

    def command(*more: str) -> str:
        monkeypatch.setattr(sys, "argv", [*base, *more])
        with pytest.raises(SystemExit, match="0"):
            more_labels.main()
        return capsys.readouterr().out

    monkeypatch.setattr(sys, "argv", [*base, "--plan"])
    more_labels.main()
    assert "2 cells, 2 left" in capsys.readouterr().out
    assert "| digits, error" not in command("--report")
    # The cells are finished here and not by workers, which would not know of the made-up family.
    path = family_job.prepare_family("digits")
    store = CellStore(tmp_path / "cache" / "more_labels_cells")
    for way in step_job.WAYS:
        cell = step_job.make_cell(path, way, 100)
        store.write(cell, step_job.run_cell({"digits": path}, cell))
    text = command()
    assert "2 cells, 0 left" in text
    assert "| digits, error in % | 6 labels | 20 labels | 27 labels |" in text
    assert not out.exists()
    command("--report", "--out", str(out))
    assert sorted(os.listdir(out)) == ["more_labels.csv", "more_labels.md", "more_labels.png"]
    assert (out / "more_labels.csv").read_text().count("\n") == 1 + 2 * 3 * 4
