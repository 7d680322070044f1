"""Split digits: scikit-learn's bundled 1,797 grey images of 8 x 8 pixels, 5 tasks of 2 classes. Needs no download."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from datasets.utils.continual_dataset import ContinualDataset, Split


class SequentialDigits(ContinualDataset):
    """Handwritten digits bundled with scikit-learn, 8 x 8 grey, 5 tasks of 2 classes.

    Of every five images of a class in file order, the fifth is for testing.
    """

    NAME = "seq-digits"
    SETTING = "class-il"
    N_CLASSES_PER_TASK = 2
    N_TASKS = 5
    N_CLASSES = 10
    SIZE = (8, 8, 1)
    CLASS_NAMES = [str(digit) for digit in range(10)]

    def load(self, train: bool) -> Split:
        rows = torch.from_numpy(_bundled())
        labels = rows[:, -1]
        images = rows[:, :-1].double().mul(255 / 16).round().to(torch.uint8).view(-1, 8, 8, 1)
        rank = torch.zeros_like(labels)
        for digit in range(10):
            rank[labels == digit] = torch.arange(int((labels == digit).sum()))
        chosen = (rank % 5 == 4) != train
        return Split(images[chosen], labels[chosen])


def _bundled() -> np.ndarray:
    """Return (1797, 65) int64: 64 pixels from 0 to 16 and the digit, from scikit-learn's file; importing it would take a second.

    Raises:
        FileNotFoundError: there is no scikit-learn, or its file is elsewhere.
    """
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise FileNotFoundError("seq-digits are scikit-learn's images, and it is not installed: pip install scikit-learn")
    with gzip.open(Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt", encoding="ascii") as file:
        return np.loadtxt(file, delimiter=",", dtype=np.int64)
