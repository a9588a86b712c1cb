"""A call with a few more labels goes on from the last one, and says about what a call from the beginning says."""

import pytest
import torch
from sklearn.datasets import load_digits

from tg_crepe import LGC, CrepePropagation, knn_graph, prepare
from tg_crepe.active import LabelLoop
from tg_crepe.energy.dirichlet import total_variation


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    y = torch.from_numpy(y)
    graph = prepare(*knn_graph(torch.from_numpy(x).float(), 10))
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    mask = torch.zeros(len(y), dtype=torch.bool)
    mask[order[:400]] = True
    return graph, y, mask, order[400:]


@pytest.fixture(scope="module")
def first(digits):
    graph, y, mask, _ = digits
    return CrepePropagation().propagate(y, graph, mask)


def with_more(mask, nodes):
    more = mask.clone()
    more[nodes] = True
    return more


@pytest.mark.parametrize("count", [1, 2])
def test_a_continued_answer_is_that_of_a_call_from_the_beginning(digits, first, count):
    graph, y, mask, rest = digits
    same, energies = [], []
    for begin in range(0, 4 * count, count):
        more = with_more(mask, rest[begin : begin + count])
        warm = CrepePropagation().propagate(y, graph, more, start=first)
        cold = CrepePropagation().propagate(y, graph, more)
        assert warm.continued
        assert not cold.continued
        assert bool((warm.label[more] == y[more]).all())
        same.append(warm.label == cold.label)
        energies.append([float(total_variation(result.u.double(), graph).sum()) for result in (warm, cold)])
        assert warm.expected_error.value == pytest.approx(cold.expected_error.value, abs=0.005)
    assert float(torch.cat(same).double().mean()) >= 0.999
    for warm_energy, cold_energy in energies:
        assert warm_energy == pytest.approx(cold_energy, rel=0.02)


def test_a_continuation_is_pure(digits, first):
    graph, y, mask, rest = digits
    more = with_more(mask, rest[:1])
    answers = [CrepePropagation().propagate(y, graph, more, start=first) for _ in range(2)]
    assert torch.equal(answers[0].u, answers[1].u)
    assert torch.equal(answers[0].prob, answers[1].prob)


def test_going_on_from_a_continued_answer_is_going_on_from_the_first(digits, first):
    graph, y, mask, rest = digits
    one, two = with_more(mask, rest[:1]), with_more(mask, rest[:2])
    step = CrepePropagation().propagate(y, graph, one, start=first)
    chained = CrepePropagation().propagate(y, graph, two, start=step)
    direct = CrepePropagation().propagate(y, graph, two, start=first)
    assert chained.continued
    assert torch.equal(chained.u, direct.u)


def test_what_does_not_fit_begins_anew(digits, first):
    graph, y, mask, rest = digits
    more = with_more(mask, rest[:1])
    changed, fewer = y.clone(), mask.clone()
    changed[mask.nonzero()[0]] = (changed[mask.nonzero()[0]] + 1) % 10
    fewer[mask.nonzero()[0]] = False
    other = prepare(torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1), graph.edge_weight.repeat(2))
    begun = {
        "many labels": CrepePropagation().propagate(y, graph, with_more(mask, rest[:40]), start=first),
        "another label": CrepePropagation().propagate(changed, graph, more, start=first),
        "a label less": CrepePropagation().propagate(y, graph, fewer, start=first),
        "another model": CrepePropagation(sampling="chosen").propagate(y, graph, more, start=first),
        "another graph": CrepePropagation().propagate(y, other, more, start=first),
        "no continuation": LGC().propagate(y, graph, more, start=first),
    }
    assert [name for name, result in begun.items() if result.continued] == []
    cold = CrepePropagation().propagate(y, graph, with_more(mask, rest[:40]))
    assert torch.equal(begun["many labels"].u, cold.u)


def test_only_a_prepared_graph_leaves_a_continuation(digits, first):
    graph, y, mask, _ = digits
    plain = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1), graph.edge_weight.repeat(2)
    assert CrepePropagation().propagate(y, plain[0], mask, plain[1]).continuation is None
    assert first.continuation is not None


def test_the_label_loop_goes_on_unless_told_otherwise(digits):
    graph, y, mask, rest = digits
    for warm in (True, False):
        loop = LabelLoop(y, graph, mask, warm_start=warm)
        loop.answer(rest[:1], y[rest[:1]])
        assert loop.result.continued == warm


def test_a_start_of_another_kind_is_an_error(digits):
    graph, y, mask, _ = digits
    with pytest.raises(ValueError, match="'start' must be a PropagationResult of an earlier call, got Tensor"):
        CrepePropagation().propagate(y, graph, mask, start=y)


def test_findings_do_not_go_on_from_classes(digits, first):
    graph, y, mask, _ = digits
    findings = torch.nn.functional.one_hot(y, 10).float()
    assert not CrepePropagation().propagate(findings, graph, mask, start=first).continued


def test_volumes_that_differ_in_the_last_digit_are_another_setting():
    volume = torch.full((10,), 0.1, dtype=torch.float64)
    other = volume.clone()
    other[0] += 1e-6
    one, same, two = (CrepePropagation(class_volume=share)._settings for share in (volume, volume.clone(), other))
    assert one == same
    assert one != two
