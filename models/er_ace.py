"""ER-ACE: experience replay with an asymmetric cross-entropy (Caccia et al. 2022, arXiv 2104.05025).

L = CE of the stream over an allowed set of classes + CE of the replay. The stream's allowed set keeps new classes from pushing the
old ones' logits down.
"""

from argparse import ArgumentParser
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.utils.replay_model import ReplayModel
from utils.args import one_of


def allowed_classes(labels: Tensor, n_classes: int, unseen_from: int | None = None) -> Tensor:
    """Return which classes the stream's softmax may cover, (classes,) bool.

    Args:
        labels: (batch,), whose classes are allowed.
        unseen_from: allow the classes from this one on too (those not met yet); None: no others.
    """
    allowed = torch.zeros(n_classes, dtype=torch.bool, device=labels.device).index_fill_(0, labels, True)
    if unseen_from is not None:
        allowed[unseen_from:] = True
    return allowed


class CosineHead(nn.Module):
    """Logits as scaled cosines: scale * cos(h, w_j), no bias. Takes the place of a linear classifier.

    Args:
        head: the linear classifier whose sizes and initial weights it takes over.
        scale: factor on the cosine (10 in the authors' code).
    """

    def __init__(self, head: nn.Linear, scale: float = 10.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(head.weight.detach().clone())
        self.in_features, self.out_features, self.scale = head.in_features, head.out_features, scale

    def forward(self, features: Tensor) -> Tensor:
        return self.scale * F.linear(F.normalize(features, dim=1, eps=1e-5), F.normalize(self.weight, dim=1, eps=1e-5))


class ErAce(ReplayModel):
    """Experience replay with an asymmetric cross-entropy.

    Defaults: the stream over the classes of its batch, replay over the classes seen, a linear head.
    """

    NAME = "er_ace"

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        ReplayModel.get_parser(parser)
        flag = parser.add_argument
        stream, replay, heads = one_of("batch", "unseen"), one_of("seen", "all"), one_of("linear", "cosine")
        flag(
            "--stream_classes",
            type=stream,
            default="batch",
            metavar="NAME",
            help="batch: its own; unseen: and those to come",
        )
        flag("--replay_classes", type=replay, default="seen", metavar="NAME", help="softmax of replay: over seen or all")
        flag("--head", type=heads, default="linear", metavar="NAME", help="linear, or cosine (the authors' code)")
        return parser

    def __init__(self, backbone: Any, loss: Any, args: Any, transform: Any, dataset: Any = None) -> None:
        if args.head == "cosine":
            backbone.classifier = CosineHead(backbone.classifier)
        super().__init__(backbone, loss, args, transform, dataset=dataset)

    def stream_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        unseen_from = self.n_seen_classes if self.args.stream_classes == "unseen" else None
        allowed = allowed_classes(labels, logits.shape[1], unseen_from)
        return self.loss(logits.masked_fill(~allowed, -torch.inf), labels)

    def replay_losses(self) -> dict[str, Tensor]:
        images, labels = self.draw()[:2]
        logits = self.net(images)
        limit = self.n_seen_classes if self.args.replay_classes == "seen" else logits.shape[1]
        return {"replay": self.loss(logits[:, :limit], labels)}
