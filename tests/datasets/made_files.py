"""Images made in code, in the layouts that loaders read."""

import gzip
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from datasets.seq_miniimg import CLASSES


def write_image(path: Path, red: int, size: tuple[int, int] = (84, 84)) -> None:
    """Write an image of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (red, 0, 0)).save(path)


def write_mini_tree(root: Path, train: int = 1, test: int = 1, classes: Sequence[str] = CLASSES) -> None:
    """Write MiniImageNet as class folders, in which the red of an image is its class."""
    for split, count in (("train", train), ("val", test)):
        for place, name in enumerate(classes):
            for number in range(count):
                write_image(root / split / name / f"{name}_{number}.png", place)


def write_mnist(folder: Path, packed: bool = False) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Write 40 training and 20 test images of noise, four and two of each label, as idx files; return them by split."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    written = {}
    for split, kind, count in (("train", "train", 40), ("test", "t10k", 20)):
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        contents = {
            f"{kind}-images-idx3-ubyte": struct.pack(">4I", 2051, count, 28, 28) + images.tobytes(),
            f"{kind}-labels-idx1-ubyte": struct.pack(">2I", 2049, count) + labels.tobytes(),
        }
        for name, data in contents.items():
            (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(data) if packed else data)
        written[split] = (images, labels)
    return written


def write_tiny_folder(folder: Path, train: int = 1) -> list[str]:
    """Write Tiny ImageNet's published folder: the red of an image is its class, the green 10 where it tests; return the classes."""
    names = [f"n{place:08}" for place in reversed(range(200))]
    folder.mkdir(parents=True)
    (folder / "wnids.txt").write_text("\n".join(names) + "\n")
    for place, name in enumerate(names):
        for number in range(train):
            write_image(folder / "train" / name / "images" / f"{name}_{number}.JPEG", place, (64, 64))
        write_image(folder / "val" / "images" / f"val_{place}.JPEG", place, (64, 64))
    lines = [f"val_{place}.JPEG\t{name}\t0\t0\t63\t63" for place, name in enumerate(names)]
    (folder / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    return names
