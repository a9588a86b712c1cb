from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
import pytest
import torch
from report_runs import NAMES, NASTY, NASTY_ID, write_run

from tg_crepe import _optional
from tg_crepe.runs import RunFolder
from tg_crepe.runs.verdict import POOR, UNKNOWN_ERROR

pytest.importorskip("jinja2", reason="the report needs the extra 'report'")
pytest.importorskip("matplotlib", reason="the report needs the extra 'report'")
pytest.importorskip("html5lib", reason="the check of the page needs the extra 'test'")

import html5lib

from tg_crepe.report import write_report
from tg_crepe.report.content import RunContent
from tg_crepe.training.metrics import expected_calibration_error

LIMIT = 3_000_000


def parse(path: Path) -> Element:
    """The page as a tree; a page that is not well-formed HTML 5 raises."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(path.read_text(encoding="utf-8"))


def text_of(tree: Element) -> str:
    """What a reader sees."""
    skipped = {id(part) for tag in ("script", "style") for part in tree.iter(tag)}
    parts: list[str] = []

    def walk(part: Element) -> None:
        if id(part) not in skipped:
            parts.append(part.text or "")
            for child in part:
                walk(child)
                parts.append(child.tail or "")

    walk(tree.find("body"))
    return " ".join(" ".join(parts).split())


def map_of(tree: Element) -> dict:
    (data,) = [part for part in tree.iter("script") if part.get("id") == "data"]
    return json.loads(data.text)["map"]


@pytest.mark.parametrize(
    ("images", "truth", "multi_label"), list(itertools.product([True, False], [True, False], [True, False]))
)
def test_every_combination_is_one_whole_page(tmp_path, images, truth, multi_label):
    run = write_run(tmp_path / "run", images=images, truth=truth, multi_label=multi_label)
    path = write_report(run.path)
    assert path == tmp_path / "run" / "report.html"
    page, tree = path.read_text(encoding="utf-8"), parse(path)
    assert len(page.encode()) < LIMIT
    text = text_of(tree)
    assert bool(re.search("% of the (pseudo-labels|findings) are wrong", text)) == truth
    assert ("How many of the pseudo-labels are wrong is not known" in text) == (not truth)
    assert (UNKNOWN_ERROR in text) == (not truth)
    assert "nodes" not in text.replace("class functions of the nodes", "")
    assert "energy" not in text
    titles = [part.text for part in tree.iter("h2")]
    assert titles[:2] == ["Label these next", "Map"]
    assert ("Most and least certain images" in text) == images
    assert ("Expected calibration error" in text) == truth
    assert ("Findings, right and wrong" in text) == (truth and multi_label)
    for title in ("Map", "Course of the method", "Error per epoch", "Certainty", "Class balance", "Label these next"):
        assert title in text
    ids = [part.get("id") for part in tree.iter() if part.get("id")]
    assert len(ids) == len(set(ids))


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path):
    page = write_report(write_run(tmp_path / "run")).read_text(encoding="utf-8")
    without_names = re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert not re.search(r"https?://|//cdn|@import|\bimport\(|fetch\(|XMLHttpRequest", without_names)
    for address in re.findall(r'(?:src|href)="([^"]*)"', page) + re.findall(r"url\(([^)]*)\)", page):
        assert address.strip("\"'").startswith(("data:", "#")), address


def test_what_the_user_wrote_is_shown_as_text(tmp_path):
    path = write_report(write_run(tmp_path / "run"))
    page, tree = path.read_text(encoding="utf-8"), parse(path)
    assert NASTY not in page
    assert NASTY_ID not in page
    assert len(list(tree.iter("script"))) == 2
    assert not list(tree.iter("img"))
    text = text_of(tree)
    assert NASTY in text
    assert "a </script> in a setting" in text
    assert map_of(tree)["classes"] == list(NAMES)
    assert NASTY_ID in map_of(tree)["ids"]


def test_headline_and_figures_have_the_numbers_of_the_run(tmp_path):
    run = write_run(tmp_path / "run")
    text = text_of(parse(write_report(run)))
    result = run.read_result()
    judged = result.reached & ~result.labelled
    wrong = result.label[judged] != result.truth[judged]
    assert f"{100 * wrong.mean():.2f} % of the pseudo-labels are wrong" in text
    assert f"{(~wrong).sum():,} of {judged.sum():,} pseudo-labels are right" in text
    prob, truth = torch.tensor(result.prob[judged]).double(), torch.tensor(result.truth[judged])
    error = expected_calibration_error(prob, truth)
    said, right = float(prob.max(dim=1).values.mean()), (~wrong).mean()
    assert f"Expected calibration error: {100 * error:.1f} %" in text
    assert f"for a label is {100 * said:.0f} % on average, and {100 * right:.0f} % of the labels are right" in text
    assert "small is 0.2 at step 0 and 0.05 at step 3. It fell; how many labels are right it does not say" in text
    assert "images that no label reaches 1" in text


def test_a_poor_result_is_said_loudly(tmp_path):
    run = write_run(tmp_path / "run", truth=False)
    for value, poor in ((0.4, True), (0.1, False)):
        run.finish("converged", expected_error={"value": value, "low": value / 2, "high": value * 1.5, "level": 0.95})
        tree = parse(write_report(run))
        text = text_of(tree)
        assert f"About {100 * value:.0f} % of the pseudo-labels are probably wrong" in text
        assert [part.text for part in tree.iter("p") if part.get("class") == "warning"] == ([POOR] if poor else [])
        assert UNKNOWN_ERROR not in text
        assert "mean certainty" not in text  # beside a headline it reads as a share right


def test_a_flow_that_rose_is_neither_praised_nor_blamed(tmp_path):
    run = write_run(tmp_path / "run")
    trace = run.read_trace()
    trace["sum_of_ratios"] = trace["sum_of_ratios"][::-1]
    run.write_trace(trace)
    text = text_of(parse(write_report(run)))
    assert "It did not fall; how many labels are right it does not say" in text


def test_a_start_that_does_not_hold_the_labels_is_no_rise(tmp_path):
    """Before the given labels hold the ratios are smaller, and no flow can keep them so."""
    run = write_run(tmp_path / "run")
    trace = run.read_trace()
    ratio = np.linspace(3.0, 2.0, len(trace["step"]))
    trace["sum_of_ratios"], trace["margin_violation"] = ratio, np.zeros_like(ratio)
    trace["sum_of_ratios"][0], trace["margin_violation"][0] = 1.0, 0.01
    run.write_trace(trace)
    text = text_of(parse(write_report(run)))
    assert f"is {ratio[1]:.4g} at step {trace['step'][1]:g} and 2 at step" in text
    assert "It fell; how many" in text


def test_given_labels_are_on_the_map_and_its_images_are_kept():
    import torch

    from tg_crepe.runs.kept_nodes import nodes_with_image, nodes_with_moments

    labelled = torch.zeros(70_000, dtype=torch.bool)
    labelled[torch.randperm(70_000, generator=torch.Generator().manual_seed(0))[:300]] = True
    shown = set(nodes_with_moments(70_000, labelled).tolist())
    assert set(labelled.nonzero().view(-1).tolist()) <= shown
    assert set(nodes_with_image(70_000, None, labelled, bytes_each=28 * 28).tolist()) == shown
    assert set(nodes_with_image(1797, None, None, bytes_each=64).tolist()) == set(range(1797))  # all of the demo's
    assert len(nodes_with_image(70_000, None, labelled, bytes_each=3 * 224**2)) == 500


def test_ten_classes_have_a_colour_each():
    from tg_crepe.viz import PALETTE

    assert len(set(PALETTE)) == len(PALETTE) >= 10


def test_findings_are_judged_where_they_are_known(tmp_path):
    run = write_run(tmp_path / "run", multi_label=True)
    result, content = run.read_result(), RunContent.read(run)
    wrong = known = 0
    for node in range(len(result.ids)):
        if not result.reached[node] or result.labelled[node]:
            continue
        pairs = [(t, s) for t, s in zip(result.truth[node], result.label[node], strict=True) if t >= 0]
        wrong += sum(t != s for t, s in pairs)
        known += len(pairs)
        assert content.correct[node] == all(t == s for t, s in pairs)
    assert content.error == pytest.approx(wrong / known)


def test_the_map_keeps_the_nodes_and_moves_along_the_flow(tmp_path):
    run = write_run(tmp_path / "run")
    shown, result = map_of(parse(write_report(run))), run.read_result()
    assert shown["ids"] == result.ids[result.flow_node].tolist()
    assert shown["moments"] == ["25 % of the way", "50 % of the way", "100 % of the way"]
    assert [layout["name"] for layout in shown["layouts"]] == ["features", "predicted class"]
    features, flow = (layout["xy"] for layout in shown["layouts"])
    assert len(flow) == 3
    assert flow[0] != flow[2]
    assert len(features) == 1
    x = result.position[result.flow_node][:, 0]
    inside = (x > np.quantile(x, 0.01)) & (x < np.quantile(x, 0.99))
    order = np.argsort(x[inside])
    assert (np.diff(np.array(features[0][::2])[inside][order]) >= 0).all()
    assert shown["labels"][-1] == result.label[result.flow_node].tolist()


def test_the_way_along_the_flow_ends_at_the_place_of_a_class_whatever_the_degree():
    from tg_crepe.report.node_map import _around_circle

    rng = np.random.default_rng(0)
    kind = np.arange(60) % 5
    early = 0.2 * np.eye(5)[kind] + 0.1 * rng.random((60, 5))
    flow, within = np.stack([early, np.eye(5)[kind] - 0.2]), rng.standard_normal((60, 2))
    xy = _around_circle(flow, within)
    degree = rng.uniform(0.1, 10, (60, 1))
    np.testing.assert_allclose(_around_circle(degree * flow, within), xy, rtol=1e-6)
    middle = np.stack([xy[-1, kind == c].mean(axis=0) for c in range(5)])
    distance = np.linalg.norm(xy[-1][:, None] - middle, axis=2)
    assert (distance.argmin(axis=1) == kind).all()
    assert np.allclose(np.arctan2(*middle.T), [0, 0.4 * np.pi, 0.8 * np.pi, -0.8 * np.pi, -0.4 * np.pi], atol=0.15)
    assert (np.linalg.norm(middle, axis=1) > 0.7).all()  # near its place at distance 1 from the centre


def test_of_many_nodes_a_sample_is_drawn_and_stated(tmp_path):
    path = write_report(write_run(tmp_path / "run", flow=False, num_nodes=20_000))
    tree = parse(path)
    shown = map_of(tree)
    assert len(shown["ids"]) == 5000
    assert sum(shown["labelled"]) == 40
    assert "5,000 of 20,000 images, a sample spread evenly and given labels" in text_of(tree)
    assert path.stat().st_size < LIMIT


def test_a_run_that_kept_little_has_a_shorter_page(tmp_path):
    path = write_report(
        write_run(tmp_path / "run", images=False, flow=False, graph=False, epochs=0), tmp_path / "a.html"
    )
    text = text_of(parse(path))
    assert "The run kept no graph" in text
    assert "Error per epoch" not in text
    bare = RunFolder.create(tmp_path / "bare", "train", {})
    assert "A run without pseudo-labels" in text_of(parse(write_report(bare)))
    (bare.path / "final.json").write_text('{"error": 0.125, "auc": null}')
    bare.append_metrics(epoch=1, error=0.125, pseudo_error=None)
    text = text_of(parse(write_report(bare)))
    assert "12.50 % of the test images are wrong" in text
    assert "Error per epoch" in text


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_in_the_sheet_where_the_page_looks(tmp_path, channels):
    import base64
    import io

    from PIL import Image

    from tg_crepe.report.sprite import Sprite

    node, images = write_run(tmp_path / "run", channels=channels).read_thumbnails()
    sprite = Sprite(node, images)
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(sprite.source.partition(",")[2]))))
    for place in (0, 17, len(node) - 1):
        column, row = map(int, re.findall(r"\d+", sprite.style(int(node[place]))))
        tile = sheet[row * 16 : row * 16 + 16, column * 12 : column * 12 + 12].reshape(16, 12, channels)
        np.testing.assert_array_equal(tile, images[place].transpose(1, 2, 0))
    assert sprite.style(1) is None


def test_many_large_colour_images_stay_below_the_limit():
    from tg_crepe.report.sprite import Sprite

    images = np.random.default_rng(0).integers(0, 256, (500, 3, 64, 64), dtype=np.uint8)
    assert len(Sprite(np.arange(500), images).source) < 2_000_000


def test_a_page_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    out = tmp_path / "page.html"
    out.write_text("mine")
    with pytest.raises(FileExistsError, match="exists; force=True replaces it"):
        write_report(run, out, force=False)
    with pytest.raises(ValueError, match=r"'out' must end in \.html, got .*page\.txt"):
        write_report(run, tmp_path / "page.txt")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(KeyboardInterrupt):
        write_report(run, out)
    monkeypatch.undo()
    assert out.read_text() == "mine"
    assert write_report(run, out) == out
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "run"]


def test_parts_that_do_not_fit_are_named(tmp_path):
    run = write_run(tmp_path / "run")
    run.write_thumbnails(np.array([5000]), np.zeros((1, 1, 4, 4), np.uint8))
    with pytest.raises(ValueError, match=r"thumbnails\.npz' cannot be used"):
        write_report(run)
    run.write_graph(np.zeros((2, 0), int), np.zeros(0), 3)
    with pytest.raises(ValueError, match="3 nodes, but 300 pseudo-labels"):
        write_report(run)
    assert not (run.path / "report.html").exists()


def test_missing_packages_are_named(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    monkeypatch.setattr(_optional.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"tg-crepe\[report\]"):
        write_report(run)
