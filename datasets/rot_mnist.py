"""Rotated MNIST (Lopez-Paz and Ranzato 2017): in each task all ten digits, turned by another angle."""

import torch
from torch import Tensor
from torch.nn import functional as F

from datasets.seq_mnist import MNIST
from datasets.utils.image_set import ImageSet
from datasets.utils.mnist import Domains


def rotated(images: Tensor, degrees: float) -> Tensor:
    """Turn images counter-clockwise about their centre, each pixel taken from the nearest of the original, black outside.

    Args:
        images: (n, height, width, channels) uint8.
    """
    angle = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    turn = torch.tensor([[angle.cos(), -angle.sin(), 0], [angle.sin(), angle.cos(), 0]])[None].float().to(images.device)
    parts = []
    for part in images.permute(0, 3, 1, 2).split(10_000):  # a block at a time bounds the floats
        grid = F.affine_grid(turn, [1, *part.shape[1:]], align_corners=False).expand(len(part), -1, -1, -1)
        parts.append(F.grid_sample(part.float(), grid, mode="nearest", align_corners=False).to(torch.uint8))
    return torch.cat(parts).permute(0, 2, 3, 1).contiguous()


class RotatedMNIST(Domains):
    """MNIST turned by another angle in each of 20 tasks (domain-il)."""

    NAME = "rot-mnist"
    SOURCE = MNIST

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """Draw an angle of [0, 180) degrees."""
        return 180 * torch.rand((), generator=generator, dtype=torch.float64)

    def task_images(self, images: ImageSet, task: int) -> ImageSet:
        """Turn the images by the task's angle."""
        degrees = float(self.drawn_for(task, "rotation"))
        return ImageSet(rotated(images.data, degrees), images.targets, images.transform)
