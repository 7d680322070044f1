"""Permuted MNIST (Kirkpatrick et al. 2017): in each task all ten digits, with the pixels in another order."""

import torch
from torch import Tensor

from datasets.seq_mnist import MNIST
from datasets.utils.image_set import ImageSet
from datasets.utils.mnist import Domains


class PermutedMNIST(Domains):
    """MNIST with the pixels in another order in each of 20 tasks (domain-il)."""

    NAME = "perm-mnist"
    SOURCE = MNIST

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """Draw an order of the pixels."""
        return torch.randperm(28 * 28, generator=generator)

    def task_images(self, images: ImageSet, task: int) -> ImageSet:
        """Put the pixels into the task's order."""
        order = self.drawn_for(task, "permutation").to(images.data.device)
        return ImageSet(images.data.flatten(1)[:, order].view_as(images.data), images.targets, images.transform)
