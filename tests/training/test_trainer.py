from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn
from training_runs import CONFIG, NUM_LABELLED, NUM_TRAIN, Watched, blobs, fit, labelled, numbers, weights

from tg_crepe import GraphWarning, Harmonic
from tg_crepe.datasets import RandomLabelSplit
from tg_crepe.models.registry import ENERGY_MODELS
from tg_crepe.training import ClassWeights, HybridLoss, HybridTrainer, TrainingConfig
from tg_crepe.training.sources import PSEUDO_LABELS

pytest.importorskip("accelerate", reason="training needs the extra 'train'")
pytest.importorskip("torchmetrics", reason="training needs the extra 'train'")


@pytest.fixture(scope="module")
def result():
    return fit()


def poisoned(multi_label: bool = False):
    """The same data set with noise for the truth of unlabelled and of test images."""
    dataset = blobs(multi_label)
    noise = torch.randint(0, 2, dataset.targets.shape, generator=torch.Generator().manual_seed(1))
    known = torch.zeros(len(dataset), dtype=torch.bool)
    known[dataset.train[labelled()]] = True
    targets = torch.where(known.view(-1, *[1] * (noise.dim() - 1)), dataset.targets, noise)
    assert bool((targets != dataset.targets).any())
    return replace(dataset, targets=targets)


@pytest.mark.parametrize("options", [{}, {"source": "network", "align_classes": True}, {"soft_targets": True}])
def test_the_truth_of_unlabelled_images_changes_no_bit_of_the_weights(options):
    true, noisy = fit(**options), fit(dataset=poisoned(), **options)
    assert all(torch.equal(value, weights(noisy)[name]) for name, value in weights(true).items())
    assert torch.equal(true.data.pseudo_y, noisy.data.pseudo_y)
    assert true.final["error"] != noisy.final["error"]  # the log did see the poison
    assert true.final["pseudo_error"] != noisy.final["pseudo_error"]


def test_the_truth_of_unlabelled_findings_changes_no_bit_of_the_weights():
    true, noisy = fit(dataset=blobs(multi_label=True)), fit(dataset=poisoned(multi_label=True))
    assert all(torch.equal(value, weights(noisy)[name]) for name, value in weights(true).items())
    assert true.final["auc"] != noisy.final["auc"]


def test_unlabelled_truth_is_not_in_the_state(result):
    assert bool((result.data.y[~labelled()] == -1).all())
    assert torch.equal(result.data.y[labelled()], blobs().targets[blobs().train[labelled()]])


def test_the_state_of_an_epoch_is_one_data_object(result):
    data = result.data
    given, graph = {"x", "y", "train_mask", "num_classes"}, {"edge_index", "edge_weight"}
    assert set(data.keys()) == given | graph | set(PSEUDO_LABELS) | {"propagation"}
    torch.testing.assert_close(data.x.norm(dim=1), torch.ones(NUM_TRAIN))
    assert data.pseudo_prob.shape == (NUM_TRAIN, 3)
    assert torch.equal(data.pseudo_mask, ~labelled())


def test_it_learns_what_the_images_show(result):
    assert result.final["pseudo_error"] < 0.1
    longer = fit(epochs=10, warmup_epochs=3)
    assert longer.final["error"] < 0.1


def test_the_same_call_gives_the_same_bits_and_leaves_the_global_generator_alone(result):
    state = torch.get_rng_state()
    again = fit()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(12)
    third = fit()
    for other in (again, third):
        assert numbers(other.history) == numbers(result.history)
        assert all(torch.equal(value, weights(other)[name]) for name, value in weights(result).items())
    assert not torch.equal(weights(fit(seed=4))["head.weight"], weights(result)["head.weight"])


def test_dropout_depends_on_the_seed_alone():
    class Dropping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with torch.random.fork_rng():
                torch.manual_seed(0)
                self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.5))
                self.head = nn.Linear(16, 3)

        def features(self, x):
            return self.body(x)

    one, other = fit(backbone=Dropping()), fit(backbone=Dropping())
    assert all(torch.equal(value, weights(other)[name]) for name, value in weights(one).items())
    assert not torch.equal(
        weights(fit(backbone=Dropping(), seed=4))["module.head.weight"], weights(one)["module.head.weight"]
    )


