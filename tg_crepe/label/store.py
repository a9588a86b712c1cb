from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from tg_crepe._files import damaged_file

#: The layout of the database; another one is refused.
FORMAT = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS act (
    id INTEGER PRIMARY KEY,
    request TEXT NOT NULL UNIQUE,
    time REAL NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS answer (
    act INTEGER NOT NULL REFERENCES act(id),
    item INTEGER NOT NULL,
    kind TEXT NOT NULL,
    class INTEGER,
    guess INTEGER,
    prob REAL,
    labels INTEGER,
    PRIMARY KEY (act, item)
);
CREATE TABLE IF NOT EXISTS progress (
    act INTEGER PRIMARY KEY,
    labels INTEGER NOT NULL,
    certain REAL NOT NULL,
    value REAL,
    low REAL,
    high REAL
);
"""


@dataclass(frozen=True)
class Answer:
    r"""What a person said of an item, and what the model had said before.

    Args:
        item (int): The number of the item.
        kind (str): :obj:`"class"`, :obj:`"skip"` (ask later), :obj:`"unsure"` (cannot be told) or :obj:`"clear"` (the
            label is taken away again).
        class_id (int, optional): The class, for :obj:`"class"`.
        guess (int, optional): The class that the model guessed when the item was shown; :obj:`None` where it had none.
        prob (float, optional): The probability that it gave to its guess.
        labels (int, optional): How many labels it knew then; this one was not among them.
    """

    item: int
    kind: str
    class_id: int | None = None
    guess: int | None = None
    prob: float | None = None
    labels: int | None = None


@dataclass(frozen=True)
class Act:
    """One thing that a person did: answers that belong together, a change of the classes, or an undo."""

    number: int
    kind: str
    detail: dict[str, Any] = field(default_factory=dict)
    answers: tuple[Answer, ...] = ()
    time: float = 0.0


@dataclass(frozen=True)
class ProgressPoint:
    """What was known after the act of a number: labels, the share of certain items, and the error to expect."""

    act: int
    labels: int
    certain: float
    value: float | None = None
    low: float | None = None
    high: float | None = None


class ActStore:
    r"""A log of all that was done, in a SQLite database that survives a power cut: nothing in it is ever changed.

    An act is on the disk when :meth:`record` returns. Every act has the name that its sender gave it, so that one that
    is sent again, since nobody knows whether it arrived, is there once.

    Args:
        path (Path): The database; it is made where it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, FORMAT):
                raise damaged_file(path, f"its format is {version}, this version reads {FORMAT}")
            self._connection.executescript(_SCHEMA)
            self._connection.execute(f"PRAGMA user_version={FORMAT}")
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise damaged_file(path, f"it is not a whole database of labels ({error})") from error
        except ValueError:
            self._connection.close()
            raise

    def record(
        self, request: str, kind: str, detail: dict[str, Any] | None = None, answers: Sequence[Answer] = ()
    ) -> tuple[Act, bool]:
        """Writes an act, and says whether it is new; one that is there already is given back as it was written."""
        with self._lock:
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                known = connection.execute("SELECT id FROM act WHERE request = ?", (request,)).fetchone()
                if known is not None:
                    connection.execute("ROLLBACK")
                    return self._read("WHERE act.id = ?", (known[0],))[0], False
                now = time.time()
                number = connection.execute(
                    "INSERT INTO act (request, time, kind, detail) VALUES (?, ?, ?, ?)",
                    (request, now, kind, json.dumps(detail or {}, ensure_ascii=False)),
                ).lastrowid
                assert number is not None
                connection.executemany(
                    "INSERT INTO answer VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [(number, a.item, a.kind, a.class_id, a.guess, a.prob, a.labels) for a in answers],
                )
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return Act(number, kind, dict(detail or {}), tuple(answers), now), True

    def acts(self) -> list[Act]:
        """All acts in their order."""
        with self._lock:
            return self._read("", ())

    def _read(self, where: str, values: tuple[Any, ...]) -> list[Act]:
        answers: dict[int, list[Answer]] = {}
        query = f"SELECT answer.* FROM answer JOIN act ON act.id = answer.act {where} ORDER BY answer.rowid"
        for number, *rest in self._connection.execute(query, values):
            answers.setdefault(number, []).append(Answer(*rest))
        query = f"SELECT id, kind, detail, time FROM act {where} ORDER BY id"
        return [
            Act(number, kind, json.loads(detail), tuple(answers.get(number, ())), when)
            for number, kind, detail, when in self._connection.execute(query, values)
        ]

    def note_progress(self, point: ProgressPoint) -> None:
        """Keeps what was expected after an act; what was kept of the same act is replaced."""
        with self._lock:
            self._connection.execute("INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?, ?, ?)", astuple(point))

    def progress(self) -> list[ProgressPoint]:
        """What was expected after every solve, in order."""
        with self._lock:
            return [ProgressPoint(*row) for row in self._connection.execute("SELECT * FROM progress ORDER BY act")]

    def close(self) -> None:
        """Closes the database."""
        with self._lock:
            self._connection.close()
