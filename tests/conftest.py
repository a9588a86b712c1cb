from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# One thread for graphs of a hundred nodes, here and in the commands that tests start: several cost more than they give,
# above all beside other processes. Tests of the number of threads set it themselves. Read when torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that runs the tests in the background lets them ignore Ctrl-C, and so would the commands that they start and
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples are the same in every run. HYPOTHESIS_PROFILE=long looks further, after a change of the mathematics.
settings.register_profile("suite", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("long", settings.get_profile("suite"), max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker per processor, at most four: each takes more than 1 GB. None for single files, where starting them costs
    more than they give.
    """
    chosen = config.option.file_or_dir
    if chosen and all(".py" in path for path in chosen):
        return 0
    return min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@pytest.fixture
def data_root() -> Path:
    """The folder of real data that TG_CREPE_DATA names; tests that need it are skipped where there is none."""
    root = os.environ.get("TG_CREPE_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("TG_CREPE_DATA does not name a folder with the real data sets")
    return Path(root)
