"""A signal ends a command, also where what its handler raises is lost, and where the main thread is in compiled code.

None of these children would come to an end by itself within the time that is allowed: that they ended by the signal is
the claim, and no clock is read.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("rich", reason="the command line needs the extra 'cli'")

#: A whole command line whose work is replaced: it says that it has begun and would go on for an hour.
PROGRAM = """
import ctypes, os, sys, threading, time
from pathlib import Path
import tg_crepe.cli
from tg_crepe._unfinished import noted

def begun():
    os.write(1, b"begun")

class Swallows:  # what is raised in a finaliser is written to stderr and lost
    def __del__(self):
        begun()
        time.sleep(1800)
        time.sleep(1800)

def finaliser():
    Swallows()
    time.sleep(3600)

def handler():  # a library that takes anything for a failure, and tries again
    begun()
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            pass

def compiled():  # one call that runs none of Python's instructions, as a kernel of numba or an operation of torch does
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(128)
    libc.pthread_mutex_lock(mutex)
    begun()
    libc.pthread_mutex_lock(mutex)  # never returns, and no signal wakes it

def worker():  # a thread that the end of the process would wait for
    threading.Thread(target=time.sleep, args=(3600,)).start()
    begun()
    time.sleep(3600)

def writing():
    with noted(Path("half.tmp")):
        Path("half.tmp").write_bytes(b"half")
        handler()

tg_crepe.cli._run = globals()[sys.argv[1]]
tg_crepe.cli.main()
"""


def end(kind: str, number: int, folder: Path) -> tuple[int, str]:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert child.stdout.read(5) == b"begun"
        child.send_signal(number)
        _, err = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    return child.returncode, err.decode()


@pytest.mark.parametrize("kind", ["finaliser", "handler", "compiled", "worker", "writing"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_a_command_whatever_it_is_at(tmp_path, kind, number):
    code, err = end(kind, number, tmp_path)
    assert code == -number
    said = [line for line in err.splitlines() if line.startswith("stopped by")]
    name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
    assert said == [f"stopped by {name}; nothing half-written is left"]
    assert not list(tmp_path.iterdir())


#: The graph search and the compiled solvers on a task of minutes, which says that it has begun.
WORK = """
import os, sys, threading
import torch
import tg_crepe.cli
from tg_crepe import knn_graph, CrepePropagation

def search(backend):
    x = torch.randn(400_000, 64, generator=torch.Generator().manual_seed(0))
    os.write(1, b"begun")
    knn_graph(x, 20, backend=backend)

def flow():
    x = torch.randn(20_000, 8, generator=torch.Generator().manual_seed(0))
    y = torch.where(torch.arange(len(x)) < 500, torch.arange(len(x)) % 100, -1)
    graph = knn_graph(x, 20)
    os.write(1, b"begun")
    while True:
        CrepePropagation().propagate(y, graph[0], None, graph[1])

work = {"faiss": lambda: search("faiss"), "exact": lambda: search("torch"), "flow": flow}[sys.argv[1]]
tg_crepe.cli._run = work
tg_crepe.cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["faiss", "exact", "flow"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_the_graph_search_and_the_compiled_flow(tmp_path, monkeypatch, kind, number):
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", WORK)
    code, err = end(kind, number, tmp_path)
    assert code == -number
    assert "Traceback" not in err


def test_a_command_that_ignores_signals_goes_on_doing_so():
    """Under nohup, or in the background of a shell."""
    program = """
import json, os, signal, tg_crepe.cli
signal.signal(signal.SIGINT, signal.SIG_IGN)
def work():
    os.kill(os.getpid(), signal.SIGINT)
    print(json.dumps("whole"))
    return 0
tg_crepe.cli._run = work
tg_crepe.cli.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, json.loads(done.stdout)) == (0, "whole")
