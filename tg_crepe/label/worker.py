from __future__ import annotations

import threading
from collections.abc import Callable

from tg_crepe.label.book import Book
from tg_crepe.label.choose import Chooser
from tg_crepe.label.memory import give_back
from tg_crepe.label.session import Session
from tg_crepe.label.solve import Outdated, solve_book

#: Items that are chosen at a time: more than a person answers while the next solve runs.
_QUEUE = 40


class Worker(threading.Thread):
    r"""Solves for the newest labels, one solve at a time.

    Answers that come while it is at work wait for the next solve, which takes all of them; no solve is made of labels
    that are older than need be. One whose labels are taken back meanwhile, or whose classes change, is ended and
    dropped.

    Args:
        session (Session): Where labels come from and results go.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(name="tg-crepe-solver", daemon=True)
        self.session = session
        self._chooser = Chooser(session.project.prepared, len(session))
        self._closed = False

    def run(self) -> None:
        """Waits for news and solves, until it is told to stop."""
        session = self.session
        while True:
            session.news.wait()
            session.news.clear()
            if self._closed:
                return
            self._solve(*session.to_solve())

    def _solve(self, book: Book, wanted: Callable[[], bool]) -> None:
        session, project = self.session, self.session.project
        try:
            solved = solve_book(book, project.x, project.prepared, lambda: wanted() and not self._closed)
            session.publish(solved, book, wanted)
            session.publish_queue(self._chooser(book, solved, _QUEUE), wanted)
        except Outdated:
            return
        except Exception as error:  # whatever it is, the answers are safe and the page says what happened
            session.fail(f"{type(error).__name__}: {error}")
        finally:
            give_back()

    def stop(self) -> None:
        """Ends the thread, a solve within its next step."""
        self._closed = True
        self.session.news.set()
        if self.is_alive():
            self.join(timeout=60)
