"""SGD: plain training on the stream, no memory of the past; the lower bound."""

from torch import Tensor

from models.utils.continual_model import ContinualModel


class Sgd(ContinualModel):
    """Plain training on each task in turn: the lower bound."""

    NAME = "sgd"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> Tensor:
        """One step on the cross-entropy of the batch."""
        self.opt.zero_grad()
        loss = self.loss(self.net(inputs), labels)
        loss.backward()
        self.opt.step()
        return loss.detach()
