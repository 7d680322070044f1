"""Images made in code, in the layouts that loaders read."""

from collections.abc import Sequence
from pathlib import Path

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
