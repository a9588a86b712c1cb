from __future__ import annotations

import pytest
import torch
import torch_geometric.transforms as T

pytest.importorskip("accelerate", reason="training needs the extra 'train'")
pytest.importorskip("torchmetrics", reason="training needs the extra 'train'")

from training_runs import CONFIG, NUM_TRAIN, blobs, fit, labelled, numbers, weights

from tg_crepe import LGC, CrepePropagation, FeatureKNNGraph, GraphWarning
from tg_crepe.runs import RunFolder
from tg_crepe.training import (
    EnergyLabels,
    HybridTrainer,
    LabelSource,
    NetworkLabels,
    NoLabels,
    resolve_source,
)
from tg_crepe.training.sources import PSEUDO_LABELS, describe


def nearest_label(data):
    """A transform without a graph: every image gets the label that is nearest to it."""
    known = data.train_mask.nonzero().view(-1)
    data.pseudo_y = data.y[known[torch.cdist(data.x, data.x[known]).argmin(dim=1)]]
    data.pseudo_prob = torch.eye(data.num_classes)[data.pseudo_y]
    data.certainty, data.pseudo_mask = torch.ones(len(data.y)), ~data.train_mask
    return data


class NearestCentre(LabelSource):
    """The class whose labelled images lie nearest on average."""

    def observe(self, data, network):
        data.x = network.features()

    def label(self, data):
        centres = [data.x[data.train_mask & (data.y == k)].mean(dim=0) for k in range(data.num_classes)]
        data.pseudo_prob = (10 * data.x @ torch.stack(centres).T).softmax(dim=1)
        data.certainty, data.pseudo_y = data.pseudo_prob.max(dim=1)
        data.pseudo_mask = ~data.train_mask
        return data


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ("crepe", EnergyLabels, "EnergyLabels(FeatureKNNGraph(k=7, metric='cosine'), CrepePropagation("),
        (LGC(), EnergyLabels, "EnergyLabels(FeatureKNNGraph(k=7, metric='cosine'), LGC("),
        (FeatureKNNGraph(k=3), EnergyLabels, "EnergyLabels(FeatureKNNGraph(k=3, metric='auto'))"),
        ("network", NetworkLabels, "NetworkLabels()"),
        ("none", NoLabels, "NoLabels()"),
    ],
    ids=str,
)
def test_a_name_a_model_and_a_transform_stand_for_a_source(given, kind, text):
    source = resolve_source(given, k=7)
    assert type(source) is kind
    assert repr(source).startswith(text)
    assert resolve_source(source, k=9) is source


def test_what_is_no_source_is_refused():
    with pytest.raises(ValueError, match="'source' must be one of 'network', 'none', 'crepe'"):
        fit(source="crêpe")
    with pytest.raises(ValueError, match="'transform' must be callable, from Data to Data, got int"):
        fit(source=3)


def test_the_default_is_the_graph_and_the_energy_as_one_transform():
    spelt_out = T.Compose([FeatureKNNGraph(k=CONFIG.k, metric="cosine"), CrepePropagation()])
    named, given = fit(source="crepe"), fit(source=spelt_out, k=2)  # 'k' is that of the default graph alone
    assert numbers(named.history) == numbers(given.history)
    assert all(torch.equal(value, weights(given)[name]) for name, value in weights(named).items())


def test_a_transform_of_the_user_replaces_graph_and_energy(tmp_path):
    trained = fit(tmp_path / "run", source=nearest_label, epochs=3)
    assert "edge_index" not in trained.data
    assert torch.equal(trained.data.pseudo_y, nearest_label(trained.data.clone()).pseudo_y)
    assert trained.history[-1]["num_pseudo"] == NUM_TRAIN - 13
    assert trained.history[-1]["energy_seconds"] > trained.history[-1]["graph_seconds"]
    run = RunFolder.open(tmp_path / "run")
    assert torch.equal(torch.from_numpy(run.read_result().label), trained.data.pseudo_y)
    assert not run.has("graph.npz")
    assert run.info["settings"]["source"] == "EnergyLabels(transform=nearest_label)"
    with pytest.raises(ValueError, match="'source' was"):
        fit(tmp_path / "run", resume=True, source="lgc", epochs=3)


def test_a_source_of_the_user_is_one_class(tmp_path):
    trained = fit(tmp_path / "run", source=NearestCentre(), epochs=3, align_classes=True)
    assert set(PSEUDO_LABELS) <= set(trained.data.keys())
    assert trained.final["pseudo_error"] < 0.4
    assert fit(tmp_path / "run", resume=True, source=NearestCentre(), epochs=3, align_classes=True).final


def test_a_transform_that_writes_no_pseudo_labels_is_named():
    with pytest.raises(ValueError, match=r"'transform' must write pseudo_y.*, got no pseudo_y, pseudo_prob"):
        fit(source=FeatureKNNGraph(k=5))


@pytest.mark.parametrize("source", ["lgc", nearest_label, "network"], ids=["energy", "transform", "network"])
def test_a_class_without_a_label_has_a_column(source):
    mask = labelled() & (blobs().targets[:NUM_TRAIN] != 2)
    trainer = HybridTrainer(blobs(), mask, source=source, config=CONFIG)
    if source == "lgc":
        with pytest.warns(GraphWarning, match=r"class\(es\) \[2\]"):
            trainer.fit()
    else:
        trainer.fit()
    assert trainer.data.pseudo_prob.shape == (NUM_TRAIN, 3)


def test_inputs_of_a_source_are_not_changed():
    trained = fit(source="lgc", epochs=2)
    before = trained.data.propagation.prob.clone()
    again = fit(source="lgc", epochs=2, align_classes=True)
    assert not torch.equal(again.data.pseudo_prob, trained.data.pseudo_prob)
    assert torch.equal(again.data.propagation.prob, before)  # alignment is not written into the energy's own answer


def test_a_description_tells_options_apart():
    assert describe(resolve_source("crepe", 5)) == describe(resolve_source("crepe", 5))
    assert describe(resolve_source("crepe", 5)) != describe(resolve_source("crepe", 6))
    assert describe(resolve_source(LGC(alpha=0.9))) != describe(resolve_source(LGC(alpha=0.99)))
    assert describe(EnergyLabels(nearest_label)) == "EnergyLabels(transform=nearest_label)"