@pytest.mark.parametrize("source", [*sorted(ENERGY_MODELS), "network", "none"])
@pytest.mark.filterwarnings("ignore::tg_crepe.warnings.ConvergenceWarning")
def test_every_source_runs(source):
    trained = fit(source=source, epochs=2)
    assert [row["phase"] for row in trained.history] == ["warm-up", "hybrid"]
    assert ("pseudo_y" in trained.data) == (source != "none")
    assert ("edge_index" in trained.data) == (source not in ("none", "network"))


def test_the_supervised_baseline_takes_the_same_steps_on_the_same_labelled_images():
    seen: dict[str, list[list[int]]] = {"crepe": [], "none": []}
    for source, steps in seen.items():
        fit(
            source=source, dataset=Watched.watch(blobs(), lambda step, index, steps=steps: steps.append(index.tolist()))
        )
    assert len(seen["crepe"]) == len(seen["none"])
    for mixed, alone in zip(seen["crepe"], seen["none"], strict=True):
        assert alone == [i for i in mixed if i < NUM_LABELLED]


def test_an_image_may_have_several_labels():
    trained = fit(dataset=blobs(multi_label=True), epochs=8)
    assert trained.data.pseudo_y.shape == (NUM_TRAIN, 2)
    assert trained.final["auc"] > 0.9
    assert set(trained.final["auc_per_class"]) == {"first", "second"}
    assert trained.history[-1]["auc"] == pytest.approx(trained.final["auc"])
    with pytest.raises(ValueError, match="'align_classes' must be False"):
        fit(dataset=blobs(multi_label=True), align_classes=True)


class Starts(Harmonic):
    """Notes where it was told to start."""

    def __init__(self) -> None:
        super().__init__()
        self._starts: list = []

    def forward(self, data):
        self._starts.append(data.get("u0"))
        return super().forward(data)


@pytest.mark.parametrize("warm", [True, False])
def test_a_warm_start_hands_the_last_solution_on(warm):
    model = Starts()
    fit(source=model, warm_start=warm, epochs=3)
    assert len(model._starts) == 3  # two hybrid epochs, and the last model
    assert model._starts[0] is None
    assert all((start is not None) == warm for start in model._starts[1:])


def test_pseudo_labels_are_kept_between_refreshes():
    model = Starts()
    trained = fit(source=model, refresh_every=2, epochs=6)
    assert len(model._starts) == 3 + 1  # before epochs 2, 4 and 6, and for the last model
    assert [row["energy_seconds"] > 0 for row in trained.history] == [False, True, False, True, False, True]
    certainty = [row["certainty"] for row in trained.history]
    assert certainty[1] == certainty[2]


def test_the_reported_model_is_the_last_one(tmp_path):
    trained = fit(tmp_path / "run", epochs=6)
    last = torch.load(tmp_path / "run" / "checkpoint" / "last.pt", weights_only=True)
    assert all(torch.equal(value, weights(trained)[name]) for name, value in last["model"].items())
    assert trained.final["error"] == trained.history[-1]["error"]


