"""GDumb: greedy sampler and dumb learner (Prabhu, Torr and Dokania 2020, ECCV).

The stream only fills a class-balanced memory (`models/memories/balanced_buffer.py`). Whenever the network is to be evaluated, it
is trained from scratch on the memory alone: here after each task, so that the accuracy matrix has every stage.
"""

from argparse import ArgumentParser
from math import cos, pi
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from backbone import get_backbone
from datasets.utils.continual_dataset import ContinualDataset
from models.memories.balanced_buffer import BalancedBuffer
from models.utils.continual_model import ContinualModel
from utils import randomness
from utils.args import add_rehearsal_args, number, whole

LONGEST_GRADIENT = 10.0  # the authors' clipping
CUTMIX_SHARE = 0.5  # of the batches


def learning_rate(epoch: int, high: float, low: float) -> float:
    """Return the rate of an epoch: a tenth of `high` in the first, then cosines from `high` to `low` over 1, 2, 4, ... epochs.

    SGDR (Loshchilov and Hutter 2017) with T_0 = 1, T_mult = 2: epoch e >= 1 stands e - T epochs into a cycle of
    T = 2^floor(log2 e), at low + (high - low) (1 + cos(pi (e - T) / T)) / 2. So 256 epochs end with a cycle.
    """
    if epoch == 0:
        return high / 10
    length = 1 << (epoch.bit_length() - 1)
    return low + (high - low) * (1 + cos(pi * (epoch - length) / length)) / 2


class Mixed(NamedTuple):
    """A batch with a box of each image taken from another: what loss(y) counts, and what loss(y of the other)."""

    images: Tensor
    other_labels: Tensor
    share: float


def cutmix(images: Tensor, labels: Tensor, alpha: float, generator: torch.Generator) -> Mixed:
    """Paste one box, of area 1 - lambda with lambda ~ Beta(alpha, alpha), from a shuffled copy (Yun et al. 2019).

    Returns:
        The images, the labels of the other image of each, and the share of pixels that are an image's own.
    """
    draws = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    height, width = images.shape[2:]
    half = np.sqrt(1 - draws.beta(alpha, alpha)) / 2
    row, column = draws.integers(height), draws.integers(width)
    top, bottom = (int(np.clip(row + sign * half * height, 0, height)) for sign in (-1, 1))
    left, right = (int(np.clip(column + sign * half * width, 0, width)) for sign in (-1, 1))
    others = torch.randperm(len(images), generator=generator).to(images.device)
    mixed = images.clone()
    mixed[:, :, top:bottom, left:right] = images[others, :, top:bottom, left:right]
    return Mixed(mixed, labels[others], 1 - (bottom - top) * (right - left) / (height * width))


class Gdumb(ContinualModel):
    """No training on the stream; from scratch on a balanced memory instead."""

    NAME = "gdumb"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        add_rehearsal_args(parser)
        flag = parser.add_argument
        flag("--fitting_epochs", type=whole(), default=256, metavar="N", help="passes over the memory after each task")
        flag("--lr_min", type=number(float, 0), default=0.0005, metavar="X", help="end of the cosine that starts at --lr")
        flag("--cutmix_alpha", type=number(float, 0), default=0.0, metavar="X", help="CutMix's alpha (the paper: 1); 0: no CutMix")
        return parser

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.buffer = BalancedBuffer(self.args.buffer_size, device=self.device)
        self.diagnostics: dict[str, float] = {}

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """Offer the batch to the memory, in the first pass over it. Nothing is trained: the loss is 0."""
        if not epoch:
            self.buffer.offer(not_aug_inputs, labels)
        return {"loss": torch.zeros((), device=labels.device)}

    def end_task(self, dataset: ContinualDataset) -> None:
        """Train a fresh network, with the run's initial weights, on the memory; nothing, if that is empty (no label was seen)."""
        if self.buffer.is_empty():
            return
        with randomness.initialisation():
            self.net.load_state_dict(get_backbone(self.args).state_dict())
        self.opt = self.get_optimizer()
        epochs = self.args.fitting_epochs
        for epoch in range(min(epochs, self.get_debug_iters() + 1) if self.args.debug_mode else epochs):
            for group in self.opt.param_groups:
                group["lr"] = learning_rate(epoch, self.args.lr, self.args.lr_min)
            loss = self.fit_epoch()
        self.diagnostics = {"fitting_loss": float(loss)}

    def fit_epoch(self) -> Tensor:
        """Go once over the memory in random order, and return the last batch's loss."""
        order = torch.randperm(len(self.buffer), generator=randomness.generator("gdumb"))
        for rows in order.split(self.args.minibatch_size):
            images, labels = self.buffer.get_data_by_index(rows, self.transform, device=self.device)
            self.opt.zero_grad()
            loss = self.fitting_loss(images, labels)
            loss.backward()
            clip_grad_norm_(self.parameters(), LONGEST_GRADIENT)
            self.opt.step()
        return loss.detach()

    def fitting_loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return cross-entropy, on half of the batches with CutMix if that is on."""
        generator = randomness.generator("cutmix")
        if not self.args.cutmix_alpha or torch.rand((), generator=generator) >= CUTMIX_SHARE:
            return self.loss(self.net(images), labels)
        mixed = cutmix(images, labels, self.args.cutmix_alpha, generator)
        logits = self.net(mixed.images)
        return mixed.share * self.loss(logits, labels) + (1 - mixed.share) * self.loss(logits, mixed.other_labels)
