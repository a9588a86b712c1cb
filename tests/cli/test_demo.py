from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the demo needs the extra 'cli'")
pytest.importorskip("rich", reason="the demo needs the extra 'cli'")
pytest.importorskip("sklearn", reason="the demo needs the extra 'sklearn'")
pytest.importorskip("matplotlib", reason="the demo needs the extra 'report'")
pytest.importorskip("jinja2", reason="the demo needs the extra 'report'")

from matplotlib.image import imread
from sklearn.datasets import load_digits

from tg_crepe.cli.app import run

PICTURES = ["certainty.png", "energy.png", "two_moons.png"]
WRITTEN = sorted([*PICTURES, "report.html", "run"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("demo") / "not" / "there yet"


@pytest.fixture(scope="module")
def screen(folder) -> tuple[int, str, str]:
    """One run for all tests: its exit code, stdout and stderr."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = run(["demo", "--out", str(folder)])
    return code, out.getvalue(), err.getvalue()


def test_demo_prints_what_it_does_and_a_row_for_every_model(screen, folder):
    code, out, err = screen
    assert (code, err) == (0, "")
    first, *rest = out.splitlines()
    assert first.startswith("1,797 images of handwritten digits, 20 of them labelled (2 per class)")
    assert re.search(r"has [\d,]+ edges", first)
    rows = {cells[0]: list(map(float, cells[1:])) for cells in (re.findall(r"[\w.]+", line) for line in rest[3:-3])}
    assert list(rows) == ["CrepePropagation", "LGC", "NearestNeighbor"]
    for error, right, wrong, seconds in rows.values():
        assert 0 <= error < 20
        assert 0 <= wrong < right <= 1
        assert 0 <= seconds < 90
    assert rest[-2] == f"in {folder}: two_moons.png, energy.png, certainty.png, report.html, run"
    assert rest[-1].startswith(f"next: open {folder / 'report.html'}")


def test_demo_writes_three_pictures_a_page_and_its_run(screen, folder):
    assert sorted(path.name for path in folder.iterdir()) == WRITTEN
    for name in PICTURES:
        image = imread(folder / name)
        assert image.shape[0] >= 400
        assert image.shape[1] >= 600
        assert image[..., :3].std() > 0.05  # not an empty sheet


def test_the_page_has_the_error_of_the_table_and_a_picture_of_what_to_label_next(screen, folder):
    from tg_crepe.runs import RunFolder

    error = re.search(r"CrepePropagation\D+([\d.]+)", screen[1]).group(1)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"{float(re.search(r'([0-9.]+) % of the pseudo-labels are wrong', page).group(1)):.1f}" == error
    kept = RunFolder.open(folder / "run")
    assert kept.info["command_line"] == f"tg-crepe demo --out {shlex.quote(str(folder))}"
    node, images = kept.read_thumbnails()
    with redirect_stdout(io.StringIO()) as out:
        assert run(["label-next", str(folder / "run"), "-n", "16"]) == 0
    suggested = [int(line.partition(",")[0]) for line in out.getvalue().splitlines()[1:]]
    assert len(suggested) == 16
    assert set(suggested) <= set(node.tolist())
    digits = load_digits().images
    for place in (0, 100, len(node) - 1):
        assert abs(images[place, 0] / 255 - digits[node[place]] / 16).max() < 0.01


def test_the_page_shows_the_nodes_along_the_flow(screen, folder):
    from tg_crepe.runs import RunFolder

    assert RunFolder.open(folder / "run").read_result().flow_u.shape == (3, 1797, 10)
    assert "100 % of the way" in (folder / "report.html").read_text(encoding="utf-8")


def test_a_folder_in_use_is_refused_and_left_alone(screen, folder, capsys):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert run(["demo", "--out", str(folder)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert (
        captured.err == f"error: Invalid value for '--out': {folder} exists and is not empty; --force writes into it\n"
    )
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("inside", [(), ("deeper",)])
def test_a_file_in_the_way_is_refused(inside, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert run(["demo", "--out", str(Path(tmp_path, "file", *inside)), "--force"]) == 2
    assert capsys.readouterr().err == f"error: Invalid value for '--out': {tmp_path / 'file'} is a file, not a folder\n"
    assert (tmp_path / "file").read_text() == "mine"


def test_force_writes_the_pictures_and_keeps_what_else_is_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tg_crepe.cli.demo._MOONS", 100)
    (tmp_path / "energy.png").write_text("old")
    (tmp_path / "notes.txt").write_text("mine")
    assert run(["demo", "--out", str(tmp_path), "--force", "--labels-per-class", "1", "--seed", "3"]) == 0
    assert "10 of them labelled (1 per class)" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*WRITTEN, "notes.txt"])
    assert (tmp_path / "energy.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_picture_that_fails_leaves_no_unfinished_file(tmp_path, monkeypatch, capsys):
    from matplotlib.figure import Figure

    def fail(self: Figure, path: Path, **options: object) -> None:
        Path(path).write_text("half")
        raise OSError("No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    monkeypatch.setattr("tg_crepe.cli.demo._MOONS", 100)
    assert run(["demo", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "error: No space left on device\n"
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_demo_ends_quietly_and_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tg_crepe.cli.demo._make_task", interrupt)
    assert run(["demo", "--out", str(tmp_path / "demo")]) == 130
    captured = capsys.readouterr()
    assert (captured.out, captured.err.strip()) == ("", "")
    assert list(tmp_path.iterdir()) == []
