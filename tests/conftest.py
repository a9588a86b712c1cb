from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

# One thread for graphs of a hundred nodes, here and in the commands that tests start: several cost more than they give,
# above all beside other processes. Tests of the number of threads set it themselves. Read when torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that runs the tests in the background lets them ignore Ctrl-C, and so would the commands that they start and
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def data_root() -> Path:
    """The folder of real data that TG_CREPE_DATA names; tests that need it are skipped where there is none."""
    root = os.environ.get("TG_CREPE_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("TG_CREPE_DATA does not name a folder with the real data sets")
    return Path(root)
