"""Runs that are interrupted and go on: alone in this process, and on several that lose one of them."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from distributed_problems import SharedProblem, digits, moons
from rank_jobs import Failed, Kill, kept_flow, run_ranks

from tg_crepe import CrepePropagation
from tg_crepe.distributed import Checkpoints, Shard, ShardError, propagate


class Interrupted(Exception):
    pass


class Interrupting(Checkpoints):
    """Fails in a flow at a step, before or after its state is kept."""

    def __init__(self, folder: Path, run: dict[str, str], flow: int, step: int) -> None:
        super().__init__(folder, run)
        self._moment = (flow, step)

    def on_step(self, state) -> None:
        super().on_step(state)
        if (self._flow, state.step) == self._moment:
            raise Interrupted


def whole_shard(problem: SharedProblem) -> Shard:
    owner = torch.zeros(problem.y.size(0), dtype=torch.long)
    return Shard.from_graph(problem.edge_index, problem.edge_weight, owner, 0, 1, problem.y, problem.mask)


@cache
def undisturbed(make, model=None):
    """What a run ends with that nobody interrupts."""
    return propagate(model or CrepePropagation(), whole_shard(make()))


def interrupt(problem: SharedProblem, folder: Path, flow: int, step: int, model=None) -> None:
    with pytest.raises(Interrupted):
        propagate(
            model or CrepePropagation(),
            whole_shard(problem),
            observers=(Interrupting(folder, {"of": "the tests"}, flow, step),),
        )


def resume(problem: SharedProblem, folder: Path, model=None):
    return propagate(
        model or CrepePropagation(), whole_shard(problem), observers=(Checkpoints(folder, {"of": "the tests"}),)
    )


def few_nodes() -> SharedProblem:
    return moons(num_nodes=80)


def one_label() -> SharedProblem:
    """A problem that runs several flows."""
    return digits(num_nodes=150, labels=1)


@pytest.mark.parametrize(("flow", "step"), [(0, 4), (1, 2)])
def test_an_interrupted_run_ends_as_if_nothing_had_happened(tmp_path, flow, step):
    problem, expected = one_label(), undisturbed(one_label)
    interrupt(problem, tmp_path, flow, step)
    found = resume(problem, tmp_path)
    assert torch.equal(found.label, expected.label)
    assert torch.equal(found.u, expected.u)
    torch.testing.assert_close(found.trace["ratio"], expected.trace["ratio"], check_dtype=False)
    assert found.status == expected.status


def test_a_flow_with_a_constant_step_keeps_its_patience(tmp_path):
    problem, model = few_nodes(), CrepePropagation.paper()
    expected = propagate(model, whole_shard(problem))
    interrupt(problem, tmp_path, 0, 3, model)
    found = resume(problem, tmp_path, model)
    assert torch.equal(found.u, expected.u)
    assert len(found.trace) == len(expected.trace)


@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_the_dual_of_every_backend_is_kept(tmp_path, backend):
    problem, model = few_nodes(), CrepePropagation(backend=backend)
    expected = propagate(model, whole_shard(problem))
    interrupt(problem, tmp_path, 0, 2, model)
    assert torch.equal(resume(problem, tmp_path, model).u, expected.u)


def test_a_truncated_state_is_not_read_and_the_one_before_it_is(tmp_path):
    problem, expected = few_nodes(), undisturbed(few_nodes)
    interrupt(problem, tmp_path, 0, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flow-00-step-00003", "flow-00-step-00004"]
    newest = tmp_path / "flow-00-step-00004" / "part-00000.npz"
    content = newest.read_bytes()
    for damaged in (content[:-200], content[:200], bytes([*content[:3000], content[3000] ^ 1, *content[3001:]])):
        newest.write_bytes(damaged)
        copy = tmp_path.parent / f"{tmp_path.name}-copy"
        shutil.copytree(tmp_path, copy)
        assert torch.equal(resume(problem, copy).u, expected.u)
        shutil.rmtree(copy)


def test_a_state_without_a_manifest_is_not_there(tmp_path):
    problem = few_nodes()
    interrupt(problem, tmp_path, 0, 2)
    for state in tmp_path.iterdir():
        (state / "manifest.json").unlink()
    assert Checkpoints(tmp_path, {"of": "the tests"}).resume(None) is None


def test_the_states_of_another_run_are_refused(tmp_path):
    interrupt(few_nodes(), tmp_path, 0, 1)
    with pytest.raises(ShardError, match="flow-00-step-00001' is of another run"):
        Checkpoints(tmp_path, {"of": "somebody else"})


def test_a_folder_is_removed_when_the_results_are_there(tmp_path):
    checkpoints = Checkpoints(tmp_path / "kept", {"of": "the tests"})
    propagate(CrepePropagation(), whole_shard(few_nodes()), observers=(checkpoints,))
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["flow-00-end"]
    checkpoints.remove()
    assert not (tmp_path / "kept").exists()


def put_together(ranks, count: int) -> torch.Tensor:
    label = torch.full((count,), -2)
    for answer in ranks:
        assert not isinstance(answer, Failed), answer
        label[answer[0]] = answer[2]
    return label


def test_after_a_kill_two_processes_go_on_and_so_does_one(tmp_path):
    problem, expected = few_nodes(), undisturbed(few_nodes)
    killed = run_ranks(2, kept_flow, problem, tmp_path, (0, 3))
    assert killed[1] == Failed("exit code -9")
    assert "rank(s) 1 did not take part" in killed[0].message or "rank 0" in killed[0].message
    shutil.copytree(tmp_path, tmp_path.parent / "one")
    assert torch.equal(put_together(run_ranks(2, kept_flow, problem, tmp_path, None), 80), expected.label)
    assert torch.equal(resume(problem, tmp_path.parent / "one").label, expected.label)


@pytest.mark.slow
def test_ten_kills_at_random_moments(tmp_path):
    """From outside, whatever the rank does: a diffusion, an iteration, a state half written."""
    problem, expected = one_label(), undisturbed(one_label)
    rng = np.random.default_rng(100)
    whole = tmp_path / "whole"
    assert torch.equal(put_together(run_ranks(2, kept_flow, problem, whole, None), problem.y.numel()), expected.label)
    ends = [path.stat().st_mtime for path in whole.glob("flow-*-end/manifest.json")]
    length = max(ends) - min(ends)  # all flows but the first; a moment after the end is no kill and is drawn anew
    kills, found = 0, set()
    for attempt in range(40):
        folder = tmp_path / str(attempt)
        kill = Kill(int(rng.integers(0, 2)), folder, float(rng.uniform(0, length)))
        killed = run_ranks(2, kept_flow, problem, folder, None, kill=kill)
        if killed[kill.rank] != Failed("exit code -9"):
            continue
        kills += 1
        found.add(tuple(sorted(path.name for path in folder.iterdir())))
        if kills % 2:
            truncate_newest(folder)
        world_size = int(rng.integers(1, 4))  # the same number of ranks, or another
        assert torch.equal(
            put_together(run_ranks(world_size, kept_flow, problem, folder, None), problem.y.numel()), expected.label
        )
        if kills == 10:
            break
    assert kills == 10
    assert len(found) > 1  # not always at the same place


def truncate_newest(folder: Path) -> None:
    """Cuts a file of the newest complete state in half, where there is one that is not the end of a flow."""
    states = sorted(path.parent for path in folder.glob("flow-*-step-*/manifest.json"))
    if states:
        part = sorted(states[-1].glob("part-*.npz"))[-1]
        part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
