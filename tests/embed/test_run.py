from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
import torch

pytest.importorskip("PIL", reason="images need the extra 'vision'")

from embed_inputs import Stop, colour_encoder, mean_colour, write_images

from tg_crepe.embed import embed, embed_to_file, get_encoder, open_source, read_embedding
from tg_crepe.embed.blocks import BlockFolder
from tg_crepe.warnings import DatasetWarning


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr("tg_crepe.embed.run._BLOCK", 8)


def stops_after(batches: int):
    """The encoder of colours, which is killed after some batches."""
    return colour_encoder(stops_after=batches, batch_size=4)


def test_rows_are_those_of_a_plain_loop(tmp_path):
    write_images(tmp_path / "images", 21)
    embedding = embed(tmp_path / "images", colour_encoder(batch_size=4))
    source = open_source(tmp_path / "images")
    np.testing.assert_array_equal(embedding.x, mean_colour([source.read(i) for i in range(21)]))
    assert embedding.ids == tuple(f"{i:03d}.png" for i in range(21))
    assert embedding.x.dtype == np.float32


@pytest.mark.parametrize("batches", range(6))
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, batches):
    write_images(tmp_path / "images", 21)
    embed_to_file(tmp_path / "images", tmp_path / "whole.npz", colour_encoder(batch_size=4))
    with pytest.raises(Stop):
        embed_to_file(tmp_path / "images", tmp_path / "out.npz", stops_after(batches))
    assert not (tmp_path / "out.npz").exists()
    done = embed_to_file(tmp_path / "images", tmp_path / "out.npz", colour_encoder(batch_size=4))
    assert done.resumed == batches // 2 * 8
    assert (tmp_path / "out.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "out.npz", "whole.npz"]


def test_blocks_of_another_model_or_of_other_files_are_not_taken(tmp_path):
    write_images(tmp_path / "images", 16)
    with pytest.raises(Stop):
        embed_to_file(tmp_path / "images", tmp_path / "out.npz", stops_after(2))
    other = get_encoder(lambda images: mean_colour(images) + 1, kind="images", batch_size=4)
    starts = []
    embed_to_file(tmp_path / "images", tmp_path / "out.npz", other, on_start=lambda *facts: starts.append(facts[2]))
    assert starts == [0]
    with pytest.raises(Stop):
        embed_to_file(tmp_path / "images", tmp_path / "out.npz", stops_after(2))
    write_images(tmp_path / "images", 16, side=13, seed=1)
    done = embed_to_file(tmp_path / "images", tmp_path / "out.npz", colour_encoder(batch_size=4))
    assert done.resumed == 0
    np.testing.assert_array_equal(
        read_embedding(tmp_path / "out.npz").x, embed(tmp_path / "images", colour_encoder(batch_size=4)).x
    )


def test_a_function_of_ones_own_starts_anew(tmp_path):
    write_images(tmp_path / "images", 16)
    left = [2]

    def colours(images):
        left[0] -= 1
        if left[0] < 0:
            raise Stop
        return mean_colour(images)

    with pytest.raises(Stop):
        embed_to_file(tmp_path / "images", tmp_path / "out.npz", get_encoder(colours, kind="images", batch_size=4))
    assert (tmp_path / ".out.npz.blocks").is_dir()
    first = get_encoder(colours, kind="images", batch_size=4)

    def colours(images):  # another function of the same name
        return mean_colour(images) + 1

    other = get_encoder(colours, kind="images", batch_size=4)
    assert other.describe() == first.describe()
    assert embed_to_file(tmp_path / "images", tmp_path / "out.npz", other).resumed == 0
    expected = embed(tmp_path / "images", other).x
    np.testing.assert_array_equal(read_embedding(tmp_path / "out.npz").x, expected)


def test_a_file_that_changes_while_the_run_is_under_way_is_noticed_by_the_next(tmp_path):
    write_images(tmp_path / "images", 16)
    source = open_source(tmp_path / "images")
    encoder = colour_encoder(batch_size=4)
    encode = encoder.encode

    def change(items):
        write_images(tmp_path / "images", 1, side=13, seed=3)
        return encode(items)

    encoder.encode = change
    made = embed_to_file(source, tmp_path / "out.npz", encoder).made
    assert made["source"]["fingerprint"] != open_source(tmp_path / "images").fingerprint()


def test_nothing_is_left_where_the_last_step_is_killed(tmp_path, monkeypatch):
    write_images(tmp_path / "images", 16)

    def killed(path, parts, *others):
        path.write_bytes(b"half")
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("tg_crepe.embed.run.write_embedding", killed)
        with pytest.raises(Stop):
            embed_to_file(tmp_path / "images", tmp_path / "out.npz", colour_encoder(batch_size=4))
    assert not (tmp_path / "out.npz").exists()
    assert embed_to_file(tmp_path / "images", tmp_path / "out.npz", colour_encoder(batch_size=4)).resumed == 16
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "out.npz"]


