"""The server as a browser or an attacker sees it: every refusal is a test."""

import json
import re

import numpy as np
import pytest
from label_projects import COLOURS, answer_truly, make_project, solve_now

pytest.importorskip("starlette", reason="the page needs the extra 'label'")
pytest.importorskip("httpx", reason="the test client needs the extra 'test'")
pytest.importorskip("PIL", reason="images need the extra 'label'")

from tg_crepe.label import Session
from tg_crepe.label.server import LabelServer

PORT = 8642
ORIGIN = f"http://127.0.0.1:{PORT}"


class Visitor:
    """A server, a client in front of it, and the lines that the server has logged."""

    def __init__(self, session):
        from starlette.testclient import TestClient

        self.log = []
        self.session = session
        self.server = LabelServer(session, PORT, self.log.append)
        self.client = TestClient(self.server.guard, base_url=ORIGIN, follow_redirects=False)

    def enter(self):
        answer = self.client.get(f"/?token={self.server.guard.token}")
        assert answer.status_code == 303
        return answer

    def post(self, path, body, **headers):
        sent = {"origin": ORIGIN, "x-page-token": self.server.guard.page_token, **headers}
        return self.client.post(path, json=body, headers={k: v for k, v in sent.items() if v is not None})


@pytest.fixture
def visitor(tmp_path):
    project, truth = make_project(tmp_path, images=True)
    session = Session(project)
    session.add_classes("classes-of-the-test", ["red", "green", "blue"])
    answer_truly(session, truth, [0, 1, 2, 3, 4, 5])
    solve_now(session)
    session.publish_queue([30, 31, 32], lambda: True)
    yield Visitor(session)
    session.close()


ANSWER = {"request": "request-0001", "kind": "one", "answers": [{"item": 30, "kind": "class", "class": 1}]}


def test_the_token_of_the_first_address_becomes_a_cookie_that_no_script_reads(visitor):
    cookie = visitor.enter().headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert visitor.server.guard.token not in cookie
    page = visitor.client.get("/")
    assert page.status_code == 200
    assert visitor.server.guard.token not in page.text


def test_the_page_has_no_script_or_style_inside_and_a_policy_against_them(visitor):
    visitor.enter()
    page = visitor.client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.findall(r"<script(?![^>]*src=)", page.text) == []
    assert "<style" not in page.text
    assert re.findall(r"\son\w+=|style=|javascript:|https?://", page.text) == []
    for name in re.findall(r'"/static/([\w.]+)"', page.text):
        assert visitor.client.get(f"/static/{name}").status_code == 200


def test_no_cookie_and_wrong_tokens_are_refused_with_one_line_in_the_log(visitor):
    for path in ("/", "/api/state", "/api/image/0/small", "/static/app.js", "/api/events", "/api/export/all.csv"):
        assert visitor.client.get(path).status_code == 403
    assert visitor.log == ["refused: no cookie of this session"]
    for token in ("", "wrong", visitor.server.guard.token[:-1], visitor.server.guard.token + "&x=1"):
        assert visitor.client.get(f"/?token={token}").status_code == 403
    assert len(visitor.log) == 2


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:8642.x"])
def test_another_host_is_refused(visitor, host):
    visitor.enter()
    assert visitor.client.get("/api/state", headers={"host": host}).status_code == 403
    assert visitor.client.get(f"/?token={visitor.server.guard.token}", headers={"host": host}).status_code == 403
    assert visitor.log == ["refused: another Host"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:8642", "http://127.0.0.1:8643"])
def test_another_origin_is_refused(visitor, origin):
    visitor.enter()
    assert visitor.client.get("/api/state", headers={"origin": origin}).status_code == 403
    assert visitor.post("/api/answer", ANSWER, origin=origin).status_code == 403
    assert visitor.client.get("/api/state", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert 30 not in visitor.session.book.answers


def test_changes_need_the_token_of_the_page_and_an_origin(visitor):
    visitor.enter()
    assert visitor.post("/api/answer", ANSWER, **{"x-page-token": None}).status_code == 403
    assert visitor.post("/api/answer", ANSWER, **{"x-page-token": "wrong"}).status_code == 403
    assert visitor.post("/api/answer", ANSWER, origin=None).status_code == 403
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert visitor.client.request(method, "/api/answer").status_code == 403
    assert visitor.client.get("/api/answer").status_code == 405
    assert 30 not in visitor.session.book.answers
    assert visitor.post("/api/answer", ANSWER).status_code == 200
    assert visitor.session.book.answers[30].class_id == 1


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static/....//server.py",
        "/static//etc/passwd",
        "/static/label.html%00.css",
        "/api/image/../../project.json/small",
        "/api/image/0/..%2f..%2fproject.json",
        "/api/image/-1/small",
        "/api/image/90/small",
        "/api/image/99999999999999999999999999/small",
        "/api/export/..%2fproject.json",
        "/api/export/labels.sqlite",
    ],
)
def test_only_files_of_the_page_and_images_of_the_project_can_be_fetched(visitor, path):
    visitor.enter()
    assert visitor.client.get(path).status_code in (403, 404)


