"""Reads CIFAR-10 and CIFAR-100 from their published files, downloading them when missing."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from datasets.utils.continual_dataset import ContinualDataset, Split, data_folder
from datasets.utils.download import fetch
from utils.files import read_array_pickle


class Archive(NamedTuple):
    """Where a data set comes from and what it unpacks to: folder, and for each split its files with their MD5 sums."""

    url: str
    md5: str
    folder: str
    train: dict[str, str]
    test: dict[str, str]


class SplitCifar(ContinualDataset):
    """A CIFAR data set under `<base_path>/<FOLDER>/`."""

    SETTING = "class-il"
    SIZE = (32, 32, 3)
    FOLDER: str
    ARCHIVE: Archive
    LABELS: str
    RECOMPRESSED: tuple[str, ...] = ()  # digests of the pixels of each file of a known recompressed copy

    def load(self, train: bool) -> Split:
        root = data_folder(self.args, self.FOLDER)
        names = list(self.ARCHIVE.train if train else self.ARCHIVE.test)
        folder = root / self.ARCHIVE.folder
        if not _is_there(self.ARCHIVE, root):
            _download(self.ARCHIVE, root)
        parts = [self._part(folder / name) for name in names]
        return Split(torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts]))

    def _part(self, path: Path) -> Split:
        expected = {**self.ARCHIVE.train, **self.ARCHIVE.test}[path.name]
        original = _md5(path) == expected
        if getattr(self.args, "verify_data", 1) and not original:
            raise ValueError(
                f"{path} is not the published file (its MD5 differs): delete it to download it again, "
                "or accept it with --verify_data 0"
            )
        content = read_array_pickle(path)
        pixels: Any = content.get("data")
        labels: Any = content.get(self.LABELS)
        if not _are_images(pixels, labels):
            raise ValueError(f"{path} is corrupt: expected 'data' (n x 3072 uint8) and n '{self.LABELS}'")
        digest = hashlib.blake2b(pixels.tobytes(), digest_size=8).hexdigest()
        kind = "original" if original else "recompressed" if digest in self.RECOMPRESSED else "altered"
        self._kinds = {*getattr(self, "_kinds", ()), kind}
        images = torch.from_numpy(np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)))
        return Split(images, torch.tensor([int(label) for label in labels], dtype=torch.int64))

    def data_kind(self) -> str:
        for train in (True, False):
            self.split(train)
        return max(self._kinds, key=("original", "recompressed", "altered").index)


def _are_images(pixels: Any, labels: Any) -> bool:
    if not isinstance(pixels, np.ndarray) or not isinstance(labels, list):
        return False
    if not all(isinstance(label, int) and abs(label) < 2**63 for label in labels):
        return False
    return pixels.dtype == np.uint8 and pixels.ndim == 2 and pixels.shape == (len(labels), 3072)


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _is_there(archive: Archive, root: Path) -> bool:
    return all((root / archive.folder / name).is_file() for name in (*archive.train, *archive.test))


def _download(archive: Archive, root: Path) -> None:
    """Download and unpack; raises FileNotFoundError that names the path and the files if that cannot be done."""
    from torchvision.datasets.utils import download_and_extract_archive  # a second of imports, so only here

    files = ", ".join((*archive.train, *archive.test))
    try:
        fetch(
            root,
            lambda: _is_there(archive, root),
            lambda folder: download_and_extract_archive(archive.url, str(folder), md5=archive.md5),
        )
    except (OSError, RuntimeError) as error:  # no network, a full disk, a wrong checksum
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileNotFoundError(
            f"no data in {root / archive.folder} and the download failed ({reason}).\nPut there: {files} (unpack {archive.url})"
        ) from error
