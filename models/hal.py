"""HAL: hindsight anchor learning (Chaudhry et al. 2021, arXiv 2002.08165), with the choices of Buzzega et al. 2020.

Experience replay, and one artificial image a class of the finished tasks (an anchor), on which a step must not change the outputs:

    theta' = theta - lr grad CE(theta)
    theta <- theta - lr (grad CE(theta) + lambda grad mean (f_theta(e) - f_theta'(e))^2).
"""

from argparse import ArgumentParser
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from datasets.utils.continual_dataset import ContinualDataset
from models.er import Er
from utils import randomness
from utils.args import number, whole

Weights = dict[str, Tensor]


def stepped(weights: Weights, gradients: Weights, lr: float) -> Weights:
    """Return theta - lr g by name, for the parameters that have a gradient."""
    return {name: weights[name].detach() - lr * gradient for name, gradient in gradients.items()}


def anchor_loss(outputs: Tensor, after_step: Tensor) -> Tensor:
    """Return mean (f_theta(e) - f_theta'(e))^2 over anchors and classes, both (anchors, classes)."""
    return F.mse_loss(outputs, after_step)


def anchor_gain(tuned: Tensor, logits: Tensor, features: Tensor, phi: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """Return what an anchor e of class y maximises: CE(f_thetaM(e), y) - CE(f_theta(e), y) - gamma |phi(e) - phi|^2.

    Args:
        tuned: f_thetaM(e), of the network fine-tuned on the memory; logits: f_theta(e); both (anchors, classes).
        features: phi(e), (anchors, features); phi: the running mean feature of the task, (features,).
        labels: (anchors,).

    Returns:
        (anchors,).
    """
    forgetting = F.cross_entropy(tuned, labels, reduction="none") - F.cross_entropy(logits, labels, reduction="none")
    return forgetting - gamma * (features - phi).square().sum(1)


class Hal(Er):
    """Experience replay with anchors."""

    NAME = "hal"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]
    anchors: Tensor
    phi: Tensor

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        Er.get_parser(parser)
        flag, weight, share = parser.add_argument, number(float, 0), number(float, 0, 1)
        flag("--hal_lambda", type=weight, default=0.1, metavar="X", help="weight of the anchors' loss")
        flag("--beta", type=share, default=0.5, metavar="X", help="decay of the running mean feature")
        flag("--gamma", type=weight, default=0.1, metavar="X", help="how strongly an anchor is drawn to the mean feature")
        flag("--hal_anchor_steps", type=whole(0), default=100, metavar="N", help="gradient steps on an anchor")
        return parser

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.register_buffer("anchors", torch.zeros(0, device=self.device))
        self.register_buffer("phi", torch.zeros(self.net.classifier.in_features, device=self.device))

    def begin_task(self, dataset: ContinualDataset) -> None:
        super().begin_task(dataset)
        self.phi.zero_()

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """One step on experience replay's loss and the anchors'; then the batch is offered to the memory."""
        self.opt.zero_grad()
        logits, losses = self.losses(inputs, labels)
        sum(losses.values(), torch.zeros(())).backward()
        if len(self.anchors):
            losses["anchors"] = self.args.hal_lambda * anchor_loss(self.net(self.anchors), self.after_step())
            losses["anchors"].backward()  # on top of the gradient of the cross-entropy, which stays
        self.opt.step()
        self.update_phi(inputs)
        self.remember(not_aug_inputs, labels, logits.detach())
        parts = {name: part.detach() for name, part in losses.items()}
        return {"loss": sum(parts.values(), torch.zeros(())), **parts}

    def weights(self) -> Weights:
        """Return the trained parameters by name."""
        return {name: parameter for name, parameter in self.net.named_parameters() if parameter.requires_grad}

    @torch.no_grad()
    def after_step(self) -> Tensor:
        """Return f_theta'(e): the anchors' outputs if the gradient as it stands now were followed."""
        weights = self.weights()
        gradients = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
        return functional_call(self.net, stepped(weights, gradients, self.opt.param_groups[0]["lr"]), (self.anchors,))

    @torch.no_grad()
    def update_phi(self, images: Tensor) -> None:
        """phi <- beta phi + (1 - beta) mean feature of the stream batch."""
        self.net.eval()
        self.phi.lerp_(self.net(images, returnt="features").mean(0), 1 - self.args.beta)
        self.net.train()

    def end_task(self, dataset: ContinualDataset) -> None:
        """Add an anchor for each class of the task; none where no image had a label."""
        assert dataset.train_loader is not None
        labels = torch.as_tensor(dataset.train_loader.dataset.targets).unique().to(self.device)
        labels = labels[labels != -1]
        if not len(labels) or self.buffer.is_empty():
            return
        self.net.eval()
        found = self.find_anchors(labels)
        self.net.train()
        self.anchors = torch.cat([self.anchors, found]) if len(self.anchors) else found

    def find_anchors(self, labels: Tensor) -> Tensor:
        """Climb `anchor_gain` from uniform noise, all classes at once (in evaluation mode none depends on another)."""
        draws = randomness.generator("anchors")
        rows = randomness.distinct_indices(len(self.buffer), self.args.minibatch_size, draws)
        images, targets = self.buffer.get_data_by_index(rows, self.transform, self.device)
        weights = self.weights()
        gradients = torch.autograd.grad(self.loss(self.net(images), targets), list(weights.values()))
        tuned = stepped(weights, dict(zip(weights, gradients, strict=True)), self.args.lr)
        anchors = torch.rand(len(labels), *images.shape[1:], generator=draws).to(self.device)
        for _ in range(self.args.hal_anchor_steps):
            anchors.requires_grad_()
            logits, features = self.net(anchors, returnt="both")
            gain = anchor_gain(functional_call(self.net, tuned, (anchors,)), logits, features, self.phi, labels, self.args.gamma)
            (slope,) = torch.autograd.grad(gain.sum(), anchors)
            anchors = anchors.detach() + self.args.lr * slope
        return anchors.detach()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Make room for as many anchors as the state has."""
        if f"{prefix}anchors" in state_dict:
            self.anchors = torch.zeros_like(state_dict[f"{prefix}anchors"], device=self.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)
