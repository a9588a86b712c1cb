"""The page in a real browser. Screenshots stay in test-artefacts, or in the folder that TG_CREPE_SHOTS names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import NO_BROWSER, artefact, axe_script, open_browser
from report_runs import write_run

pytest.importorskip("jinja2", reason="the report needs the extra 'report'")
pytest.importorskip("matplotlib", reason="the report needs the extra 'report'")
if NO_BROWSER is not None:
    pytest.skip(NO_BROWSER, allow_module_level=True)

from tg_crepe.report import write_report

LIMIT = 3_000_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


def digits_page(folder: Path) -> Path:
    """What ``tg-crepe demo`` writes."""
    pytest.importorskip("typer", reason="the demo needs the extra 'cli'")
    pytest.importorskip("sklearn", reason="the demo needs the extra 'sklearn'")
    from tg_crepe.cli.app import run

    assert run(["demo", "--out", str(folder), "--seed", "100"]) == 0
    return folder / "report.html"


def fashion_page(folder: Path, root: Path, num_images: int, num_labels: int, num_features: int) -> Path:
    """A run on the first images of Fashion-MNIST, as their principal components."""
    import torch

    from tg_crepe import CrepePropagation, knn_graph
    from tg_crepe.cli._inputs import Features, NodeLabels
    from tg_crepe.cli._propagation import solve, write_propagation
    from tg_crepe.datasets import load_fashion_mnist
    from tg_crepe.runs import RunFolder

    dataset = load_fashion_mnist(root)
    x = dataset.images[:num_images].flatten(1).float() / 255
    truth = dataset.targets[:num_images].numpy()
    x -= x.mean(dim=0)
    x = x @ torch.linalg.eigh(x.T @ x).eigenvectors[:, -num_features:]
    y = np.full(num_images, -1)
    chosen = np.random.default_rng(100).permutation(num_images)[:num_labels]
    y[chosen] = truth[chosen]
    nodes = Features(x.numpy(), list(dataset.ids[:num_images]), dataset)
    known, model, graph = NodeLabels(y, dataset.class_names), CrepePropagation(), knn_graph(x, k=20)
    run = RunFolder.create(folder, "propagate", {"k": 20, "images": num_images, "model": repr(model)}, seed=100)
    write_propagation(run, nodes, known, truth, graph, solve(model, known, graph))
    return write_report(run)


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Callable[[str], Path]:
    """A page of every kind of run, made when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    kinds = {
        "full": {},
        "findings": {"multi_label": True},
        "bare": {"images": False, "truth": False, "flow": False, "epochs": 0},
    }

    def page(name: str, root: Path | None = None) -> Path:
        if name not in made and name in kinds:
            made[name] = write_report(write_run(folder / name, **kinds[name]))
        elif name not in made:
            made[name] = (
                digits_page(folder / name) if root is None else fashion_page(folder / name, root, 3000, 150, 64)
            )
        return made[name]

    return page


@pytest.fixture
def visit(browser, pages):
    """Opens a page of a run; any message on its console fails the test."""
    messages: list[str] = []
    opened: list[Any] = []

    def open_page(name: str, width: int = 1280, scheme: str = "light", path: Path | None = None) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(10_000)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: messages.append(request.url) if "http" in request.url[:4] else None)
        page.goto((path or pages(name)).as_uri())
        opened.append(page)
        return page

    yield open_page
    for page in opened:
        assert page.evaluate("window.broken") is None
        page.close()
    assert messages == []


