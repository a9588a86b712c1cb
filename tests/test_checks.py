import pytest
import torch

from tg_crepe._checks import check_mask

MASK = torch.tensor([True, False, True, False])


def test_a_bool_mask_stays_as_it_is():
    assert torch.equal(check_mask(MASK, 4), MASK)


def test_a_mask_of_one_column_is_a_mask():
    assert torch.equal(check_mask(MASK[:, None], 4), MASK)
    assert torch.equal(check_mask(torch.stack([MASK, ~MASK], dim=1)[:, :1], 4), MASK)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("index", [[0, 2], [2, 0], [2, 0, 2, 2]])
def test_indices_become_a_mask_in_any_order(index, dtype):
    result = check_mask(torch.tensor(index, dtype=dtype), 4)
    assert result.dtype == torch.bool
    assert torch.equal(result, MASK)


def test_no_index_is_no_label():
    assert check_mask(torch.tensor([], dtype=torch.long), 3).tolist() == [False] * 3
    assert check_mask(torch.tensor([], dtype=torch.bool), 0).tolist() == []


def test_indices_are_not_modified():
    index = torch.tensor([2, 0])
    check_mask(index, 4)
    assert index.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (MASK[:3], r"'mask' must be of shape \[num_nodes\] = \[4\], got \[3\]"),
        (MASK.repeat(2), r"'mask' must be of shape \[num_nodes\] = \[4\], got \[8\]"),
        (MASK[:3, None], r"'mask' must be of shape \[num_nodes\] = \[4\], got \[3, 1\]"),
        (torch.tensor(True), r"'mask' must be of shape \[num_nodes\] = \[4\], got \[\]"),
        (MASK[:, None, None], r"'mask' must be of shape \[num_nodes\] = \[4\], got \[4, 1, 1\]"),
        (torch.stack([MASK, MASK], dim=1), r"'mask' .* got \[4, 2\]: it holds several splits, pick one"),
        (MASK.float(), r"'mask' must be bool .* got torch.float32 of shape \[4\]"),
        (MASK.byte(), r"'mask' must be bool .* got torch.uint8"),
        (torch.tensor([]), "'mask' must be bool .* got torch.float32"),
        (torch.tensor([[0, 2]]), r"'mask' must be bool .* got torch.int64 of shape \[1, 2\]"),
        (torch.tensor([0, 4]), r"'mask' must hold node indices in \[0, 3\], got 4"),
        (torch.tensor([0, -1]), r"'mask' must hold node indices in \[0, 3\], got -1"),
        ([0, 2], "'mask' must be a torch.Tensor, got list"),
    ],
)
def test_a_bad_mask_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        check_mask(mask, 4)


def test_frames_and_series_are_read_as_arrays():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    from tg_crepe import knn_graph
    from tg_crepe._checks import read_array

    frame = pandas.DataFrame({"a": [0.0, 1.0, 3.0, 7.0], "b": [1.0, 1.0, 2.0, 2.0]})
    found = read_array("x", frame)
    assert torch.equal(found, torch.tensor([[0.0, 1.0], [1.0, 1.0], [3.0, 2.0], [7.0, 2.0]], dtype=torch.float64))
    assert read_array("mask", pandas.Series([True, False])).dtype == torch.bool
    assert torch.equal(knn_graph(frame, 2, "euclidean")[0], knn_graph(found, 2, "euclidean")[0])
    assert torch.equal(knn_graph(frame.to_numpy(), 2, "cosine")[0], knn_graph(found, 2, "cosine")[0])
    with pytest.raises(ValueError, match="'x' must hold numbers"):
        knn_graph(pandas.DataFrame({"a": ["x", "y"]}), 1)
