"""ER: experience replay (Chaudhry et al. 2019; Riemer et al. 2019)."""

from argparse import ArgumentParser

import torch
from torch import Tensor

from models.utils.replay_model import ReplayModel, add_forward_flag


class Er(ReplayModel):
    """Experience replay with a reservoir memory.

    Separate forward passes: loss = CE(f(x), y) + CE(f(xr), yr). Joint: one cross-entropy, a mean over stream and replay together.
    """

    NAME = "er"

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        ReplayModel.get_parser(parser)
        add_forward_flag(parser)
        return parser

    def losses(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if self.args.replay_forward == "separate" or not self.replays():
            return super().losses(inputs, labels)
        images, replayed_labels = self.draw()[:2]
        logits = self.net(torch.cat([inputs, images]))
        return logits[: len(labels)], {"stream and replay": self.loss(logits, torch.cat([labels, replayed_labels]))}
