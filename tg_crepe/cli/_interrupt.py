"""Ctrl-C and SIGTERM end a command within two seconds, whatever it is at.

A handler runs between two instructions of the main thread: not while a compiled part is at work for seconds, and what
it raises is lost where it is raised in a finaliser or a callback of a library. So there are two: the handler, which
unwinds the stack as any error does, and a thread that the operating system's own handler wakes, which ends the process
where that did not come to an end in time.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

from tg_crepe._unfinished import remove_unfinished

#: The signals that end a command.
SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: Seconds that a command has to unwind.
_PATIENCE = 1.2

#: What wakes the thread at the end of a command; no signal has this number.
_OVER = b"\0"


class Guard:
    """Which signal a command was ended by, if any."""

    def __init__(self) -> None:
        self.signum = 0
        self.told = False
        self.over = threading.Event()

    @property
    def code(self) -> int:
        """The exit code of a command that was ended by a signal."""
        return 128 + self.signum

    def leave(self, number: int, frame: FrameType | None) -> None:
        """The handler: unwinds the stack, so that unfinished files are removed; a second signal does not disturb it."""
        if self.signum:
            return
        self.signum = number
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(self.code)

    def tell(self) -> None:
        """One line on stderr, once."""
        if not self.told and self.signum:
            self.told = True
            name = "Ctrl-C" if self.signum == signal.SIGINT else signal.Signals(self.signum).name
            show_cursor = "\033[?25h" if sys.stderr.isatty() else ""
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.flush()
                os.write(
                    sys.stderr.fileno(), f"{show_cursor}stopped by {name}; nothing half-written is left\n".encode()
                )

    def watch(self, woken: socket.socket) -> None:
        """The thread: waits for a signal, and for the end of what it ends."""
        while (number := woken.recv(1)) not in (b"", _OVER):
            if number[0] not in SIGNALS or not _is_ours(signal.getsignal(number[0])):
                continue
            if not self.over.wait(_PATIENCE):
                self.signum = number[0]
                remove_unfinished()
                self.tell()
                die(self.signum)


_active: Guard | None = None


@contextlib.contextmanager
def answer_signals() -> Iterator[Guard]:
    """Lets SIGINT and SIGTERM end the block; within another such block, and in other threads, that one's guard does."""
    global _active
    if _active is not None or threading.current_thread() is not threading.main_thread():
        yield _active or Guard()
        return
    guard = _active = Guard()
    woken, waking = socket.socketpair()
    waking.setblocking(False)
    # Who was started to ignore a signal (nohup, a shell's background) goes on doing so.
    ours = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before: dict[int, Any] = {number: signal.signal(number, guard.leave) for number in ours}
    alarm = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=guard.watch, args=(woken,), name="tg_crepe signals", daemon=True)
    watcher.start()
    try:
        yield guard
    finally:
        guard.over.set()
        signal.set_wakeup_fd(alarm)
        for number, handler in before.items():
            signal.signal(number, handler)
        with contextlib.suppress(OSError):
            waking.send(_OVER)
        watcher.join()
        woken.close()
        waking.close()
        _active = None


def die(number: int) -> NoReturn:
    """Ends the process by a signal, as one that does not catch it ends: a shell's loop over files then ends too."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    if os.name == "posix":
        # Python sets handlers in the main thread alone, which may be the one that does not answer.
        ctypes.CDLL(None).signal(ctypes.c_int(number), ctypes.c_void_p(0))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(128 + number)


def _is_ours(handler: Any) -> bool:
    """Whether this package catches a signal; a server within a command ends in its own way."""
    return str(getattr(handler, "__module__", "")).partition(".")[0] == "tg_crepe"


def _forget() -> None:
    """A signal to a forked child must not wake its parent."""
    global _active
    if _active is not None:
        signal.set_wakeup_fd(-1)
        _active = None


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)
