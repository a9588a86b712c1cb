import math

import pytest
import torch
from helpers import clusters, moons, start_off_degree

from tg_crepe import RatioFlow
from tg_crepe.energy import Coupling
from tg_crepe.solvers import FlowCheckpoint, FlowObserver, Snapshots
from tg_crepe.solvers.observers import find_checkpoint


class Diary(FlowObserver):
    """Writes down every moment, and a checkpoint of every step."""

    def __init__(self):
        self.moments, self.checkpoints = [], []

    def on_begin(self, state):
        self.moments.append(("begin", state.step, state.status))

    def on_step(self, state):
        self.moments.append(("step", state.step, state.status))
        kept = FlowCheckpoint.of(state)
        self.checkpoints.append(FlowCheckpoint(**{**vars(kept), "u": kept.u.clone(), "dual": kept.dual.clone()}))

    def on_end(self, state):
        self.moments.append(("end", state.step, state.status))
        self.checkpoints.append(FlowCheckpoint.of(state))


def test_an_observer_sees_the_start_every_step_and_the_end():
    graph, _ = clusters(0, num_nodes=60)
    diary = Diary()
    result = RatioFlow("l1", [0.5, 1.0])(start_off_degree(graph, 3), graph, Coupling(), observers=[diary])
    assert diary.moments == [("begin", 0, None), ("step", 1, None), ("step", 2, None), ("end", 2, "converged")]
    assert len(result.trace) == 3


def test_observers_change_nothing():
    graph, _ = clusters(0, num_nodes=60)
    flow, u = RatioFlow("l1", [0.5, 1.0]), start_off_degree(graph, 3)
    assert torch.equal(flow(u, graph, Coupling(), observers=[Diary()]).u, flow(u, graph, Coupling()).u)


@pytest.mark.parametrize("backend", ["reference", "torch", "numba"])
@pytest.mark.parametrize("time_step", [[0.5, 1.0, 2.0], 0.7])
def test_a_flow_goes_on_from_any_of_its_checkpoints_as_if_nothing_had_happened(backend, time_step):
    if backend == "numba":
        pytest.importorskip("numba")
    graph, _ = moons(0, num_nodes=80)
    flow = RatioFlow("degree_median", time_step, max_steps=4, patience=3, backend=backend)
    u, diary = start_off_degree(graph, 1, coupled=False), Diary()
    whole = flow(u, graph, observers=[diary])
    assert [kept.status is None for kept in diary.checkpoints] == [True] * (len(whole.trace) - 1) + [False]
    for kept in diary.checkpoints:
        again = flow(u, graph, resume=kept)
        assert torch.equal(again.u, whole.u)
        assert again.status == whole.status
        assert again.trace["step"].tolist() == whole.trace["step"].tolist()


def test_a_checkpoint_holds_the_dual_of_directed_edges_and_none_when_the_flow_has_ended():
    graph, _ = moons(0, num_nodes=80)
    diary = Diary()
    RatioFlow("l1", [1.0], backend="torch")(start_off_degree(graph, 1, coupled=False), graph, observers=[diary])
    going, ended = diary.checkpoints
    assert going.dual.shape == (2 * graph.num_edges, 1)
    assert ended.dual is None


def test_all_observers_are_asked_for_a_checkpoint_and_the_first_that_has_one_is_taken():
    asked = []

    class Keeps(FlowObserver):
        def __init__(self, kept):
            self.kept = kept

        def resume(self, graph):
            asked.append(self.kept)
            return self.kept

    assert find_checkpoint([Keeps(None), Keeps("first"), Keeps("second")], None) == "first"
    assert asked == [None, "first", "second"]
    assert find_checkpoint([FlowObserver()], None) is None


def test_snapshots_are_the_steps_nearest_to_the_wanted_shares():
    graph, _ = clusters(0, num_nodes=60)
    node = torch.tensor([3, 1])
    snapshots, diary = Snapshots(node), Diary()
    flow = RatioFlow("l1", [1.0, 1.0, 2.0, 4.0])  # ends at 1/8, 1/4, 1/2 and 1
    flow(start_off_degree(graph, 3), graph, Coupling(), observers=[snapshots, diary])
    moments = snapshots.near([0.3, 0.9])
    assert moments.time.tolist() == [0.25, 1.0]
    for u, kept in zip(moments.u, (diary.checkpoints[1], diary.checkpoints[3]), strict=True):
        torch.testing.assert_close(u, (kept.u[node] / kept.u.abs().mean()).half())
    assert snapshots.near([1.0, 0.99]).time.tolist() == [1.0]


def test_a_flow_of_unknown_length_has_no_snapshots():
    graph, _ = moons(0, num_nodes=80)
    snapshots = Snapshots(torch.arange(3))
    RatioFlow("l1", 1.0, max_steps=2)(start_off_degree(graph, 1, coupled=False), graph, observers=[snapshots])
    assert snapshots.near([0.5]) is None
    assert math.isnan(snapshots._kept[0][0])
