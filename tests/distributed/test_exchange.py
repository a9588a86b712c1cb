"""Processes of gloo: the collectives, a whole run, and what they say when something is wrong or somebody is missing."""

from __future__ import annotations

import pytest
import torch
from distributed_problems import digits, moons
from rank_jobs import Failed, collectives, dead_rank, infer, run_ranks, silent_rank, wrong

from tg_crepe import CrepePropagation, Recipe
from tg_crepe.distributed import Traffic

FIXED = CrepePropagation(Recipe(reweight_rounds=0), class_volume="uniform")


def test_collectives_of_two_processes():
    first, second = run_ranks(2, collectives)
    for told in (first, second):
        assert told["sum"].tolist() == [1, 2]
        assert [part.tolist() for part in told["sums"]] == [1, [[1, 2]], []]
        assert told["max"].item() == 1
        assert told["union"].tolist() == [3, 4, 5, 9]
    assert first["halo"].tolist() == [[0, 0], [1, 10], [2, 20]]
    assert second["halo"].tolist() == [[2, 20], [1, 10]]
    assert (first["flags"].tolist(), second["flags"].tolist()) == ([False, False, True], [True, False])
    assert (first["kept"].tolist(), second["kept"].tolist()) == ([True, False, True], [True, False])
    assert (first["restricted"].tolist(), second["restricted"].tolist()) == ([0, 2], [2])  # node 1 is gone
    assert isinstance(first["traffic"], Traffic)
    assert first["traffic"].bytes_received == 2 * 4 + 1 + 1 + 8  # a row of floats, two flags, a number


def check_processes(world_size: int, makes) -> None:
    problems = [make(dtype) for make in makes for dtype in (torch.float32, torch.float64)]
    ranks = run_ranks(world_size, infer, problems, FIXED, True)
    assert not any(isinstance(answer, Failed) for answer in ranks), ranks
    for number, problem in enumerate(problems):
        dtype = problem.edge_weight.dtype
        expected = FIXED.propagate(problem.y, problem.edge_index, problem.mask, problem.edge_weight, u0=problem.start())
        tolerance = (1e-6 if dtype == torch.float32 else 1e-10) * float(expected.u.abs().max())
        for answer in ranks:
            node_id, u, label, _ = answer[number]
            assert torch.equal(label, expected.label[node_id])
            torch.testing.assert_close(u, expected.u[node_id], atol=tolerance, rtol=0)


def test_two_processes_infer_what_one_does():
    check_processes(2, [moons])


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [2, 3, 4, 8])
def test_processes_infer_what_one_does(world_size):
    check_processes(world_size, [moons, digits])


def test_all_ranks_are_told_what_is_wrong_on_one():
    first, second = run_ranks(2, wrong, moons())
    assert first == second
    assert "the number of classes must be the same on all ranks, got 2 on rank 0 and 3 on rank 1" in first["classes"]
    assert "torch.float32 on rank 0 and torch.float64 on rank 1" in first["dtype"]
    assert "the options of the model" in first["model"]
    assert first["labels"] == "rank 1: 'shard.y' must hold the labels, got None"
    assert first["mask"] == "'mask' must mark at least one labelled node, got none"
    assert "'shard' must be that of rank 1 of 2, got that of rank 1 of 3" in first["world"]
    assert "must be one that several processes can solve, got SparseLP" in first["unfit"]


def test_a_rank_that_does_not_answer_is_named():
    first, _ = run_ranks(2, silent_rank, seconds=1)
    assert isinstance(first, Failed)
    assert "LostRankError: rank 0: a halo exchange failed, rank(s) 1 did not take part" in first.message


def test_a_rank_that_has_ended_is_named_at_once_by_all_that_are_left():
    *left, _ = run_ranks(3, dead_rank, seconds=300, limit=60)
    for rank, answer in enumerate(left):
        assert isinstance(answer, Failed)
        told = f"LostRankError: rank {rank}: a sum over the ranks failed, rank(s) 2 did not take part"
        assert told in answer.message
