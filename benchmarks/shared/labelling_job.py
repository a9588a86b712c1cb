"""A person who always answers truly, in front of ``tg-crepe label`` and of others who choose what to ask.

Everybody begins with the same random item and no other label. The error is that of the items that nobody has asked for,
in per cent of all items: an answer is right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse import csr_matrix

from tg_crepe.label.book import Book
from tg_crepe.label.choose import Chooser
from tg_crepe.label.prepared import Prepared
from tg_crepe.label.progress import expected_error
from tg_crepe.label.solve import Solved, solve_book
from tg_crepe.label.store import Act, Answer

#: Keys after which the error is noted.
STOPS = (10, 20, 50, 100, 200)

#: The methods, in the order of the table.
METHODS = ("label", "label, pages of 24", "random", "logistic regression", "GraphLearning V-opt")

#: Items of a page, single questions before the first page, and between two pages.
_PAGE, _FIRST, _BETWEEN = 24, 20, 3

Row = dict[str, object]


class Person:
    """The labels that were given so far, and the model's answer to them."""

    def __init__(self, x: np.ndarray, y: np.ndarray, prepared: Prepared) -> None:
        self.x, self.y, self.prepared = x, y, prepared
        self.book = Book(classes={number + 1: f"class {number:03d}" for number in range(int(y.max()) + 1)})
        self.solved: Solved | None = None
        self.keys = 0

    def answer(self, items: list[int], keys: int) -> None:
        """True answers, each a test first where the model had a guess."""
        answers = []
        for item in items:
            guess = None if self.solved is None else self.solved.guess(item)
            said = (None, None, None) if guess is None or self.solved is None else (*guess, self.solved.labels)
            answers.append(Answer(item, "class", int(self.y[item]) + 1, *said))
        self.book.write(Act(self.book.last + 1, "one", {}, tuple(answers)))
        self.keys += keys

    def solve(self) -> None:
        """The labels of all items."""
        self.solved = solve_book(self.book, self.x, self.prepared)

    def point(self) -> Row:
        """The error, and what the page says of it."""
        known = self.book.labels(len(self.y)) > 0
        if self.solved is None:
            label = np.full(len(self.y), self.book.labels(len(self.y)).max())
            return {
                "answers": int(known.sum()),
                "error": 100 * float((label != self.y + 1)[~known].sum() / len(self.y)),
            }
        wrong = (self.solved.label != self.y + 1) & ~known
        expected = expected_error(self.solved, self.book.tests)
        told: Row = {"answers": int(known.sum()), "error": 100 * float(wrong.sum() / len(self.y))}
        if expected is not None:
            told |= {
                "open_error": 100 * float(wrong.sum() / max((~known).sum(), 1)),
                "expected": 100 * expected.value,
                "low": 100 * expected.low,
                "high": 100 * expected.high,
            }
        return told


def questions(keys: int) -> int:
    """Questions between two solves: a person answers several while one runs."""
    return 1 if keys < 12 else 2 if keys < 20 else 5 if keys < 50 else 10 if keys < 100 else 20


def label(person: Person) -> Iterator[None]:
    """What the page asks, one at a time."""
    chooser = Chooser(person.prepared, len(person.y))
    while True:
        for item in chooser(person.book, person.solved, _until_stop(person.keys)):
            person.answer([item], 1)
        yield


def label_pages(person: Person) -> Iterator[None]:
    """The same, and pages of the same guess, the most doubtful first: one key for all that are right, one to mark each
    that is wrong."""
    chooser = Chooser(person.prepared, len(person.y))
    while True:
        single = _until_stop(person.keys) if person.keys < _FIRST else _BETWEEN
        for item in chooser(person.book, person.solved, single):
            if person.keys >= _FIRST and person.keys in STOPS:
                yield
            person.answer([item], 1)
        yield
        if person.keys >= _FIRST and person.solved is not None:
            items = _page(person)
            right = [item for item in items if person.y[item] + 1 == person.solved.label[item]]
            for _ in range(len(items) - len(right)):  # a mark is a key, too
                person.keys += 1
                if person.keys in STOPS:
                    yield
            person.answer(right, 1) if right else None
            yield


