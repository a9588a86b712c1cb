"""The documentation site, built and looked at in a real browser."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import NO_BROWSER, ROOT, artefact, open_browser

for package in ("mkdocstrings", "latex2mathml"):
    if importlib.util.find_spec(package) is None:
        pytest.skip("the site needs the extra 'docs'", allow_module_level=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site; a warning fails the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert (built.returncode, built.stderr) == (0, "")
    return folder


@pytest.fixture
def address(site) -> Iterator[str]:
    """The site on this machine: a browser does not let a page search in files."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_equations_are_mathml_and_no_markup_of_the_docstrings_is_left(site):
    pages = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("index.html")}
    assert "\\min_{\\|\\mathbf{u}\\|_2 = 1}" in pages["api/models/index.html"]  # CREPE's, kept for copying
    assert pages["api/models/index.html"].count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') > 8
    for name, page in pages.items():
        assert not re.search(r":(?:math|obj|class|meth|func):`|\.\. (?:math|code-block)::", page), name
        assert 'class="arithmatex"' not in page, name


@pytest.mark.skipif(NO_BROWSER is not None, reason=str(NO_BROWSER))
def test_nothing_is_loaded_from_elsewhere_and_equations_are_drawn(address):
    requests: list[str] = []
    messages: list[str] = []
    with open_browser() as browser:
        for path, width, scheme in (("", 1280, "light"), ("notation/", 390, "dark"), ("api/models/", 1280, "dark")):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on("request", lambda request: requests.append(request.url))
            page.on("console", lambda message: messages.append(message.text))
            page.on("pageerror", lambda error: messages.append(str(error)))
            page.goto(address + path, wait_until="networkidle")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            sizes = page.evaluate("[...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().height)")
            assert sizes
            assert min(sizes) > 5
            name = path.replace("/", "-") or "index-"
            page.screenshot(path=artefact(f"site-{name}{width}-{scheme}.png"), full_page=not path.startswith("api"))
            page.close()
    assert messages == []
    assert [url for url in requests if not url.startswith((address, "data:"))] == []
