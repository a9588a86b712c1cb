from __future__ import annotations

import math
import os
import signal
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from training_runs import CONFIG, NUM_TRAIN, blobs, fit, labelled, weights

from tg_crepe.inference.soft_labels import certainty
from tg_crepe.nn import get_backbone
from tg_crepe.runs import RunFolder

pytest.importorskip("accelerate", reason="training needs the extra 'train'")
pytest.importorskip("torchmetrics", reason="training needs the extra 'train'")

from tg_crepe.training import Callback, EnergyLabels, HybridTrainer, TrainingInterrupted, resolve_source
from tg_crepe.training.callbacks import HoldOut
from tg_crepe.training.callbacks.hold_out import HeldOutCount, count_wrong, halve_labels, temper


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(0, 5), st.data())
def test_halves_share_the_labels_of_every_class(classes, seed, data):
    y = torch.tensor(classes)
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(classes), max_size=len(classes))))
    first, second = halve_labels(y, mask, seed)
    assert torch.equal(first | second, mask)
    sizes = []
    for label in y[mask].unique():
        own = mask & (y == label)
        if int(own.sum()) == 1:
            assert bool((first & second)[own].all())
            continue
        assert not bool((first & second & own).any())
        sizes.append(int((first & own).sum()) - int((second & own).sum()))
        assert abs(sizes[-1]) <= 1
    assert abs(sum(sizes)) <= 1  # the larger parts take turns
    again = halve_labels(y, mask, seed)
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])


def test_halves_follow_the_seed():
    y, mask = torch.zeros(30, dtype=torch.long), torch.ones(30, dtype=torch.bool)
    assert not torch.equal(halve_labels(y, mask, 0)[0], halve_labels(y, mask, 1)[0])


def test_what_is_wrong_is_counted_among_the_judged_and_never_proves_anything():
    pseudo_y, y = torch.tensor([0, 1, -1, 1]), torch.tensor([0, 0, 1, 0])
    count = count_wrong(pseudo_y, y, torch.tensor([True, True, True, False]))
    assert count == HeldOutCount(2, 3)  # an image that no label reaches is not right
    assert count + HeldOutCount(1, 4) == HeldOutCount(3, 7)
    assert HeldOutCount(0, 8).error == pytest.approx(0.1)


def pseudo_labels(num_classes: int = 4, sharp: float = 2.0) -> Data:
    generator = torch.Generator().manual_seed(0)
    prob = torch.softmax(sharp * torch.randn(50, num_classes, generator=generator), dim=1)
    mask = torch.arange(50) >= 5
    return Data(pseudo_prob=prob, pseudo_y=prob.argmax(dim=1), certainty=certainty(prob, False), pseudo_mask=mask)


@pytest.mark.parametrize("count", [HeldOutCount(0, 10), HeldOutCount(6, 20), HeldOutCount(20, 20)])
def test_the_mean_confidence_is_that_of_the_geometric_mean(count):
    before, after = pseudo_labels(), pseudo_labels()
    temper(after, count)
    chosen = after.pseudo_mask
    own = 1 - float(before.pseudo_prob[chosen].double().amax(dim=1).mean())
    found = float(after.pseudo_prob[chosen].double().amax(dim=1).mean())
    assert found == pytest.approx(1 - math.sqrt(own * count.error), abs=1e-6)
    assert torch.equal(after.pseudo_prob.argmax(dim=1), before.pseudo_y)
    assert torch.equal(after.pseudo_prob[~chosen], before.pseudo_prob[~chosen])
    torch.testing.assert_close(after.certainty, certainty(after.pseudo_prob, False))
    # One temperature for all: logarithms of ratios are multiplied by one number.
    ratios = [(d.pseudo_prob[chosen, 0] / d.pseudo_prob[chosen, 1]).double().log() for d in (before, after)]
    factor = ratios[1] / ratios[0]
    torch.testing.assert_close(factor, factor.mean().expand_as(factor), rtol=1e-3, atol=1e-4)


def test_labels_without_a_doubt_are_doubted_as_much_as_the_judged_ones_allow():
    data, count = pseudo_labels(), HeldOutCount(3, 10)
    data.pseudo_prob = torch.eye(4)[data.pseudo_y]
    temper(data, count)
    found = float(data.pseudo_prob[data.pseudo_mask].double().amax(dim=1).mean())
    assert found == pytest.approx(1 - math.sqrt(count.error / 12), abs=1e-6)
    assert torch.equal(data.pseudo_prob.argmax(dim=1), data.pseudo_y)


