"""Small projects to label: three clouds of points, each item with an image of its cloud's colour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe.label import Project, Session
from tg_crepe.label.solve import solve_book
from tg_crepe.label.store import ActStore, Answer

COLOURS = ((200, 60, 60), (60, 160, 60), (60, 60, 200))


def clouds(count: int = 90, seed: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Features of shape [count, 8] and the cloud of every row."""
    generator = np.random.default_rng(seed)
    truth = np.arange(count) % 3
    centre = 3 * np.eye(3, 8)
    return (centre[truth] + 0.7 * generator.normal(size=(count, 8))).astype(np.float32), truth


def write_images(folder: Path, truth: np.ndarray) -> list[str]:
    """An image per item; their names."""
    from PIL import Image

    folder.mkdir(parents=True)
    ids = [f"item-{number:03d}.png" for number in range(len(truth))]
    for name, number in zip(ids, truth, strict=True):
        Image.new("RGB", (24, 24), COLOURS[number]).save(folder / name)
    return ids


def make_project(folder: Path, images: bool = False, count: int = 90) -> tuple[Project, np.ndarray]:
    """A project of the clouds, and their true classes."""
    x, truth = clouds(count)
    ids = write_images(folder / "images", truth) if images else [f"row {number}" for number in range(count)]
    settings = {"source": str(folder / "source.npz"), "k": 8, "metric": "euclidean"}
    show = str(folder / "images") if images else None
    return Project.create(folder / "project", x, ids, settings, show), truth


def answer_truly(session: Session, truth: np.ndarray, items: list[int]) -> None:
    """Labels of items, one act each; classes are numbered from 1."""
    for item in items:
        answer = {"item": int(item), "kind": "class", "class": 1 + int(truth[item])}
        session.answer(f"answer-{item:06d}-{session.book.last}", "one", [answer])


def solve_now(session: Session) -> None:
    """What the worker does, at once."""
    book, wanted = session.to_solve()
    session.publish(solve_book(book, session.project.x, session.project.prepared), book, wanted)


def write_until_killed(path: Path, pipe: Any) -> None:
    """Records answers for ever, and says of each that it is saved; here, where a new process can import it."""
    store = ActStore(path)
    for item in range(100_000):
        store.record(f"request-{item}", "one", {}, [Answer(item, "class", 1)])
        pipe.send(item)
