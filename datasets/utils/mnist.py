"""Reads MNIST and Fashion-MNIST from their published files (idx, packed or not), downloading them when missing."""

import gzip
import math
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from datasets.utils.continual_dataset import ContinualDataset, Split, data_folder

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
        for path in candidates:
            if path.is_file():
                return path
        self._download(base, folders)
        return next(path for path in candidates if path.is_file())

    def _download(self, base: Path, folders: list[Path]) -> None:
        """Fetch the files with torchvision; raises FileNotFoundError that says where they were looked for."""
        from torchvision import datasets  # a second of imports, so only here

        try:
            getattr(datasets, self.SOURCE.torchvision)(str(base), download=True)
        except (OSError, RuntimeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            places = ", ".join(map(str, folders))
            raise FileNotFoundError(
                f"no {self.SOURCE.torchvision} files (train-images-idx3-ubyte and three more, or .gz) in {places}, "
                f"and the download failed ({reason}).\nPut them into {folders[0]}"
            ) from error


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
