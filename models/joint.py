"""Joint: plain training on all classes at once; the upper bound of the offline tables (Buzzega et al. 2020)."""

from argparse import ArgumentParser

from models.sgd import Sgd


class Joint(Sgd):
    """Plain training on all tasks at once, several epochs: the offline upper bound."""

    NAME = "joint"

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        parser.set_defaults(joint=1)
        return parser
