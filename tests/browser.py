"""A real browser for the tests of pages, and where their screenshots stay."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium")
#: Why there is no browser, or None.
NO_BROWSER = (
    "the browser is driven by playwright, extra 'test'"
    if find_spec("playwright") is None
    else "no chromium on this machine"
    if CHROMIUM is None
    else None
)
_OPTIONS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"]


@contextmanager
def open_browser() -> Iterator[Any]:
    """Chromium without a window."""
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_OPTIONS)
        yield browser
        browser.close()


def artefact(name: str) -> Path:
    """A file that stays after the tests: in the folder TG_CREPE_SHOTS, or test-artefacts in the project."""
    folder = Path(os.environ.get("TG_CREPE_SHOTS", ROOT / "test-artefacts"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def axe_script() -> Path | None:
    """The accessibility checker that axe-playwright-python brings."""
    found = find_spec("axe_playwright_python")
    return None if found is None or found.origin is None else Path(found.origin).with_name("axe.min.js")