def test_a_block_of_bad_files_alone_is_left_out(tmp_path):
    write_images(tmp_path / "images", 20)
    for number in range(8, 16):
        (tmp_path / "images" / f"{number:03d}.png").write_bytes(b"no image")
    encoder = colour_encoder(batch_size=4)
    whole = embed(tmp_path / "images", encoder, skip_bad=True)
    assert (whole.x.shape, len(whole.made["skipped"])) == ((12, 3), 8)
    embed_to_file(tmp_path / "images", tmp_path / "out.npz", encoder, skip_bad=True)
    np.testing.assert_array_equal(read_embedding(tmp_path / "out.npz").x, whole.x)


def test_a_function_sees_no_more_than_a_batch():
    sizes = []

    def function(texts):
        sizes.append(len(texts))
        return [[len(text)] for text in texts]

    embed(["a"] * 20, get_encoder(function, kind="texts", batch_size=3))
    assert max(sizes) == 3


@pytest.mark.parametrize("turn", [1, 3])
def test_rows_of_another_length_are_refused(tmp_path, turn):
    calls = []

    def function(texts):
        calls.append(None)
        return np.zeros((len(texts), 2 if len(calls) > turn else 3))

    encoder = get_encoder(function, kind="texts", batch_size=4)
    with pytest.raises(ValueError, match="must give rows of one length"):
        embed_to_file(["a"] * 20, tmp_path / "out.npz", encoder)
    assert not (tmp_path / "out.npz").exists()


def test_the_source_is_never_replaced(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 5, 5), np.uint8))
    before = (tmp_path / "a.npz").read_bytes()
    with pytest.raises(ValueError, match="'out' must not be the source itself"):
        embed_to_file(tmp_path / "a.npz", tmp_path / "a.npz", colour_encoder())
    assert (tmp_path / "a.npz").read_bytes() == before


def test_a_source_that_is_missing_is_called_so_where_there_is_a_file_already(tmp_path):
    (tmp_path / "out.npz").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"the source '.*nowhere' is missing"):
        embed_to_file(tmp_path / "nowhere", tmp_path / "out.npz", colour_encoder())


def test_names_of_a_file_stand_there_once(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"text": ["one", "two"]}, index=[7, 7])
    encoder = get_encoder(lambda texts: [[len(text)] for text in texts], kind="texts")
    assert embed(frame, encoder).ids == ("7", "7")  # a pipeline that draws rows again does not need names
    with pytest.raises(ValueError, match="the id '7' stands there twice"):
        embed_to_file(frame, tmp_path / "a.npz", encoder)


def test_no_more_than_a_block_is_in_memory(tmp_path, monkeypatch):
    write_images(tmp_path / "images", 40)
    alive, most = set(), []
    source = open_source(tmp_path / "images")
    read = source.read

    class Counted:
        def __init__(self, image, place):
            self.image, self.place = image, place
            alive.add(place)
            most.append(len(alive))

        def __del__(self):
            alive.discard(self.place)

    monkeypatch.setattr(source, "read", lambda place: Counted(read(place), place))
    encoder = get_encoder(lambda items: mean_colour([item.image for item in items]), kind="images", batch_size=4)
    embed_to_file(source, tmp_path / "out.npz", encoder)
    assert max(most) <= 3 * 4  # the batch at work, the next one, and the last one that was not yet let go


def test_memory_does_not_grow_with_the_number_of_items(tmp_path):
    encoder = get_encoder(lambda texts: np.ones((len(texts), 1 << 16), np.float32), kind="texts", batch_size=8)
    tracemalloc.start()
    try:
        embed_to_file([f"text {place}" for place in range(96)], tmp_path / "out.npz", encoder)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    block, whole = 8 << 18, 96 << 18
    assert (tmp_path / "out.npz").stat().st_size > whole
    assert most < 5 * block < whole / 2