def _page(person: Person) -> list[int]:
    """The most doubtful items of the class with the most doubt."""
    assert person.solved is not None
    solved, free = person.solved, person.book.labels(len(person.y)) < 0
    doubt = 1 - solved.prob.max(axis=1)
    mass = {number: doubt[free & (solved.label == number)].sum() for number in solved.columns}
    number = max(mass, key=lambda n: mass[n])
    items = np.flatnonzero(free & (solved.label == number))
    return items[np.argsort(-doubt[items], kind="stable")[:_PAGE]].tolist()


def _until_stop(keys: int) -> int:
    return min(questions(keys), min(stop for stop in (*STOPS, 1 << 30) if stop > keys) - keys)


def random_choice(person: Person, seed: int) -> Iterator[None]:
    """Chance asks; CREPE labels."""
    order = [int(i) for i in np.random.default_rng(seed).permutation(len(person.y)) if i not in person.book.answers]
    return _in_order(person, order)


def v_opt(person: Person) -> Iterator[None]:
    """GraphLearning's variance minimisation asks, from 50 eigenvectors; CREPE labels."""
    import graphlearning as gl

    edge_index, weight = person.prepared.edge_index.numpy(), person.prepared.edge_weight.double().numpy()
    matrix = csr_matrix((weight, edge_index), (len(person.y), len(person.y)))
    values, vectors = gl.graph(matrix.maximum(matrix.T)).eigen_decomp(normalization="normalized", k=50)
    criterion = gl.active_learning.var_opt(np.diag(1 / (values + 1e-11)), vectors)
    criterion.update(np.array(list(person.book.answers)), None)
    free, order = np.ones(len(person.y), dtype=bool), []
    free[list(person.book.answers)] = False
    for _ in range(STOPS[-1]):
        candidates = np.flatnonzero(free)
        order.append(int(candidates[criterion.compute(None, candidates).argmax()]))
        free[order[-1]] = False
        criterion.update(order[-1:], None)
    return _in_order(person, order)


def _in_order(person: Person, order: list[int]) -> Iterator[None]:
    """Items whose order no answer changes: a solve is needed where the error is noted alone."""
    for item in order:
        person.answer([item], 1)
        if person.keys in STOPS:
            yield


def play(x: np.ndarray, y: np.ndarray, prepared: Prepared, method: str, seed: int) -> list[Row]:
    """The error after every stop."""
    first = int(np.random.default_rng(seed).integers(len(y)))
    if method == "logistic regression":
        return _logistic_regression(x, y, seed, first)
    person = Person(x, y, prepared)
    person.answer([first], 1)
    asking: dict[str, Callable[[], Iterator[None]]] = {
        "label": lambda: label(person),
        "label, pages of 24": lambda: label_pages(person),
        "random": lambda: random_choice(person, seed),
        "GraphLearning V-opt": lambda: v_opt(person),
    }
    rows: list[Row] = []
    begin = time.process_time()
    for _ in asking[method]():
        person.solve()
        if person.keys in STOPS and (not rows or rows[-1]["keys"] != person.keys):
            rows.append({"keys": person.keys, **person.point(), "seconds": time.process_time() - begin})
        if person.keys >= STOPS[-1]:
            return rows
    return rows


def _logistic_regression(x: np.ndarray, y: np.ndarray, seed: int, first: int) -> list[Row]:
    """The smallest margin of a logistic regression asks, and it labels: what modAL and small-text do. Until it has seen
    two classes, chance asks. Features are centred and of unit variance together: to standardise each column would make
    the noise of principal components as large as what they tell."""
    from sklearn.linear_model import LogisticRegression

    x = (x - x.mean(axis=0)) / x.std(axis=0).mean()
    generator, known, rows = np.random.default_rng(seed + 1), [first], list[Row]()
    begin = time.process_time()
    while True:
        free = np.setdiff1d(np.arange(len(y)), known)
        margin = generator.random(len(free))
        label = np.full(len(free), y[first])
        if len(np.unique(y[known])) > 1:
            model = LogisticRegression(max_iter=1000).fit(x[known], y[known])
            prob = np.sort(model.predict_proba(x[free]), axis=1)
            margin, label = prob[:, -1] - prob[:, -2], model.predict(x[free])
        if len(known) in STOPS:
            error = 100 * float((label != y[free]).sum() / len(y))
            seconds = time.process_time() - begin
            rows.append({"keys": len(known), "answers": len(known), "error": error, "seconds": seconds})
        if len(known) >= STOPS[-1]:
            return rows
        count = _until_stop(len(known))
        known += free[np.argsort(margin, kind="stable")[:count]].tolist()
