"""Split digits: scikit-learn's bundled 1,797 grey images of 8 x 8 pixels, 5 tasks of 2 classes. Needs no download."""

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
        from sklearn.datasets import load_digits  # a second of imports, so only where these images are used

        bunch = load_digits()
        labels = torch.from_numpy(bunch.target).long()
        images = torch.from_numpy(bunch.images).mul(255 / 16).round().to(torch.uint8)[..., None]
        rank = torch.zeros_like(labels)
        for digit in range(10):
            rank[labels == digit] = torch.arange(int((labels == digit).sum()))
        chosen = (rank % 5 == 4) != train
        return Split(images[chosen], labels[chosen])