def test_images_are_pixels_and_none_of_the_bytes_of_the_file(visitor, tmp_path):
    from io import BytesIO

    from PIL import Image

    path = tmp_path / "images" / "item-007.png"
    path.write_bytes(path.read_bytes() + b"<script>secret</script>")
    visitor.enter()
    answer = visitor.client.get("/api/image/7/large")
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert b"secret" not in answer.content
    assert Image.open(BytesIO(answer.content)).getpixel((3, 3)) == COLOURS[1]


def test_links_out_of_the_folder_are_not_followed(visitor, tmp_path):
    from PIL import Image

    Image.new("RGB", (24, 24), (1, 2, 3)).save(tmp_path / "private.png")
    path = tmp_path / "images" / "item-008.png"
    path.unlink()
    path.symlink_to(tmp_path / "private.png")
    visitor.enter()
    answer = visitor.client.get("/api/image/8/large")
    assert answer.status_code == 422
    assert "link out of the folder" in answer.text


def test_an_image_bomb_is_refused_before_it_is_unpacked(visitor, tmp_path):
    import struct
    import zlib

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1_000_000))
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    (tmp_path / "images" / "item-009.png").write_bytes(bomb)
    visitor.enter()
    answer = visitor.client.get("/api/image/9/small")
    assert answer.status_code == 422
    assert "pixels" in answer.text


def test_names_of_classes_are_text(visitor):
    visitor.enter()
    name = "<script>alert(1)</script>"
    assert visitor.post("/api/change", {"request": "request-0002", "do": "add", "name": name}).status_code == 200
    state = visitor.client.get("/api/state")
    assert state.headers["content-type"] == "application/json"
    assert name in [one["name"] for one in state.json()["classes"]]
    assert name not in visitor.client.get("/").text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/answer", []),
        ("/api/answer", {}),
        ("/api/answer", {**ANSWER, "request": "x"}),
        ("/api/answer", {**ANSWER, "kind": "import"}),
        ("/api/answer", {**ANSWER, "answers": "all"}),
        ("/api/answer", {**ANSWER, "answers": []}),
        ("/api/answer", {**ANSWER, "answers": [{"item": 30, "kind": "class", "class": 99}]}),
        ("/api/answer", {**ANSWER, "answers": 2 * ANSWER["answers"]}),
        ("/api/change", {"request": "request-0003", "do": "delete", "class": 0}),
        ("/api/change", {"request": "request-0003", "do": "add", "name": 7}),
        ("/api/change", {"request": "request-0003", "do": "merge", "class": 1, "into": 1}),
        ("/api/change", {"request": "request-0003", "do": "explode", "class": 1}),
        ("/api/lasso", {"polygon": [[0, 0], [1, 1]]}),
        ("/api/lasso", {"polygon": [[0, 0], [1, 1], ["a", None]]}),
    ],
)
def test_wrong_requests_are_one_line_and_change_nothing(visitor, path, body):
    visitor.enter()
    before = len(visitor.session.store.acts())
    answer = visitor.post(path, body)
    assert answer.status_code == 422
    assert "\n" not in answer.json()["error"]
    assert len(visitor.session.store.acts()) == before


