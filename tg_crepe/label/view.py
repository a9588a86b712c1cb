"""What the page is told: plain values that become JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from tg_crepe.label.book import NONE
from tg_crepe.label.progress import ten_more
from tg_crepe.label.session import CERTAIN, Session

#: Nodes on the map at most, points of the curve, classes with a probability, labelled examples, suspicious labels.
_ON_MAP, _CURVE, _TOP, _NEAR, _SUSPECTS = 5000, 300, 3, 5, 12


def state(session: Session) -> dict[str, Any]:
    """What every view needs: classes, counts, progress."""
    book, solved = session.book, session.solved
    y = book.labels(len(session))
    free = y < 0
    points = [point for point in session.store.progress() if point.act <= book.last]
    now = points[-1] if points and solved is not None else None
    labels = {number: int((y == number).sum()) for number in (*book.classes, NONE)}
    guesses = dict.fromkeys(labels, 0)
    if solved is not None:
        guesses |= {n: int(((solved.label == n) & free).sum()) for n in solved.columns if n in guesses}
    step = max(1, -(-len(points) // _CURVE))
    return {
        "name": session.project.folder.resolve().name,
        "kind": session.items.kind,
        "items": len(session),
        "act": book.last,
        "solved": 0 if solved is None else solved.act,
        "behind": int((~free).sum()) - (0 if solved is None else solved.labels),
        "labels": int((~free).sum()),
        "unsure": len(book.items("unsure")),
        "tests": len(book.tests),
        "canUndo": bool(book.undoable),
        "problem": session.problem,
        "classes": [
            {"number": n, "name": book.name(n), "labels": labels[n], "guesses": guesses[n]}
            for n in (*book.classes, NONE)
        ],
        "certain": None if now is None else now.certain,
        "certainFrom": CERTAIN,
        "error": None if now is None or now.value is None else [now.value, now.low, now.high],
        "tenMore": ten_more(points) if now is not None else None,
        "curve": [[p.labels, p.value, p.low, p.high] for p in points[::-1][::step][::-1] if p.value is not None],
        "left": len(book.answers) - len(book.items("skip")) < len(session),
    }


def item(session: Session, number: int, near: bool = True) -> dict[str, Any]:
    """An item with its guess and the labelled examples nearest to it."""
    answer = session.book.answers.get(number)
    known = answer is not None and answer.kind == "class"
    told: dict[str, Any] = {
        "item": number,
        "id": session.project.ids[number],
        "text": _text(session, number, short=False),
        "image": session.items.kind == "images",
        "label": answer.class_id if answer is not None and known else None,
        "top": _top(session, number),
    }
    if near:
        others = np.array(session.book.items("class"), dtype=np.int64)
        told["near"] = [tile(session, other) for other in session.neighbours.nearest(number, others, _NEAR)]
    return told


def tile(session: Session, number: int) -> dict[str, Any]:
    """An item in small."""
    answer = session.book.answers.get(number)
    top = _top(session, number)
    return {
        "item": number,
        "id": session.project.ids[number],
        "text": _text(session, number, short=True),
        "image": session.items.kind == "images",
        "label": None if answer is None else answer.class_id,
        "guess": top[0] if top else None,
    }


def _text(session: Session, number: int, short: bool) -> str | None:
    try:
        return session.items.text(number, short)
    except ValueError as error:
        return f"({error})"


def _top(session: Session, number: int) -> list[list[Any]]:
    """The most probable classes, the guess first; none where no label reaches the item or it has one."""
    solved = session.solved
    if solved is None or solved.label[number] < 0 or solved.labelled[number]:
        return []
    prob = solved.prob[number]
    guess = solved.columns.index(int(solved.label[number]))
    order = [guess, *(int(place) for place in np.argsort(-prob, kind="stable") if place != guess)][:_TOP]
    present = set(session.book.classes) | {NONE}
    return [[solved.columns[p], round(float(prob[p]), 4)] for p in order if solved.columns[p] in present]


def node_map(session: Session) -> dict[str, Any]:
    """The map: where items are, what they are taken for, how surely, and whether the last answers changed that."""
    count, solved = len(session), session.solved
    shown = np.unique(np.linspace(0, count - 1, min(_ON_MAP, count)).round().astype(np.int64))
    known = np.array(session.book.items("class"), dtype=np.int64)
    shown = np.unique(np.concatenate([shown, known[:_ON_MAP]]))
    y = session.book.labels(count)[shown]
    guess = np.full(len(shown), -1) if solved is None else solved.label[shown]
    return {
        "item": shown.tolist(),
        "xy": session.project.prepared.position[shown].reshape(-1).tolist(),
        "label": np.where(y >= 0, y, guess).tolist(),
        "given": (y >= 0).astype(int).tolist(),
        "certainty": (
            [0] * len(shown)
            if solved is None
            else np.round(100 * np.clip(solved.certainty[shown], 0, 1)).astype(int).tolist()
        ),
        "changed": session.changed[shown].astype(int).tolist(),
        "total": count,
    }


def inside(session: Session, polygon: list[tuple[float, float]]) -> list[int]:
    """The items whose place on the map lies inside a polygon, by the even-odd rule."""
    position = session.project.prepared.position.astype(np.float64)
    odd = np.zeros(len(position), dtype=bool)
    for (x0, y0), (x1, y1) in zip(polygon, [*polygon[1:], polygon[0]], strict=True):
        crosses = (y0 > position[:, 1]) != (y1 > position[:, 1])
        if y0 != y1:
            odd ^= crosses & (position[:, 0] < (x1 - x0) * (position[:, 1] - y0) / (y1 - y0) + x0)
    return np.flatnonzero(odd).tolist()


def classes(session: Session) -> dict[str, Any]:
    """What there is to see of the classes: examples, pairs that are confused, labels that are outvoted."""
    solved = session.solved
    if solved is None:
        return {"examples": {}, "pairs": [], "suspects": []}
    examples = {n: [tile(session, i) for i in session.same_guess(n, "certain", 6)] for n in solved.columns}
    free = ~solved.labelled
    mass = np.stack([solved.prob[free & (solved.label == n)].sum(axis=0) for n in solved.columns])
    np.fill_diagonal(mass, 0)
    order = np.argsort(-mass, axis=None)[:6]
    pairs = [(*divmod(int(place), len(solved.columns)), float(mass.flat[place])) for place in order]
    return {
        "examples": examples,
        "pairs": [[solved.columns[a], solved.columns[b], m] for a, b, m in pairs if m >= 0.5],
        "suspects": [
            {**tile(session, number), "vote": vote, "share": share}
            for number, vote, share in session.neighbours.outvoted(solved, _SUSPECTS)
            if vote in session.book.classes or vote == NONE
        ],
    }
