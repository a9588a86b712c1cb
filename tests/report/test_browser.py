"""The page in a real browser. Screenshots stay in the folder that TG_CREPE_SHOTS names, where it is set."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_runs import write_run

pytest.importorskip("jinja2", reason="the report needs the extra 'report'")
pytest.importorskip("matplotlib", reason="the report needs the extra 'report'")
pytest.importorskip("playwright", reason="the browser is driven by playwright, extra 'test'")

from playwright import sync_api

from tg_crepe.report import write_report

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
OPTIONS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """A page of every kind of run."""
    folder = tmp_path_factory.mktemp("runs")
    kinds = {
        "full": {},
        "findings": {"multi_label": True},
        "bare": {"images": False, "truth": False, "flow": False, "epochs": 0},
    }
    return {name: write_report(write_run(folder / name, **options)) for name, options in kinds.items()}


@pytest.fixture
def visit(browser, pages):
    """Opens a page of a run; any message on its console fails the test."""
    messages: list[str] = []
    opened: list[sync_api.Page] = []

    def open_page(name: str, width: int = 1280, scheme: str = "light", **options) -> sync_api.Page:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        page.set_default_timeout(10_000)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: messages.append(request.url) if "http" in request.url[:4] else None)
        page.goto(pages[name].as_uri())
        opened.append(page)
        return page

    yield open_page
    for page in opened:
        assert page.evaluate("window.broken") is None
        page.close()
    assert messages == []


def pixels(page: sync_api.Page) -> str:
    """What is on the canvas once the next frame is drawn."""
    script = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done("
    return page.evaluate(script + "document.getElementById('nodes').toDataURL()))))")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("name", ["full", "findings", "bare"])
def test_pages_fit_the_screen_and_say_nothing_on_the_console(visit, name, width, scheme):
    page = visit(name, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, colour[4:-1].split(","))) > 382) == (scheme == "light")
    if "TG_CREPE_SHOTS" in os.environ:
        page.screenshot(path=Path(os.environ["TG_CREPE_SHOTS"]) / f"{name}-{width}-{scheme}.png", full_page=True)


def test_the_slider_moves_the_map(visit):
    page = visit("full")
    end = pixels(page)
    page.locator("#moment").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#moment-name").text_content() == "50 % of the flow"
    middle = pixels(page)
    page.keyboard.press("Home")
    assert page.locator("#moment-name").text_content() == "25 % of the flow"
    assert len({end, middle, pixels(page)}) == 3
    page.keyboard.press("End")
    page.locator("#moment").blur()
    assert pixels(page) == end
    page.locator("#layout").select_option("features")
    assert pixels(page) != end


def test_colours_change_from_label_to_certainty(visit):
    page = visit("full")
    before, legend = pixels(page), page.locator("#legend").text_content()
    assert "<script>" in legend
    page.get_by_label("certainty at the end").check()
    assert pixels(page) != before
    assert "certainty" in page.locator("#legend").text_content()


def test_hover_shows_the_image_of_a_node(visit):
    page = visit("full")
    page.get_by_label("Place by").select_option("features")
    pixels(page)
    place = page.evaluate(
        """() => { const { map } = JSON.parse(document.getElementById('data').textContent);
        const box = document.getElementById('nodes').getBoundingClientRect(), flat = map.layouts[1].xy[0];
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


def axe_path() -> Path | None:
    named = [os.environ["TG_CREPE_AXE"]] if "TG_CREPE_AXE" in os.environ else []
    found = [Path(name) for name in (*named, "node_modules/axe-core/axe.min.js")]
    return next((path for path in found if path.is_file()), None)


@pytest.mark.skipif(axe_path() is None, reason="no axe-core: TG_CREPE_AXE names no file, node_modules has none")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["full", "findings", "bare"])
def test_axe_finds_nothing_serious(visit, name, scheme):
    page = visit(name, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    page.add_script_tag(path=axe_path())
    found = page.evaluate("axe.run()")["violations"]
    assert [(problem["impact"], problem["id"], problem["nodes"][0]["html"]) for problem in found] == []
