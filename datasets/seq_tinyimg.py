"""Split Tiny ImageNet (Le and Yang 2015): 200 classes of 500 training and 50 validation images of 64x64 pixels, 10 tasks of 20."""

import zipfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datasets.utils.continual_dataset import ContinualDataset, Split, data_folder
from datasets.utils.decode import SUFFIXES, cached, decode_images, fingerprint_of, is_plain, list_left_out
from utils.args import yes_or_no
from utils.loggers import LOG

PARTS = 20  # files that each split of Mammoth's layout is cut into
LAYOUTS = (
    "processed/{x,y}_{train,val}_01..20.npy (Mammoth's), or tiny-imagenet-200/ as published: wnids.txt, train/<class>/images/, "
    "val/images/ and val/val_annotations.txt"
)


class SequentialTinyImagenet(ContinualDataset):
    """Tiny ImageNet in 10 tasks of 20 classes, 64x64 pixels; its validation images are the test images."""

    NAME = "seq-tinyimg"
    SETTING = "class-il"
    N_CLASSES_PER_TASK = 20
    N_TASKS = 10
    N_CLASSES = 200
    SIZE = (64, 64, 3)

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        text = "leave out images that cannot be read, instead of stopping"
        parser.add_argument("--skip_bad_images", type=yes_or_no, default=0, metavar="0|1", help=text)
        return parser

    def data_kind(self) -> str:
        """`original` with the published 100,000 training and 10,000 validation images, else `sample`; pixels are not compared."""
        for train in (True, False):
            self.split(train)
        return "original" if all(count == (100_000 if train else 10_000) for train, count in self._counts.items()) else "sample"

    def left_out(self) -> int:
        for train in (True, False):
            self.split(train)
        return sum(getattr(self, "_left_out", {}).values())

    def load(self, train: bool) -> Split:
        found = self._read_layout(train)
        self._counts = {**getattr(self, "_counts", {}), train: len(found.labels)}
        return found

    def _read_layout(self, train: bool) -> Split:
        """Read a split from whichever layout is there."""
        root = data_folder(self.args, "TINYIMG")
        kind = "train" if train else "val"
        arrays = [root / "processed" / f"{letter}_{kind}_{part:02}.npy" for letter in "xy" for part in range(1, PARTS + 1)]
        if all(path.is_file() for path in arrays):
            return Split(_joined(arrays[:PARTS], (64, 64, 3)), _joined(arrays[PARTS:], ()).long())
        if (root / "tiny-imagenet-200" / "wnids.txt").is_file():
            return self._from_folder(root / "tiny-imagenet-200", train)
        there = ", ".join(sorted(path.name for path in root.iterdir())[:5]) if root.is_dir() else "no such folder"
        raise FileNotFoundError(f"no Tiny ImageNet in {root} ({there or 'empty'}).\nPut there: {LAYOUTS}")

    def _from_folder(self, folder: Path, train: bool) -> Split:
        """Decode the published folder, or take it from the cache beside it."""
        files = _train_files(folder) if train else _val_files(folder)
        paths = [path for path, _ in files]

        skip = bool(self.args.skip_bad_images)

        def decoded() -> dict[str, Any]:
            found = decode_images(paths, (64, 64), 3, skip)
            labels = torch.tensor([label for _, label in files])[found.kept]
            return {"images": found.images, "labels": labels, "bad": found.bad_names()}

        name = f"decoded-{'train' if train else 'val'}-64x64"
        content = cached(folder, name, fingerprint_of(paths, [label for _, label in files], f"skip={skip}"), decoded)
        if notice := list_left_out(folder / f"{name}.left_out.txt", content["bad"]):
            LOG.warning(notice)
        self._left_out = {**getattr(self, "_left_out", {}), train: len(content["bad"])}
        return Split(content["images"], content["labels"])


def _joined(paths: list[Path], shape: tuple[int, ...]) -> Tensor:
    """Read arrays and join them: images in [0, 1] become uint8, whole numbers stay.

    Raises:
        ValueError: a file is no array of these shapes; names it.
    """
    parts = []
    for path in paths:
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)  # mapped: a head that promises more than there is fails
            if not isinstance(array, np.ndarray):
                raise ValueError("several arrays in one file")
        except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is corrupt or no plain array: {error}") from error
        if array.shape[1:] != shape or array.ndim != 1 + len(shape):
            raise ValueError(f"{path}: an array of shape {array.shape}, expected {('n', *shape)}")
        if array.dtype != np.uint8 and array.dtype.kind not in ("f" if shape else "fiu"):
            raise ValueError(f"{path}: an array of {array.dtype}, expected {'numbers in [0, 1], or uint8' if shape else 'numbers'}")
        if array.dtype.kind == "f" and shape:
            array = (np.clip(array, 0, 1) * 255).round().astype(np.uint8)
        parts.append(torch.from_numpy(np.array(array)))
    return torch.cat(parts)


def _classes(folder: Path) -> dict[str, int]:
    """Return the classes' numbers, in the order of wnids.txt. Raises ValueError unless there are 200."""
    names = (folder / "wnids.txt").read_text(encoding="utf-8").split()
    if len(set(names)) != 200:
        raise ValueError(f"{folder / 'wnids.txt'}: {len(set(names))} classes, expected 200")
    if strange := [name for name in names if not is_plain(name)]:
        raise ValueError(f"{folder / 'wnids.txt'}: {strange[0]!r} is no name of a folder")
    return {name: label for label, name in enumerate(names)}


def _train_files(folder: Path) -> list[tuple[Path, int]]:
    found = []
    for name, label in _classes(folder).items():
        images = sorted(path for path in (folder / "train" / name).glob("images/*") if path.suffix.lower() in SUFFIXES)
        if not images:
            raise ValueError(f"{folder / 'train' / name / 'images'}: no images of this class")
        found += [(path, label) for path in images]
    return found


def _val_files(folder: Path) -> list[tuple[Path, int]]:
    classes, notes = _classes(folder), folder / "val" / "val_annotations.txt"
    if not notes.is_file():
        raise ValueError(f"{notes} is missing: it says which class each validation image is of")
    found = []
    for number, line in enumerate(notes.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split("\t")
        path = folder / "val" / "images" / words[0]
        if len(words) < 2 or words[1] not in classes or not is_plain(words[0]) or not path.is_file():
            raise ValueError(f"{notes}, line {number}: {line!r} names no image in {path.parent} and class of wnids.txt")
        found.append((path, classes[words[1]]))
    return found