def test_long_and_deep_bodies_are_refused(visitor):
    visitor.enter()
    headers = {"origin": ORIGIN, "x-page-token": visitor.server.guard.page_token}
    assert visitor.client.post("/api/answer", content=b" " * (2 << 20), headers=headers).status_code == 413
    assert visitor.client.post("/api/answer", content=b"[" * 500_000, headers=headers).status_code == 422


def test_an_answer_that_is_sent_again_is_written_once(visitor):
    visitor.enter()
    first, second = visitor.post("/api/answer", ANSWER), visitor.post("/api/answer", ANSWER)
    assert first.json() == second.json()
    assert [act.kind for act in visitor.session.store.acts()].count("one") == 7


def test_the_page_is_told_what_it_shows(visitor):
    visitor.enter()
    state = visitor.client.get("/api/state").json()
    assert [(one["name"], one["labels"]) for one in state["classes"]] == [
        ("red", 2),
        ("green", 2),
        ("blue", 2),
        ("none of these", 0),
    ]
    assert sum(one["labels"] + one["guesses"] for one in state["classes"]) == 90
    asked = visitor.client.get("/api/next?tab=t&count=2").json()["items"]
    assert [item["item"] for item in asked] == [30, 31]
    assert len(asked[0]["near"]) == 5
    guess, share = asked[0]["top"][0]
    assert (guess, round(share, 3)) == (1, round(visitor.session.solved.guess(30)[1], 3))
    grid = visitor.client.get("/api/grid?class=2&order=doubt").json()["items"]
    shares = [item["guess"][1] for item in grid]
    assert shares == sorted(shares)
    assert len(grid) == 24
    drawn = visitor.client.get("/api/map").json()
    assert len(drawn["item"]) == 90
    assert sum(drawn["given"]) == 6
    assert set(visitor.client.get("/api/classes").json()["examples"]) == {"1", "2", "3"}


def test_the_lasso_takes_what_is_inside_and_has_no_answer(visitor):
    visitor.enter()
    everything = [[-1, -1], [-1, 1000], [1000, 1000], [1000, -1]]
    found = visitor.post("/api/lasso", {"polygon": everything}).json()
    assert (found["inside"], len(found["free"])) == (90, 84)
    position = visitor.session.project.prepared.position
    left = visitor.post("/api/lasso", {"polygon": [[-1, -1], [-1, 1000], [499.5, 1000], [499.5, -1]]}).json()
    assert left["inside"] == int((position[:, 0] < 499.5).sum())


def test_ten_thousand_requests_in_a_burst_are_harmless(visitor):
    """Straight into the guard: what is refused costs next to nothing and is one line in the log."""
    import asyncio

    sent = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        if message["type"] == "http.response.start":
            sent.append(message["status"])

    scope = {"type": "http", "method": "POST", "path": "/api/answer", "query_string": b"", "headers": [(b"host", b"x")]}

    async def burst():
        await asyncio.gather(*(visitor.server.guard(dict(scope), receive, send) for _ in range(10_000)))

    asyncio.run(burst())
    assert sent == [403] * 10_000
    assert visitor.log == ["refused: another Host"]
    visitor.enter()
    assert visitor.client.get("/api/state").status_code == 200


def test_downloads_hold_the_labels(visitor):
    visitor.enter()
    table = visitor.client.get("/api/export/labels.csv")
    assert "attachment" in table.headers["content-disposition"]
    assert table.text.splitlines()[:2] == ["id,label,asked", "item-000.png,red,label"]
    tasks = json.loads(visitor.client.get("/api/export/label-studio.json").text)
    assert len(tasks) == 90
    assert np.mean(["annotations" in task for task in tasks]) == pytest.approx(6 / 90)
