"""``propagate`` with a table of evidence, and with the linear head that it asks by default."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("rich", reason="the command line needs the extra 'cli'")
pytest.importorskip("pyarrow", reason="tables need the extra 'cli'")

from tg_crepe.cli.app import run

NAMES = ["new moon", "old_moon"]


def read(path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def stripes(tmp_path):
    """Two classes that only one of many columns tells apart, which a graph of all columns does not see."""
    rng, y = np.random.default_rng(0), np.arange(200) % 2
    x = rng.normal(size=(200, 40)).astype(np.float32)
    x[:, 0] += 3 * y
    np.savez(tmp_path / "features.npz", x=x)
    (tmp_path / "labels.csv").write_text("id,label\n" + "".join(f"{i},{NAMES[y[i]]}\n" for i in range(100)))
    return tmp_path, y


def propagate(folder, *more: str) -> int:
    arguments = [str(folder / "features.npz"), "--labels", str(folder / "labels.csv"), "-o", str(folder / "out.csv")]
    return run(["propagate", *arguments, "-k", "8", "--force", *more])


def wrong(folder, y) -> float:
    return float(np.mean([row["label"] != NAMES[c] for row, c in zip(read(folder / "out.csv"), y, strict=True)]))


def write_prior(path, y, shown=range(200), sure=0.9) -> None:
    lines = [f"{i},{sure if y[i] == 0 else 1 - sure:.2f},{sure if y[i] else 1 - sure:.2f}" for i in shown]
    path.write_text("id,prob_new moon,prob_old_moon\n" + "\n".join(lines) + "\n")


def test_the_head_is_asked_unless_it_is_refused(stripes, capsys):
    folder, y = stripes
    assert propagate(folder, "--no-head") == 0
    alone = wrong(folder, y)
    assert propagate(folder) == 0
    assert wrong(folder, y) < 0.8 * alone
    assert propagate(folder, "--head") == 0
    assert capsys.readouterr().err == ""


def test_evidence_of_a_table_is_taken_and_kept_in_the_run(stripes, capsys):
    folder, y = stripes
    write_prior(folder / "prior.csv", y, shown=range(0, 200, 2))
    assert propagate(folder, "--no-head") == 0
    alone = wrong(folder, y)
    assert propagate(folder, "--prior", str(folder / "prior.csv"), "--run", str(folder / "run")) == 0
    assert wrong(folder, y) < alone
    settings = json.loads((folder / "run" / "run.json").read_text())["settings"]
    assert settings["prior"].endswith("prior.csv")
    assert settings["prior_trust"] > 0.1
    capsys.readouterr()
    assert propagate(folder, "--prior", str(folder / "prior.csv"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["prior_trust"] == settings["prior_trust"]


def test_a_row_for_a_class_that_has_no_label_is_no_opinion(stripes, capsys):
    folder, y = stripes
    write_prior(folder / "prior.csv", y)
    assert propagate(folder, "--prior", str(folder / "prior.csv")) == 0
    wanted = read(folder / "out.csv")
    lines = (folder / "prior.csv").read_text().splitlines()
    lines = [line + (",prob_crescent" if place == 0 else ",0.01") for place, line in enumerate(lines)]
    lines[-1] = "199,0.0,0.0,1.0"
    (folder / "prior.csv").write_text("\n".join(lines))
    assert propagate(folder, "--prior", str(folder / "prior.csv")) == 0
    assert [row["label"] for row in read(folder / "out.csv")][:199] == [row["label"] for row in wanted][:199]
    assert capsys.readouterr().err == ""


def test_what_propagate_wrote_is_evidence_for_the_next_call(stripes, capsys):
    folder, _ = stripes
    assert propagate(folder) == 0
    (folder / "out.csv").rename(folder / "before.csv")
    assert propagate(folder, "--prior", str(folder / "before.csv")) == 0
    assert capsys.readouterr().err == ""


def test_evidence_that_contradicts_is_one_line(stripes, capsys):
    folder, y = stripes
    write_prior(folder / "prior.csv", 1 - y)
    assert propagate(folder, "--prior", str(folder / "prior.csv")) == 0
    assert "the labels do not support 'prior'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("id,label\n1,a\n", "it must have the columns id, prob new moon, prob old moon"),
        ("id,prob_new moon,prob_old_moon\n1,0.5,x\n", "the row '1' must hold a number >= 0"),
        ("id,prob_new moon,prob_old_moon\n1,-1,0.5\n", "the row '1' must hold a number >= 0"),
        ("id,prob_new moon,prob_old_moon\n1,0.5,\n", "the row '1' must hold a number >= 0"),
        ("id,prob_new moon,prob_old_moon\n1,0,0\n", "not all 0"),
        ("id,prob_new moon,prob_old_moon\nnobody,1,0\n", "its id 'nobody' is none of the 200 rows"),
        ("id,prob_new moon,prob_old_moon\n1,1,0\n1,1,0\n", "the id"),
        ("", "it is empty"),
    ],
)
def test_a_table_that_is_no_evidence_is_one_line_and_nothing_is_written(stripes, capsys, content, said):
    folder, _ = stripes
    (folder / "prior.csv").write_text(content)
    assert propagate(folder, "--prior", str(folder / "prior.csv")) == 2
    error = capsys.readouterr().err
    assert said in " ".join(error.split())
    assert "Traceback" not in error
    assert not (folder / "out.csv").exists()


def test_a_missing_table_and_options_that_do_not_go_together(stripes, capsys):
    folder, y = stripes
    assert propagate(folder, "--prior", str(folder / "none.csv")) == 2
    assert "is missing" in capsys.readouterr().err
    write_prior(folder / "prior.csv", y)
    assert propagate(folder, "--prior", str(folder / "prior.csv"), "--head") == 2
    assert propagate(folder, "--energy", "lgc", "--head") == 2
    assert propagate(folder, "--energy", "lgc", "--prior", str(folder / "prior.csv")) == 0
