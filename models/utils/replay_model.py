"""Experience replay, as its relatives share it: a stream loss, a replay loss, one step, and the batch offered to the memory."""

from argparse import ArgumentParser
from typing import Any

import torch
from torch import Tensor

from datasets.utils.continual_dataset import ContinualDataset
from models.utils.continual_model import ContinualModel
from utils.args import add_rehearsal_args, one_of, whole, yes_or_no
from utils.buffer import Buffer


class ReplayModel(ContinualModel):
    """The loop of the replay family. A method overrides what it changes: `stream_loss`, `replay_losses`, `remember`."""

    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        add_rehearsal_args(parser)
        flag = parser.add_argument
        flag("--replay_current", type=yes_or_no, default=1, metavar="0|1", help="replay images of the current task too")
        flag("--replay_from_task", type=whole(), default=1, metavar="N", help="replay from this task on")
        return parser

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.buffer = Buffer(self.args.buffer_size, device=self.device)

    def begin_task(self, dataset: ContinualDataset) -> None:
        self.buffer.mark_past()

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """One step on the summed losses; then the batch is offered to the memory."""
        self.opt.zero_grad()
        logits, losses = self.losses(inputs, labels)
        loss = sum(losses.values(), torch.zeros(()))
        loss.backward()
        self.opt.step()
        self.remember(not_aug_inputs, labels, logits.detach())
        return {"loss": loss.detach(), **{name: part.detach() for name, part in losses.items()}}

    def losses(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the stream's logits and the losses by name; stream and replay go through the network apart."""
        logits = self.net(inputs)
        losses = {"stream": self.stream_loss(logits, labels)}
        if self.replays():
            losses |= self.replay_losses()
        return logits, losses

    def replays(self) -> bool:
        """Whether this step replays: the task is late enough, and the memory holds something to draw."""
        there = len(self.buffer) if self.args.replay_current else self.buffer.num_past
        return there > 0 and self.current_task + 1 >= self.args.replay_from_task

    def draw(self) -> tuple[Tensor, ...]:
        """Draw a replay batch: augmented images, labels, and what else the memory holds."""
        return self.buffer.get_data(
            self.args.minibatch_size,
            transform=self.transform,
            device=self.device,
            only_past=not self.args.replay_current,
        )

    def stream_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss on the stream batch: cross-entropy."""
        return self.loss(logits, labels)

    def replay_losses(self) -> dict[str, Tensor]:
        """Draw, run the network, and return the losses on replay by name: cross-entropy."""
        images, labels = self.draw()[:2]
        return {"replay": self.loss(self.net(images), labels)}

    def remember(self, images: Tensor, labels: Tensor, logits: Tensor) -> None:
        """Offer the stream batch to the memory. `images`: un-augmented, in [0, 1]; `logits`: before the step."""
        self.buffer.add_data(examples=images, labels=labels)


def add_forward_flag(parser: ArgumentParser) -> None:
    """Add the choice between one forward pass for stream and replay together, or one each."""
    parser.add_argument(
        "--replay_forward",
        type=one_of("separate", "joint"),
        default="separate",
        metavar="NAME",
        help="separate: own batch-norm statistics, weights 1 and 1; joint: one pass, one mean over all images",
    )