def test_a_hopeless_half_leaves_a_guess_that_keeps_its_class():
    data = pseudo_labels(num_classes=3, sharp=0.5)
    before = data.pseudo_y[data.pseudo_mask]
    temper(data, HeldOutCount(10**6, 10**6))
    prob = data.pseudo_prob[data.pseudo_mask]
    assert torch.equal(prob.argmax(dim=1), before)
    assert float(prob.amax(dim=1).mean()) < float(pseudo_labels(3, 0.5).pseudo_prob.amax(dim=1).mean())


def test_without_pseudo_labels_nothing_changes():
    empty = pseudo_labels()
    empty.pseudo_mask = torch.zeros_like(empty.pseudo_mask)
    temper(empty, HeldOutCount(3, 10))
    assert torch.equal(empty.pseudo_prob, pseudo_labels().pseudo_prob)


@pytest.mark.parametrize("source", ["crepe", "network"])
def test_it_changes_how_sure_pseudo_labels_are_and_nothing_else(source):
    plain, judged = (fit(source=source, certainty_weight=False, hold_out=on) for on in (False, True))
    assert all(torch.equal(value, weights(judged)[name]) for name, value in weights(plain).items())
    assert torch.equal(plain.data.pseudo_y, judged.data.pseudo_y)
    assert not torch.equal(plain.data.certainty, judged.data.certainty)
    assert plain.history[0].keys() == judged.history[0].keys()


def of_type(trainer, kind):
    return next(callback for callback in trainer.callbacks if isinstance(callback, kind))


class Steps(HybridTrainer):
    """Notes every step of the whole network and of the halves, which are of this class too."""

    steps: list[tuple[HybridTrainer, set[int], torch.Tensor]]  # trainer, images, first weights before the step

    def train_step(self, batch, *arguments):
        before = next(self.model.parameters()).detach().clone()
        Steps.steps.append((self, {*batch.labelled.tolist(), *batch.pseudo.tolist()}, before))
        return super().train_step(batch, *arguments)


def test_the_networks_of_the_halves_begin_alike_and_see_their_labels_alone(monkeypatch):
    monkeypatch.setattr(Steps, "steps", [], raising=False)
    whole = Steps(blobs(), labelled(), config=replace(CONFIG, hold_out=True)).fit()
    seen: dict[int, set[int]] = {}
    first_weights: dict[int, torch.Tensor] = {}
    for trainer, images, before in Steps.steps:
        seen.setdefault(id(trainer), set()).update(images)
        first_weights.setdefault(id(trainer), before)
    assert next(iter(seen)) == id(whole)
    expected = halve_labels(blobs().targets[:NUM_TRAIN], labelled(), CONFIG.seed)
    halves = [images for trainer, images in seen.items() if trainer != id(whole)]
    assert halves == [set(mask.nonzero().view(-1).tolist()) for mask in expected]
    assert all(torch.equal(before, first_weights[id(whole)]) for before in first_weights.values())
    assert of_type(whole, HoldOut).count.judged == int(labelled().sum())


def test_the_truth_of_unlabelled_images_does_not_reach_it():
    dataset = blobs()
    hidden = dataset.targets.clone()
    hidden[:NUM_TRAIN][~labelled()] = 0
    true, noisy = fit(hold_out=True), fit(hold_out=True, dataset=replace(dataset, targets=hidden))
    assert torch.equal(true.data.certainty, noisy.data.certainty)


class Signals(EnergyLabels):
    """CREPE's pseudo-labels, with a signal to this process in one of the calls."""

    def __init__(self, at: int, signum: int = signal.SIGTERM) -> None:
        super().__init__(resolve_source("crepe", CONFIG.k).transform)
        self._at, self._signum, self._calls = at, signum, 0

    def label(self, data):
        self._calls += 1
        if self._calls == self._at:
            os.kill(os.getpid(), self._signum)
        return super().label(data)


class Stopped(HybridTrainer):
    """Sends a signal in the first step of the first half."""

    def train_step(self, *arguments):
        if not self.config.hold_out:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().train_step(*arguments)


