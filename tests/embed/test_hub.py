from __future__ import annotations

import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tg_crepe.embed.hub import answers


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in ("HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


class NotFound(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_error(404)

    def log_message(self, *arguments):
        pass


def test_a_server_that_answers_anything_is_there():
    server = HTTPServer(("127.0.0.1", 0), NotFound)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert answers(f"http://127.0.0.1:{server.server_port}/")
    finally:
        server.shutdown()
        server.server_close()


def test_a_server_that_takes_the_call_and_says_nothing_is_given_up():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        start = time.monotonic()
        assert not answers(f"http://127.0.0.1:{silent.getsockname()[1]}/", patience=0.3)
        assert time.monotonic() - start < 60  # a library would try for longer; the exact time is the machine's


def test_nobody_is_asked_offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **b: pytest.fail("the network was asked"))
    assert not answers("https://huggingface.co")


def test_a_closed_port_is_no_answer():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert not answers(f"http://127.0.0.1:{taken.getsockname()[1]}/")
