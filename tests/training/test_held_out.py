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
from tg_crepe.training.held_out import HeldOutCount, count_wrong, halve_labels, temper

pytest.importorskip("accelerate", reason="training needs the extra 'train'")
pytest.importorskip("torchmetrics", reason="training needs the extra 'train'")

from tg_crepe.training import HybridTrainer, TrainingInterrupted


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


@pytest.mark.parametrize("energy", ["crepe", "network"])
def test_it_changes_how_sure_pseudo_labels_are_and_nothing_else(energy):
    plain, judged = (fit(energy=energy, certainty_weight=False, hold_out=on) for on in (False, True))
    assert all(torch.equal(value, weights(judged)[name]) for name, value in weights(plain).items())
    assert torch.equal(plain.data.pseudo_y, judged.data.pseudo_y)
    assert not torch.equal(plain.data.certainty, judged.data.certainty)
    assert plain.history[0].keys() == judged.history[0].keys()


def test_the_networks_of_the_halves_begin_alike_and_see_their_labels_alone(monkeypatch):
    seen: dict[int, set[int]] = {}
    first_weights: dict[int, torch.Tensor] = {}
    trainers: list[HybridTrainer] = []  # kept, so that no two have one id
    step = HybridTrainer._train_step

    def watch(self, batch, *arguments):
        if self not in trainers:
            trainers.append(self)
            first_weights[id(self)] = next(self.model.parameters()).detach().clone()
        seen.setdefault(id(self), set()).update(batch.labelled.tolist(), batch.pseudo.tolist())
        return step(self, batch, *arguments)

    monkeypatch.setattr(HybridTrainer, "_train_step", watch)
    fit(hold_out=True)
    whole, *halves = trainers
    y = blobs().targets[:NUM_TRAIN]
    expected = halve_labels(y, labelled(), CONFIG.seed)
    assert [seen[id(half)] for half in halves] == [set(mask.nonzero().view(-1).tolist()) for mask in expected]
    assert all(torch.equal(first_weights[id(half)], first_weights[id(whole)]) for half in halves)
    assert whole._held_out is not None
    assert whole._held_out.judged == int(labelled().sum())


def test_the_truth_of_unlabelled_images_does_not_reach_it():
    dataset = blobs()
    hidden = dataset.targets.clone()
    hidden[:NUM_TRAIN][~labelled()] = 0
    true, noisy = fit(hold_out=True), fit(hold_out=True, dataset=replace(dataset, targets=hidden))
    assert torch.equal(true.data.certainty, noisy.data.certainty)


@pytest.mark.parametrize("place", ["in the first half", "after both halves"])
def test_it_resumes_to_the_same_bits(tmp_path, monkeypatch, place):
    whole = fit(hold_out=True)
    step, calls, halves = HybridTrainer._train_step, [], []
    warm_up = 2  # steps of the whole network before the halves, and of either half
    stop = warm_up + 1 if place == "in the first half" else warm_up * 3 + 8

    def interrupt(self, *arguments):
        calls.append(self)
        if len(calls) == stop:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *arguments)

    ask = HybridTrainer._ask_halves
    monkeypatch.setattr(HybridTrainer, "_train_step", interrupt)
    monkeypatch.setattr(HybridTrainer, "_ask_halves", lambda self, *_: halves.append(1) or ask(self, *_))
    with pytest.raises(TrainingInterrupted, match=r"SIGTERM.*last\.pt"):
        fit(tmp_path, hold_out=True)
    assert (calls[-1] is calls[0]) == (place == "after both halves")
    resumed = fit(tmp_path, resume=True, hold_out=True)
    assert len(halves) == (2 if place == "in the first half" else 1)
    assert torch.equal(resumed.data.certainty, whole.data.certainty)
    assert all(torch.equal(value, weights(resumed)[name]) for name, value in weights(whole).items())


def test_a_signal_in_the_energy_of_a_half_is_not_lost(tmp_path, monkeypatch):
    import tg_crepe.training.trainer as trainer

    label, calls = trainer.labels_from_energy, []

    def interrupt(*arguments):
        calls.append(1)
        if len(calls) == 2:  # of the second half: the last one before the whole network goes on
            os.kill(os.getpid(), signal.SIGINT)
        return label(*arguments)

    monkeypatch.setattr(trainer, "labels_from_energy", interrupt)
    with pytest.raises(TrainingInterrupted, match=r"SIGINT.*last\.pt"):
        fit(tmp_path, hold_out=True)
    assert len(calls) == 2
    assert RunFolder.open(tmp_path).info["status"] == "interrupted"


def test_a_network_of_the_users_that_was_trained_before_the_interrupt_judges_no_label_it_knows(tmp_path, monkeypatch):
    config = replace(CONFIG, hold_out=True)

    def trainer(network):
        return HybridTrainer(blobs(), labelled(), network, config=config, run=tmp_path)

    network = get_backbone("small_cnn", 1, 3, 8, seed=0)
    first = {name: value.clone() for name, value in network.state_dict().items()}
    ask = HybridTrainer._ask_halves
    begun = []

    def look(self, interrupt):
        begun.append({name: value.clone() for name, value in self._untrained.state_dict().items()})
        if len(begun) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return ask(self, interrupt)

    monkeypatch.setattr(HybridTrainer, "_ask_halves", look)
    with pytest.raises(TrainingInterrupted):
        trainer(network).fit()
    assert not all(torch.equal(value, network.state_dict()[name]) for name, value in first.items())
    trainer(network).fit(resume=True)
    assert len(begun) == 2
    assert all(torch.equal(value, begun[1][name]) for name, value in first.items())


def test_a_half_that_diverges_names_the_checkpoint_of_the_run(tmp_path, monkeypatch):
    step = HybridTrainer._train_step

    def spoil(self, *arguments):
        return step(self, *arguments) * (float("nan") if not self.config.hold_out else 1)

    monkeypatch.setattr(HybridTrainer, "_train_step", spoil)
    with pytest.raises(FloatingPointError, match=r"the last good checkpoint is .*last\.pt'"):
        fit(tmp_path, hold_out=True)
    assert RunFolder.open(tmp_path).info["status"] == "diverged"


def test_the_users_accelerator_keeps_nothing_of_the_halves():
    from accelerate import Accelerator

    accelerator = Accelerator()
    config = replace(CONFIG, epochs=2, hold_out=True)
    trainer = HybridTrainer(blobs(), labelled(), config=config, accelerator=accelerator)
    trainer.fit()
    assert len(accelerator._models) == len(accelerator._optimizers) == 1
    assert trainer._untrained is None


def test_it_needs_pseudo_labels_of_exclusive_classes_with_two_labels():
    with pytest.raises(ValueError, match="'hold_out' must be False where there are no pseudo-labels"):
        fit(energy="none", hold_out=True)
    with pytest.raises(ValueError, match="'hold_out' must be False where an image may have several labels, got True"):
        fit(dataset=blobs(multi_label=True), hold_out=True)
    config = replace(CONFIG, hold_out=True)
    three = torch.arange(NUM_TRAIN) < 3
    with pytest.raises(ValueError, match="'hold_out' must be False where most labels are the only one"):
        HybridTrainer(blobs(), three, config=config)
