"""Where the seconds of a command go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stages:
    """The stages of a command as the console shows them, each with its wall and its processor seconds.

    It stands in for the console: what is shown as a status is a stage.

    Args:
        console (rich.console.Console): The console.
    """

    def __init__(self, console: Any) -> None:
        self._console = console
        self._spent: dict[str, tuple[float, float]] = {}
        self._begun = time.perf_counter(), time.process_time()

    def imported(self) -> None:
        """All that came before was checks and imports."""
        self._add("imports and checks", self._begun)

    @contextmanager
    def status(self, name: str, **options: Any) -> Iterator[Any]:
        """A stage; several of one name are one."""
        begun = time.perf_counter(), time.process_time()
        with self._console.status(name, **options) as shown:
            yield shown
        self._add(name, begun)

    def _add(self, name: str, begun: tuple[float, float]) -> None:
        wall, own = self._spent.get(name, (0.0, 0.0))
        self._spent[name] = wall + time.perf_counter() - begun[0], own + time.process_time() - begun[1]

    def table(self) -> str:
        """One line per stage, in the order in which they began, and what none of them has."""
        rows, total = (
            list(self._spent.items()),
            (time.perf_counter() - self._begun[0], time.process_time() - self._begun[1]),
        )
        rest = tuple(whole - sum(spent[at] for _, spent in rows) for at, whole in enumerate(total))
        lines = [("", "seconds", "processor"), *((name, *map("{:.2f}".format, spent)) for name, spent in rows)]
        lines += [(name, *map("{:.2f}".format, spent)) for name, spent in (("the rest", rest), ("all", total))]
        width = max(len(name) for name, *_ in lines)
        return "\n".join(f"{name:<{width}}  {wall:>8}  {own:>9}" for name, wall, own in lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._console, name)
