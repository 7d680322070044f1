"""GSS-Greedy: gradient-based sample selection (Aljundi et al. 2019, arXiv 1903.08671).

Experience replay whose memory prefers images whose gradients point elsewhere than those of the images it holds.
"""

from argparse import ArgumentParser
from collections.abc import Callable
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from models.er import Er
from models.memories.placed_buffer import PlacedBuffer
from utils import randomness
from utils.args import whole
from utils.augmentations import apply_transform

CHUNK = 8  # gradients held at a time, beside those of the reference images
FIRST_SCORE = 0.1
LEAST_SCORE = 1e-6  # keeps the odds defined where a cosine is -1


def gradients(net: nn.Module, loss: Callable[..., Tensor], images: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient of the mean loss of each group of images, as rows (groups, parameters).

    Args:
        net: in evaluation mode, so that batch norm uses its running statistics and an image's gradient is its own.
        images: (groups, size, channels, height, width); labels: (groups, size). Groups of one give per-image gradients.
    """
    parameters = {name: parameter.detach() for name, parameter in net.named_parameters() if parameter.requires_grad}

    def loss_of(parameters: dict[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
        return loss(functional_call(net, parameters, (images,)), labels)

    rows = vmap(grad(loss_of), in_dims=(None, 0, 0), chunk_size=CHUNK)(parameters, images, labels)
    return torch.cat([row.flatten(1) for row in rows.values()], 1)


def scores(new: Tensor, references: Tensor) -> Tensor:
    """Return c = 1 + max_i cos(g, G_i) for each new gradient g, (new,). `new`, `references`: (rows, parameters)."""
    lengths = torch.linalg.vector_norm(new, dim=1)[:, None] * torch.linalg.vector_norm(references, dim=1)
    cosines = new @ references.T / lengths.clamp(min=torch.finfo(new.dtype).tiny)
    return (1 + cosines.amax(1)).clamp(min=LEAST_SCORE)


def replacement_odds(stored: Tensor, new: Tensor) -> Tensor:
    """Return the probability C_i / (C_i + c) that a stored image of score C_i gives way to a new one of score c."""
    return stored / (stored + new)


def replace_(stored: Tensor, new: Tensor, generator: torch.Generator) -> dict[int, int]:
    """Let each new image in turn challenge the slot i drawn with probability C_i / sum_j C_j; update the scores C in place.

    Args:
        stored: C, (memory,), on the host; new: c, (new,), on the host.

    Returns:
        {slot: new image} for the challenges won; of two images in one slot the later has it.
    """
    won = {}
    for row, score in enumerate(new):
        slot = int(torch.multinomial(stored, 1, generator=generator))
        if torch.rand((), generator=generator) < replacement_odds(stored[slot], score):
            stored[slot] = score
            won[slot] = row
    return won


class Gss(Er):
    """Experience replay with the greedy gradient-based memory."""

    NAME = "gss"
    memory_scores: Tensor

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        Er.get_parser(parser)
        flag, positive = parser.add_argument, whole()
        flag("--gss_minibatch_size", type=positive, metavar="N", help="reference images a step (default: --minibatch_size)")
        flag("--batch_num", type=positive, default=1, metavar="N", help="optimiser steps a stream batch, each with its own replay")
        return parser

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.buffer: PlacedBuffer = PlacedBuffer(self.args.buffer_size, device=self.device)
        self.register_buffer("memory_scores", torch.zeros(self.args.buffer_size, device=self.device))

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """`--batch_num` steps of experience replay; then the batch is offered to the memory."""
        if self.replays():
            self.walk = cycle(self.replay_batches())
        for _ in range(self.args.batch_num):
            self.opt.zero_grad()
            loss = sum(self.losses(inputs, labels)[1].values(), torch.zeros(()))
            loss.backward()
            self.opt.step()
        self.select(not_aug_inputs, labels)
        return {"loss": loss.detach()}

    def replay_batches(self) -> list[tuple[Tensor, ...]]:
        """Return the batches of one walk through a random order of the memory, as many as the steps need or as there are."""
        size, only_past = self.args.minibatch_size, not self.args.replay_current
        drawn = self.buffer.get_data(size * self.args.batch_num, self.transform, device=self.device, only_past=only_past)
        return list(zip(*(column.split(size) for column in drawn), strict=True))

    def draw(self) -> tuple[Tensor, ...]:
        return next(self.walk)

    def select(self, images: Tensor, labels: Tensor) -> None:
        """Fill free slots; once the memory is full, let a batch whose own score is below 1 challenge it image by image."""
        training = self.net.training
        self.net.eval()
        references = None if self.buffer.is_empty() else self.reference_gradients()
        batch_score = self.scores_of(images[None], labels[None], references)
        held, free = len(self.buffer), min(len(images), self.args.buffer_size - len(self.buffer))
        slots = {held + row: row for row in range(free)}
        self.memory_scores[held : held + free] = batch_score
        if free < len(images) and references is not None and batch_score < 1:
            new = self.scores_of(images[free:, None], labels[free:, None], references).cpu()
            stored = self.memory_scores.cpu()
            slots |= {slot: free + row for slot, row in replace_(stored, new, randomness.generator("gss")).items()}
            self.memory_scores.copy_(stored)
        self.buffer.put(slots, len(images), examples=images, labels=labels)
        self.net.train(training)

    def reference_gradients(self) -> Tensor:
        """Return the gradients of random images of the memory, each its own, (references, parameters)."""
        wanted = self.args.gss_minibatch_size or self.args.minibatch_size
        rows = randomness.distinct_indices(len(self.buffer), wanted, randomness.generator("gss"))
        images, labels = self.buffer.get_data_by_index(rows, device=self.device)
        return gradients(self.net, self.loss, self.normalized(images)[:, None], labels[:, None])

    def scores_of(self, groups: Tensor, labels: Tensor, references: Tensor | None) -> Tensor:
        """Return the score of each group of un-augmented images, (groups,); the first batch of all has a fixed one."""
        if references is None:
            return groups.new_full((len(groups),), FIRST_SCORE)
        ready = self.normalized(groups.flatten(0, 1)).unflatten(0, groups.shape[:2])
        parts = zip(ready.split(CHUNK), labels.split(CHUNK), strict=True)
        return torch.cat([scores(gradients(self.net, self.loss, *part), references) for part in parts])

    def normalized(self, images: Tensor) -> Tensor:
        """Return images as the network takes them, without augmentation."""
        return apply_transform(images, getattr(self, "normalization_transform", None))
