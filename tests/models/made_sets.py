"""Benchmarks of images made in code, on which every method runs."""

import torch

from datasets import register_dataset
from datasets.utils.continual_dataset import ContinualDataset, Split


def made_images(side, channels, classes=5, per_class=2):
    """Return some images of each class, each class around a shade of its own."""
    draws = torch.Generator().manual_seed(0)
    labels = torch.arange(classes * per_class) % classes
    shades = torch.randint(60, 196, (classes, 1, 1, channels), generator=draws)
    noise = torch.randint(-60, 60, (len(labels), side, side, channels), generator=draws)
    return Split((shades[labels] + noise).to(torch.uint8), labels)


@register_dataset("made-colours")
class MadeColours(ContinualDataset):
    """Five classes of 32 x 32 colour images in tasks of 2, 1 and 2."""

    NAME = "made-colours"
    SETTING = "class-il"
    N_TASKS, N_CLASSES_PER_TASK, N_CLASSES, SIZE = 3, [2, 1, 2], 5, (32, 32, 3)
    TRANSFORM = ["RandomHorizontalFlip", "ToTensor"]

    def load(self, train):
        return made_images(*self.SIZE[1:])


@register_dataset("made-greys")
class MadeGreys(MadeColours):
    """The same in grey, 28 x 28."""

    NAME = "made-greys"
    SIZE = (28, 28, 1)


@register_dataset("made-domains")
class MadeDomains(MadeColours):
    """All five classes in each of two tasks."""

    NAME = "made-domains"
    SETTING = "domain-il"
    N_TASKS, N_CLASSES_PER_TASK, SIZE = 2, [5, 5], (8, 8, 3)
