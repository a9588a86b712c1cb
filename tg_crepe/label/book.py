from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from tg_crepe.label.store import Act, Answer

#: The class of items that belong to no class; it is there from the start and cannot be changed.
NONE, NONE_NAME = 0, "none of these"

#: Characters of the name of a class at most.
LONGEST_NAME = 100

#: The kinds of acts that hold answers.
ANSWERS = ("one", "page", "lasso", "review", "import")


@dataclass
class Book:
    r"""What all acts together say: the classes, and the last answer of every item.

    Args:
        classes (dict): The names of the classes by their number, in their order. Numbers are never used again.
        answers (dict): The last answer of every item that has one.
        tests (list): Every answer that named a class when the model had a guess: each was a test before it was a label.
        undoable (list): The numbers of the acts that can be undone, the last one first to go.
        last (int): The number of the last act.
    """

    classes: dict[int, str] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)
    tests: list[Answer] = field(default_factory=list)
    undoable: list[int] = field(default_factory=list)
    last: int = 0
    next_class: int = NONE + 1

    @classmethod
    def read(cls, acts: Iterable[Act]) -> Book:
        """Reads the log from its beginning, without what was undone."""
        acts = list(acts)
        undone = {int(act.detail["act"]) for act in acts if act.kind == "undo"}
        book = cls()
        for act in acts:
            book._count(act)
            if act.kind != "undo" and act.number not in undone:
                book._apply(act)
        return book

    def write(self, act: Act) -> None:
        """Adds an act that is no undo."""
        self._count(act)
        self._apply(act)

    def _count(self, act: Act) -> None:
        """What an act leaves behind even where it was undone: its number, and those of its classes."""
        self.last = max(self.last, act.number)
        if act.kind == "add":
            self.next_class = max(self.next_class, 1 + max(int(number) for number, _ in act.detail["classes"]))

    def _apply(self, act: Act) -> None:
        if act.kind in ANSWERS:
            for answer in act.answers:
                self._answer(answer)
        elif act.kind == "add":
            self.classes |= {int(number): str(name) for number, name in act.detail["classes"]}
        elif act.kind == "rename":
            self.classes[int(act.detail["class"])] = str(act.detail["name"])
        elif act.kind == "merge":
            self._merge(int(act.detail["class"]), int(act.detail["into"]))
        elif act.kind == "delete":
            self._delete(int(act.detail["class"]))
        else:
            raise ValueError(f"'kind' must be that of an act, got {act.kind!r}")
        self.undoable.append(act.number)

    def _answer(self, answer: Answer) -> None:
        if answer.kind == "clear":
            self.answers.pop(answer.item, None)
            return
        # The model has seen a label that was there before: a second one is a correction and no test.
        before = self.answers.get(answer.item)
        if answer.kind == "class" and answer.guess is not None and (before is None or before.kind != "class"):
            self.tests.append(answer)
        self.answers[answer.item] = answer

    def _merge(self, gone: int, into: int) -> None:
        def moved(answer: Answer) -> Answer:
            return replace(
                answer,
                class_id=into if answer.class_id == gone else answer.class_id,
                guess=into if answer.guess == gone else answer.guess,
            )

        self.answers = {item: moved(answer) for item, answer in self.answers.items()}
        self.tests = [moved(answer) for answer in self.tests]
        del self.classes[gone]

    def _delete(self, gone: int) -> None:
        self.answers = {item: answer for item, answer in self.answers.items() if answer.class_id != gone}
        self.tests = [answer for answer in self.tests if gone not in (answer.class_id, answer.guess)]
        del self.classes[gone]

    def labels(self, num_items: int) -> np.ndarray:
        """The class of every item, -1 where it has none, of shape :obj:`[num_items]`."""
        y = np.full(num_items, -1, dtype=np.int64)
        for item, answer in self.answers.items():
            if answer.class_id is not None:
                y[item] = answer.class_id
        return y

    def items(self, kind: str) -> list[int]:
        """The items whose last answer is of a kind."""
        return [item for item, answer in self.answers.items() if answer.kind == kind]

    def name(self, number: int) -> str:
        """The name of a class."""
        return NONE_NAME if number == NONE else self.classes[number]

    def check_class(self, number: object, none: bool = True) -> int:
        """The number of a class that is there."""
        if isinstance(number, bool) or not isinstance(number, int) or (number not in self.classes and number != NONE):
            raise ValueError(f"'class' must be the number of a class, got {number!r}")
        if number == NONE and not none:
            raise ValueError(f"the class '{NONE_NAME}' stays as it is")
        return number

    def check_name(self, name: object) -> str:
        """A name that a new class may have."""
        if not isinstance(name, str):
            raise ValueError(f"'name' must be a text, got {type(name).__name__}")
        plain = " ".join(name.split())
        if not plain or len(plain) > LONGEST_NAME or not plain.isprintable():
            raise ValueError(f"'name' must have 1 to {LONGEST_NAME} printable characters, got {name[:120]!r}")
        taken = {known.casefold() for known in (*self.classes.values(), NONE_NAME)}
        if plain.casefold() in taken:
            raise ValueError(f"a class is called '{plain}' already")
        return plain
