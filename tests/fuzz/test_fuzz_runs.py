"""Any field of a run damaged: its readers answer, or end with one line and exit code 2."""

import contextlib
import io
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from cli_inputs import write_clusters
from fuzz_strategies import fuzzed
from hypothesis import strategies as st

from tg_crepe.cli.app import run

ODD = st.sampled_from([None, [], {}, "text", -1, 99, 1e308, float("nan"), True, [[1]], {"a": 1}, "<script>"])


@st.composite
def damages(draw):
    """Which file, and what is done to it."""
    file = draw(st.sampled_from(["run.json", "result.npz", "graph.npz", "trace.csv"]))
    if file == "run.json":
        return file, "field", draw(st.integers(0, 30)), draw(ODD)
    if file.endswith(".npz"):
        change = draw(st.sampled_from(["value", "type", "shape", "absent", "cut"]))
        values = {
            "value": st.sampled_from([-2, 99, np.nan, np.inf]),
            "type": st.sampled_from(["f4", "i8", "U5", "?", "c8"]),
        }
        return file, change, draw(st.integers(0, 30)), draw(values.get(change, st.integers(0, 3)))
    return file, "text", 0, draw(st.text(max_size=30))


def apply(folder, damage):
    file, change, place, value = damage
    path = folder / file
    if file == "run.json":
        info = json.loads(path.read_text())
        info[sorted(info)[place % len(info)]] = value
        path.write_text(json.dumps(info))
    elif change == "text":
        path.write_text(value)
    elif change == "cut":
        path.write_bytes(path.read_bytes()[: place * 50])
    else:
        with np.load(path) as content:
            arrays = dict(content)
        name = sorted(arrays)[place % len(arrays)]
        array = arrays.pop(name)
        with contextlib.suppress(ValueError, TypeError, OverflowError, IndexError):
            if change == "value":
                array = array.copy()
                array.reshape(-1)[place % max(array.size, 1)] = value
            elif change == "type":
                array = array.astype(value)
            elif change == "shape":
                array = [array[..., None], array.reshape(-1), array[:1] if array.ndim else array, array[()]][value]
        if change != "absent":
            arrays[name] = array
        np.savez(path, **arrays)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    write_clusters(folder)
    line = f"propagate {folder}/features.npz --labels {folder}/labels.csv -o {folder}/p.csv --run {folder}/run"
    assert run(line.split()) == 0
    return folder / "run"


@pytest.mark.filterwarnings("ignore")
def claim(whole, damage):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "run")
        shutil.copytree(whole, folder)
        apply(folder, damage)
        for line in (["label-next", str(folder), "-n", "3"], ["report", str(folder), "-o", f"{place}/page.html"]):
            output, errors = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
                code = run(line)
            assert code in (0, 2), line
            if code == 2:
                assert errors.getvalue().count("\n") == 1
                assert str(folder) in errors.getvalue()
        assert {item.name for item in Path(place).iterdir()} <= {"run", "page.html"}


test_runs_quickly, test_runs_at_length = fuzzed(15, damage=damages())(claim)