@pytest.mark.parametrize(
    "change",
    [
        {"certainty_weight": False},
        {"class_weight": False},
        {"soft_targets": True},
        {"align_classes": True},
        {"mixup_alpha": 1.0},
        {"num_samples": 2},
        {"pseudo_weight": 0.5},
        {"labelled_per_batch": 4},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_setting_has_an_effect(result, change):
    assert not torch.equal(weights(fit(**change))["head.weight"], weights(result)["head.weight"])


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_pseudo_labels_are_weighed_by_what_the_network_learns_of_them(multi_label, soft):
    dataset = blobs(multi_label)
    trainer = HybridTrainer(dataset, labelled(), source="lgc", config=replace(CONFIG, soft_targets=soft)).fit()
    chosen = trainer.data.pseudo_mask
    prob, y = trainer.data.pseudo_prob[chosen], trainer.data.pseudo_y[chosen]
    hard = ClassWeights.from_labels(y, dataset.num_classes).weight
    shares = ClassWeights.from_soft_labels(prob, multi_label).weight
    assert not torch.allclose(hard, shares)
    found = HybridLoss.from_data(trainer.data, trainer.config).pseudo_class_weight
    assert found is not None
    assert torch.equal(found.weight, shares if soft else hard)


def test_the_learning_rate_falls_as_a_cosine():
    rates = torch.tensor([row["rate"] for row in fit(epochs=4, learning_rate=0.1).history])
    torch.testing.assert_close(rates, 0.05 * (1 + torch.cos(torch.pi * torch.arange(4) / 4)))


class Noisy(Harmonic):
    """Warns at every call, with another number."""

    def forward(self, data):
        self._calls = getattr(self, "_calls", 0) + 1
        warnings.warn(f"the recall is 0.99{self._calls}", GraphWarning, stacklevel=1)
        return super().forward(data)


def test_a_warning_that_comes_back_every_epoch_is_shown_once():
    with pytest.warns(GraphWarning) as caught:
        fit(source=Noisy())
    assert [str(warning.message) for warning in caught] == ["the recall is 0.991"]


def test_an_epoch_is_a_line_with_errors_and_seconds(capsys):
    fit(epochs=2, verbose=True)
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.strip().splitlines()
    assert first.startswith("epoch 1/2 warm-up | loss")
    for words in ("error", "pseudo-label error", "certainty", "features", "graph", "energy", "network"):
        assert words in second
    fit(epochs=2)
    assert capsys.readouterr().err == ""


def test_a_data_set_without_test_images_trains():
    trained = fit(dataset=replace(blobs(), test=torch.empty(0, dtype=torch.long)), epochs=2)
    assert trained.final["error"] is None
    assert trained.final["pseudo_error"] is not None


def test_a_trainer_trains_once():
    trainer = HybridTrainer(blobs(), labelled(), config=replace(CONFIG, epochs=1))
    trainer.fit()
    with pytest.raises(RuntimeError, match="'fit' trains once"):
        trainer.fit()


def test_labels_for_all_images_leave_nothing_to_infer():
    mask = torch.ones(NUM_TRAIN, dtype=torch.bool)
    trained = HybridTrainer(blobs(), mask, config=replace(CONFIG, epochs=2)).fit()
    assert trained.history[-1]["num_pseudo"] == 0
    assert trained.final["pseudo_error"] is None


def test_a_split_is_as_good_as_its_mask():
    split = RandomLabelSplit(4, "per_class", seed=1).draw(blobs())
    config = replace(CONFIG, epochs=2)
    one, other = (HybridTrainer(blobs(), given, config=config).fit() for given in (split, split.train_mask))
    assert numbers(one.history) == numbers(other.history)


def test_tensorboard_gets_the_numbers(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    fit(tmp_path / "run", epochs=2)
    assert list((tmp_path / "run" / "tensorboard").glob("events.*"))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(3, dtype=torch.bool), r"'train_mask' must be bool of shape \[60\]"),
        (torch.arange(NUM_TRAIN), "got torch.int64"),
        (torch.zeros(NUM_TRAIN, dtype=torch.bool), "at least one labelled image"),
        ([True] * NUM_TRAIN, "'train_mask' must be a torch.Tensor, got list"),
    ],
)
def test_wrong_masks_are_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        HybridTrainer(blobs(), mask, config=CONFIG)


def test_labels_that_are_not_known_cannot_be_used():
    targets = blobs().targets.clone()
    targets[3] = -1
    with pytest.raises(ValueError, match="known label, got 1 without one"):
        HybridTrainer(replace(blobs(), targets=targets), labelled(), config=CONFIG)


def test_more_neighbours_than_images_are_refused_before_any_work(tmp_path):
    with pytest.raises(ValueError, match="'k' must be below the number of training images, 60, got 60"):
        fit(tmp_path / "run", k=60)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "'epochs' must be an integer >= 1"),
        ({"warmup_epochs": 11, "epochs": 10}, r"'warmup_epochs' must be an integer in \[1, epochs\]"),
        ({"momentum": 1.0}, r"'momentum' must be in \(0, 1\), got 1.0"),
        ({"weight_decay": -1.0}, "'weight_decay' must be in"),
        ({"learning_rate": float("nan")}, "'learning_rate' must be a finite number"),
        ({"augmentation": "hard"}, "'augmentation' must be one of 'none', 'weak', 'strong'"),
        ({"mixup_alpha": 0.0}, "'mixup_alpha' must be a finite number > 0"),
        ({"labelled_per_batch": 100}, "'labelled_per_batch' must be an integer in"),
    ],
)
def test_wrong_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**change)


def test_the_repr_says_what_is_trained_on_what():
    found = repr(HybridTrainer(blobs(), labelled(), config=CONFIG))
    assert found.startswith("HybridTrainer(blobs, 13 labels, EnergyLabels(FeatureKNNGraph(k=5, metric='cosine'), Crepe")
