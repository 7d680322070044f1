"""DER: dark experience replay (Buzzega et al. 2020, arXiv 2004.07211).

L = CE(f(x), y) + alpha MSE(f(xa), za), where za are the logits stored when the image entered the memory: those of the augmented
image, over all outputs, before that step's update. The mean runs over images and classes.
"""

from argparse import ArgumentParser

from torch import Tensor
from torch.nn import functional as F

from models.utils.replay_model import ReplayModel
from utils.args import number


class Der(ReplayModel):
    """Dark experience replay: the memory's logits are matched."""

    NAME = "der"

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        ReplayModel.get_parser(parser)
        parser.add_argument("--alpha", type=number(float, 0), default=0.1, metavar="X", help="weight of the logits' loss")
        return parser

    def replay_losses(self) -> dict[str, Tensor]:
        images, _, logits = self.draw()
        return {"distillation": self.args.alpha * F.mse_loss(self.net(images), logits)}

    def remember(self, images: Tensor, labels: Tensor, logits: Tensor) -> None:
        self.buffer.add_data(examples=images, labels=labels, logits=logits)
