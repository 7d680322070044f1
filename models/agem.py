"""A-GEM: averaged gradient episodic memory (Chaudhry et al. 2019, arXiv 1812.00420, section 4)."""

from typing import Any

import torch
from torch import Tensor

from models.gem import flat_gradient, overwrite_grad
from models.utils.replay_model import ReplayModel


def project(gxy: Tensor, ger: Tensor) -> Tensor:
    """Return g~ = g - (g'g_ref / g_ref'g_ref) g_ref where g'g_ref < 0 (eq. 11), else g. Waits for no GPU.

    Args:
        gxy: g, the gradient on the stream, (parameters,).
        ger: g_ref, the gradient on one batch of the memory, (parameters,).
    """
    dot = gxy @ ger
    length = (ger @ ger).clamp(min=torch.finfo(ger.dtype).tiny)
    return gxy - dot.clamp(max=0) / length * ger


class Agem(ReplayModel):
    """GEM with one constraint: the average loss on a batch of the memory must not rise."""

    NAME = "agem"

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.grad_dims = [parameter.numel() for parameter in self.parameters()]

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """One step along the stream's gradient, projected against the memory's; then the batch is offered to the memory."""
        self.opt.zero_grad()
        logits = self.net(inputs)
        loss = self.stream_loss(logits, labels)
        loss.backward()
        if self.replays():
            gradient = flat_gradient(self.parameters, self.grad_dims)
            projected = project(gradient, self.reference_gradient())
            overwrite_grad(self.parameters, projected, self.grad_dims)
        self.opt.step()
        self.remember(not_aug_inputs, labels, logits.detach())
        return {"loss": loss.detach()}

    def reference_gradient(self) -> Tensor:
        """Return g_ref, in place of the parameters' gradients."""
        self.opt.zero_grad()
        sum(self.replay_losses().values(), torch.zeros(())).backward()
        return flat_gradient(self.parameters, self.grad_dims)
