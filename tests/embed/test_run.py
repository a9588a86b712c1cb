from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
import torch

pytest.importorskip("PIL", reason="images need the extra 'vision'")

from embed_inputs import colour_encoder, mean_colour, write_images

from tg_crepe.embed import embed, embed_to_file, get_encoder, open_source, read_embedding
from tg_crepe.embed.blocks import BlockFolder


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr("tg_crepe.embed.run._BLOCK", 8)


class Stop(Exception):
    """What stands for a killed process."""


def stops_after(batches: int):
    """The encoder of colours, which is killed after some batches."""
    done = []

    def function(images):
        if len(done) == batches:
            raise Stop
        done.append(len(images))
        return mean_colour(images)

    function.__qualname__ = "mean_colour"
    return get_encoder(function, kind="images", batch_size=4)


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


def test_texts_that_are_too_long_are_counted(tmp_path):
    encoder = get_encoder(lambda texts: [[len(text)] for text in texts], kind="texts")
    encoder.count_too_long = lambda items: sum(len(text) > 3 for text in items)
    texts = ["a", "long text", "b", "another long text"] * 5
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
