import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tg_crepe.training import MixedBatchSampler

LABELLED = torch.arange(0, 30, 3)
PSEUDO = torch.tensor([i for i in range(200) if i not in set(range(0, 30, 3))])
NONE = torch.empty(0, dtype=torch.long)


def epoch(sampler, number=0):
    return [(batch.labelled.tolist(), batch.pseudo.tolist()) for batch in sampler.batches(number)]


def test_an_epoch_goes_through_the_pseudo_labelled_images_once():
    sampler = MixedBatchSampler(LABELLED, PSEUDO, batch_size=20)
    batches = epoch(sampler)
    assert len(batches) == len(sampler) == 19
    assert sorted(i for _, pseudo in batches for i in pseudo) == PSEUDO.tolist()
    assert all(len(labelled) == 10 for labelled, _ in batches)
    assert all(len(pseudo) == 10 for _, pseudo in batches)


@settings(max_examples=60, deadline=None)
@given(
    num_labelled=st.integers(1, 12),
    num_pseudo=st.integers(0, 50),
    batch_size=st.integers(2, 20),
    number=st.integers(0, 5),
    passes=st.integers(1, 3),
    data=st.data(),
)
def test_processes_share_the_batches_of_one(num_labelled, num_pseudo, batch_size, number, passes, data):
    labelled, pseudo = torch.arange(num_labelled), torch.arange(num_labelled, num_labelled + num_pseudo)
    share = data.draw(st.integers(1, batch_size - 1))
    options = {"batch_size": batch_size, "labelled_per_batch": share, "supervised_passes": passes, "seed": 7}
    whole = list(MixedBatchSampler(labelled, pseudo, **options).batches(number))
    sizes = [batch.pseudo.numel() for batch in whole]
    assert sum(sizes) == num_pseudo
    assert max(sizes) - min(sizes) <= 1
    assert all(batch.labelled.numel() + batch.pseudo.numel() <= batch_size for batch in whole)
    counts = torch.bincount(torch.cat([batch.labelled for batch in whole]), minlength=num_labelled)
    assert int(counts.max() - counts.min()) <= 1

    processes = data.draw(st.integers(1, min(batch.labelled.numel() for batch in whole)))
    ranks = [
        list(MixedBatchSampler(labelled, pseudo, **options, num_processes=processes, rank=rank).batches(number))
        for rank in range(processes)
    ]
    for step, batch in enumerate(whole):
        for name in ("labelled", "pseudo"):
            parts = [getattr(rank[step], name) for rank in ranks]
            assert torch.equal(torch.cat(parts).sort().values, getattr(batch, name).sort().values)
            divisors = {getattr(rank[step], f"{name}_divisor") for rank in ranks}
            assert divisors == {getattr(batch, name).numel() / processes}
        assert all(rank[step].labelled.numel() for rank in ranks)


def test_the_order_depends_on_seed_and_epoch_alone():
    first = MixedBatchSampler(LABELLED, PSEUDO, 20, seed=1)
    epoch(first, 0)  # an epoch more or less leaves the others as they are
    again = MixedBatchSampler(LABELLED, PSEUDO, 20, seed=1)
    state = torch.random.get_rng_state()
    assert epoch(first, 3) == epoch(again, 3)
    assert epoch(first, 3) != epoch(first, 4)
    assert epoch(first, 3) != epoch(MixedBatchSampler(LABELLED, PSEUDO, 20, seed=2), 3)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_without_pseudo_labels_batches_are_full_of_labels():
    sampler = MixedBatchSampler(PSEUDO, NONE, batch_size=100)
    batches = epoch(sampler)
    assert [len(labelled) for labelled, _ in batches] == [95, 95]
    assert sorted(i for labelled, _ in batches for i in labelled) == PSEUDO.tolist()
    assert all(pseudo == [] for _, pseudo in batches)


def test_few_labels_make_an_epoch_of_several_passes():
    batches = epoch(MixedBatchSampler(LABELLED, NONE, batch_size=5, supervised_passes=3))
    assert [len(labelled) for labelled, _ in batches] == [5] * 6
    assert sorted(batches[0][0] + batches[1][0]) == LABELLED.tolist()


def test_one_label_fills_its_share():
    batches = epoch(MixedBatchSampler(torch.tensor([5]), torch.tensor([1, 2, 3]), batch_size=4))
    assert [labelled for labelled, _ in batches] == [[5, 5], [5, 5]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MixedBatchSampler(NONE, PSEUDO), r"'labelled' must hold at least one index"),
        (lambda: MixedBatchSampler(LABELLED, LABELLED[:2]), r"'pseudo' must hold no labelled image, got 2"),
        (
            lambda: MixedBatchSampler(LABELLED > 0, PSEUDO),
            r"'labelled' must be a long tensor .* got torch.bool",
        ),
        (lambda: MixedBatchSampler(LABELLED, torch.tensor([-1])), r"'pseudo' must not be negative, got -1"),
        (lambda: MixedBatchSampler(LABELLED, torch.tensor([1, 1])), r"'pseudo' must hold every index once"),
        (
            lambda: MixedBatchSampler(LABELLED, PSEUDO, 10, labelled_per_batch=10),
            r"'labelled_per_batch' must be an integer in \[1, batch_size - 1\], got 10",
        ),
        (lambda: MixedBatchSampler(LABELLED, PSEUDO, num_processes=2, rank=2), r"'rank' must be an integer in \[0, "),
        (lambda: MixedBatchSampler(LABELLED, PSEUDO, 4, num_processes=3), r"'num_processes' .* at most 2, got 3"),
        (lambda: epoch(MixedBatchSampler(LABELLED, PSEUDO), -1), r"'epoch' must be an integer >= 0, got -1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
