import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.training import ClassWeights, HybridLoss, weighted_loss


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_weights_are_inverse_counts_of_mean_one():
    weight = ClassWeights.from_labels(torch.tensor([0, 0, 0, 1, 1, 1, 2]), 3).weight
    # 1/3, 1/3, 1 have the mean 5/9.
    assert torch.allclose(weight, torch.tensor([0.6, 0.6, 1.8]))


def test_an_absent_class_weighs_nothing_and_the_others_keep_mean_one():
    weight = ClassWeights.from_labels(torch.tensor([0, 0, 2, -1]), 4).weight
    assert torch.allclose(weight, torch.tensor([2 / 3, 0, 4 / 3, 0]))
    assert torch.equal(ClassWeights.from_labels(torch.tensor([-1, -1]), 2).weight, torch.zeros(2))


def test_no_weight_exceeds_the_number_of_classes():
    y = torch.tensor([0] * 10_000 + [1])
    assert float(ClassWeights.from_labels(y, 2).weight.max()) < 2


def test_findings_have_a_pair_of_weights_each():
    y = torch.tensor([[1, 0, -1], [0, 0, -1], [0, 0, -1], [0, -1, -1]])
    weight = ClassWeights.from_labels(y).weight
    # Counts (absent, present): (3, 1), (3, 0), (0, 0).
    assert torch.allclose(weight, torch.tensor([[0.5, 1.0, 0.0], [1.5, 0.0, 0.0]]))


def test_soft_labels_are_counted_by_their_shares():
    prob = torch.tensor([[0.9, 0.1], [0.7, 0.3], [float("nan"), float("nan")], [-1.0, -1.0]])
    classes = ClassWeights.from_soft_labels(prob, multi_label=False).weight
    assert classes.tolist() == [1.0, 0.0]  # shares of 1.6 and 0.4: less than half a label is none
    less = ClassWeights.from_soft_labels(torch.tensor([[0.9, 0.3], [0.7, 0.3]]), multi_label=False).weight
    assert torch.allclose(less, 2 * torch.tensor([1 / 1.6, 1.0]) / (1 / 1.6 + 1.0))  # and more than that at least one
    many = prob[:2].repeat(50, 1)
    findings = ClassWeights.from_soft_labels(many, multi_label=True).weight
    assert torch.allclose(findings, 2 * torch.tensor([[0.8, 0.2], [0.2, 0.8]]))


@given(st.integers(0, 1000), st.booleans())
def test_soft_labels_that_are_hard_have_the_weights_of_hard_ones(seed, multi_label):
    generator = torch.Generator().manual_seed(seed)
    if multi_label:
        y = torch.randint(0, 2, (12, 4), generator=generator)
        soft = y.double()
    else:
        y = torch.randint(0, 4, (12,), generator=generator)
        soft = F.one_hot(y, 4).double()
    hard = ClassWeights.from_labels(y, 4).weight
    assert torch.equal(ClassWeights.from_soft_labels(soft, multi_label).weight, hard)


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_class_that_nothing_speaks_for_does_not_outweigh_the_others(multi_label):
    prob = torch.full((100, 4), 0.3)
    prob[:, 3] = 0
    nothing = ClassWeights.from_soft_labels(prob, multi_label).weight
    prob[:, 3] = 1e-20
    assert torch.equal(ClassWeights.from_soft_labels(prob, multi_label).weight, nothing)
    assert nothing[..., 3].tolist() == ([1.0, 0.0] if multi_label else 0.0)


def test_a_rare_finding_that_is_nowhere_probable_keeps_its_weight():
    prob = torch.full((1000, 1), 0.04)
    absent, present = ClassWeights.from_soft_labels(prob, multi_label=True).weight.squeeze(1).tolist()
    assert present / absent == pytest.approx(0.96 / 0.04)
    hard = ClassWeights.from_labels((prob > 0.5).long()).weight.squeeze(1)
    assert hard.tolist() == [1.0, 0.0]


def test_loss_by_hand():
    # Logits (0, log 3): probabilities 1/4, 3/4.
    logits = torch.tensor([[0.0, math.log(3)]]).repeat(4, 1)
    labelled = ClassWeights.from_labels(torch.tensor([0, 0, 1]), 2)  # 2/3, 4/3
    pseudo = ClassWeights.from_labels(torch.tensor([0, 1, 1, 1]), 2)  # 3/2, 1/2
    loss = HybridLoss(labelled, pseudo, pseudo_weight=0.5)
    target = loss.targets(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([0.25, 1.0]))
    zero, one = math.log(4), math.log(4 / 3)
    expected = (2 / 3 * zero + 4 / 3 * one) / 2 + 0.5 * (0.5 * 0.25 * one + 1.5 * 1.0 * zero) / 2
    assert float(loss(logits, target)) == pytest.approx(expected, rel=1e-6)


def test_equal_counts_give_the_plain_cross_entropy():
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    logits = randn(6, 3)
    loss = HybridLoss(ClassWeights.from_labels(y, 3))
    assert torch.allclose(loss(logits, loss.targets(y)), F.cross_entropy(logits, y))


def test_soft_targets_that_are_hard_give_the_same():
    y = torch.tensor([0, 1, 1, 2])
    weights = ClassWeights.from_labels(y, 3)
    assert torch.equal(weights.weigh(y), weights.weigh(F.one_hot(y, 3).float()))


def test_soft_targets_agree_with_torch():
    soft = torch.softmax(randn(5, 3, seed=1), dim=1)
    logits = randn(5, 3)
    weights = ClassWeights(torch.tensor([0.5, 1.0, 1.5]))
    expected = F.cross_entropy(logits, soft, weight=weights.weight, reduction="none")
    assert torch.allclose(weighted_loss(logits, weights.weigh(soft)), expected)


