"""Labels on their way out: tables, PyG's Data, Label Studio, and a folder sorted by class."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe._files import atomic_file, atomic_folder
from tg_crepe._optional import require
from tg_crepe.datasets.image_folder import _sorted_classes
from tg_crepe.export import LabelledItems, label_studio_tasks
from tg_crepe.label.book import Book
from tg_crepe.label.project import DATABASE, Project
from tg_crepe.label.session import Session
from tg_crepe.label.solve import Solved
from tg_crepe.label.store import ActStore

#: What the page offers for download.
DOWNLOADS = ("labels.csv", "all.csv", "all.parquet", "data.pt", "label-studio.json")

#: The endings that a file of labels may have.
ENDINGS = (".csv", ".parquet", ".pt", ".json")


def export(session: Session, path: Path, only_given: bool = False) -> None:
    r"""Writes the labels to a file, by the ending of its name.

    Args:
        session (Session): The open project.
        path (Path): ``.csv`` or ``.parquet`` (a table), ``.pt`` (a PyG ``Data``) or ``.json`` (tasks of Label Studio).
        only_given (bool, optional): Whether a table holds the given labels alone, as ``tg-crepe propagate --labels``
            takes them, and not those of all items. (default: :obj:`False`)
    """
    book, solved = session.book, session.solved
    if path.suffix == ".csv" and only_given:
        _write_csv(path, given_labels(book, session.project))
    elif path.suffix == ".csv":
        _write_csv(path, all_labels(book, session.project, solved))
    elif path.suffix == ".parquet":
        pyarrow = require("pyarrow", extra="cli")
        table = pyarrow.table(all_labels(book, session.project, solved))
        with atomic_file(path) as unfinished:
            require("pyarrow.parquet", extra="cli").write_table(table, unfinished)
    elif path.suffix == ".pt":
        _write_data(path, book, session.project, solved)
    elif path.suffix == ".json":
        with atomic_file(path) as unfinished:
            text = json.dumps(label_studio_tasks(labelled_items(session)), ensure_ascii=False, indent=1)
            unfinished.write_text(text, encoding="utf-8")
    else:
        raise ValueError(f"'{path}' must end in one of {', '.join(ENDINGS)}")


def given_labels(book: Book, project: Project) -> dict[str, list[Any]]:
    """The labels that were given; the column ``asked`` says that they are no random sample."""
    known = sorted(item for item, answer in book.answers.items() if answer.kind == "class")
    names = [book.name(int(book.answers[item].class_id or 0)) for item in known]
    return {"id": [project.ids[item] for item in known], "label": names, "asked": ["label"] * len(known)}


def labels_of_project(project: Project) -> tuple[np.ndarray, tuple[str, ...]]:
    """The number of the class of every item, -1 where it has none, and the names of the classes, as other commands read
    them from a table. The project may be open elsewhere."""
    store = ActStore(project.folder / DATABASE)
    try:
        book = Book.read(store.acts())
    finally:
        store.close()
    y = book.labels(len(project.ids))
    by_name = {book.name(int(number)): int(number) for number in np.unique(y[y >= 0])}
    if len(by_name) < 2:
        raise ValueError(f"'{project.folder}' must hold labels of at least two classes, got {len(by_name)}")
    names = _sorted_classes(set(by_name))
    place = np.full(max(by_name.values()) + 2, -1)
    place[[by_name[name] for name in names]] = np.arange(len(names))
    return np.where(y >= 0, place[y], -1), names


def all_labels(book: Book, project: Project, solved: Solved | None) -> dict[str, list[Any]]:
    """A label for every item, whether it was given, and what is known of those that were not."""
    y = book.labels(len(project.ids))
    guess = np.full(len(y), -1) if solved is None else solved.label
    label = np.where(y >= 0, y, guess)
    present = {*book.classes, 0}
    names = [book.name(int(number)) if number in present else "" for number in label]
    columns = {"id": list(project.ids), "label": names, "given": (y >= 0).tolist()}
    if solved is not None:
        for place, number in enumerate(solved.columns):
            if number in present:
                columns[f"prob_{book.name(number)}"] = solved.prob[:, place].astype(float).tolist()
        columns["certainty"] = solved.certainty.astype(float).tolist()
    return columns


def _write_csv(path: Path, columns: dict[str, list[Any]]) -> None:
    with atomic_file(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([_plain(cell) for cell in row])


def _plain(cell: Any) -> Any:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return f"{cell:.6g}" if isinstance(cell, float) else cell


def _write_data(path: Path, book: Book, project: Project, solved: Solved | None) -> None:
    """The graph with features, given labels (-1 elsewhere) and pseudo-labels, numbered as ``class_names``."""
    import torch
    from torch_geometric.data import Data

    y = book.labels(len(project.ids))
    numbers = sorted({*book.classes} | ({0} if (y == 0).any() else set()), key=book.name)
    place = np.full(max([*numbers, 0]) + 2, -1)
    place[numbers] = np.arange(len(numbers))
    data = Data(
        x=torch.from_numpy(project.x),
        edge_index=project.prepared.edge_index,
        edge_weight=project.prepared.edge_weight,
        y=torch.from_numpy(place[y]),
        train_mask=torch.from_numpy(y >= 0),
    )
    data.ids, data.class_names = list(project.ids), [book.name(number) for number in numbers]
    if solved is not None:
        prob = torch.zeros(len(y), len(numbers))
        for column, number in enumerate(solved.columns):
            if number in numbers:
                prob[:, place[number]] = torch.from_numpy(solved.prob[:, column])
        known = np.isin(solved.label, numbers)
        data.pseudo_y = torch.from_numpy(np.where(known, place[np.where(known, solved.label, -1)], -1))
        data.pseudo_prob, data.certainty = prob, torch.from_numpy(solved.certainty)
        data.pseudo_mask = torch.from_numpy(known & (y < 0))
    with atomic_file(path) as unfinished:
        torch.save(data, unfinished)


def labelled_items(session: Session) -> LabelledItems:
    """All items with their labels as other tools want them."""
    book, solved, project, items = session.book, session.solved, session.project, session.items
    y = book.labels(len(session))
    label = np.where(y >= 0, y, np.full(len(y), -1) if solved is None else solved.label)
    numbers = [number for number in (*book.classes, 0) if number or (label == 0).any()]
    place = np.full(max([*numbers, int(label.max()), 0]) + 2, -1)  # the last one is for items without a label
    place[numbers] = np.arange(len(numbers))
    certainty = np.ones(len(y)) if solved is None else np.where(y >= 0, 1.0, solved.certainty)
    paths = [items.path(item) for item in range(len(session))]
    return LabelledItems(
        ids=project.ids,
        label=place[label],
        certainty=certainty,
        given=y >= 0,
        class_names=[book.name(number) for number in numbers],
        images=[path for path in paths if path is not None] if paths and None not in paths else None,
        texts=[items.text(item) or "" for item in range(len(session))] if items.kind == "texts" else None,
        folder=Path(project.info.get("show") or "").name,
    )


def export_folder(session: Session, folder: Path) -> int:
    """Links to the images in one folder per class, given labels and pseudo-labels; how many there are."""
    if session.items.kind != "images" or session.items.path(0) is None:
        raise ValueError("only the images of a folder can be sorted into folders")
    book, solved = session.book, session.solved
    y = book.labels(len(session))
    label = np.where(y >= 0, y, np.full(len(y), -1) if solved is None else solved.label)
    present = [number for number in (*book.classes, 0) if (label == number).any()]
    places = _folder_names([book.name(number) for number in present])
    links = 0
    with atomic_folder(folder) as unfinished:
        for number, place in zip(present, places, strict=True):
            (unfinished / place).mkdir()
            for item in np.flatnonzero(label == number).tolist():
                path = session.items.path(item)
                if path is not None:
                    os.symlink(path.resolve(), unfinished / place / session.project.ids[item].replace("/", "__"))
                    links += 1
    return links


def _folder_names(names: list[str]) -> list[str]:
    """Names of classes as names of folders, no two the same."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^\w .-]", "_", name).strip(" .") or "_"
        taken = {other.casefold() for other in found}
        number, wanted = 2, plain
        while wanted.casefold() in taken:
            wanted, number = f"{plain} {number}", number + 1
        found.append(wanted)
    return found
