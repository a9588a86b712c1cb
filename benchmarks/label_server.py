"""How quick the page of ``tg-crepe label`` is: from an answer to the next item while a solve runs, and its memory.

    python benchmarks/label_server.py     # 70,000 images of Fashion-MNIST, writes benchmarks/results/label_server.json
    python benchmarks/label_server.py --items 7000 --out some/folder

The command itself is started on principal components of the images. A person who answers truly twice a second is
simulated over HTTP: an answer is sent, then the next item is asked for with all that the page shows of it. (The page
has the next items beforehand and waits for neither.) The time from the last answer to labels of all items is compared
with a call of the model on the prepared graph in a process of its own.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from shared import fashion, machine

from tg_crepe.label import Project
from tg_crepe.label.book import Book
from tg_crepe.label.solve import solve_book
from tg_crepe.label.store import ActStore


class Client:
    """A browser's part of the work."""

    def __init__(self, address: str) -> None:
        self.host = re.findall(r"//([^/]+)/", address)[0]
        self.connection = http.client.HTTPConnection(self.host)
        self.headers = {"origin": f"http://{self.host}"}
        self.connection.request("GET", address[address.index("/?") :])
        answer = self.connection.getresponse()
        answer.read()
        self.headers["cookie"] = str(answer.getheader("set-cookie")).split(";")[0]
        page = self.send("GET", "/")
        self.headers["x-page-token"] = re.findall(r'page-token" content="([^"]+)', page.decode())[0]

    def send(self, method: str, path: str, body: Any = None) -> bytes:
        """The answer to a request."""
        self.connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {content[:200]!r}")
        return content

    def get(self, path: str) -> Any:
        """What the server tells."""
        return json.loads(self.send("GET", path))

    def answer(self, item: int, number: int) -> int:
        """Gives a label; the number of the act."""
        body = {
            "kind": "one",
            "answers": [{"item": item, "kind": "class", "class": number}],
            "request": uuid.uuid4().hex,
        }
        return int(json.loads(self.send("POST", "/api/answer", body))["act"])


def measure(folder: Path, y: np.ndarray, address: str, answers: int) -> dict[str, Any]:
    """Times of a session, in seconds."""
    client = Client(address)
    waits, under_way = [], []
    while not (item := client.get("/api/next?tab=bench&count=1")["items"]):
        time.sleep(0.5)
    act = 0
    for _ in range(answers):
        number = item[0]["item"]
        begin = time.perf_counter()
        act = client.answer(number, int(y[number]) + 1)
        item = client.get("/api/next?tab=bench&count=1")["items"]
        waits.append(time.perf_counter() - begin)
        under_way.append(client.get("/api/state")["solved"] < act)
        while not item:
            time.sleep(0.2)
            item = client.get("/api/next?tab=bench&count=1")["items"]
        time.sleep(0.5)
    while client.get("/api/state")["solved"] < act:
        time.sleep(0.05)
    updates = []
    for _ in range(3):
        number = client.get("/api/next?tab=bench&count=1")["items"][0]["item"]
        begin = time.perf_counter()
        act = client.answer(number, int(y[number]) + 1)
        while client.get("/api/state")["solved"] < act:
            time.sleep(0.05)
        updates.append(time.perf_counter() - begin)
        time.sleep(3)  # the choice of the next items is no part of it
    during = np.array(waits)[np.array(under_way)]
    return {
        "answers": answers,
        "during_a_solve": len(during),
        "wait_median": float(np.median(during)),
        "wait_95": float(np.quantile(during, 0.95)),
        "update_median": float(np.median(updates)),
    }


def plain_calls(folder: Path) -> float:
    """Seconds of a call on the prepared graph with the same labels."""
    project, store = Project.open(folder), ActStore(folder / "labels.sqlite")
    book = Book.read(store.acts())
    store.close()
    solve_book(book, project.x, project.prepared)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        solve_book(book, project.x, project.prepared)
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=70_000)
    parser.add_argument("--answers", type=int, default=60)
    parser.add_argument("--out", type=Path, default=machine.RESULTS)
    options = parser.parse_args()
    x, y = fashion.load()
    x, y = x[: options.items].numpy(), y[: options.items].numpy()
    with tempfile.TemporaryDirectory() as place:
        np.save(Path(place, "features.npy"), x)
        names = ",".join(f"class {number}" for number in range(10))
        words = ["label", "features.npy", "--classes", names, "--project", "project", "--no-browser"]
        begin = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "tg_crepe", *words], cwd=place, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        address = next(found[1] for line in process.stdout if (found := re.search(r"open: (\S+)", line)))
        ready = time.perf_counter() - begin
        try:
            found = measure(Path(place), y, address, options.answers)
            status = Path(f"/proc/{process.pid}/status").read_text()
            memory = int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1e6
        finally:
            process.terminate()
            process.wait()
        plain = plain_calls(Path(place, "project"))
    result = {"items": len(y), "ready": ready, **found, "propagate": plain, "memory_gb": memory}
    result["update_over_propagate"] = result["update_median"] / plain
    text = json.dumps({"machine": machine.describe(), **result}, indent=1)
    machine.write_text(text + "\n", options.out / "label_server.json")
    print(text)


if __name__ == "__main__":
    main()
