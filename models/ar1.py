"""AR1*: CWR* on the classifier, synaptic intelligence below it (Lomonaco, Maltoni, Pellegrini 2020, arXiv 1907.03799).

With `--ar1_lambda 0`, the default and the value in the authors' latent-replay code, it is CWR* alone. Synaptic intelligence is
Zenke, Poole, Ganguli 2017 (arXiv 1703.04200); what differs from it is the authors' and is listed in `docs/methods/ar1.md`.
"""

from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from datasets.utils.continual_dataset import ContinualDataset
from models.cwr_star import CwrStar
from utils.args import number

DAMPING = 1e-7  # xi of Zenke et al.
LARGEST_IMPORTANCE = 1e-3
NORMALISATIONS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm)


def protected_parameters(net: nn.Module, head: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that synaptic intelligence covers: all but those of normalisation layers and of the classifier."""
    left_out = {id(p) for m in net.modules() if m is head or isinstance(m, NORMALISATIONS) for p in m.parameters()}
    return [parameter for parameter in net.parameters() if id(parameter) not in left_out]


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """Return the tensors as one vector."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def accumulated(total: Tensor, trajectory: Tensor, moved: Tensor) -> Tensor:
    """Zenke et al., at a task's end: F <- F + trajectory / ((theta - theta_start)^2 + xi).

    Args:
        trajectory: sum over the task's steps of g * (change of theta); negative where the loss fell.
        moved: theta - theta_start.
    """
    return total + trajectory / (moved.square() + DAMPING)


def importance(total: Tensor) -> Tensor:
    """Return Omega = -F, from 0 to 0.001."""
    return (-total).clamp(0.0, LARGEST_IMPORTANCE)


def surrogate_loss(parameters: Tensor, anchor: Tensor, weights: Tensor, strength: float) -> Tensor:
    """Zenke et al.: lambda / 2 sum_m Omega_m (theta_m - theta*_m)^2."""
    return strength / 2 * (weights * (parameters - anchor).square()).sum()


class Ar1(CwrStar):
    """AR1*: CWR* with an optional synaptic-intelligence penalty below the classifier."""

    NAME = "ar1"

    anchor: Tensor
    trajectory: Tensor
    total: Tensor

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        CwrStar.get_parser(parser)
        help_text = "weight of the synaptic-intelligence penalty; 0: none"
        parser.add_argument("--ar1_lambda", type=number(float, 0), default=0.0, metavar="X", help=help_text)
        return parser

    def __init__(self, backbone: Any, loss: Any, args: Any, transform: Any, dataset: Any = None) -> None:
        super().__init__(backbone, loss, args, transform, dataset=dataset)
        if args.ar1_lambda:
            for name in ("anchor", "trajectory", "total"):  # theta* (also theta_start), sum of g * change, F
                self.register_buffer(name, torch.zeros_like(self.theta().detach()))

    def theta(self) -> Tensor:
        """Return the protected parameters as one vector (differentiable)."""
        return flat(protected_parameters(self.net, self.net.classifier))

    def begin_task(self, dataset: ContinualDataset) -> None:
        super().begin_task(dataset)
        if self.args.ar1_lambda:
            self.anchor.copy_(self.theta().detach())
            self.trajectory.zero_()

    def losses(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        logits, losses = super().losses(inputs, labels)
        if self.args.ar1_lambda and self.current_task > 0:
            weights = importance(self.total)
            losses["penalty"] = surrogate_loss(self.theta(), self.anchor, weights, self.args.ar1_lambda)
        return logits, losses

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """ER's step; then its gradient times its change of theta goes into the trajectory."""
        if not self.args.ar1_lambda:
            return super().observe(inputs, labels, not_aug_inputs, epoch)
        before = self.theta().detach()
        observed = super().observe(inputs, labels, not_aug_inputs, epoch)
        parameters = protected_parameters(self.net, self.net.classifier)
        gradient = flat(torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)
        self.trajectory.addcmul_(gradient, self.theta().detach() - before)
        return observed

    def end_task(self, dataset: ContinualDataset) -> None:
        super().end_task(dataset)
        if self.args.ar1_lambda:
            self.total.copy_(accumulated(self.total, self.trajectory, self.theta().detach() - self.anchor))
