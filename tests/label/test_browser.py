"""The page in a real browser. Screenshots stay in test-artefacts, or in the folder that TG_CREPE_SHOTS names."""

from __future__ import annotations

import csv
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import NO_BROWSER, artefact, axe_script, open_browser
from label_projects import clouds, write_images

pytest.importorskip("starlette", reason="the page needs the extra 'label'")
pytest.importorskip("uvicorn", reason="the page needs the extra 'label'")
pytest.importorskip("typer", reason="the command needs the extra 'cli'")
pytest.importorskip("PIL", reason="images need the extra 'label'")
if NO_BROWSER is not None:
    pytest.skip(NO_BROWSER, allow_module_level=True)

from playwright.sync_api import expect

from tg_crepe.label.book import Book
from tg_crepe.label.store import ActStore

expect.set_options(timeout=30_000)  # a solve may take long where other tests run beside it

#: The keys of the classes, in the order of the clouds.
KEYS = ("1", "2", "3")

ITEM = re.compile(r"item-\d+\.png")


class Running:
    """The command as a person starts it, and the folder that it works on."""

    def __init__(self, folder: Path, classes: str = "red,green,blue", count: int = 180) -> None:
        self.folder, self.classes = folder, classes
        x, self.truth = clouds(count)
        ids = write_images(folder / "images", self.truth)
        np.savez(folder / "features.npz", x=x, ids=np.array(ids))
        self.start()

    def start(self) -> None:
        words = ["features.npz", "--show", "images", "--classes", self.classes, "--project", "project", "--no-browser"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tg_crepe", "label", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        )
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if found := re.search(r"open: (http://127\.0\.0\.1:\d+/\?token=\S+)", line):
                self.address = found[1]
                return
        raise AssertionError("".join(lines))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self._wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self._wait()

    def _wait(self) -> int:
        code = self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def book(self) -> Book:
        store = ActStore(self.folder / "project" / "labels.sqlite")
        try:
            return Book.read(store.acts())
        finally:
            store.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[..., Running]]:
    """Starts the command, and ends it whatever becomes of the test."""
    started: list[Running] = []

    def start(**options: Any) -> Running:
        started.append(Running(tmp_path, **options))
        return started[-1]

    yield start
    for running in started:
        assert running.stop() == 0


@pytest.fixture
def running(start) -> Running:
    return start()


@pytest.fixture
def visit(browser):
    """Opens a tab; any message on its console fails the test."""
    messages: list[str] = []
    contexts = []

    def open_tab(address: str, context: Any = None, width: int = 1280, scheme: str = "light", **options: Any) -> Any:
        if context is None:
            size = {"width": width, "height": 844}
            context = browser.new_context(viewport=size, color_scheme=scheme, **options)
            contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: messages.append(request.url) if "//127.0.0.1:" not in request.url else None)
        page.goto(address)
        ready(page)
        return page

    yield open_tab
    for context in contexts:
        context.close()
    assert messages == []


def ready(page: Any) -> None:
    """Waits for the first item and for the keys that answer it, which come by requests of their own."""
    page.locator("#item img").wait_for()
    page.locator("#choices button").first.wait_for()


def shown(page: Any) -> int:
    """The number of the item on the screen."""
    return int(page.locator("#item-name").text_content()[5:8])


def answer(page: Any, truth: np.ndarray, times: int) -> list[int]:
    """Right answers by keys; the items, each of which was followed by another at once."""
    items = []
    for _ in range(times):
        expect(page.locator("#item-name")).to_have_text(ITEM)
        items.append(shown(page))
        page.keyboard.press(KEYS[truth[items[-1]]])
        expect(page.locator("#item-name")).not_to_have_text(f"item-{items[-1]:03d}.png")
    return items