def test_bad_files_are_named_and_left_out_only_when_asked(tmp_path):
    write_images(tmp_path / "images", 20)
    (tmp_path / "images" / "005.png").write_bytes(b"no image")
    (tmp_path / "images" / "013.png").write_bytes(b"")
    encoder = colour_encoder(batch_size=4)
    with pytest.raises(ValueError, match=r"005\.png' cannot be used"):
        embed_to_file(tmp_path / "images", tmp_path / "out.npz", encoder)
    assert not (tmp_path / "out.npz").exists()
    done = embed_to_file(tmp_path / "images", tmp_path / "out.npz", encoder, skip_bad=True)
    embedding = read_embedding(done.path)
    assert done.rows == 18
    assert set(embedding.made["skipped"]) == {"005.png", "013.png"}
    assert "005.png" not in embedding.ids
    assert "cannot be used" in embedding.made["skipped"]["005.png"]


def test_blocks_without_bad_files_do_not_hide_a_bad_one(tmp_path):
    write_images(tmp_path / "images", 16)
    (tmp_path / "images" / "003.png").write_bytes(b"no image")
    items, encoder = open_source(tmp_path / "images"), stops_after(2)
    with pytest.raises(Stop):
        embed_to_file(items, tmp_path / "out.npz", encoder, skip_bad=True)
    with pytest.raises(ValueError, match=r"003\.png"):
        embed_to_file(items, tmp_path / "out.npz", colour_encoder(batch_size=4))


def test_a_source_of_bad_files_alone_is_refused(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="none of its 1 images can be read"):
        embed_to_file(tmp_path / "images", tmp_path / "out.npz", colour_encoder(), skip_bad=True)


def test_a_model_that_gives_no_numbers_is_named():
    encoder = get_encoder(lambda texts: [[float("nan")] for _ in texts], kind="texts")
    with pytest.raises(ValueError, match="gives NaN or infinity for '0'"):
        embed(["a"], encoder)


def test_a_batch_that_a_device_cannot_hold_is_one_line():
    def function(texts):
        raise torch.OutOfMemoryError("many lines\nof an allocator")

    with pytest.raises(MemoryError, match=r"7 texts at a time do not fit into the memory of cpu: a smaller batch_size"):
        embed(["a"], get_encoder(function, kind="texts", batch_size=7))


def test_texts_that_are_too_long_are_counted(tmp_path):
    encoder = get_encoder(lambda texts: [[len(text)] for text in texts], kind="texts")
    encoder.count_too_long = lambda items: sum(len(text) > 3 for text in items)
    texts = ["a", "long text", "b", "another long text"] * 5
    with pytest.warns(DatasetWarning, match="10 of 20 texts are longer"):
        assert embed(texts, encoder).made["truncated"] == 10
    assert embed_to_file(texts, tmp_path / "a.npz", encoder).made["truncated"] == 10


def test_the_file_says_what_it_was_made_with(tmp_path):
    write_images(tmp_path / "images", 9)
    made = embed_to_file(tmp_path / "images", tmp_path / "a.npz", colour_encoder()).made
    assert made["model"] == "mean_colour"
    assert made["kind"] == "images"
    assert made["source"]["items"] == 9
    assert {"torch", "numpy", "pillow", "tg-crepe", "python"} <= made["versions"].keys()
    assert made["versions"]["torch"] == torch.__version__
    assert str(tmp_path) not in json.dumps(made)


def test_a_damaged_block_is_named(tmp_path):
    write_images(tmp_path / "images", 16)
    with pytest.raises(Stop):
        embed_to_file(tmp_path / "images", tmp_path / "out.npz", stops_after(2))
    block = next((tmp_path / ".out.npz.blocks").iterdir())
    block.write_bytes(b"half")
    with pytest.raises(ValueError, match=r"\.npz' cannot be used"):
        embed_to_file(tmp_path / "images", tmp_path / "out.npz", colour_encoder(batch_size=4))


def test_a_block_folder_keeps_what_it_is_given(tmp_path):
    from tg_crepe.embed.blocks import Block

    folder = BlockFolder(tmp_path / "a.npz", {"model": "m"})
    block = Block(np.ones((2, 3), np.float32), np.array([4, 6]), {5: "bad"}, 1)
    folder.write(0, "mark", block)
    assert folder.has(0, "mark")
    assert not folder.has(0, "another")
    assert not BlockFolder(tmp_path / "a.npz", {"model": "n"}).has(0, "mark")
    found = folder.read(0, "mark")
    np.testing.assert_array_equal(found.x, block.x)
    assert (found.place.tolist(), found.skipped, found.truncated) == ([4, 6], {5: "bad"}, 1)
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_out_must_be_an_npz_file(tmp_path):
    with pytest.raises(ValueError, match="'out' must end in"):
        embed_to_file(["a"], tmp_path / "a.csv", colour_encoder())
