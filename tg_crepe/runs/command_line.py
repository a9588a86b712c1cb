"""The line that started the program, for the runs that it makes; light, since every command needs it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_LINE: ContextVar[str | None] = ContextVar("command_line", default=None)


@contextmanager
def note_command_line(program: str, arguments: Sequence[str]) -> Iterator[None]:
    """Notes in every run that is made in the block which line made it, with the words as they were typed.

    A trainer makes its run far below the command line, hence a context and not an argument of everything in between.
    """
    token = _LINE.set(shlex.join([program, *arguments]))
    try:
        yield
    finally:
        _LINE.reset(token)


def current_command_line() -> str | None:
    """The line, quoted so that a shell takes it as it stands; None in a program that was not started by one."""
    return _LINE.get()
