"""Threads sleep while they wait, whichever package came first, and the user's own setting stands."""

import os
import subprocess
import sys

import pytest

#: Says what the environment holds, whether an idle team is kept, and what torch computes with it and without.
SCRIPT = """
import os, threading
{first}
import tg_crepe, torch
torch.set_num_threads(2)
x = torch.randn(1 << 18, generator=torch.Generator().manual_seed(0))
before = x.exp().sum()
from tg_crepe._waiting import wait_passively
for _ in range(2):
    wait_passively()
parked = sum(thread.name == "tg_crepe idle team" for thread in threading.enumerate())
print(os.environ.get("OMP_WAIT_POLICY"), parked, bool(before == x.exp().sum()))
"""


def say(first, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT.format(first=first)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the idle team is for GNU's runtime")
@pytest.mark.parametrize(
    ("first", "environment", "expected"),
    [
        ("", {}, ["PASSIVE", "0", "True"]),
        ("import torch", {}, ["PASSIVE", "1", "True"]),
        ("import torch", {"OMP_WAIT_POLICY": "ACTIVE"}, ["ACTIVE", "0", "True"]),
        ("import torch", {"GOMP_SPINCOUNT": "5"}, ["None", "0", "True"]),
    ],
)
def test_waiting_is_passive_unless_the_user_has_decided(first, environment, expected):
    assert say(first, **environment) == expected