@pytest.mark.parametrize("place", ["in a step of the first half", "after both halves"])
def test_it_resumes_to_the_same_bits(tmp_path, place):
    whole, config = fit(hold_out=True), replace(CONFIG, hold_out=True)
    kind, at = (Stopped, 0) if place == "in a step of the first half" else (HybridTrainer, 3)
    with pytest.raises(TrainingInterrupted, match=r"SIGTERM.*last\.pt"):
        kind(blobs(), labelled(), source=Signals(at), config=config, run=tmp_path).fit()
    again = Signals(at=0)
    resumed = fit(tmp_path, resume=True, hold_out=True, source=again)
    # Two halves, the pseudo-labels of three epochs, and those of the last model: no hybrid epoch had ended.
    assert again._calls == 2 + 3 + 1
    assert torch.equal(resumed.data.certainty, whole.data.certainty)
    assert all(torch.equal(value, weights(resumed)[name]) for name, value in weights(whole).items())


def test_halves_that_have_answered_are_not_asked_again(tmp_path):
    whole = fit(hold_out=True)
    with pytest.raises(TrainingInterrupted):
        fit(tmp_path, hold_out=True, source=Signals(at=4))  # in the second hybrid epoch
    again = Signals(at=0)
    resumed = fit(tmp_path, resume=True, hold_out=True, source=again)
    assert again._calls == 2 + 1
    assert torch.equal(resumed.data.certainty, whole.data.certainty)


def test_a_signal_in_the_energy_of_a_half_is_not_lost(tmp_path):
    source = Signals(at=2, signum=signal.SIGINT)  # of the second half: the last one before the whole network goes on
    with pytest.raises(TrainingInterrupted, match=r"SIGINT.*last\.pt"):
        fit(tmp_path, hold_out=True, source=source)
    assert source._calls == 2
    assert RunFolder.open(tmp_path).info["status"] == "interrupted"


def test_a_network_of_the_users_that_was_trained_before_the_interrupt_judges_no_label_it_knows(tmp_path):
    def trainer(source):
        config = replace(CONFIG, hold_out=True)
        return HybridTrainer(blobs(), labelled(), network, source, config, run=tmp_path)

    network = get_backbone("small_cnn", 1, 3, 8, seed=0)
    first = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(TrainingInterrupted):
        trainer(Signals(at=1)).fit()
    assert not all(torch.equal(value, network.state_dict()[name]) for name, value in first.items())

    class Look(Callback):
        def on_epoch_begin(self, trainer):  # the checkpoint is read, and the halves are still to be asked
            begun.append(of_type(trainer, HoldOut).state_dict()["untrained"])

    begun: list[dict] = []
    resumed = trainer(Signals(at=0))
    resumed.callbacks.append(Look())
    resumed.fit(resume=True)
    assert all(torch.equal(value, begun[0][name]) for name, value in first.items())


class Spoilt(HybridTrainer):
    """The losses of the halves are not numbers."""

    def train_step(self, *arguments):
        return super().train_step(*arguments) * (1 if self.config.hold_out else float("nan"))


def test_a_half_that_diverges_names_the_checkpoint_of_the_run(tmp_path):
    trainer = Spoilt(blobs(), labelled(), config=replace(CONFIG, hold_out=True), run=tmp_path)
    with pytest.raises(FloatingPointError, match=r"the last good checkpoint is .*last\.pt'"):
        trainer.fit()
    assert RunFolder.open(tmp_path).info["status"] == "diverged"


def test_the_users_accelerator_keeps_nothing_of_the_halves():
    from accelerate import Accelerator

    accelerator = Accelerator()
    config = replace(CONFIG, epochs=2, hold_out=True)
    trainer = HybridTrainer(blobs(), labelled(), config=config, accelerator=accelerator)
    trainer.fit()
    assert len(accelerator._models) == len(accelerator._optimizers) == 1
    assert of_type(trainer, HoldOut).state_dict()["untrained"] is None


def test_it_needs_pseudo_labels_of_exclusive_classes_with_two_labels():
    with pytest.raises(ValueError, match="'hold_out' must be False where there are no pseudo-labels"):
        fit(source="none", hold_out=True)
    with pytest.raises(ValueError, match="'hold_out' must be False where an image may have several labels, got True"):
        fit(dataset=blobs(multi_label=True), hold_out=True)
    config = replace(CONFIG, hold_out=True)
    three = torch.arange(NUM_TRAIN) < 3
    with pytest.raises(ValueError, match="'hold_out' must be False where most labels are the only one"):
        HybridTrainer(blobs(), three, config=config)
