"""FDR: function distance regularisation (Benjamin, Rolnick and Koerding 2019, arXiv 1805.08289), as Buzzega et al. 2020 ran it.

Each iteration takes two optimiser steps: one on CE(f(x), y), then one on the distance that the function has moved on the memory,

    alpha mean_i | softmax(f(x_i)) - softmax(z_i) |_2,

where z_i are the logits that image i had when its task ended.
"""

from argparse import ArgumentParser
from typing import Any

import torch
from torch import Tensor

from datasets.utils.continual_dataset import ContinualDataset
from models.memories.task_memory import images_per_task, random_images
from models.utils.continual_model import ContinualModel
from utils.args import add_rehearsal_args, number
from utils.augmentations import apply_transform
from utils.buffer import Buffer


def function_distance(logits: Tensor, stored: Tensor) -> Tensor:
    """Return the mean over images of | softmax(f(x)) - softmax(z) |_2. Both (batch, classes). Where equal, its gradient is 0."""
    return torch.linalg.vector_norm(logits.softmax(1) - stored.softmax(1), dim=1).mean()


def first_of_each(task_labels: Tensor, count: int) -> Tensor:
    """Return the rows that are among the first `count` of their task, by task."""
    return torch.cat([(task_labels == task).nonzero()[:count, 0] for task in task_labels.unique()])


class Fdr(ContinualModel):
    """Function distance regularisation: two steps an iteration, the second back towards the stored outputs."""

    NAME = "fdr"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        add_rehearsal_args(parser)
        parser.add_argument("--alpha", type=number(float, 0), default=1.0, metavar="X", help="weight of the distance")
        return parser

    def __init__(self, backbone: Any, loss: Any, args: Any, transform: Any, dataset: Any = None) -> None:
        super().__init__(backbone, loss, args, transform, dataset=dataset)
        images_per_task(args.buffer_size, self.n_tasks)
        self.buffer = Buffer(args.buffer_size, device=self.device)

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """A step on the stream, then, from the second task on, a step on a batch of the memory."""
        stream = self.step(self.loss(self.net(inputs), labels))
        if self.buffer.is_empty():
            return {"loss": stream}
        images, logits, _ = self.buffer.get_data(self.args.minibatch_size, transform=self.transform, device=self.device)
        distance = self.step(self.args.alpha * function_distance(self.net(images), logits))
        return {"loss": stream + distance, "stream": stream, "function distance": distance}

    def step(self, loss: Tensor) -> Tensor:
        """Take one optimiser step on a loss, and return it."""
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach()

    def end_task(self, dataset: ContinualDataset) -> None:
        """Keep floor(B / k) images of each of the k tasks so far, the new ones with the logits that they have now."""
        per_task = images_per_task(self.args.buffer_size, self.current_task + 1)
        images, labels = random_images(dataset, per_task)
        blocks: list[tuple[Tensor, ...]] = [
            (images, self.logits(images), torch.full_like(labels, self.current_task, device=self.device))
        ]
        if not self.buffer.is_empty():
            kept = first_of_each(self.buffer.task_labels[: len(self.buffer)], per_task)
            blocks.insert(0, self.buffer.get_data_by_index(kept))
            self.buffer.empty()
        examples, logits, task_labels = (torch.cat(parts) for parts in zip(*blocks, strict=True))
        self.buffer.add_data(examples=examples, logits=logits, task_labels=task_labels)

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """Return the outputs on augmented images, batch by batch, in training mode."""
        return torch.cat([self.net(apply_transform(part, self.transform)) for part in images.split(self.args.batch_size)])
