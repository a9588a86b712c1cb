"""Labels on their way in: tables and the exports of Label Studio."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tg_crepe._files import damaged_file, read_text
from tg_crepe._labels import check_names, count_names, read_label_table
from tg_crepe.label.book import NONE, NONE_NAME
from tg_crepe.label.session import MOST_ITEMS, Session


def import_labels(session: Session, path: Path) -> int:
    """Takes the labels of a file over, once however often it is given; how many items got a label they had not."""
    if not path.is_file():
        raise FileNotFoundError(f"the file of labels '{path}' is missing")
    place = {name: number for number, name in enumerate(session.project.ids)}
    if path.suffix.lower() == ".json":
        label_of = _read_label_studio(path)
        if unknown := [name for name in label_of if name not in place]:
            raise damaged_file(path, f"{len(unknown)} of its ids are not among the items, the first is '{unknown[0]}'")
    else:
        label_of = read_label_table(path, place, of="the items").label_of
    _check_slips(session, path, label_of.values())
    digest = hashlib.sha256(repr(sorted(label_of.items())).encode()).hexdigest()[:32]
    known = {name.casefold(): number for number, name in session.book.classes.items()} | {NONE_NAME: NONE}
    fresh = list(dict.fromkeys(name for name in label_of.values() if name.casefold() not in known))
    if fresh:
        numbers = session.add_classes(f"classes-{digest}", fresh)
        known |= {name.casefold(): number for name, number in zip(fresh, numbers, strict=True)}
    answers = []
    for name, label in label_of.items():
        before = session.book.answers.get(place[name])
        if before is None or before.class_id != known[label.casefold()]:
            answers.append({"item": place[name], "kind": "class", "class": known[label.casefold()]})
    for start in range(0, len(answers), MOST_ITEMS):
        session.answer(f"import-{start}-{digest}", "import", answers[start : start + MOST_ITEMS])
    return len(answers)


def _check_slips(session: Session, path: Path, labels: Collection[str]) -> None:
    """Raise where a name that is no class yet is probably a slip; upper and lower case are one name here."""
    spelling = {name.casefold(): name for name in (*labels, *session.book.classes.values())}
    sure = dict.fromkeys((*session.book.classes.values(), NONE_NAME), len(labels) + 1)  # a class that is there is meant
    names = count_names(spelling[name.casefold()] for name in labels) | sure
    check_names(path, names, "or name it as a class first, by --classes")


def _read_label_studio(path: Path) -> dict[str, str]:
    """Tasks of Label Studio with one choice each: full JSON, or JSON-MIN."""
    try:
        tasks = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise damaged_file(path, f"it is not whole JSON ({error})") from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise damaged_file(path, "it must hold a list of tasks, as Label Studio exports them")
    found: dict[str, str] = {}
    for number, task in enumerate(tasks):
        data = task.get("data", task)
        name = data.get("id") if isinstance(data, dict) else None
        if name is None or isinstance(name, bool | list | dict):
            raise damaged_file(path, f"task {number} has no data.id, the name of its item")
        choices = _choices(task)
        if len(choices) > 1:
            raise damaged_file(path, f"task {number} has several choices ({', '.join(choices[:5])}), one is needed")
        if choices and found.setdefault(str(name), choices[0]) != choices[0]:
            raise damaged_file(path, f"it calls '{name}' both {found[str(name)]} and {choices[0]}")
    return found


def _choices(task: dict[str, Any]) -> list[str]:
    """What annotators chose for a task, without those that were cancelled."""
    found: list[str] = []
    annotations = task.get("annotations") or []
    for annotation in annotations if isinstance(annotations, list) else []:
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        for result in annotation.get("result") or []:
            value = result.get("value", {}) if isinstance(result, dict) else {}
            found += _texts(value.get("choices") if isinstance(value, dict) else None)
    if not annotations:
        for key in ("choice", "label"):
            found += _texts(task.get(key)) if isinstance(task.get(key), str) else []
    return list(dict.fromkeys(found))


def _texts(value: Any) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
