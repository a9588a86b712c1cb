"""After every command a person knows how good the result is, if that can be known, and what to do next."""

import numpy as np
import pytest
from cli_inputs import cluster_points

from tg_crepe.cli.app import run
from tg_crepe.runs.verdict import POOR, UNKNOWN_ERROR

PROPAGATE = ["propagate", "features.npz", "--labels", "labels.csv", "-o", "p.csv", "--force"]


@pytest.fixture
def here(table, monkeypatch):
    monkeypatch.chdir(table)
    return table


def words(capsys):
    """Both streams without the line breaks of a screen."""
    said = capsys.readouterr()
    return " ".join(said.out.split()), " ".join(said.err.split())


def test_what_nobody_can_know_is_said_loudly(here, monkeypatch, capsys):
    """Where no label could be held back a result has no error to expect."""
    from tg_crepe.cli import _propagation

    def solve(*arguments):
        result = _solve(*arguments)
        result.expected_error = None
        return result

    _solve = _propagation.solve
    monkeypatch.setattr(_propagation, "solve", solve)
    assert run([*PROPAGATE, "--run", "run"]) == 0
    out, err = words(capsys)
    assert "wrong labels to expect" not in out
    assert UNKNOWN_ERROR in err


def test_a_poor_result_is_said_loudly_and_a_good_one_is_not(here, capsys):
    assert run(PROPAGATE) == 0
    out, err = words(capsys)
    assert "wrong labels to expect: " in out
    assert POOR not in err
    assert "next: --run DIR" in out
    rng = np.random.default_rng(0)
    _, _, ids = cluster_points()
    np.savez(here / "features.npz", x=rng.normal(size=(60, 4)).astype(np.float32), ids=np.array(ids))
    rows = [f"{name},{('red', 'green')[rng.integers(2)]}" for name in ids[:30]]
    (here / "labels.csv").write_text("id,label\n" + "\n".join(rows) + "\n")
    assert run(PROPAGATE) == 0
    assert POOR in words(capsys)[1]


def test_every_command_says_what_to_do_next(here, capsys):
    lines = {
        "tg-crepe report run, or tg-crepe label-next run": [*PROPAGATE, "--run", "run"],
        "tg-crepe label-next run -o to-label.csv": ["report", "run", "-o", "page.html"],
        "fill in the column label": ["label-next", "run", "-o", "next.csv"],
        "torchrun --nproc-per-node 2": [
            "partition",
            "features.npz",
            "--labels",
            "labels.csv",
            "-n",
            "2",
            "-o",
            "parts",
        ],
    }
    for expected, line in lines.items():
        assert run(line) == 0
        (said,) = [row for row in capsys.readouterr().out.splitlines() if row.startswith("next")]
        assert expected in said


def test_train_says_that_nobody_knows_how_good_it_is(tmp_path, monkeypatch, capsys):
    pytest.importorskip("accelerate")
    from embed_inputs import write_images

    monkeypatch.chdir(tmp_path)
    colours = write_images(tmp_path / "images", 30, 8)
    names = sorted(path.name for path in (tmp_path / "images").iterdir())
    rows = [f"{name},{colour}" for name, colour in list(zip(names, colours, strict=True))[:9]]
    (tmp_path / "labels.csv").write_text("id,label\n" + "\n".join(rows) + "\n")
    line = ["train", "images", "--labels", "labels.csv", "--size", "8", "--epochs", "6", "--run", "run"]
    assert run(line) == 0
    out, err = words(capsys)
    assert UNKNOWN_ERROR in err
    assert "tg-crepe propagate images --labels labels.csv --model timm:" in out
    assert "next: tg-crepe report run, or tg-crepe label-next run -o to-label.csv" in out


def test_ids_of_features_are_shown_as_what_they_stand_for(here, capsys):
    from embed_inputs import write_images

    from tg_crepe.runs import RunFolder

    write_images(here / "images", 60, 8)
    files = sorted((here / "images").iterdir())
    x, _, ids = cluster_points()
    for file, name in zip(files, ids, strict=True):
        file.rename(file.with_name(f"{name}.png"))
    np.savez(here / "features.npz", x=x, ids=np.array([f"{name}.png" for name in ids]))
    (here / "labels.csv").write_text((here / "labels.csv").read_text().replace(",", ".png,").replace("id.png", "id"))
    assert run([*PROPAGATE, "--show", "images"]) == 2
    assert "--run or --report" in capsys.readouterr().err
    assert run([*PROPAGATE, "--show", "images", "--run", "run"]) == 0
    node, images = RunFolder.open("run").read_thumbnails()
    assert (len(node), images.shape[1:]) == (60, (3, 8, 8))
    (here / "images" / "p00.png").unlink()
    capsys.readouterr()
    assert run([*PROPAGATE, "--show", "images", "--run", "run"]) == 2
    assert "1 ids of the features are none of its images, the first is 'p00.png'" in capsys.readouterr().err
    (here / "texts.csv").write_text("id,words\n" + "\n".join(f"{name}.png,text of {name}" for name in ids) + "\n")
    assert run([*PROPAGATE, "--show", "texts.csv", "--text", "words", "--run", "run"]) == 0
    node, text = RunFolder.open("run").read_snippets()
    assert sorted(text)[:2] == ["text of p00", "text of p01"]
