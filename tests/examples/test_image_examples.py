from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("accelerate", reason="training needs the extra 'train'")
pytest.importorskip("torchmetrics", reason="training needs the extra 'train'")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = {  # and the files in the official layout that each can run on
    "digits": None,
    "fashion_mnist": "fashion_root",
    "cifar10": "cifar10_root",
    "cifar100": "cifar100_root",
    "mini_imagenet": "mini_root",
    "chestxray14": "chest_root",
    "cbis_ddsm": "cbis_root",
    "medmnist": "medmnist_root",
    "custom_images": "folder_root",
}

# A handful of random images leaves nodes unreached and findings without a label.
pytestmark = [
    pytest.mark.filterwarnings("ignore::tg_crepe.warnings.GraphWarning"),
    pytest.mark.filterwarnings("ignore::tg_crepe.warnings.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::tg_crepe.datasets.DatasetWarning"),
]


def table(out: str) -> list[str]:
    """The last line's cells, below the header that says what they are."""
    *_, header, cells = out.strip().splitlines()
    assert re.split(r"  +", header.strip()) == ["test error %", "test AUC %", "pseudo-label error %", "seconds"]
    return cells.split()


@pytest.mark.parametrize("script", SCRIPTS)
def test_fast_runs_on_files_in_the_official_layout(script, run, request, tmp_path):
    root = [] if SCRIPTS[script] is None else ["--root", str(request.getfixturevalue(SCRIPTS[script]))]
    before = sorted(tmp_path.rglob("*"))
    out, err = run(script, "--fast", *root)
    assert "stand-in" not in out
    assert len(table(out)) == 4
    assert "epoch 2/2 hybrid" in err
    assert sorted(tmp_path.rglob("*")) == before  # a smoke run leaves nothing behind


@pytest.mark.parametrize("script", [script for script in SCRIPTS if script != "digits"])
def test_without_data_a_stand_in_is_named_as_one(script, run):
    out, _ = run(script, "--fast", "--energy", "network")
    assert "(synthetic stand-in)" in out


def test_the_parts_of_the_data_that_are_here_are_named_subsets(run, data_root):
    for script, name in (("cifar10", "cifar10 (subset)"), ("chestxray14", "chestxray14 (subset)")):
        if (data_root / script).is_dir():
            out, _ = run(script, "--fast", "--root", str(data_root))
            assert name in out


def test_a_run_folder_can_be_resumed(run, tmp_path):
    arguments = ("--fast", "--seed", "100", "--run", str(tmp_path / "run"))
    first, _ = run("digits", *arguments)
    again, err = run("digits", *arguments, "--resume")
    assert table(again)[:3] == table(first)[:3]
    assert "resuming after epoch 2" in err
    with pytest.raises(SystemExit) as stop:
        run("digits", *arguments)
    assert stop.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--energy", "nothing"], "'source' must be one of"),
        (["--labels", "400"], "'labels' must be"),
        (["--preset", "paper_wrn"], "'name' must be one of 'paper', 'cpu'"),
    ],
)
def test_what_a_user_can_put_right_is_one_line(arguments, message, run, capsys):
    with pytest.raises(SystemExit) as stop:
        run("digits", "--fast", *arguments)
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("error: ")
    assert len(err.strip().splitlines()) == 1


def test_the_paper_preset_runs_with_the_networks_of_the_paper(run, chest_root):
    pytest.importorskip("torchvision", reason="ResNet-18 needs the extra 'vision'")
    out, _ = run("chestxray14", "--fast", "--preset", "paper", "--root", str(chest_root))
    assert "preset 'paper'" in out


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_has_the_figure_of_the_paper_in_its_header(script):
    text = (EXAMPLES / f"{script}.py").read_text()
    header = text.split('"""')[1]
    figures = {
        "cifar10": ["5.04", "4.58", "4.31", "4.33", "4.16"],
        "cifar100": ["31.02", "25.11", "32.21", "26.14"],
        "mini_imagenet": ["45.61", "38.33"],
        "chestxray14": ["81.75"],
        "cbis_ddsm": ["83.9", "84.2"],
        "fashion_mnist": ["17.62"],
    }
    assert "paper" in header
    assert all(figure in header for figure in figures.get(script, []))
