"""A run that kills itself: ``python killed_run.py FOLDER STEP`` dies of SIGKILL before the images of that step."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from training_runs import Watched, blobs, fit


def die(step: int, index: object) -> None:
    if step == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    fit(Path(sys.argv[1]), resume=True, dataset=Watched.watch(blobs(), die))