class Held:
    """Requests that are under way until they are let go."""

    def __init__(self, page: Any, which: Any) -> None:
        self._waiting: list[Any] | None = []
        page.route(which, self._take)

    def _take(self, route: Any) -> None:
        if self._waiting is None:
            route.continue_()
        else:
            self._waiting.append(route)

    def let_go(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for route in waiting:
            route.continue_()


def saved(page: Any) -> None:
    expect(page.locator("#status")).to_have_text(re.compile("^saved"))


def test_a_whole_session_by_keyboard_alone(running, visit, tmp_path):
    page = visit(running.address)
    items = answer(page, running.truth, 20)
    page.keyboard.press("z")
    page.keyboard.press("z")
    expect(page.locator("#item-name")).to_have_text(f"item-{items[-2]:03d}.png")
    page.keyboard.press("+")
    page.keyboard.type("violet <b>")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="violet <b>").first.wait_for()
    page.keyboard.press("4")
    page.keyboard.press("z")
    expect(page.locator("#item-name")).to_have_text(f"item-{items[-2]:03d}.png")
    items = items[:-2] + answer(page, running.truth, 26)
    for key in "su":
        expect(page.locator("#item-name")).to_have_text(ITEM)
        page.keyboard.press(key)
    page.locator("#guess .bar").wait_for()
    for _ in range(6):
        page.locator("#guess .bar").wait_for()
        before = page.locator("#item-name").text_content()
        page.keyboard.press("Enter")
        expect(page.locator("#item-name")).not_to_have_text(before)
    page.screenshot(path=artefact("label-one-1280-light.png"))

    page.keyboard.press("p")
    page.locator("#grid .tile").nth(23).wait_for()
    page.keyboard.press("Tab")  # from the tabs to the list of classes, and on to the items
    page.locator("#grid .tile").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press(" ")
    assert page.locator("#grid .tile.wrong").count() == 1
    page.screenshot(path=artefact("label-grid-1280-light.png"))
    page.keyboard.press("Enter")
    saved(page)

    page.keyboard.press("m")
    page.locator("#nodes").focus()
    for key in ("Shift+ArrowLeft", "Shift+ArrowUp", " ", *4 * ["Shift+ArrowRight"], " ", *5 * ["Shift+ArrowDown"], " "):
        page.keyboard.press(key)
    page.screenshot(path=artefact("label-map-1280-light.png"))
    page.keyboard.press("Enter")
    page.locator("#lasso").wait_for()
    inside = re.search(r"(\d+) items inside, (\d+) without", page.locator("#lasso-title").text_content())
    assert inside is not None
    page.keyboard.press("2")
    saved(page)
    page.keyboard.press("z")  # that was only to try it
    saved(page)

    page.keyboard.press("g")
    page.locator("#curve svg").wait_for()
    page.screenshot(path=artefact("label-progress-1280-light.png"))
    page.locator("a[href$='labels.csv']").focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    with open(download.value.path(), newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == int(page.locator("#fact-labels").text_content())
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")

    book = running.book()
    assert len(items) == 44
    labels = book.labels(180)
    assert [int(labels[item]) for item in items] == [1 + int(running.truth[item]) for item in items]
    assert (labels >= 0).sum() == 44 + 6 + 23
    assert book.classes[4] == "violet <b>"
    assert len(book.items("skip")) + len(book.items("unsure")) == 2


def test_an_item_that_is_taken_back_is_asked_for_once(start, visit):
    """What comes next is asked for while the item that was taken back is on its way to the screen."""
    running = start(count=27)  # after eight answers 20 are left with the one taken back, all of one request
    page = visit(running.address)
    items = answer(page, running.truth, 8)
    saved(page)

    def free(address: str) -> bool:
        """Whether the server may give that item again for what was asked before it is back on the screen."""
        return "/api/next" in address and str(items[-1]) not in address.split("avoid=")[1].split(",")

    item, ahead = Held(page, lambda address: "/api/item/" in address), Held(page, free)
    with page.expect_request(lambda request: free(request.url)) as asked:
        page.keyboard.press("z")
    item.let_go()
    expect(page.locator("#item-name")).to_have_text(f"item-{items[-1]:03d}.png")
    address = re.sub("count=.*", "count=20", asked.value.url)
    for _ in range(100):
        given = [one["item"] for one in page.context.request.get(address).json()["items"]]
        if items[-1] in given:
            break
        page.wait_for_timeout(100)
    assert items[-1] in given
    ahead.let_go()
    page.wait_for_timeout(500)
    again = answer(page, running.truth, 12)
    assert again[0] == items[-1]
    assert len(set(again)) == 12
    saved(page)
    assert (running.book().labels(27) >= 0).sum() == 7 + 12


def test_a_page_of_one_guess_waits_for_answers_that_are_under_way(start, visit):
    """Else the last item would be on it, without an answer as far as the server knows."""
    running = start(count=30)
    page = visit(running.address)
    answer(page, running.truth, 9)
    saved(page)
    # Only classes that are guessed have a page; on a busy machine the first guesses come late.
    guessed = "async () => (await (await fetch('/api/state')).json()).classes.every(one => one.guesses > 0)"
    page.wait_for_function(guessed, timeout=60_000)
    page.reload()
    ready(page)
    under_way = Held(page, lambda address: address.endswith("/api/answer"))
    item = answer(page, running.truth, 1)[0]
    page.keyboard.press("p")
    page.wait_for_timeout(500)
    assert page.locator("#grid .tile").count() == 0
    under_way.let_go()
    tiles = page.locator("#grid .tile")
    for number in ("1", "2", "3"):
        page.locator("#grid-class").select_option(number)
        tiles.first.wait_for()
        page.wait_for_timeout(300)
        shown_items = tiles.evaluate_all("tiles => tiles.map(tile => Number(tile.dataset.item))")
        assert 0 < len(shown_items) < 24
        assert item not in shown_items


def test_two_tabs_share_the_work_and_a_reload_loses_nothing(running, visit):
    first = visit(running.address)
    second = visit(running.address.split("?")[0], first.context)
    assert shown(first) != shown(second)
    one, other = answer(first, running.truth, 5), answer(second, running.truth, 5)
    assert not set(one) & set(other)
    saved(first)
    saved(second)
    first.reload()
    ready(first)
    expect(first.locator("#fact-labels")).to_have_text("10")
    assert shown(first) not in {*one, *other}
    labels = running.book().labels(180)
    assert sorted(np.flatnonzero(labels >= 0)) == sorted({*one, *other})


def test_a_class_that_is_called_3_has_the_key_3_and_what_is_refused_is_told(start, browser):
    running = start(classes="3,cat,1", count=12)
    page = browser.new_page()  # not by visit: Chromium writes on its console that something was refused
    page.goto(running.address)
    ready(page)
    choices = page.locator("#choices button")
    expect(choices).to_have_text([re.compile(f"{key}$") for key in "321N"])
    page.locator("#new-name").fill(" CAT ")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_have_text("a class is called 'CAT' already")
    assert page.locator("#new-name").input_value() == " CAT "
    page.locator("#new-name").fill("dog")
    page.keyboard.press("Enter")
    expect(choices).to_have_count(5)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/next" in request.url else None)
    for key in (*"3" * 10, "4", "1"):
        expect(page.locator("#item-name")).to_have_text(ITEM)
        before = page.locator("#item-name").text_content()
        page.keyboard.press(key)
        expect(page.locator("#item-name")).not_to_have_text(before)
    expect(page.locator("#item .empty")).to_have_text("every item has an answer")
    saved(page)
    page.wait_for_timeout(1000)
    before = len(asked)
    page.wait_for_timeout(1000)
    assert len(asked) - before < 3, "a page with nothing left to ask does not ask without end"
    page.close()
    book = running.book()
    assert sorted(book.name(int(number)) for number in book.labels(12)) == ["1", *10 * ["3"], "dog"]


#: In how many lines a browser has set an element's text.
LINES = """element => {
  const range = document.createRange();
  range.selectNodeContents(element);
  return new Set([...range.getClientRects()].map(box => box.top)).size;
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_short_words_are_not_broken_and_one_label_is_no_labels(running, visit, width):
    page = visit(running.address, width=width)
    answer(page, running.truth, 1)
    expect(page.locator("#status")).to_have_text("saved")
    assert page.locator("#status").evaluate(LINES) == 1
    expect(page.locator("#fact-labels-word")).to_have_text("label")
    page.keyboard.press("c")
    expect(page.locator("#class-list")).to_contain_text("1 label,")
    expect(page.locator("#suspects")).to_have_text("none so far")
    assert page.locator("#suspects li").evaluate(LINES) == 1


@pytest.mark.skipif(axe_script() is None, reason="no axe-playwright-python, extra 'test'")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_all_views_fit_the_screen_and_axe_finds_nothing(running, visit, width, scheme):
    page = visit(running.address, width=width, scheme=scheme, bypass_csp=True)  # axe is a script from elsewhere
    answer(page, running.truth, 12)
    expect(page.locator("#fact-error")).not_to_have_text("–")
    script = Path(str(axe_script())).read_text(encoding="utf-8")
    for key, first in (
        ("o", "#item img"),
        ("p", "#grid .tile"),
        ("m", "#legend li"),
        ("c", ".class-row"),
        ("g", "#verdict"),
    ):
        page.keyboard.press(key)
        page.locator(first).first.wait_for()
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.screenshot(path=artefact(f"label-{key}-{width}-{scheme}.png"))
        page.evaluate(script)
        found = page.evaluate("axe.run()")["violations"]
        assert [(problem["impact"], problem["id"], problem["nodes"][0]["html"]) for problem in found] == []


@pytest.mark.slow
def test_no_saved_answer_is_lost_or_doubled_by_ten_kills(start, tmp_path, browser):
    """A page answers, the server is killed at a random moment, and so ten times."""
    running, chance = start(count=600), random.Random(100)
    acknowledged: set[int] = set()
    for _ in range(10):
        page = browser.new_page()
        page.on("response", lambda answer: note(answer, acknowledged))
        page.goto(running.address)
        ready(page)
        end = time.monotonic() + chance.uniform(0.5, 3.0)
        while time.monotonic() < end:
            if page.locator("#item-name").text_content():
                page.keyboard.press(KEYS[running.truth[shown(page)]])
        running.kill()
        page.close()
        book = running.book()
        assert acknowledged <= {act for act in range(1, book.last + 1)}
        store = ActStore(tmp_path / "project" / "labels.sqlite")
        items = [answer.item for act in store.acts() for answer in act.answers]
        assert acknowledged <= {act.number for act in store.acts()}
        store.close()
        assert len(items) == len(set(items))
        running.start()
    assert len(acknowledged) > 20


def note(answer: Any, acknowledged: set[int]) -> None:
    """What the server has called saved."""
    if answer.url.endswith("/api/answer") and answer.ok:
        try:
            acknowledged.add(answer.json()["act"])
        except Exception:
            return  # it was cut off: the page has not seen it either
