"""Images of a task chosen when it ends, a fixed number each task: what GEM and FDR remember."""

import torch
from torch import Tensor

from datasets.utils.continual_dataset import ContinualDataset
from utils import randomness


def images_per_task(buffer_size: int, n_tasks: int) -> int:
    """Return how many images each of `n_tasks` tasks may keep: floor(B / k).

    Raises:
        ValueError: not even one.
    """
    if buffer_size < n_tasks:
        raise ValueError(f"--buffer_size {buffer_size} is below one image for each of the {n_tasks} tasks")
    return buffer_size // n_tasks


def random_images(dataset: ContinualDataset, count: int) -> tuple[Tensor, Tensor]:
    """Return `count` distinct labelled training images of the current task (all, if it has fewer), in [0, 1], and their labels."""
    assert dataset.train_loader is not None
    images = dataset.train_loader.dataset
    targets = torch.as_tensor(images.targets)
    labelled = (targets != -1).nonzero()[:, 0]
    chosen = randomness.distinct_indices(len(labelled), count, randomness.generator("memory_choice"))
    rows = labelled[chosen.to(targets.device)]
    return images.images(rows), targets[rows]
