"""MIR: replay what the next step would hurt most (Aljundi et al. 2019, arXiv 1908.04742, ER-MIR).

Of some candidates from the memory, the images are replayed whose loss would rise most under a step on the stream batch alone.
"""

from argparse import ArgumentParser

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from models.utils.replay_model import ReplayModel
from utils.args import one_of, whole, yes_or_no


def virtual_step(module: nn.Module, rate: float) -> dict[str, Tensor]:
    """theta^v = theta - rate * g, by name, with g the gradients that the parameters hold; `module` is untouched."""
    return {name: p.detach() - rate * p.grad for name, p in module.named_parameters() if p.grad is not None}


def interference(before: Tensor, after: Tensor, labels: Tensor) -> Tensor:
    """s_MI-1: l(f_theta^v(x), y) - l(f_theta(x), y) of each image, cross-entropy, (candidates,).

    Args:
        before, after: logits at theta and theta^v, (candidates, classes).
    """
    return F.cross_entropy(after, labels, reduction="none") - F.cross_entropy(before, labels, reduction="none")


def most_interfered(scores: Tensor, size: int) -> Tensor:
    """Return the indices of the `size` highest scores, highest first; all of them if there are fewer."""
    return scores.topk(min(size, len(scores))).indices


class Mir(ReplayModel):
    """Maximally interfered retrieval: replays the memory images that the stream's step would hurt most."""

    NAME = "mir"

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        ReplayModel.get_parser(parser)
        flag = parser.add_argument
        flag("--mir_candidates", type=whole(), default=50, metavar="N", help="memory images scored in a step")
        flag("--mir_head_only", type=yes_or_no, default=0, metavar="0|1", help="score by a step on the classifier alone")
        modes = one_of("train", "eval")
        flag("--mir_score_mode", type=modes, default="train", metavar="NAME", help="batch norm while scoring: train or eval")
        return parser

    def losses(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """As `ReplayModel`, but the stream's loss goes backward first: scoring needs its gradient, and its gradient alone."""
        if not self.replays():
            return super().losses(inputs, labels)
        logits = self.net(inputs)
        stream = self.stream_loss(logits, labels)
        stream.backward()
        return logits, {"stream": stream.detach(), **self.replay_losses()}

    @torch.no_grad()
    def draw(self) -> tuple[Tensor, ...]:
        """Draw candidates and return the most interfered ones: augmented images and labels."""
        images, labels = self.buffer.get_data(
            self.args.mir_candidates,
            transform=self.transform,
            device=self.device,
            only_past=not self.args.replay_current,
        )[:2]
        self.net.train(self.args.mir_score_mode == "train")
        before, after = self.logits_before_and_after(images)
        self.net.train()
        chosen = most_interfered(interference(before, after, labels), self.args.minibatch_size)
        return images[chosen], labels[chosen]

    def logits_before_and_after(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits at theta and after the virtual step.

        In train mode the first forward pass moves the running statistics of batch norm, as in the authors' code; the virtual
        network has copies of its own, which are dropped.
        """
        rate = self.opt.param_groups[0]["lr"]
        if self.args.mir_head_only:
            head = self.net.classifier
            features = self.net(images, returnt="features")
            return head(features), functional_call(head, virtual_step(head, rate), (features,))
        statistics = {name: value.clone() for name, value in self.net.named_buffers()}
        return self.net(images), functional_call(self.net, {**virtual_step(self.net, rate), **statistics}, (images,))
