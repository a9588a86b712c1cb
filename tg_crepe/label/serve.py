from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tg_crepe._optional import require
from tg_crepe.label.server import LabelServer
from tg_crepe.label.session import Session
from tg_crepe.label.worker import Worker

#: The port that is tried first, and connections at the same time at most: a burst beyond them gets a 503.
_PORT, _CONNECTIONS = 8642, 256


def serve(
    session: Session, port: int | None, ready: Callable[[str], None], log: Callable[[str], None] = lambda line: None
) -> None:
    r"""Serves the page of a session on this machine alone, until it is interrupted.

    Args:
        session (Session): The open project.
        port (int, optional): The port. (default: :obj:`None`, 8642, or any other that is free)
        ready (callable): Called with the address to open when the server listens.
        log (callable, optional): Takes a line when a request was refused. (default: nobody)
    """
    uvicorn = require("uvicorn", extra="label")
    listener = _listen(port)
    try:
        server = LabelServer(session, listener.getsockname()[1], log)
        config = uvicorn.Config(
            server.guard,
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=2,
            lifespan="off",
            ws="none",
        )
        worker = Worker(session)
        worker.start()
        runner = _runner(config, server, lambda: ready(server.guard.address))
        try:
            with contextlib.suppress(KeyboardInterrupt):
                runner.run(sockets=[listener])
        finally:
            worker.stop()
    finally:
        listener.close()


def _listen(port: int | None) -> socket.socket:
    """A socket that listens on the loopback address alone. It listens at once: with ``SO_REUSEADDR`` two commands that
    start together may both bind the port, and it is the second one's ``listen`` that fails."""
    for wanted in (_PORT, 0) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", wanted))
            listener.listen()
            return listener
        except OSError as error:
            listener.close()
            failure = error
    raise ValueError(f"'--port' must be a free port of this machine, got {port} ({failure.strerror})")


def _runner(config: Any, server: LabelServer, ready: Callable[[], None]) -> Any:
    """Uvicorn's server, which says when it listens and lets go of the streams when it ends."""
    uvicorn = require("uvicorn", extra="label")

    class Runner(uvicorn.Server):  # type: ignore[name-defined]
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Ctrl-C is how a person ends the page: as uvicorn, which would raise the signal once more at the end,
            so that the command around it took it for an abort."""
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            server.end_streams()
            await super().shutdown(sockets)

    return Runner(config)
