"""Files that were cut short or have a bit flipped: a ValueError that names the file, or a content; never another error."""

import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from datasets.utils.decode import cached
from datasets.utils.mnist import read_idx
from mammoth.records import read_record
from tests.datasets.made_files import write_mnist
from utils.checkpoints import load_checkpoint
from utils.files import read_array_pickle

COUNT = 1000
SHORT = ("--model", "er", "--buffer_size", "10", "--debug_mode", "1", "--stop_after", "1", "--savecheck", "last")
READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "record": ("record.json", read_record),
    "checkpoint": ("last.pt", load_checkpoint),
    "CIFAR": ("data_batch_1", read_array_pickle),
    "idx": ("t10k-images-idx3-ubyte", read_idx),
    "packed idx": ("t10k-images-idx3-ubyte.gz", read_idx),
}


@pytest.fixture
def whole(go, tmp_path):
    """Return a function from a file's name to a whole one of its kind."""

    def written(name: str) -> bytes:
        if name in ("record.json", "last.pt"):
            go(*SHORT, "--checkpoint_path", str(tmp_path / "kept"))
        elif name == "data_batch_1":
            pixels = np.random.default_rng(0).integers(256, size=(20, 3072), dtype=np.uint8)
            return pickle.dumps({"data": pixels, "labels": [number % 10 for number in range(20)]})
        else:
            write_mnist(tmp_path / "idx", packed=name.endswith(".gz"))
        (found,) = tmp_path.rglob(name)
        return found.read_bytes()

    return written


def flipped(content: bytes, draws: random.Random) -> bytes:
    """Return bytes with one bit the other way."""
    changed = bytearray(content)
    changed[draws.randrange(len(content))] ^= 1 << draws.randrange(8)
    return bytes(changed)


def complaint(read: Callable[[Path], Any], path: Path, default: str) -> str:
    """Return what a reader says of a file that it refuses; `default` if it takes it."""
    try:
        read(path)
    except ValueError as error:
        return str(error)
    return default


def damage(kind: str, content: bytes, path: Path, count: int, seed: int = 0) -> None:
    """Read `count` files that are cut short, and as many with a bit flipped."""
    draws, read = random.Random(seed), READERS[kind][1]
    for _ in range(count):
        path.write_bytes(content[: draws.randrange(len(content.rstrip()))])
        with pytest.raises(ValueError, match=path.name):
            read(path)
        path.write_bytes(flipped(content, draws))
        assert path.name in complaint(read, path, default=path.name)  # where nothing tells a change, it is read


def damage_cache(folder: Path, count: int, seed: int = 0) -> None:
    """Read a cache file, cut short or with a bit flipped, `count` times each: it is what it was, or made anew."""
    draws, made = random.Random(seed), {"images": torch.arange(3000, dtype=torch.int16).view(30, 100), "names": ["a", "b"], "n": 7}
    cached(folder, "cache", "sources", lambda: made)
    path = folder / "cache.pt"
    content = path.read_bytes()
    for _ in range(count):
        for changed in (content[: draws.randrange(len(content))], flipped(content, draws)):
            path.unlink()
            path.write_bytes(changed)
            found = cached(folder, "cache", "sources", lambda: made)
            assert found["names"] == ["a", "b"]
            assert found["n"] == 7
            assert found["images"].shape == (30, 100)


@pytest.mark.parametrize("kind", READERS)
def test_damaged_files(kind, whole, tmp_path):
    """1,000 cut short and 1,000 with a bit flipped, of each kind of file."""
    damage(kind, whole(READERS[kind][0]), tmp_path / "damaged", COUNT)


def test_damaged_caches(tmp_path):
    """As many: the cache of decoded images is made anew; only a flip within the images themselves goes unseen."""
    damage_cache(tmp_path, COUNT)


@pytest.mark.long
def test_damage_is_counted(whole, tmp_path, note):
    """As many again, of all kinds, at other places."""
    for kind in READERS:
        damage(kind, whole(READERS[kind][0]), tmp_path / "damaged", COUNT, seed=1)
        for left in (tmp_path / "results", tmp_path / "kept", tmp_path / "idx"):
            shutil.rmtree(left, ignore_errors=True)
    damage_cache(tmp_path / "cache", COUNT, seed=1)
    note("corruptions", kinds=", ".join([*READERS, "cache of images"]), cut=COUNT, flipped=COUNT)


@pytest.mark.parametrize("length", range(20))
def test_a_few_bytes_are_no_idx_file(length, tmp_path):
    """Cut within its head or behind it: the file is named."""
    path = tmp_path / "short"
    path.write_bytes(bytes([0, 0, 8, 3, *range(16)])[:length])
    with pytest.raises(ValueError, match="short"):
        read_idx(path)
