import pytest
import torch

from tg_crepe.solvers import Trace


def test_columns_are_stacked_over_the_rows():
    trace = Trace()
    trace.append(step=0, ratio=torch.tensor([1.0, 2.0]))
    trace.append(step=1, ratio=torch.tensor([0.5, 1.0]))
    assert len(trace) == 2
    assert list(trace) == ["step", "ratio"]
    assert trace["ratio"].tolist() == [[1.0, 2.0], [0.5, 1.0]]
    assert trace.to_dict() == {"step": [0, 1], "ratio": [[1.0, 2.0], [0.5, 1.0]]}
    assert repr(trace) == "Trace(rows=2, columns=['step', 'ratio'])"


def test_unknown_and_missing_columns_are_named():
    trace = Trace()
    trace.append(step=0)
    with pytest.raises(KeyError, match="'step'"):
        trace["ratio"]
    with pytest.raises(ValueError, match="must hold the columns"):
        trace.append(ratio=1.0)
