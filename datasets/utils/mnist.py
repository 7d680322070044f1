"""Reads MNIST and Fashion-MNIST from their published files (idx, packed or not), downloading them when missing."""

import gzip
import math
import zlib
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from datasets.utils.continual_dataset import ContinualDataset, Split, data_folder
from datasets.utils.download import fetch
from utils import randomness
from utils.args import one_of

DIMENSIONS = {2051: 3, 2049: 1}  # by the files' magic numbers: images, labels
LARGEST = 2**28  # bytes that a file may hold


class Source(NamedTuple):
    """A published data set of 28x28 grey images: the name of its class in torchvision, and where else its files may lie."""

    torchvision: str
    folders: tuple[str, ...]  # under the base path, or absolute


class IdxImages(ContinualDataset):
    """Grey 28x28 images in four idx files."""

    N_CLASSES = 10
    SIZE = (28, 28, 1)
    SOURCE: Source

    def load(self, train: bool) -> Split:
        kind = "train" if train else "t10k"
        names = (f"{kind}-images-idx3-ubyte", f"{kind}-labels-idx1-ubyte")
        images, labels = (read_idx(self._find(name)) for name in names)
        if images.ndim != 3 or images.shape[1:] != (28, 28) or labels.ndim != 1:
            raise ValueError(
                f"{self._find(names[0])}: images of shape {images.shape} and labels of shape {labels.shape}, not n x 28 x 28 and n"
            )
        return Split(torch.from_numpy(images)[..., None], torch.from_numpy(labels).long())

    def data_kind(self) -> str:
        """`original` with the published 60,000 training and 10,000 test images, else `sample`; the pixels are not compared."""
        sizes = [len(read_idx(self._find(f"{kind}-labels-idx1-ubyte"))) for kind in ("train", "t10k")]
        return "original" if sizes == [60_000, 10_000] else "sample"

    def _find(self, name: str) -> Path:
        """Return an idx file, packed or not; downloads all four if it is nowhere."""
        base = data_folder(self.args, "")
        folders = [base / folder for folder in self.SOURCE.folders]
        candidates = [folder / f"{name}{suffix}" for folder in folders for suffix in ("", ".gz")]
        if not any(map(Path.is_file, candidates)):
            self._download(base, folders, lambda: any(map(Path.is_file, candidates)))
        return next(path for path in candidates if path.is_file())

    def _download(self, base: Path, folders: list[Path], present: Callable[[], bool]) -> None:
        """Fetch the files with torchvision; raises FileNotFoundError that says where they were looked for."""
        from torchvision import datasets  # a second of imports, so only here

        try:
            fetch(base, present, lambda folder: getattr(datasets, self.SOURCE.torchvision)(str(folder), download=True))
        except (OSError, RuntimeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            places = ", ".join(map(str, folders))
            raise FileNotFoundError(
                f"no {self.SOURCE.torchvision} files (train-images-idx3-ubyte and three more, or .gz) in {places}, "
                f"and the download failed ({reason}).\nPut them into {folders[0]}"
            ) from error


class Domains(IdxImages):
    """The same digits in every task, each task's images changed by something drawn for it (domain-il).

    Raises:
        ValueError: a run whose tasks were drawn by the global generators is to go on from a checkpoint.
    """

    SETTING = "domain-il"
    N_CLASSES_PER_TASK = 10
    N_TASKS = 20
    CLASS_NAMES = [str(digit) for digit in range(10)]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        kinds = one_of("seed", "global")  # absent where it is not given, so that runs keep their names
        words = "what a task's change follows from: seed (and task), or upstream's: the global generators as the method left them"
        parser.add_argument("--domain_draws", type=kinds, default=SUPPRESS, metavar="NAME", help=words)
        return parser

    def __init__(self, args: Namespace) -> None:
        super().__init__(args)
        self._drawn: dict[int, Tensor] = {}
        self.draws_globally = getattr(args, "domain_draws", "seed") == "global"
        if self.draws_globally and getattr(args, "resume", None):
            raise ValueError("--domain_draws global: what was drawn is in no checkpoint, so such a run cannot be resumed")

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """Draw what changes a task's images; None: from the global generator."""
        raise NotImplementedError

    def drawn_for(self, task: int, name: str) -> Tensor:
        """Return what was drawn for a task: from a generator of its own, or once from the global one when first asked for."""
        if task not in self._drawn:
            self._drawn[task] = self.draw(None if self.draws_globally else randomness.fresh(f"{name}/{task}"))
        return self._drawn[task]


def read_idx(path: Path) -> np.ndarray:
    """Read an idx file of unsigned bytes, packed with gzip or not.

    Returns:
        uint8 array: (n, height, width), or (n,).

    Raises:
        ValueError: another kind of file, or one that is cut off; names it.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            sizes = 4 * DIMENSIONS.get(int.from_bytes(file.read(4), "big"), 0)
            head = file.read(sizes)
            shape = tuple(map(int, np.frombuffer(head, dtype=">u4"))) if len(head) == sizes else ()
            expected = math.prod(shape)
            data = file.read(min(expected, LARGEST) + 1) if shape else b""  # never more, however much a packed file unpacks to
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is corrupt: {error}") from error
    if not shape:
        raise ValueError(f"{path} is no idx file of images or labels")
    if len(data) != expected:
        many = "more" if len(data) > expected else len(data)
        raise ValueError(f"{path} is cut off or too long: {many} bytes for {' x '.join(map(str, shape))}")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape).copy()
