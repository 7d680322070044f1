"""Permuted MNIST (Kirkpatrick et al. 2017): in each task all ten digits, with the pixels in another order."""

import torch

from datasets.seq_mnist import MNIST
from datasets.utils.image_set import ImageSet
from datasets.utils.mnist import IdxImages
from utils import randomness


class PermutedMNIST(IdxImages):
    """MNIST with the pixels in another order in each of 20 tasks (domain-il)."""

    NAME = "perm-mnist"
    SETTING = "domain-il"
    N_CLASSES_PER_TASK = 10
    N_TASKS = 20
    CLASS_NAMES = [str(digit) for digit in range(10)]
    SOURCE = MNIST

    def task_images(self, images: ImageSet, task: int) -> ImageSet:
        """Put the pixels into the task's order, which depends on the run's seed and the task's number alone."""
        order = torch.randperm(28 * 28, generator=randomness.fresh(f"permutation/{task}")).to(images.data.device)
        return ImageSet(images.data.flatten(1)[:, order].view_as(images.data), images.targets, images.transform)