def pixels(page: Any) -> str:
    """What is on the canvas once the next frame is drawn."""
    script = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done("
    return page.evaluate(script + "document.getElementById('nodes').toDataURL()))))")


def check_look(page: Any, name: str, width: int, scheme: str) -> None:
    """It fits the screen, in the colours that were asked for; the picture of it stays."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, colour[4:-1].split(","))) > 382) == (scheme == "light")
    page.screenshot(path=artefact(f"report-{name}-{width}-{scheme}.png"), full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["full", "findings", "bare", "digits"])
def test_pages_fit_the_screen_and_say_nothing_on_the_console(visit, name, width, scheme):
    check_look(visit(name, width, scheme), name, width, scheme)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_fashion_mnist_fits_the_screen(visit, pages, data_root, width, scheme):
    path = pages("fashion", data_root)
    assert path.stat().st_size < LIMIT
    check_look(visit("fashion", width, scheme, path), "fashion", width, scheme)


@pytest.mark.slow
def test_the_page_of_all_fashion_mnist_is_light(visit, tmp_path, data_root):
    """The time to the first paint is noted, not tested: it depends on what else the machine does."""
    path = fashion_page(tmp_path / "run", data_root, 70_000, 700, 128)
    page = visit("70000", path=path)
    pixels(page)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    noted = {"nodes": 70_000, "bytes": path.stat().st_size, "first_paint_seconds": paint / 1000}
    artefact("report-70000.json").write_text(json.dumps(noted) + "\n")
    check_look(page, "70000", 1280, "light")
    assert path.stat().st_size < LIMIT


def test_the_slider_moves_the_map(visit):
    page = visit("full")
    assert page.locator("#layout option").first.text_content() == "features"
    features = pixels(page)
    page.locator("#layout").select_option("predicted class")
    end = pixels(page)
    page.locator("#moment").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#moment-name").text_content() == "50 % of the way"
    middle = pixels(page)
    page.keyboard.press("Home")
    assert page.locator("#moment-name").text_content() == "25 % of the way"
    assert len({end, middle, pixels(page)}) == 3
    page.keyboard.press("End")
    page.locator("#moment").blur()
    assert pixels(page) == end
    page.locator("#layout").select_option("features")
    assert pixels(page) == features
    assert features != end


def test_colours_change_from_label_to_certainty(visit):
    page = visit("full")
    before, legend = pixels(page), page.locator("#legend").text_content()
    assert "<script>" in legend
    page.get_by_label("certainty at the end").check()
    assert pixels(page) != before
    assert "certainty" in page.locator("#legend").text_content()


def test_hover_shows_the_image_of_a_node(visit):
    page = visit("full")
    page.locator("#nodes").scroll_into_view_if_needed()
    pixels(page)
    place = page.evaluate(
        """() => { const { map } = JSON.parse(document.getElementById('data').textContent);
        const box = document.getElementById('nodes').getBoundingClientRect(), flat = map.layouts[0].xy[0];
        const at = i => [box.left + 14 + flat[2 * i] / 999 * (box.width - 28),
                         box.top + 14 + (1 - flat[2 * i + 1] / 999) * (box.height - 28)];
        const all = map.ids.map((_, i) => at(i));
        const alone = i => all.every((p, j) => i === j || Math.hypot(p[0] - all[i][0], p[1] - all[i][1]) > 6);
        const i = map.ids.findIndex((_, i) => map.thumb[i] >= 0 && alone(i));
        return { at: all[i], id: map.ids[i], thumb: map.thumb[i], columns: map.columns }; }"""
    )
    assert page.locator("#tip").is_hidden()
    page.mouse.move(*place["at"])
    page.locator("#tip").wait_for(state="visible")
    assert place["id"] in page.locator("#tip .words").text_content()
    thumb = page.locator("#tip .thumb")
    assert thumb.bounding_box()["height"] > 20
    assert thumb.evaluate("e => getComputedStyle(e).backgroundImage").startswith('url("data:image/')
    assert thumb.evaluate("e => e.style.getPropertyValue('--c')") == str(place["thumb"] % place["columns"])
    page.mouse.move(5, 5)
    page.locator("#tip").wait_for(state="hidden")


def test_the_map_is_used_by_keyboard_alone(visit):
    page = visit("full")
    page.locator("#moment").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "nodes"
    page.locator("#tip").wait_for(state="visible")
    first = page.locator("#spoken").text_content()
    assert "image" in first
    page.keyboard.press("ArrowRight")
    pixels(page)
    second = page.locator("#spoken").text_content()
    assert second != first
    page.keyboard.press("Escape")
    page.locator("#tip").wait_for(state="hidden")


@pytest.mark.skipif(axe_script() is None, reason="no axe-playwright-python, extra 'test'")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["full", "findings", "bare", "digits"])
def test_axe_finds_nothing(visit, name, scheme):
    page = visit(name, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    page.add_script_tag(path=axe_script())
    found = page.evaluate("axe.run()")["violations"]
    assert [(problem["impact"], problem["id"], problem["nodes"][0]["html"]) for problem in found] == []