def test_findings_agree_with_torch_on_known_entries():
    logits = randn(3, 4)
    y = torch.tensor([[1.0, 0, -1, 1], [0, 0.3, 1, math.nan], [-1, -1, -1, -1]])
    weights = ClassWeights(torch.tensor([[0.5, 1.0, 2.0, 1.0], [1.5, 1.0, 0.0, 3.0]]))
    loss = weighted_loss(logits, weights.weigh(y))
    for row in range(3):
        terms = []
        for k in range(4):
            if y[row, k] >= 0:
                p = torch.sigmoid(logits[row, k])
                absent, present = weights.weight[:, k]
                terms.append(-(y[row, k] * present * p.log() + (1 - y[row, k]) * absent * (1 - p).log()))
        expected = sum(terms) / len(terms) if terms else torch.tensor(0.0)
        assert torch.allclose(loss[row], expected, atol=1e-6)


def test_unit_weights_give_the_plain_binary_cross_entropy():
    logits, y = randn(6, 3), (randn(6, 3, seed=1) > 0).float()
    loss = HybridLoss(ClassWeights(torch.ones(2, 3)))
    expected = F.binary_cross_entropy_with_logits(logits, y)
    assert torch.allclose(loss(logits, loss.targets(y)), expected)


def test_unreached_and_uncertain_images_add_nothing_and_no_nan():
    loss = HybridLoss(ClassWeights(torch.ones(3)), ClassWeights.from_labels(torch.tensor([-1, -1]), 3))
    target = loss.targets(torch.tensor([0]), torch.tensor([-1, 2]), torch.tensor([0.0, 1.0]))
    logits = (1e4 * randn(3, 3)).requires_grad_()
    value = loss(logits, target)
    value.backward()
    assert torch.isfinite(value)
    assert torch.equal(logits.grad[1:], torch.zeros(2, 3))
    assert torch.isfinite(logits.grad).all()


def test_a_part_without_images_is_zero():
    weights = ClassWeights(torch.ones(3))
    loss = HybridLoss(weights, weights)
    none = torch.empty(0, dtype=torch.long)
    y, logits = torch.tensor([0, 1]), randn(2, 3)
    assert torch.equal(loss(logits, loss.targets(y, none, torch.empty(0))), loss(logits, loss.targets(y)))
    assert torch.allclose(
        loss(logits, loss.targets(none, y, labelled_divisor=0.0)), loss(logits, loss.targets(y)), atol=1e-7
    )


def test_divisors_make_the_mean_of_parts_the_whole():
    weights = ClassWeights.from_labels(torch.tensor([0, 1, 1, 2]), 3)
    loss = HybridLoss(weights, weights)
    y, pseudo, phi = torch.tensor([0, 1, 1]), torch.tensor([2, 0]), torch.tensor([0.2, 0.9])
    labelled_logits, pseudo_logits = randn(3, 3), randn(2, 3, seed=1)
    whole = loss(torch.cat([labelled_logits, pseudo_logits]), loss.targets(y, pseudo, phi))
    parts = [
        loss(
            torch.cat([labelled_logits[rank::2], pseudo_logits[rank::2]]),
            loss.targets(y[rank::2], pseudo[rank::2], phi[rank::2], 3 / 2, 2 / 2),
        )
        for rank in range(2)
    ]
    assert torch.allclose(sum(parts) / 2, whole)


def test_half_precision_logits_are_summed_in_single():
    weights = ClassWeights(torch.ones(3))
    assert weighted_loss(randn(2, 3).half(), weights.weigh(torch.tensor([0, 1]))).dtype == torch.float32


def test_inputs_are_not_modified():
    y, phi = torch.tensor([0, -1, 1]), torch.tensor([0.5, 0.0, 1.0])
    weights = ClassWeights.from_labels(y, 2)
    HybridLoss(weights, weights).targets(y, y, phi)
    assert y.tolist() == [0, -1, 1]
    assert phi.tolist() == [0.5, 0.0, 1.0]


ONES = ClassWeights(torch.ones(3))
Y = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ClassWeights.from_labels(Y), r"'num_classes' must be given"),
        (lambda: ClassWeights.from_labels(Y, 1), r"'y' must be below num_classes = 1, got more at 1"),
        (lambda: ClassWeights.from_labels(Y.float(), 2), r"'y' must be a vector of class ids, got torch.float32"),
        (
            lambda: ClassWeights.from_soft_labels(Y, multi_label=False),
            r"'prob' must be probabilities, .* got torch.int64 of shape \[2\]",
        ),
        (lambda: ONES.weigh(torch.ones(2, 4)), r"'target' must have 3 columns, one per class, got shape \[2, 4\]"),
        (lambda: HybridLoss(ONES, pseudo_weight=0), r"'pseudo_weight' must be a finite number > 0, got 0"),
        (lambda: HybridLoss(ONES).targets(Y, Y), r"'pseudo_y' must be None"),
        (lambda: HybridLoss(ONES, ONES).targets(Y, Y, torch.ones(3)), r"'certainty' must be of shape \[2\], got \[3\]"),
        (
            lambda: HybridLoss(ONES, ONES).targets(Y, Y, torch.tensor([0.5, math.nan])),
            r"'certainty' must be in \[0, 1\], got other values at 1",
        ),
        (lambda: HybridLoss(ONES).targets(Y, labelled_divisor=0.0), r"'labelled_divisor' must be a finite number > 0"),
        (lambda: weighted_loss(randn(2, 4), ONES.weigh(Y)), r"'logits' must be of shape \[2, 3\].* got \[2, 4\]"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
