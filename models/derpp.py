"""DER++: dark experience replay with labels (Buzzega et al. 2020, arXiv 2004.07211).

L = CE(f(x), y) + alpha MSE(f(xa), za) + beta CE(f(xb), yb), with (xa, za) and (xb, yb) two independent draws.
"""

from argparse import ArgumentParser

from torch import Tensor

from models.der import Der
from utils.args import number


class Derpp(Der):
    """Dark experience replay with a second draw for the labels."""

    NAME = "derpp"

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        Der.get_parser(parser)
        parser.add_argument("--beta", type=number(float, 0), default=0.5, metavar="X", help="weight of the labels' loss")
        return parser

    def replay_losses(self) -> dict[str, Tensor]:
        losses = super().replay_losses()
        images, labels, _ = self.draw()
        return {**losses, "replay": self.args.beta * self.loss(self.net(images), labels)}
