from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("accelerate", reason="training needs the extra 'train'")
pytest.importorskip("torchmetrics", reason="training needs the extra 'train'")

from training_runs import NUM_TRAIN, blobs, fit

from tg_crepe.active import label_next
from tg_crepe.runs import RunFolder


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_last_flow_is_kept_with_images_of_what_to_label_next(tmp_path, multi_label):
    done = fit(tmp_path / "run", dataset=blobs(multi_label), epochs=2)
    run = RunFolder.open(tmp_path / "run")
    result, trace = run.read_result(), run.read_trace()
    assert {"step", "sum_of_ratios"} <= set(trace)
    assert any(name.startswith("energy") for name in trace)
    classes = 2 if multi_label else 3
    assert result.flow_u.shape == (3, NUM_TRAIN, classes)
    assert result.flow_node.tolist() == list(range(NUM_TRAIN))
    if not multi_label:  # the end of the flow is the run's own answer, but for the class volumes
        same = result.flow_u[-1].argmax(axis=1) == result.label
        assert same.mean() > 0.9
    node, images = run.read_thumbnails()
    data = done.data
    wanted = label_next(
        data.pseudo_prob.double(), data.train_mask, data.edge_index, data.edge_weight, 16, multi_label=multi_label
    )
    assert set(wanted.tolist()) <= set(node.tolist())
    np.testing.assert_array_equal(images, blobs().fetch(torch.from_numpy(node)))


def test_a_model_without_a_flow_keeps_none(tmp_path):
    fit(tmp_path / "run", epochs=2, source="lgc")
    assert RunFolder.open(tmp_path / "run").read_result().flow_u is None
    fit(tmp_path / "network", epochs=2, source="network")
    assert RunFolder.open(tmp_path / "network").read_result().flow_u is None
