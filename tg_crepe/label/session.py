from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from tg_crepe.label.book import NONE, Book
from tg_crepe.label.lock import FolderLock
from tg_crepe.label.neighbours import Neighbours
from tg_crepe.label.progress import expected_error
from tg_crepe.label.project import DATABASE, LOCK, Project
from tg_crepe.label.solve import Solved
from tg_crepe.label.store import ActStore, Answer, ProgressPoint

#: The probability from which on a pseudo-label is called certain.
CERTAIN = 0.9

#: Items of one act at most, and seconds for which an item that a tab shows is not shown in another.
MOST_ITEMS, _LEASE = 5000, 120.0


class Session:
    r"""A project that is open: what was answered, what the model says, and what to ask next.

    Its methods may be called from any thread. An answer is on the disk when its method returns. Whoever wants to know
    of news adds a function to ``listeners``; it is called with a dictionary, from any thread.

    Args:
        project (Project): The project; it is locked until :meth:`close`.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self._folder_lock = FolderLock(project.folder / LOCK)
        self._folder_lock.take()
        try:
            self.store = ActStore(project.folder / DATABASE)
            self.book = Book.read(self.store.acts())
        except BaseException:
            self._folder_lock.release()
            raise
        self.items = project.open_items()
        self.neighbours = Neighbours(project.x, project.prepared)
        self.listeners: set[Callable[[dict[str, Any]], None]] = set()
        self.solved: Solved | None = None
        self.changed = np.zeros(len(project.ids), dtype=bool)
        self.queue: list[int] = []
        self.problem: str | None = None
        self.news = threading.Event()  # there are labels that nobody has solved for
        self.news.set()
        self._epoch = 0  # it changes when labels are taken back or classes change: a solve from before is void
        self._leases: dict[int, tuple[str, float]] = {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.project.ids)

    # What a person does

    def answer(self, request: str, kind: str, given: Sequence[dict[str, Any]]) -> int:
        """Takes answers that belong together; the number of the act."""
        with self._lock:
            answers = [self._checked(one) for one in given]
            if not answers or len(answers) > MOST_ITEMS:
                raise ValueError(f"'answers' must hold 1 to {MOST_ITEMS} items, got {len(answers)}")
            if len({answer.item for answer in answers}) < len(answers):
                raise ValueError("'answers' must name every item once, got one twice")
            voids = any(self._has_label(answer.item) for answer in answers)
            act, new = self.store.record(request, kind, {}, answers)
            if new:
                self.book.write(act)
                self._touch(voids)
            return act.number

    def _has_label(self, item: int) -> bool:
        before = self.book.answers.get(item)
        return before is not None and before.kind == "class"

    def _checked(self, given: dict[str, Any]) -> Answer:
        """An answer of the page, with what the model said before."""
        item, kind = given.get("item"), str(given.get("kind"))
        if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item < len(self):
            raise ValueError(f"'item' must be a number below {len(self)}, got {item!r}")
        if kind not in ("class", "skip", "unsure", "clear"):
            raise ValueError(f"'kind' must be class, skip, unsure or clear, got {kind!r}")
        number = self.book.check_class(given.get("class")) if kind == "class" else None
        solved = self.solved
        # The model must not have known the item, and must have known the class: else its guess was no test.
        knew = solved is not None and not solved.labelled[item]
        guess = solved.guess(item) if solved is not None and knew else None
        if guess is None or (guess[0] != NONE and guess[0] not in self.book.classes):
            return Answer(item, kind, number)
        assert solved is not None
        return Answer(item, kind, number, guess[0], guess[1], solved.labels)

    def undo(self, request: str) -> list[int]:
        """Takes the last act back that is not taken back yet; the items of its answers."""
        with self._lock:
            if not self.book.undoable:
                return []
            act, new = self.store.record(request, "undo", {"act": self.book.undoable[-1]})
            acts = self.store.acts()
            if new:
                self.book = Book.read(acts)
                self._touch(True)
            return [answer.item for one in acts if one.number == act.detail["act"] for answer in one.answers]

    def add_classes(self, request: str, names: Sequence[str]) -> list[int]:
        """Adds classes; their numbers."""
        with self._lock:
            trial, numbered = copy(self.book), list[tuple[int, str]]()
            trial.classes = dict(self.book.classes)
            for name in names:
                numbered.append((trial.next_class, trial.check_name(name)))
                trial.classes[trial.next_class] = numbered[-1][1]
                trial.next_class += 1
            if not numbered:
                raise ValueError("'names' must hold a name at least, got none")
            return [int(number) for number, _ in self._change(request, "add", {"classes": numbered})["classes"]]

    def rename_class(self, request: str, number: int, name: str) -> None:
        """Gives a class another name."""
        with self._lock:
            self.book.check_class(number, none=False)
            others = copy(self.book)
            others.classes = {key: value for key, value in self.book.classes.items() if key != number}
            self._change(request, "rename", {"class": number, "name": others.check_name(name)})

    def merge_classes(self, request: str, number: int, into: int) -> None:
        """Gives all labels of a class to another."""
        with self._lock:
            self.book.check_class(number, none=False)
            if self.book.check_class(into) == number:
                raise ValueError("'into' must be another class, got the same")
            self._change(request, "merge", {"class": number, "into": into})

    def delete_class(self, request: str, number: int) -> None:
        """Removes a class; the items of its labels have none then."""
        with self._lock:
            self.book.check_class(number, none=False)
            self._change(request, "delete", {"class": number})

    def _change(self, request: str, kind: str, detail: dict[str, Any]) -> dict[str, Any]:
        act, new = self.store.record(request, kind, detail)
        if new:
            self.book.write(act)
            self._touch(kind in ("merge", "delete"))
        return act.detail

    def _touch(self, void: bool) -> None:
        """There is something new, and what is being solved may be void."""
        self._epoch += void
        self.news.set()
        self._tell({"type": "saved", "act": self.book.last})

    # What the solver does

    def to_solve(self) -> tuple[Book, Callable[[], bool]]:
        """The newest labels, and whether a solve of them is still wanted."""
        with self._lock:
            book, epoch = copy(self.book), self._epoch
            book.classes, book.answers = dict(book.classes), dict(book.answers)
            book.tests = list(book.tests)
            return book, lambda: self._epoch == epoch

    def publish(self, solved: Solved | None, book: Book, wanted: Callable[[], bool]) -> None:
        """Takes over what a solve of some labels gave."""
        before, changed = self.solved, np.zeros(len(self), dtype=bool)
        if solved is not None and before is not None:
            changed = (solved.label != before.label) & ~solved.labelled
        point = None if solved is None else self._progress_point(solved, book)
        with self._lock:  # an answer may be waiting for it: all that takes time is done
            if not wanted():
                return
            self.solved, self.problem, self.changed = solved, None, changed
            if point is not None:
                self.store.note_progress(point)
        self._tell({"type": "solved", "act": 0 if solved is None else solved.act})

    def _progress_point(self, solved: Solved, book: Book) -> ProgressPoint:
        free = ~solved.labelled
        certain = float((solved.prob.max(axis=1) >= CERTAIN)[free].mean()) if free.any() else 1.0
        error = expected_error(solved, book.tests)
        values = (None, None, None) if error is None else (error.value, error.low, error.high)
        return ProgressPoint(solved.act, solved.labels, certain, *values)

    def publish_queue(self, queue: Sequence[int], wanted: Callable[[], bool]) -> None:
        """Takes over what to ask next."""
        with self._lock:
            if wanted():
                self.queue = list(queue)
        self._tell({"type": "queue"})

    def fail(self, problem: str) -> None:
        """Notes that a solve went wrong."""
        self.problem = problem
        self._tell({"type": "problem", "text": problem})

    # What the page asks

    def next_items(self, tab: str, count: int, avoid: Sequence[int] = ()) -> list[int]:
        """What to ask for next in a tab; what another one shows is left to it."""
        with self._lock:
            now = time.monotonic()
            self._leases = {item: lease for item, lease in self._leases.items() if lease[1] > now}
            taken = {item for item, (owner, _) in self._leases.items() if owner != tab} | set(avoid)
            found = [item for item in self.queue if item not in self.book.answers and item not in taken]
            # Skipped ones come again when there is nothing else; an empty queue alone is being filled by a solve.
            if not found and len(taken.union(self.book.answers)) >= len(self):
                found = [item for item in self.book.items("skip") if item not in taken]
            found = found[:count]
            self._leases |= {item: (tab, now + _LEASE) for item in found}
            return found

    def same_guess(self, number: int, order: str, count: int) -> list[int]:
        """Unlabelled items that are taken for one class, sorted by doubt or by certainty."""
        solved = self.solved
        if solved is None or number not in solved.columns:
            return []
        with self._lock:
            free = np.ones(len(self), dtype=bool)
            free[list(self.book.answers)] = False
        found = np.flatnonzero((solved.label == number) & free)
        prob = solved.prob[found, solved.columns.index(number)]
        ranked = np.argsort(prob if order == "doubt" else -prob, kind="stable")
        return [int(item) for item in found[ranked[:count]]]

    def _tell(self, message: dict[str, Any]) -> None:
        for listener in list(self.listeners):
            listener(message)

    def close(self) -> None:
        """Closes the database and lets go of the project."""
        self.store.close()
        self._folder_lock.release()
